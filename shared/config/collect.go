package config

import (
	"os"
	"runtime/debug"
)

// Collect lets the heap grow to five times what lives before it is collected, unless GOGC says otherwise: our programs keep
// little and make much garbage, and that is a tenth of their time saved. A limit of memory (GOMEMLIMIT) counts as ever.
func Collect() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}
