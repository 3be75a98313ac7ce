package webhook

import (
	"net/netip"
	"slices"
)

// notPublic are the networks that are not the public Internet, from the registries of special addresses (RFC 6890 and
// later). In IPv6 only 2000::/3 is public; the IPv6 networks here are the exceptions within it.
var notPublic = prefixes(
	"0.0.0.0/8",       // this network, unspecified
	"10.0.0.0/8",      // private
	"100.64.0.0/10",   // behind a provider's NAT
	"127.0.0.0/8",     // loopback
	"169.254.0.0/16",  // link-local, where clouds keep their metadata
	"172.16.0.0/12",   // private
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.31.196.0/24", // AS112
	"192.52.193.0/24", // AMT
	"192.88.99.0/24",  // relays of 6to4
	"192.168.0.0/16",  // private
	"192.175.48.0/24", // AS112
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, broadcast

	"2001::/23",         // protocol assignments: Teredo, benchmarks, ORCHID
	"2001:db8::/32",     // documentation
	"2002::/16",         // 6to4: leads to the IPv4 address in it
	"2620:4f:8000::/48", // AS112
	"3fff::/20",         // documentation
)

var (
	public = netip.MustParsePrefix("2000::/3")
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // leads to the IPv4 address in its last four bytes
)

func prefixes(all ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, p := range all {
		list = append(list, netip.MustParsePrefix(p))
	}
	return list
}

func isPublic(a netip.Addr) bool {
	a = a.Unmap()
	switch {
	case !a.IsValid() || a.Zone() != "":
		return false
	case a.Is4():
		return !contain(notPublic, a)
	case nat64.Contains(a):
		in := a.As16()
		return isPublic(netip.AddrFrom4([4]byte(in[12:])))
	}
	in := a.As16()
	isatap := in[8]&^2 == 0 && in[9] == 0 && in[10] == 0x5e && in[11] == 0xfe // leads to the IPv4 address after it
	return public.Contains(a) && !isatap && !contain(notPublic, a)
}

func contain(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
}
