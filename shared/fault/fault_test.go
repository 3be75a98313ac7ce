package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestBodyIsFlatAndInOrder(t *testing.T) {
	f := New(Conflict, "agent_name_collision", "taken").With("agent_name", "a").With("existing_runner_id", nil)
	raw, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"error":"agent_name_collision","message":"taken","agent_name":"a","existing_runner_id":null}`
	if string(raw) != want {
		t.Errorf("got %s, want %s", raw, want)
	}
	var back Fault
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(&back); string(again) != want {
		t.Errorf("read back and written: %s", again)
	}
}

func TestUnclassifiedErrorIsInternalAndHidden(t *testing.T) {
	f := Of(errors.New("secret path /etc/x"))
	raw, _ := json.Marshal(f)
	if f.Kind != Internal ||
		string(raw) != `{"error":"internal","message":"Internal error; see the log for this request's id"}` {
		t.Errorf("got %v %s", f.Kind, raw)
	}
}

func TestAKindIsFoundThroughWrapping(t *testing.T) {
	err := fmt.Errorf("claim: %w", Newf(Busy, "later").After(time.Second))
	if KindOf(err) != Busy || Of(err).RetryAfter != time.Second || Of(err).Code != "too_many_pending" {
		t.Errorf("got %v %+v", KindOf(err), Of(err))
	}
}
