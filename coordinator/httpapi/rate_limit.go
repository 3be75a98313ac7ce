package httpapi

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"ao/shared/fault"
)

// How many wrong tokens may come from one address, and how many logins begin with one token, within a time; and how
// many addresses or tokens are told apart.
const (
	maxFailures   = 10
	maxLogins     = 60
	triesWithin   = time.Minute
	mostAddresses = 4096
)

// rateLimiter limits what is done at POST /login by who does it.
type rateLimiter struct {
	most int
	what string // there was too much of
	now  func() time.Time

	mu    sync.Mutex
	of    map[string]*window
	swept time.Time // when the windows that are over were last let go of
}

// window is what one address or token did since it began.
type window struct {
	began time.Time
	n     int
}

func newRateLimiter(most int, what string) *rateLimiter {
	return &rateLimiter{most: most, what: what, now: time.Now, of: map[string]*window{}}
}

// allow counts a try, until right is called: then it was none. The error is Busy.
func (t *rateLimiter) allow(who string) (right func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	w := t.window(who, now)
	if w.n >= t.most {
		return nil, fault.Newf(fault.Busy, "%d %s within a minute; wait, then try again", t.most, t.what).After(
			w.began.Add(triesWithin).Sub(now))
	}
	w.n++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		w.n--
	}, nil
}

// window is that of an address or a token. Where there are too many, those that come share one.
func (t *rateLimiter) window(who string, now time.Time) *window {
	if len(t.of) >= mostAddresses && now.Sub(t.swept) >= triesWithin/10 {
		t.swept = now
		for other, w := range t.of {
			if now.Sub(w.began) >= triesWithin {
				delete(t.of, other)
			}
		}
	}
	if t.of[who] == nil && len(t.of) >= mostAddresses {
		who = "others"
	}
	w := t.of[who]
	if w == nil || now.Sub(w.began) >= triesWithin {
		w = &window{began: now}
		t.of[who] = w
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
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		net, _ := ip.Prefix(64)
		return net.String()
	}
	return ip.String()
}
