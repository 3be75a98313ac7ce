package coordinator

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/wire"
)

// The answer that writes itself is the one that its struct says.
func TestAnOutcomeIsWrittenAsItsStructSays(t *testing.T) {
	t.Parallel()
	text, at := "a <b> \"c\"\n", time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for _, o := range []Outcome{
		{},
		{Run: run.Run{ID: "run_1", Parameters: json.RawMessage("{ \"a\": 1,\n\"b\": 1.0 }"), Error: fault.New(fault.Internal, "x", "<y>"), CreatedAt: at, EndedAt: &at}},
		{run.Run{ID: "run_1", Parameters: json.RawMessage("null")}, &run.Result{Type: run.Autonomous, Text: &text}},
		{run.Run{}, &run.Result{Type: run.Procedural, Data: json.RawMessage(`{"n":12345678901234567890}`)}},
	} {
		type plain Outcome // without its methods
		got, err := wire.Encode(o)
		want, wrong := wire.Encode(plain(o))
		if err != nil || wrong != nil || !bytes.Equal(got, want) {
			t.Errorf("written as\n%s (%v), want\n%s (%v)", got, err, want, wrong)
		}
	}
}
