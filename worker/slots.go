package worker

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/bus"
)

// slots is how many runs a worker has at once, and the goroutines that bring them to their ends.
type slots struct {
	most  int
	end   *ending
	do    func(bus.Delivery) // brings one to its end
	taker *bus.Poller

	next chan bus.Delivery // to a goroutine that waits for work
	runs sync.WaitGroup    // of the slots in use
	used atomic.Int64      // likewise
}

// defaultSlots is how many runs a worker has at once where its profile does not say.
func defaultSlots() int { return max(8, 2*runtime.NumCPU()) }

// free is how many slots are.
func (s *slots) free() int {
	if s.end.leaving.Load() {
		return 0
	}
	return s.most - s.busy()
}

// busy is how many slots are in use.
func (s *slots) busy() int { return int(s.used.Load()) }

// spare is how long a goroutine that has brought a run to its end waits for the next one.
const spare = time.Second

// accept takes a slot for a delivery; the rest happens in a goroutine, the only one a run has of this package. One that waits for
// work takes it: its stack has grown already, which is a twelfth of what a run costs here.
func (s *slots) accept(_ context.Context, d bus.Delivery) {
	s.used.Add(1)
	s.runs.Add(1)
	select {
	case s.next <- d:
	default:
		go s.serve(d)
	}
}

// serve brings one delivery after the other to its end.
func (s *slots) serve(d bus.Delivery) {
	patience := time.NewTimer(spare)
	defer patience.Stop()
	for {
		s.do(d)
		s.used.Add(-1)
		s.runs.Done()
		s.taker.Wake()
		patience.Reset(spare)
		select {
		case d = <-s.next:
		case <-patience.C:
			return
		case <-s.end.dead.Done():
			return
		}
	}
}
