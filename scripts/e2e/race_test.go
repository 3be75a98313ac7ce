//go:build race

package e2e

import "os"

// The programs use the race detector as the tests do.
var buildFlags = []string{"-race"}

// By default each would sleep for a second at its end to detect races of running goroutines.
func init() { os.Setenv("GORACE", "atexit_sleep_ms=20 "+os.Getenv("GORACE")) }
