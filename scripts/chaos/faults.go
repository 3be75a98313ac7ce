package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The kinds of faults.
const (
	crash   = "kill -9"
	freeze  = "pause"
	restart = "restart"
)

// fault is one fault of the plan.
type fault struct {
	after    time.Duration // since the end of the previous fault
	kind     string
	target   int // index of the victim
	duration time.Duration
}

// victims are a group of processes of which one at a time is hit. Each coordinator and each worker is a group; so is
// a single NATS server, and all servers of a cluster, which needs two of three.
type victims struct {
	name               string
	all                []*process
	minPause, maxPause time.Duration // between two faults
	maxDuration        time.Duration // of a pause or an outage
	recovered          func(ctx context.Context, i int) error
}

// plan depends only on seed and group: the n-th fault of a group is the same in every run.
func plan(seed uint64, group int, v victims) func() fault {
	rng := rand.New(rand.NewPCG(seed, uint64(group)))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(rng.Int64N(int64(most-least)))
	}
	return func() fault {
		f := fault{after: between(v.minPause, v.maxPause), target: rng.IntN(len(v.all))}
		switch n := rng.IntN(10); {
		case n < 4:
			f.kind, f.duration = crash, between(0, min(v.maxDuration, 3*time.Second))
		case n < 7:
			f.kind, f.duration = freeze, between(min(v.maxDuration, time.Second), v.maxDuration+time.Millisecond)
		default:
			f.kind, f.duration = restart, between(0, min(v.maxDuration, 2*time.Second))
		}
		return f
	}
}

// chaos injects the faults of a run.
type chaos struct {
	s     *stack
	b     *tracker
	mu    sync.Mutex
	count map[string]int // by kind and program
}

// groups returns all victims of a stack.
func (s *stack) groups() []victims {
	var all []victims
	nobody := func(context.Context, int) error { return nil }
	for _, p := range s.coordinators {
		all = append(all, victims{p.name, []*process{p}, 4 * time.Second, 12 * time.Second, 6 * time.Second, nobody})
	}
	for _, p := range s.workers {
		all = append(all, victims{p.name, []*process{p}, 4 * time.Second, 14 * time.Second, 6 * time.Second, nobody})
	}
	longest := 2500 * time.Millisecond // all of NATS is away
	if len(s.nats) > 1 {
		longest = 6 * time.Second
	}
	return append(all, victims{"nats", s.nats, 5 * time.Second, 15 * time.Second, longest, s.waitForNATS})
}

// run injects faults until ctx ends. It completes each fault, so all processes run when it returns.
func (c *chaos) run(ctx context.Context) {
	begin := time.Now()
	var wg sync.WaitGroup
	for g, v := range c.s.groups() {
		next := plan(c.s.seed, g, v)
		wg.Go(func() {
			for {
				f := next()
				select {
				case <-ctx.Done():
					return
				case <-time.After(f.after):
				}
				c.inject(ctx, begin, v, f)
			}
		})
	}
	wg.Wait()
}

// inject causes one fault and recovers from it.
func (c *chaos) inject(ctx context.Context, begin time.Time, v victims, f fault) {
	p := v.all[f.target]
	c.mu.Lock()
	c.count[f.kind+" "+v.program()]++
	c.mu.Unlock()
	c.s.logf("%6.1fs  %-8s %-14s for %s", time.Since(begin).Seconds(), f.kind, p.name,
		f.duration.Round(10*time.Millisecond))
	hold := time.NewTimer(f.duration)
	defer hold.Stop()
	wait := func() {
		select {
		case <-hold.C:
		case <-ctx.Done():
		}
	}
	var err error
	switch f.kind {
	case freeze:
		p.signal(syscall.SIGSTOP)
		wait()
		p.signal(syscall.SIGCONT)
	case crash:
		p.kill()
		wait()
		err = p.start()
	case restart:
		if late := p.stop(60 * time.Second); late != nil {
			c.b.addViolation([]string{p.name}, "%v", late)
		}
		wait()
		err = p.start()
	}
	if err == nil {
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), 90*time.Second)
		defer cancel()
		err = v.recovered(back, f.target)
	}
	if err != nil {
		c.b.addViolation([]string{p.name}, "after %s: %v", f.kind, err)
	}
}

// program returns the victims' program: the name without its number.
func (v victims) program() string {
	program, _, _ := strings.Cut(v.name, "-")
	return program
}
