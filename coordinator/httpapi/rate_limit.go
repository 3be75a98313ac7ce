package httpapi

import (
	"net"
	"net/netip"
	"time"

	"ao/shared/fault"
	"ao/shared/share"
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
	*share.Rate
	most int64
	what string // there were too many of
}

func newRateLimiter(most int64, what string) *rateLimiter {
	return &rateLimiter{share.NewRate(most, triesWithin, mostAddresses, nil), most, what}
}

// allow counts a try. Its error is Busy: there were too many.
func (t *rateLimiter) allow(who string) error {
	if ok, wait := t.Take(who, 1); !ok {
		return fault.Newf(fault.Busy, "%d %s within a minute is the limit; wait, then try again", t.most,
			t.what).After(wait)
	}
	return nil
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
