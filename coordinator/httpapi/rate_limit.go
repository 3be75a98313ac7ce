package httpapi

import (
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	"ao/shared/fault"
)

// Limits of wrong tokens per address and of logins per token, and how many of both have their own window.
const (
	maxFailures   = 10
	maxLogins     = 60
	triesWithin   = time.Minute
	mostAddresses = 4096
)

// rateLimiter limits tries at POST /login by address or token.
type rateLimiter struct {
	most int
	what string // there were too many of
	now  func() time.Time

	mu    sync.Mutex
	of    map[string]*window
	swept time.Time // when ended windows were removed last
}

// window counts the tries of one address or token.
type window struct {
	began time.Time
	n     int
}

func newRateLimiter(most int, what string) *rateLimiter {
	return &rateLimiter{most: most, what: what, now: time.Now, of: map[string]*window{}}
}

// allow counts a try. Its error is Busy: there were too many.
func (t *rateLimiter) allow(who string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	w := t.window(who, now)
	if w.n >= t.most {
		return fault.Newf(fault.Busy, "%d %s within a minute is the limit; wait, then try again", t.most,
			t.what).After(w.began.Add(triesWithin).Sub(now))
	}
	w.n++
	return nil
}

// window returns the window of an address or a token. Where there are too many, new ones share one.
func (t *rateLimiter) window(who string, now time.Time) *window {
	if len(t.of) >= mostAddresses && now.Sub(t.swept) >= triesWithin/10 {
		t.swept = now
		maps.DeleteFunc(t.of, func(_ string, w *window) bool { return now.Sub(w.began) >= triesWithin })
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

// addressOf returns the address of a connection; for IPv6 its network.
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
