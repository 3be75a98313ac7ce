package natstest

import (
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// What one process gives no other one does: its share stays locked.
func TestAddressesAreOfThisProcesssShare(t *testing.T) {
	if own().lock == nil {
		t.Skip("all shares are taken")
	}
	seen := map[string]bool{}
	for range 500 {
		a := FreeAddr(t)
		_, text, _ := net.SplitHostPort(a)
		port, _ := strconv.Atoi(text)
		if seen[a] || port < own().from || port >= own().from+share {
			t.Fatalf("%s is given twice, or is not from %d on", a, own().from)
		}
		seen[a] = true
	}
	f, err := os.Open(lockOf(own().from))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EWOULDBLOCK {
		t.Errorf("another one locks the same: %v", err)
	}
}
