package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// warm runs some jobs first.
func (b *bench) warm(ctx context.Context, s *system) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var last error
	if err := poll(ctx, 20*time.Millisecond, func() (bool, error) {
		last = s.accept(ctx, job(time.Now(), b.text))
		return last == nil, nil
	}); err != nil {
		return fmt.Errorf("it takes no jobs: %w", last)
	}
	n, _, err := b.submit(ctx, s.accept, b.producers, 20*b.producers, b.length/6+100*time.Millisecond)
	if err != nil {
		return err
	}
	err = s.waitSettled(ctx, n+1)
	s.takeDelays()
	return err
}

// submitFunc submits a job.
type submitFunc func(ctx context.Context, job []byte) error

// submit lets producers submit jobs, limited by number and time, and returns their number and the time it took.
func (b *bench) submit(ctx context.Context, how submitFunc, producers, most int, length time.Duration) (int,
	time.Duration, error) {
	begin := time.Now()
	end := begin.Add(length)
	var left, accepted atomic.Int64
	left.Store(int64(most))
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	for range producers {
		wg.Go(func() {
			for left.Add(-1) >= 0 && time.Now().Before(end) && ctx.Err() == nil {
				if err := how(ctx, job(time.Now(), b.text)); err != nil {
					mu.Lock()
					first = err
					mu.Unlock()
					return
				}
				accepted.Add(1)
			}
		})
	}
	wg.Wait()
	if first == nil {
		first = ctx.Err()
	}
	return int(accepted.Load()), time.Since(begin), first
}

// measureAnswered returns the results per second with as many waiting callers as slots.
func (b *bench) measureAnswered(ctx context.Context, s *system) (float64, error) {
	base := s.started()
	n, took, err := b.submit(ctx, s.answer, b.slots, b.jobs, b.length)
	if err == nil {
		err = s.waitSettled(ctx, base+n)
	}
	s.takeDelays()
	return float64(n) / took.Seconds(), err
}

// burst is the result of a burst: rates of accepted and completed jobs, and the cost of a job.
type burst struct {
	accepted, completed float64
	cpu                 map[string]time.Duration // per job, by kind of process
}

func (b *bench) measureBurst(ctx context.Context, s *system) (burst, error) {
	base := s.started()
	before := usage(s.procs)
	mine := ownCPU()
	begin := time.Now()
	n, took, err := b.submit(ctx, s.accept, b.producers, b.jobs, b.length)
	if err == nil {
		err = s.waitSettled(ctx, base+n)
	}
	if err != nil {
		return burst{}, err
	}
	if n == 0 {
		return burst{}, fmt.Errorf("no job was accepted in %s", b.length)
	}
	all := time.Since(begin)
	after := usage(s.procs)
	s.takeDelays()
	r := burst{accepted: float64(n) / took.Seconds(), completed: float64(n) / all.Seconds(),
		cpu: map[string]time.Duration{"producers": (ownCPU() - mine) / time.Duration(n)}}
	for kind, c := range after {
		r.cpu[kind] = (c - before[kind]) / time.Duration(n)
	}
	return r, nil
}

// latencies are measured from the time when a job is due, until its start and until the caller has the result.
type latencies struct{ began, answered []time.Duration }

// measurePaced submits jobs at a fixed rate, regardless of how fast they are accepted. It returns the times until
// their start and until their acceptance, and by how much the last submission was late.
func (b *bench) measurePaced(ctx context.Context, s *system, rate float64, how submitFunc) (began, took []time.Duration,
	late time.Duration, err error) {
	n := max(int(rate*b.length.Seconds()), 1)
	base := s.started()
	s.takeDelays()
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	gate := make(chan struct{}, 4096)
	begin := time.Now().Add(10 * time.Millisecond)
	for i := range n {
		due := begin.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		gate <- struct{}{}
		late = max(time.Since(due), 0)
		wg.Go(func() {
			defer func() { <-gate }()
			err := how(ctx, job(due, b.text))
			so := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				first = err
				return
			}
			took = append(took, so)
		})
	}
	wg.Wait()
	if first != nil {
		return nil, nil, late, first
	}
	err = s.waitSettled(ctx, base+n)
	return s.takeDelays(), took, late, err
}

// quantile returns a quantile of sorted values.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return all[min(int(float64(len(all))*q), len(all)-1)]
}

func formatQuantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "–"
	}
	slices.Sort(all)
	return ms(quantile(all, 0.5)) + " / " + ms(quantile(all, 0.99))
}

// ms formats a duration with three digits.
func ms(d time.Duration) string {
	switch v := float64(d) / 1e6; {
	case v < 10:
		return fmt.Sprintf("%.2f ms", v)
	case v < 100:
		return fmt.Sprintf("%.1f ms", v)
	case v < 10000:
		return fmt.Sprintf("%.0f ms", v)
	default:
		return fmt.Sprintf("%.1f s", v/1000)
	}
}

func median[T int | int64 | float64 | time.Duration](all []T) T {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
