package bus

import (
	"strings"
	"testing"
)

// FuzzForeignMessages: what other programs on NATS send where this one reads by hand: reply subjects, layouts of
// streams, faults.
func FuzzForeignMessages(f *testing.F) {
	f.Add("$JS.ACK.RUNS.lane.1.2.3.1700000000000000000.4")
	f.Add("$JS.ACK.hub.ACC.RUNS.lane.1.2.3.1700000000000000000.4.token")
	f.Add("1.2")
	f.Add(`{"error":"x","message":"y","retry_after":5}`)
	f.Add("$JS.ACK.RUNS.lane.18446744073709551616.....")
	f.Fuzz(func(t *testing.T, text string) {
		if o, ok := readOrigin(text); ok && strings.Count(text, ".") < 8 {
			t.Errorf("%q is read as %+v", text, o)
		}
		if major, minor, err := readLayout(text); err != nil && (major != 0 || minor != 0) {
			t.Errorf("%q is read as %d.%d and refused", text, major, minor)
		}
		if err := readFault("Invalid", []byte(text)); err == nil || err.Error() == "" && !strings.HasPrefix(text, "{") {
			t.Errorf("%q is the fault %v", text, err)
		}
	})
}
