package webhook

import "time"

// pauses are the pauses after failed tries, as Standard Webhooks recommends: ten tries within about three days.
var pauses = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour,
	20 * time.Hour, 24 * time.Hour,
}

// backoff returns how long to wait after the n-th try failed, counted from 1, or that it was the last.
func backoff(n int) (wait time.Duration, last bool) {
	if n > len(pauses) {
		return 0, true
	}
	return pauses[max(n, 1)-1], false
}
