//go:build race

package e2e

import "os"

// The programs race as the tests do.
var buildFlags = []string{"-race"}

// Each would sleep for a second at its end, to hear of races of goroutines that are still running.
func init() { os.Setenv("GORACE", "atexit_sleep_ms=20 "+os.Getenv("GORACE")) }
