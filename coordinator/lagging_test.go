package coordinator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// A result that is said not to be there may be there all the same, as long as it is young: its parent is told when it can be read.
// One that is not there a minute later is told as none.
func TestAParentIsNotToldTooSoonThatThereIsNoResult(t *testing.T) {
	f := newFamily(t, begin(t, natstest.Bus(t), Config{}))
	raw, err := json.Marshal(said("the whole answer").Result)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	// family is a parent that waits, and its child with a result whose payload nobody finds.
	family := func(ended time.Time) (parent, child Accepted) {
		parent = f.start("")
		f.ends(parent.RunID, said("ok"))
		child = f.child(parent.SessionID)
		a := f.claim(child.RunID)
		put(t, f.c.bus, subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key), run.Ended{
			V: run.Version, SessionID: a.Spec.SessionID, RunnerID: f.r.ID(), Nonce: "n", Attempt: 1, Status: run.Completed, At: ended,
			Body: &run.Payload{Name: child.RunID + ".out", Parts: 1, Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:])},
		})
		return parent, child
	}
	old, _ := family(time.Now().Add(-2 * soon))
	if _, prompt := f.turn(old.SessionID); !strings.Contains(prompt, "(No result available)") {
		t.Errorf("long after the end:\n%s", prompt)
	}
	young, child := family(time.Now())
	natstest.Until(t, "it was tried to tell the parent", func() bool {
		f.c.tellings.mu.Lock()
		defer f.c.tellings.mu.Unlock()
		return f.c.tellings.trouble[young.SessionID].times > 0 || f.call(child.RunID).Status == run.CallDelivered
	})
	if err := f.c.bus.PutPart(t.Context(), child.RunID+".out", 0, raw); err != nil {
		t.Fatal(err)
	}
	if _, prompt := f.turn(young.SessionID); !strings.Contains(prompt, "the whole answer") {
		t.Errorf("the result could be found later; got\n%s", prompt)
	}
}
