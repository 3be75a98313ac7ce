package state

import (
	"testing"
	"unsafe"
)

// TestSizes: a run and a session that are kept take no more memory than these. The allocator rounds up to 208, 224, 240
// and 256 bytes, so one more byte costs 16 for each, and 32 after that.
func TestSizes(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the sizes are those of 64 bits")
	}
	if n := unsafe.Sizeof(Row{}); n > 256 {
		t.Errorf("a run takes %d bytes, of 256 at most", n)
	}
	if n := unsafe.Sizeof(Session{}); n > 224 {
		t.Errorf("a session takes %d bytes, of 224 at most", n)
	}
}
