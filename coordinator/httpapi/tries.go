package httpapi

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"ao/shared/fault"
)

// How many wrong tokens may come from one address, and in which time; and how many addresses are told apart.
const (
	mostTries     = 10
	triesWithin   = time.Minute
	mostAddresses = 4096
)

// tries limits guesses at POST /login by the address they come from.
type tries struct {
	now func() time.Time

	mu    sync.Mutex
	of    map[string]*window
	swept time.Time // when the windows that are over were last let go of
}

// window is what came from one address since it began.
type window struct {
	began time.Time
	n     int
}

func newTries() *tries { return &tries{now: time.Now, of: map[string]*window{}} }

// take counts a try as a wrong one, until right is called. The error is Busy.
func (t *tries) take(remote string) (right func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	w := t.window(addressOf(remote), now)
	if w.n >= mostTries {
		return nil, fault.Newf(fault.Busy, "%d wrong tokens came from your address within a minute; wait, then try again", mostTries).
			After(w.began.Add(triesWithin).Sub(now))
	}
	w.n++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		w.n--
	}, nil
}

// window is that of an address. Where there are too many, those that come share one.
func (t *tries) window(address string, now time.Time) *window {
	if len(t.of) >= mostAddresses && now.Sub(t.swept) >= triesWithin/10 {
		t.swept = now
		for other, w := range t.of {
			if now.Sub(w.began) >= triesWithin {
				delete(t.of, other)
			}
		}
	}
	if t.of[address] == nil && len(t.of) >= mostAddresses {
		address = "others"
	}
	w := t.of[address]
	if w == nil || now.Sub(w.began) >= triesWithin {
		w = &window{began: now}
		t.of[address] = w
	}
	return w
}

// addressOf is the network address that a connection comes from; of IPv6 the part that its owner does not choose.
func addressOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() {
		net, _ := ip.Prefix(64)
		return net.String()
	}
	return ip.String()
}
