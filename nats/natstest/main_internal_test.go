package natstest

import (
	"strings"
	"testing"
)

// waitForEnd is code of this repository for a goroutine of the test.
func waitForEnd(end <-chan struct{}) { <-end }

// TestLeakedGoroutinesAreReported: a goroutine is listed with its stack until it ends.
func TestLeakedGoroutinesAreReported(t *testing.T) {
	end := make(chan struct{})
	go waitForEnd(end)
	found := func() bool { return strings.Contains(strings.Join(goroutines(), "\n"), "natstest.waitForEnd") }
	Until(t, "the goroutine is found", found)
	close(end)
	Until(t, "the goroutine is not found any more", func() bool { return !found() })
}
