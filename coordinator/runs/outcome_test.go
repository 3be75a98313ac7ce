package runs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"ao/coordinator/coordinatortest"
	"ao/coordinator/runs"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// TestAnOutcomeIsWrittenAsItsStructSays compares AppendJSON with what the struct's tags define.
func TestAnOutcomeIsWrittenAsItsStructSays(t *testing.T) {
	t.Parallel()
	text, at := "a <b> \"c\"\n", time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for _, o := range []runs.Outcome{
		{},
		{Run: run.Run{ID: "run_1", Parameters: json.RawMessage("{ \"a\": 1,\n\"b\": 1.0 }"),
			Error: fault.New(fault.Internal, "x", "<y>"), CreatedAt: at, EndedAt: &at}},
		{run.Run{ID: "run_1", Parameters: json.RawMessage("null")}, &run.Result{Type: run.Autonomous, Text: &text}},
		{run.Run{}, &run.Result{Type: run.Procedural, Data: json.RawMessage(`{"n":12345678901234567890}`)}},
	} {
		type plain runs.Outcome // without its methods
		got, err := strictjson.Encode(o)
		want, wrong := strictjson.Encode(plain(o))
		if err != nil || wrong != nil || !bytes.Equal(got, want) {
			t.Errorf("written as\n%s (%v), want\n%s (%v)", got, err, want, wrong)
		}
	}
}

// TestAnEndThatCannotBeRead: a caller who waits for a new run learns that it has not ended, where NATS cannot be read.
// An error would make the caller send the request again.
func TestAnEndThatCannotBeRead(t *testing.T) {
	s := natstest.Server(t)
	c := coordinatortest.Start(t, natstest.Open(t, s), parts.Config{})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	id := coordinatortest.Submit(t, c, `{"agent_name":"a"}`, "").RunID
	coordinatortest.Finish(t, c, coordinatortest.Claim(t, c, id, r))

	conn := natstest.Conn(t, s)
	b, err := bus.Open(conn, bus.Config{})
	if err != nil {
		t.Fatal(err)
	}
	other := coordinatortest.Start(t, b, parts.Config{}) // it has the run in its index, but no record in memory
	conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, ended, err := other.Finish(ctx, runs.Fresh(id)); ended || err != nil {
		t.Errorf("ended %t, %v", ended, err)
	}
}
