package natstest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// The ports from 10000 to 32000 are below the ephemeral ones, which any process could get in the meantime.
const (
	firstPort = 10000
	share     = 2000
	shares    = 11
)

// own is the range of ports that this process alone uses. The lock of a file reserves it until the process
// ends. Without a free range it is all ports.
var own = sync.OnceValue(func() (s struct {
	from, n int
	lock    *os.File // kept open: closing it ends the lock
}) {
	for _, i := range rand.Perm(shares) {
		from := firstPort + i*share
		f, err := os.OpenFile(lockOf(from), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			continue // another user's
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			s.from, s.n, s.lock = from, share, f
			return s
		}
		f.Close()
	}
	s.from, s.n = firstPort, shares*share
	return s
})

// lockOf returns the lock file of the range that starts at a port. It is the same whatever TMPDIR is.
func lockOf(from int) string {
	return filepath.Join("/tmp", fmt.Sprintf("ao-natstest-ports-%d.lock", from))
}

var given sync.Map // addresses that were tried

// Address returns a free address on 127.0.0.1. Each is returned once only, so that it can be listened on later,
// or again.
func Address() (string, error) {
	for range 1000 {
		address := "127.0.0.1:" + strconv.Itoa(own().from+rand.IntN(own().n))
		if _, twice := given.LoadOrStore(address, true); twice {
			continue
		}
		// Listening would keep the port in use in programs that start at this moment: they inherit the listener.
		c, err := net.Dial("tcp", address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return address, nil
		}
		if err == nil {
			c.Close()
		}
	}
	return "", fmt.Errorf("no free port is left from %d on, of %d", own().from, own().n)
}

// FreeAddr is Address for a test.
func FreeAddr(t testing.TB) string {
	t.Helper()
	a, err := Address()
	if err != nil {
		t.Fatal(err)
	}
	return a
}
