// Package control runs the controllers: each in its own goroutine, never twice at once. The package that wires them has
// the table of which signal wakes which.
package control

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"ao/shared/clock"
)

// Controller brings the system closer to what it should be. Reconcile may be called at any time, and again for the same
// work. It returns soon; slow work goes to a pool. An error means that NATS or the coordinator itself has a problem.
type Controller interface {
	Reconcile(ctx context.Context) error
}

// Func is a controller that is a single function.
type Func func(ctx context.Context) error

// Reconcile calls f.
func (f Func) Reconcile(ctx context.Context) error { return f(ctx) }

// Signal is a set of bits: what has happened.
type Signal uint32

// Plan says when a controller is called.
type Plan struct {
	Name    string
	Do      Controller
	Wakes   Signal        // at once after any of these
	Every   time.Duration // after so long without a call; required
	Rest    time.Duration // the shortest time between the end of a call and the next one
	Allowed func() bool   // not called while this reports false; nil: always called
}

const (
	maxPause   = 10 * time.Second // the longest pause after errors
	maxRecheck = time.Second      // the longest time until Allowed is asked again
)

// Sweep is how often a controller that is called once a second looks at all its work, and not only at what is new.
const Sweep = 900 * time.Millisecond

// Scheduler calls controllers.
type Scheduler struct{ loops []*loop }

// New returns a Scheduler. Signals that come before Run are kept.
func New(log *slog.Logger, plans ...Plan) *Scheduler {
	s := &Scheduler{}
	for _, p := range plans {
		s.loops = append(s.loops, &loop{Plan: p, log: log.With("controller", p.Name), wake: make(chan struct{}, 1)})
	}
	return s
}

// Wake calls the controllers that wait for one of these signals. It never blocks, so a lock may be held.
// Signals that come while a controller works or rests cause one further call.
func (s *Scheduler) Wake(what Signal) {
	for _, l := range s.loops {
		if l.Wakes&what == 0 {
			continue
		}
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Run calls the controllers until ctx ends and all of them have returned.
func (s *Scheduler) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, l := range s.loops {
		wg.Go(func() { l.run(ctx) })
	}
	wg.Wait()
}

type loop struct {
	Plan
	log  *slog.Logger
	wake chan struct{} // holds one
}

func (l *loop) run(ctx context.Context) {
	timer := time.NewTimer(l.Every)
	defer timer.Stop()
	for failed := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
		}
		timer.Reset(l.Every)
		if ctx.Err() != nil {
			return
		}
		if l.Allowed != nil && !l.Allowed() {
			timer.Reset(min(l.Every, maxRecheck)) // the work stays due
			continue
		}
		pause := l.Rest
		if err := l.Do.Reconcile(ctx); err == nil {
			failed = 0
		} else if ctx.Err() == nil {
			failed++
			pause = max(pause, min(l.Every<<min(failed-1, 10), maxPause))
			l.log.Warn("controller failed, retrying", "failures", failed, "after", pause, "err", err)
		}
		if pause > 0 && !clock.Sleep(ctx, pause) {
			return
		}
	}
}
