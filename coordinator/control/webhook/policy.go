// Package webhook delivers webhooks, signed as Standard Webhooks describes. It delivers only to hosts that the
// configuration allows, and never to an internal address that it does not name.
package webhook

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ao/shared/fault"
)

// maxURL is how long a receiver's URL may be.
const maxURL = 2048

// Policy says where webhooks may go, and how they are signed. The zero Policy refuses every webhook.
type Policy struct {
	Hosts    []string       // receivers: names, *.example.com for all names below it, * for any; none: nobody
	Networks []netip.Prefix // private networks that are allowed, also over http; default none
	Secret   string         // whsec_ and base64; several, separated by spaces or commas, while they are exchanged
}

// Enabled reports whether there can be webhooks at all.
func (p Policy) Enabled() bool { return len(p.Hosts) > 0 }

// LogValue keeps the secret out of logs.
func (p Policy) LogValue() slog.Value {
	return slog.GroupValue(slog.Any("hosts", p.Hosts), slog.Any("networks", p.Networks),
		slog.Bool("secret", p.Secret != ""))
}

// Valid returns what is wrong with the configuration. It never repeats the secret.
func (p Policy) Valid() error {
	for _, h := range p.Hosts {
		name := strings.TrimPrefix(h, "*.")
		if _, err := netip.ParseAddr(name); err != nil && h != "*" && checkName(strings.ToLower(name)) != "" {
			return fault.Newf(fault.Invalid,
				"AO_CALLBACK_HOSTS: %.80q is not a host; use names like hooks.example.com or "+
					"*.example.com, or * for any", h)
		}
	}
	for _, n := range p.Networks {
		if !n.IsValid() || n.Addr().Is4In6() {
			return fault.Newf(fault.Invalid,
				"AO_CALLBACK_NETWORKS: %v is not a network; give networks like 10.1.0.0/16", n)
		}
	}
	if !p.Enabled() && p.Secret == "" {
		return nil
	}
	_, err := keys(p.Secret)
	return err
}

// Check returns why webhooks may not go to a URL, as a fault for whoever asked for it. What its name resolves to is
// checked at delivery.
func (p Policy) Check(rawURL string) error {
	_, err := p.target(rawURL)
	return err
}

// target returns a URL that passes Check.
func (p Policy) target(rawURL string) (*url.URL, error) {
	if !p.Enabled() {
		return errURL("is refused: HTTP callbacks are disabled here; the coordinator's operator enables them with " +
			"AO_CALLBACK_HOSTS, the allowed hosts; otherwise omit it")
	}
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	host := strings.ToLower(u.Hostname())
	addr, err := netip.ParseAddr(host)
	literal := err == nil
	if strings.HasPrefix(u.Host, "[") != (literal && addr.Is6()) {
		return errURL("has a host that is not a valid address; only IPv6 addresses stand in brackets")
	}
	if !literal {
		if say := checkName(strings.TrimSuffix(host, ".")); say != "" {
			return errURL("has the host %.80q, which %s", host, say)
		}
	}
	if !p.allowsHost(host) {
		return errURL("goes to %.80q, which is not among the hosts allowed by AO_CALLBACK_HOSTS; send another, or "+
			"ask the coordinator's operator to add it", host)
	}
	switch {
	case literal && !p.allows(addr):
		return errURL("goes to an address that is not public; send one that is, or ask the coordinator's operator " +
			"to allow its network in AO_CALLBACK_NETWORKS")
	case !literal && isLocal(host) && !p.allowsPrivate(netip.AddrFrom4([4]byte{127, 0, 0, 1})) &&
		!p.allowsPrivate(netip.IPv6Loopback()):
		return errURL("goes to the coordinator's own machine; send a public one")
	case u.Scheme == "http" && literal && !p.allowsPrivate(addr), u.Scheme == "http" && len(p.Networks) == 0:
		return errURL(
			"has the scheme http; send one with https (http is only for networks that AO_CALLBACK_NETWORKS allows)")
	}
	return u, nil
}

// errURL returns why a callback_url is refused.
func errURL(format string, args ...any) (*url.URL, error) {
	return nil, fault.Newf(fault.Invalid, "callback_url "+format, args...).With("field", "callback_url")
}

// parseURL returns a URL that could be a receiver's, whatever the policy.
func parseURL(rawURL string) (*url.URL, error) {
	if len(rawURL) > maxURL {
		return errURL("is %d bytes long; send one of at most %d", len(rawURL), maxURL)
	}
	for _, c := range []byte(rawURL) {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return errURL("has a character that a URL cannot have; escape it with %%XX, and write an international " +
				"name in its xn-- form")
		}
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return errURL("is not a URL; send one like https://hooks.example.com/path")
	case u.Scheme != "https" && u.Scheme != "http":
		return errURL("has the scheme %.20q; send one with https", u.Scheme)
	case u.User != nil:
		return errURL("contains a user or password; omit them: the receiver knows the coordinator by the signature")
	case strings.Contains(rawURL, "#"):
		return errURL("has a fragment, which no receiver would see; omit it")
	}
	if port := strings.TrimPrefix(u.Host[strings.LastIndexByte(u.Host, ']')+1:], u.Hostname()); port != "" {
		if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
			return errURL("has no valid port; send one from 1 to 65535, or none")
		}
	}
	return u, nil
}

// allowsHost reports whether a host is among the allowed ones.
func (p Policy) allowsHost(host string) bool {
	host = strings.TrimSuffix(host, ".")
	return slices.ContainsFunc(p.Hosts, func(allowed string) bool {
		allowed = strings.ToLower(strings.TrimSuffix(allowed, "."))
		if allowed == "*" {
			return true
		}
		if below, ok := strings.CutPrefix(allowed, "*"); ok {
			return strings.HasSuffix(host, below) && len(host) > len(below)
		}
		if a, err := netip.ParseAddr(allowed); err == nil {
			b, err := netip.ParseAddr(host)
			return err == nil && a.Unmap() == b.Unmap()
		}
		return allowed == host
	})
}

func isLocal(host string) bool {
	host = strings.TrimSuffix(host, ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// checkName returns what is wrong with a host name in lower case. Some programs write addresses as names whose last
// label is a number (0x7f.1, 2130706433, 0177.0.0.1), and a resolver might read them so.
func checkName(host string) string {
	if len(host) > 253 {
		return "is longer than a name can be"
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "is not a host name; an international one is written in its xn-- form"
		}
	}
	last := labels[len(labels)-1]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return fmt.Sprintf("is a number and not a name; write an address as four decimal numbers, like %s", "192.0.2.7")
	}
	return ""
}

// allowsPrivate reports whether an address is in a network that is allowed by name.
func (p Policy) allowsPrivate(a netip.Addr) bool { return contain(p.Networks, a.Unmap()) }

// allows reports whether webhooks may go to an address.
func (p Policy) allows(a netip.Addr) bool { return p.allowsPrivate(a) || isPublic(a) }
