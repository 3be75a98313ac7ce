package process

import "sync/atomic"

var running atomic.Int64

// Running is how many programs of this process run at this moment; what they have started is not among them.
func Running() int { return int(running.Load()) }
