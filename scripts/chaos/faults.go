package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fault is one fault of the plan.
type fault struct {
	after    time.Duration // since the end of the previous fault
	kind     kind
	target   int // index of the victim
	duration time.Duration
}

// kind is a kind of fault.
type kind struct {
	name        string
	least, most time.Duration
	// inject causes the fault, calls wait for its duration, and recovers from it
	inject func(target int, wait func()) error
}

// victims are a group of things of which one at a time is hit. Each coordinator and each worker is a group; so is a
// single NATS server, and all servers of a cluster, which needs two of three.
type victims struct {
	name               string
	all                []string
	kinds              []kind        // one of them; some more than once
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
		f := fault{after: between(v.minPause, v.maxPause), target: rng.IntN(len(v.all)), kind: v.kinds[rng.IntN(len(
			v.kinds))]}
		f.duration = between(min(v.maxDuration, f.kind.least), min(v.maxDuration, f.kind.most)+time.Millisecond)
		return f
	}
}

// ofProcesses returns the faults of processes: kill -9, a pause, and SIGTERM.
func ofProcesses(b *tracker, all []*process) []kind {
	crash := kind{"kill -9", 0, 3 * time.Second, func(i int, wait func()) error {
		all[i].kill()
		wait()
		return all[i].start()
	}}
	freeze := kind{"pause", time.Second, time.Minute, func(i int, wait func()) error {
		all[i].signal(syscall.SIGSTOP)
		wait()
		all[i].signal(syscall.SIGCONT)
		return nil
	}}
	restart := kind{"restart", 0, 2 * time.Second, func(i int, wait func()) error {
		if late := all[i].stop(60 * time.Second); late != nil {
			b.addViolation([]string{all[i].name}, "%v", late)
		}
		wait()
		return all[i].start()
	}}
	return []kind{crash, crash, crash, crash, freeze, freeze, freeze, restart, restart, restart}
}

// chaos injects the faults of a run.
type chaos struct {
	s     *stack
	b     *tracker
	mu    sync.Mutex
	count map[string]int // by kind and program
}

func nobody(context.Context, int) error { return nil }

// groups returns all victims of a stack.
func (s *stack) groups(b *tracker) []victims {
	switch s.mode {
	case "disk":
		return []victims{s.diskVictims()}
	case "proxy":
		return s.proxyVictims()
	}
	var all []victims
	for _, p := range s.coordinators {
		all = append(all, victims{p.name, []string{p.name}, ofProcesses(b, []*process{p}), 4 * time.Second,
			12 * time.Second, 6 * time.Second, nobody})
	}
	for _, p := range s.workers {
		all = append(all, victims{p.name, []string{p.name}, ofProcesses(b, []*process{p}), 4 * time.Second,
			14 * time.Second, 6 * time.Second, nobody})
	}
	longest := 2500 * time.Millisecond // all of NATS is away
	if len(s.nats) > 1 {
		longest = 6 * time.Second
	}
	var names []string
	for _, p := range s.nats {
		names = append(names, p.name)
	}
	return append(all, victims{"nats", names, ofProcesses(b, s.nats), 5 * time.Second, 15 * time.Second, longest,
		s.waitForNATS})
}

// run injects faults until ctx ends. It completes each fault, so all processes run when it returns.
func (c *chaos) run(ctx context.Context) {
	start := time.Now()
	var wg sync.WaitGroup
	for g, v := range c.s.groups(c.b) {
		next := plan(c.s.seed, g, v)
		wg.Go(func() {
			for {
				f := next()
				select {
				case <-ctx.Done():
					return
				case <-time.After(f.after):
				}
				c.inject(ctx, start, v, f)
			}
		})
	}
	wg.Wait()
}

// inject causes one fault and recovers from it.
func (c *chaos) inject(ctx context.Context, start time.Time, v victims, f fault) {
	name := v.all[f.target]
	c.mu.Lock()
	c.count[f.kind.name+" "+v.program()]++
	c.mu.Unlock()
	c.s.logf("%6.1fs  %-8s %-14s for %s", time.Since(start).Seconds(), f.kind.name, name,
		f.duration.Round(10*time.Millisecond))
	hold := time.NewTimer(f.duration)
	defer hold.Stop()
	err := f.kind.inject(f.target, func() {
		select {
		case <-hold.C:
		case <-ctx.Done():
		}
	})
	if err == nil {
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), 90*time.Second)
		defer cancel()
		err = v.recovered(back, f.target)
	}
	if err != nil {
		c.b.addViolation([]string{name}, "after %s: %v", f.kind.name, err)
	}
}

// program returns the victims' program: the name without its number.
func (v victims) program() string {
	program, _, _ := strings.Cut(v.name, "-")
	return program
}
