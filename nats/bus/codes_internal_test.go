package bus

import (
	"net"
	"slices"
	"testing"
	"time"

	"ao/nats/subject"
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

// TestStores: the table of buckets has those that exist.
func TestStores(t *testing.T) {
	var described []string
	for _, row := range subject.Stores {
		described = append(described, row.Name)
	}
	made := append(slices.Clone(bucketNames), subject.Payloads)
	slices.Sort(described)
	slices.Sort(made)
	if !slices.Equal(described, made) {
		t.Errorf("described %q, made %q", described, made)
	}
}
