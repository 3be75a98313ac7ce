package bus

import (
	"net"
	"testing"
	"time"

	"ao/shared/fault"
)

// TestASlowPayloadIsUnavailable: a part of a payload that comes too late is no internal error.
func TestASlowPayloadIsUnavailable(t *testing.T) {
	a, b := net.Pipe() // an object's reader is one, with a deadline
	defer b.Close()
	a.SetReadDeadline(time.Now())
	_, err := a.Read(make([]byte, 1))
	if got := asFault(t.Context(), wrap("payload", err)); fault.KindOf(got) != fault.Unavailable {
		t.Errorf("%v: %v, want it to be unavailable", err, got)
	}
}
