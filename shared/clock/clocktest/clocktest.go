// Package clocktest waits in tests for what another process or goroutine does.
package clocktest

import (
	"testing"
	"time"
)

// Until polls a condition and fails the test if it is not true within two minutes.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !Poll(2*time.Minute, ok) {
		t.Fatalf("not within two minutes: %s", what)
	}
}

// Poll calls a function until it returns true, and reports whether it did so within the limit. The pauses grow from 2
// to 100 ms, because a test that waits for seconds would otherwise keep the machine busy with its own requests.
func Poll(limit time.Duration, ok func() bool) bool {
	end, pause := time.Now().Add(limit), 2*time.Millisecond
	for !ok() {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
		pause = min(pause*5/4, 100*time.Millisecond)
	}
	return true
}
