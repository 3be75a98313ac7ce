package httpapi

import "testing"

// TestAddresses: tries are counted by address, and for IPv6 by network.
func TestAddresses(t *testing.T) {
	for _, tt := range []struct{ remote, want string }{
		{"192.0.2.1:2", "192.0.2.1"},
		{"[::ffff:192.0.2.2]:3", "192.0.2.2"},
		{"[2001:db8::ffff]:1", "2001:db8::/64"},
		{"[2001:db8:0:1::1%eth0]:1", "2001:db8:0:1::/64"},
		{"@", "@"},
	} {
		if got := addressOf(tt.remote); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.remote, got, tt.want)
		}
	}
}
