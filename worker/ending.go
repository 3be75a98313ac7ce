package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lastWords is how long executors that were ended and their last words are waited for: the time between TERM and
// KILL, and some for NATS.
const lastWords = 15 * time.Second

// ending is how a worker comes to its end: who wants that, and what has ended already.
type ending struct {
	fatal   chan error    // what ends the worker
	drain   chan struct{} // closed: a coordinator wants it to finish and go
	now     chan struct{} // closed: the grace is over
	leaving atomic.Bool   // it takes and registers no more

	dead    context.Context // ends when nothing is waited for any more
	killAll context.CancelFunc

	drainOnce, nowOnce sync.Once
}

func (e *ending) init() {
	e.fatal, e.drain, e.now = make(chan error, 1), make(chan struct{}), make(chan struct{})
	e.dead, e.killAll = context.WithCancel(context.Background())
}

// goAway is a coordinator's wish that the runner takes no more, finishes, and goes.
func (e *ending) goAway() { e.drainOnce.Do(func() { close(e.drain) }) }

// hurry ends the grace.
func (e *ending) hurry() { e.nowOnce.Do(func() { close(e.now) }) }

// die ends the worker; the first reason counts.
func (e *ending) die(err error) {
	select {
	case e.fatal <- err:
	default:
	}
}

// single does something in a goroutine of its own, one at a time, until it is closed.
type single struct {
	mu      sync.Mutex
	running bool
	closed  bool
	wg      sync.WaitGroup
}

// begin does f, unless it is being done.
func (s *single) begin(f func()) {
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

// close has nothing begin any more.
func (s *single) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// wait waits for what is under way.
func (s *single) wait() { s.wg.Wait() }
