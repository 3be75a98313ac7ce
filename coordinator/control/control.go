// Package control runs the controllers, each in a goroutine of its own and never twice at once. What wakes which is a table of the package
// that wires them.
package control

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Controller brings about what follows from the state of the system now. Reconcile may be called at any time, and twice for the same
// thing. It returns soon: what takes long it hands to a pool. An error says that NATS or the coordinator itself is in trouble.
type Controller interface {
	Reconcile(ctx context.Context) error
}

// Func is a controller that is one function.
type Func func(ctx context.Context) error

// Reconcile calls f.
func (f Func) Reconcile(ctx context.Context) error { return f(ctx) }

// Signal is what has happened, as a set of bits.
type Signal uint32

// Plan is when a controller is called.
type Plan struct {
	Name    string
	Do      Controller
	Wakes   Signal        // any of these: at once
	Every   time.Duration // after so long without a call; required
	Rest    time.Duration // the least time between the end of a call and the next one
	Allowed func() bool   // not called while this says no; nil: always called
}

const (
	longest = 10 * time.Second // pause after errors
	soon    = time.Second      // pause at most before it is asked again whether a controller may be called that is to be
)

// Sweep is how often a controller that is called once a second looks at all that is to be done, and not only at what is new.
const Sweep = 900 * time.Millisecond

// Scheduler calls controllers.
type Scheduler struct{ loops []*loop }

// New makes a scheduler; Run makes it work. Signals that come before are kept.
func New(log *slog.Logger, plans ...Plan) *Scheduler {
	s := &Scheduler{}
	for _, p := range plans {
		s.loops = append(s.loops, &loop{Plan: p, log: log.With("controller", p.Name), wake: make(chan struct{}, 1)})
	}
	return s
}

// Wake has the controllers called that wait for one of these signals. It never blocks, so a lock may be held. Signals that come while a
// controller works, or rests, make one further call.
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

// Run works until ctx ends and every controller has returned.
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
			timer.Reset(min(l.Every, soon)) // what is to be done stays to be done
			continue
		}
		pause := l.Rest
		if err := l.Do.Reconcile(ctx); err == nil {
			failed = 0
		} else if ctx.Err() == nil {
			failed++
			pause = max(pause, min(l.Every<<min(failed-1, 10), longest))
			l.log.Warn("not done yet; trying again", "failures", failed, "after", pause, "err", err)
		}
		if pause > 0 && !rest(ctx, pause) {
			return
		}
	}
}

// rest waits; false: ctx has ended.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
