package webhook

import "time"

// waits are the pauses after failed tries, as Standard Webhooks recommends: ten tries within about three days.
var waits = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// backoff says how long to wait after the n-th try, counted from 1, has failed; or that it was the last one.
func backoff(n int) (wait time.Duration, last bool) {
	if n > len(waits) {
		return 0, true
	}
	return waits[max(n, 1)-1], false
}
