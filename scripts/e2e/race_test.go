//go:build race

package e2e

import "os"

// The programs use the race detector in the full tests alone, as in scripts/nightly. With it half of the time goes into
// starting them. The packages that they are made of are tested with it.
var buildFlags = map[string][]string{"full": {"-race"}}[os.Getenv("AO_TEST_LOAD")]

// By default each would sleep for a second at its end to detect races of running goroutines.
func init() { os.Setenv("GORACE", "atexit_sleep_ms=20 "+os.Getenv("GORACE")) }
