package projection

import (
	"testing"

	"ao/shared/run"
)

// TestBodies: the newest records are cached up to a size; older, larger and repeated ones are not.
func TestBodies(t *testing.T) {
	t.Parallel()
	b, spec := newBodies(80), &run.Spec{}
	for seq := range uint64(20) {
		b.put(2*seq, make([]byte, 10), spec)
	}
	b.put(38, make([]byte, 10), nil) // again
	b.put(40, make([]byte, 11), spec)
	for seq := range uint64(42) {
		body, s := b.Get(seq)
		if want := seq%2 == 0 && seq >= 24 && seq < 40; (body != nil) != want || (s == spec) != want {
			t.Errorf("record %d: got %d bytes, spec %v; want cached %v", seq, len(body), s, want)
		}
	}
	if b.clear(); b.size != 0 {
		t.Errorf("got %d bytes after clear, want 0", b.size)
	}
}
