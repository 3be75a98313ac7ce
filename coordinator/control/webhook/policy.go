// Package webhook tells receivers of HTTP callbacks what happened: signed as Standard Webhooks describes, to nobody but
// whom the configuration allows, and never to an address inside our own network that it does not name.
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

// Policy is whom callbacks may go to, and how they are signed. The zero Policy refuses every callback.
type Policy struct {
	Hosts    []string       // who may receive: names, *.example.com for all names below it, * for any; none: nobody
	Networks []netip.Prefix // private networks that may be reached all the same, http included; default none
	Secret   string         // whsec_ and base64; several, separated by spaces or commas, while they are exchanged
}

// Enabled tells whether there can be callbacks at all.
func (p Policy) Enabled() bool { return len(p.Hosts) > 0 }

// LogValue keeps the secret out of logs.
func (p Policy) LogValue() slog.Value {
	return slog.GroupValue(slog.Any("hosts", p.Hosts), slog.Any("networks", p.Networks), slog.Bool("secret", p.Secret != ""))
}

// Valid tells what is wrong with the configuration. It never repeats the secret.
func (p Policy) Valid() error {
	for _, h := range p.Hosts {
		name := strings.TrimPrefix(h, "*.")
		if _, err := netip.ParseAddr(name); err != nil && h != "*" && checkName(strings.ToLower(name)) != "" {
			return fault.Newf(fault.Invalid, "AO_CALLBACK_HOSTS: %.80q is no host; give names like hooks.example.com or *.example.com, or * for any", h)
		}
	}
	for _, n := range p.Networks {
		if !n.IsValid() || n.Addr().Is4In6() {
			return fault.Newf(fault.Invalid, "AO_CALLBACK_NETWORKS: %v is no network; give networks like 10.1.0.0/16", n)
		}
	}
	if !p.Enabled() && p.Secret == "" {
		return nil
	}
	_, err := keys(p.Secret)
	return err
}

// Check tells why callbacks may not go to a URL, as a fault for the one who asked for it. What a name resolves to is looked
// at when the callback is delivered.
func (p Policy) Check(rawURL string) error {
	_, err := p.target(rawURL)
	return err
}

// target is a URL that passed Check.
func (p Policy) target(rawURL string) (*url.URL, error) {
	if !p.Enabled() {
		return refused("is refused: HTTP callbacks are disabled here; whoever runs the coordinator enables them by naming the allowed hosts in AO_CALLBACK_HOSTS; otherwise leave it out")
	}
	u, err := proper(rawURL)
	if err != nil {
		return nil, err
	}
	host := strings.ToLower(u.Hostname())
	addr, err := netip.ParseAddr(host)
	literal := err == nil
	if strings.HasPrefix(u.Host, "[") != (literal && addr.Is6()) {
		return refused("has a host that is no proper address; IPv6 addresses, and nothing else, stand in brackets")
	}
	if !literal {
		if say := checkName(strings.TrimSuffix(host, ".")); say != "" {
			return refused("has the host %.80q, which %s", host, say)
		}
	}
	if !p.names(host) {
		return refused("goes to %.80q, which is not among the hosts allowed by AO_CALLBACK_HOSTS; send another, or ask whoever runs the coordinator to add it", host)
	}
	switch {
	case literal && !p.reaches(addr):
		return refused("goes to an address that is not public; send one that is, or ask whoever runs the coordinator to allow its network in AO_CALLBACK_NETWORKS")
	case !literal && isLocal(host) && !p.inside(netip.AddrFrom4([4]byte{127, 0, 0, 1})) && !p.inside(netip.IPv6Loopback()):
		return refused("goes to the coordinator's own machine; send a public one")
	case u.Scheme == "http" && literal && !p.inside(addr), u.Scheme == "http" && len(p.Networks) == 0:
		return refused("has the scheme http; send one with https (http is only for networks that AO_CALLBACK_NETWORKS allows)")
	}
	return u, nil
}

// refused is why a callback_url is not taken.
func refused(format string, args ...any) (*url.URL, error) {
	return nil, fault.Newf(fault.Invalid, "callback_url "+format, args...).With("field", "callback_url")
}

// proper is a URL that could be a receiver's, whoever may be told.
func proper(rawURL string) (*url.URL, error) {
	if len(rawURL) > maxURL {
		return refused("is %d bytes long; send one of at most %d", len(rawURL), maxURL)
	}
	for _, c := range []byte(rawURL) {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return refused("has a character that a URL cannot have; escape it with %%XX, and write an international name in its xn-- form")
		}
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return refused("is no URL; send one like https://hooks.example.com/path")
	case u.Scheme != "https" && u.Scheme != "http":
		return refused("has the scheme %.20q; send one with https", u.Scheme)
	case u.User != nil:
		return refused("holds a user or password; leave them out, the receiver knows us by the signature")
	case strings.Contains(rawURL, "#"):
		return refused("has a fragment, which no receiver would see; leave it out")
	}
	if port := strings.TrimPrefix(u.Host[strings.LastIndexByte(u.Host, ']')+1:], u.Hostname()); port != "" {
		if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
			return refused("has no proper port; send one from 1 to 65535, or none")
		}
	}
	return u, nil
}

// names tells whether a host is among those allowed.
func (p Policy) names(host string) bool {
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

// checkName tells what is wrong with a host's name in small letters. A name whose last label is a number is how some programs
// write addresses (0x7f.1, 2130706433, 0177.0.0.1); whoever resolves it might read it so.
func checkName(host string) string {
	if len(host) > 253 {
		return "is longer than a name can be"
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "is no host name; an international one is written in its xn-- form"
		}
	}
	last := labels[len(labels)-1]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return fmt.Sprintf("is a number and no name; write an address as four decimal numbers, like %s", "192.0.2.7")
	}
	return ""
}

// inside tells whether an address is in a network that is allowed by name.
func (p Policy) inside(a netip.Addr) bool { return contain(p.Networks, a.Unmap()) }

// reaches tells whether callbacks may go to an address.
func (p Policy) reaches(a netip.Addr) bool { return p.inside(a) || isPublic(a) }
