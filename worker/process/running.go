package process

import "sync/atomic"

var running atomic.Int64

// Running returns how many programs of this process run now, without their child processes.
func Running() int { return int(running.Load()) }
