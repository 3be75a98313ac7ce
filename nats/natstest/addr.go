package natstest

import (
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

// The ports from 10000 to 32000 are below those that systems give to outgoing connections and to listeners that name none, any of which
// could have a port by the time it is used.
const (
	firstPort = 10000
	share     = 2000
	shares    = 11
)

// own is the share of the ports that this process alone gives from: another one would give what is to be listened on in a moment, or
// again. It is this process's by the lock of a file, which ends with it. Where no share is to be had it is all ports.
var own = sync.OnceValue(func() (s struct {
	from, n int
	lock    *os.File // kept: a file that nobody refers to is closed
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

// lockOf is the file whose lock makes the share from a port one's own.
func lockOf(from int) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("ao-natstest-ports-%d.lock", from))
}

var given sync.Map // addresses that were given: whoever got one may not listen yet, or be about to listen again

// Address is an address on 127.0.0.1 that nobody listens on and that is given once only, for what listens on it later, or again.
func Address() (string, error) {
	for range 1000 {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(own().from+rand.IntN(own().n)))
		if err != nil {
			continue
		}
		l.Close()
		if _, twice := given.LoadOrStore(l.Addr().String(), true); !twice {
			return l.Addr().String(), nil
		}
	}
	return "", fmt.Errorf("no port from %d on, of %d, is free that was not given", own().from, own().n)
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
