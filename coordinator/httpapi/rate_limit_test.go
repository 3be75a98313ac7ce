package httpapi

import (
	"fmt"
	"testing"
	"time"
)

// TestWrongTokensAreLimited: ten wrong tokens a minute from an address are told so, and those of other addresses too.
func TestWrongTokensAreLimited(t *testing.T) {
	now := time.Now()
	tries := newRateLimiter(maxFailures, "wrong tokens came from your address")
	tries.now = func() time.Time { return now }
	heard := func(from string) (n int) {
		for range 2 * maxFailures {
			if tries.allow(addressOf(from)) == nil {
				n++
			}
		}
		return n
	}
	for _, tt := range []struct {
		from string
		want int
	}{
		{"192.0.2.1:2", 10}, {"192.0.2.1:3", 0}, {"192.0.2.2:3", 10}, {"[::ffff:192.0.2.2]:3", 0},
		{"[2001:db8::1]:1", 10}, {"[2001:db8::ffff]:1", 0}, {"[2001:db8:0:1::1]:1", 10},
	} {
		if got := heard(tt.from); got != tt.want {
			t.Errorf("%s: %d are told so, want %d", tt.from, got, tt.want)
		}
	}
	now = now.Add(triesWithin)
	if got := heard("192.0.2.1:2"); got != maxFailures {
		t.Errorf("after a minute %d are told so", got)
	}
	total := 0
	for i := range 2 * mostAddresses {
		total += heard(fmt.Sprintf("10.%d.%d.1:1", i/256, i%256))
	}
	if len(tries.of) > mostAddresses+1 || total > maxFailures*(mostAddresses+1) {
		t.Errorf("%d addresses are kept, %d tries told so", len(tries.of), total)
	}
	now = now.Add(triesWithin)
	heard("192.0.2.9:1")
	if len(tries.of) != 1 {
		t.Errorf("%d addresses are kept for ever", len(tries.of))
	}
}
