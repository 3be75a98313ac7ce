package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// shutdownTimeout is how long to wait for ended executors and their end records: the time between TERM and KILL, and
// some for NATS.
const shutdownTimeout = 15 * time.Second

// shutdown is the state of the worker's shutdown: who asked for it, and what has ended.
type shutdown struct {
	fatal     chan error    // the error that ends the worker
	drain     chan struct{} // closed: a coordinator asked it to drain
	immediate chan struct{} // closed: the grace period is over
	stopping  atomic.Bool   // the worker takes and registers no more

	hardStop context.Context // ends when the worker waits for nothing any more
	stopHard context.CancelFunc

	drainOnce, nowOnce sync.Once
}

func (e *shutdown) init() {
	e.fatal, e.drain, e.immediate = make(chan error, 1), make(chan struct{}), make(chan struct{})
	e.hardStop, e.stopHard = context.WithCancel(context.Background())
}

// requestDrain asks the worker to take no more runs, finish, and exit.
func (e *shutdown) requestDrain() { e.drainOnce.Do(func() { close(e.drain) }) }

// endGrace ends the grace period.
func (e *shutdown) endGrace() { e.nowOnce.Do(func() { close(e.immediate) }) }

// fail ends the worker with an error; the first one counts.
func (e *shutdown) fail(err error) {
	select {
	case e.fatal <- err:
	default:
	}
}

// singleFlight runs a function in its own goroutine, one at a time, until it is closed.
type singleFlight struct {
	mu      sync.Mutex
	running bool
	closed  bool
	wg      sync.WaitGroup
}

// start runs f, unless a call is under way.
func (s *singleFlight) start(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running || s.closed {
		return
	}
	s.running = true
	s.wg.Go(func() {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.running = false
		}()
		f()
	})
}

// close refuses further calls.
func (s *singleFlight) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// wait waits for the call under way.
func (s *singleFlight) wait() { s.wg.Wait() }
