package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// lossCase is a way to recover a killed worker's job.
type lossCase struct {
	name, settings string
	rule           string // how the loss is detected
	settled        string // event that ends the measurement
	plan           plan
	again          string // when another worker is started: before or after the kill; empty: never
	after          bool
	attempts       int  // max_attempts of our run; 0: the default, one
	never          bool // takes too long to measure
}

func lossCases() []lossCase {
	postgres, redis := []string{"postgres", "initdb"}, []string{"redis-server"}
	ours := func(lease string) plan {
		p := plan{contender: contender{name: "ours", fsync: true, launch: launchOurs}}
		if lease != "" {
			p.env = []string{"AO_BENCH_RUN_LEASE=" + lease}
		}
		return p
	}
	asynqIn := func(set string) plan {
		return plan{contender: contender{name: "asynq", fsync: true, needs: redis,
			launch: launchAsynq(redisAlways, set)}}
	}
	riverIn := func(set string) plan {
		return plan{contender: contender{name: "river", fsync: true, needs: postgres, launch: launchRiver("on", set)}}
	}
	const again = "started again by another worker"
	return []lossCase{
		{name: "ours", rule: "no beat within the lease, 15 s", settled: "declared lost (failed)", plan: ours("")},
		{name: "ours", settings: "max_attempts 2", rule: "the same", settled: again, plan: ours(""), again: "worker-2",
			attempts: 2},
		{name: "ours", settings: "max_attempts 2, the killed worker is started again at once",
			rule: "the new one takes over from the old one", settled: "started again by it", plan: ours(""),
			again: "worker-1", after: true, attempts: 2},
		{name: "ours", settings: "RUN_LEASE=3", rule: "no beat within the lease, 3 s",
			settled: "declared lost (failed)", plan: ours("3")},
		{name: "ours", settings: "RUN_LEASE=3, max_attempts 2", rule: "the same", settled: again, plan: ours("3"),
			again: "worker-2", attempts: 2},
		{name: "asynq", rule: "30 s of lease, 30 s more, looked for every 60 s; then a delay of 15 s and more",
			settled: again, plan: asynqIn(asynqUsual), again: "worker-2"},
		{name: "asynq", settings: "no delay before a retry, looked for every second",
			rule: "the same without the delay: 30 s, 30 s and 60 s cannot be set", settled: again,
			plan: asynqIn(asynqQuick), again: "worker-2"},
		{name: "river", rule: "running for 1 h, looked for every 30 s", settled: again, plan: riverIn(riverUsual),
			never: true},
		{name: "river", settings: "JobTimeout and RescueStuckJobsAfter 10 s: no job may take longer",
			rule: "running for 10 s, looked for every 30 s, which cannot be set", settled: again,
			plan: riverIn(riverQuick), again: "worker-2"},
	}
}

// recovery kills a worker (SIGKILL) during its job and measures the time until the job is recovered. All systems are
// started one after the other and then waited for at the same time, because they are idle.
func (b *bench) recovery(ctx context.Context, names []string) error {
	missing := map[string]bool{}
	all := slices.DeleteFunc(lossCases(), func(l lossCase) bool {
		if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(l.name, n) }) {
			return true
		}
		err := missingProgram(l.plan.needs)
		if err != nil && !missing[l.name] {
			fmt.Fprintf(b.out, "SKIPPED: %s: %v\n\n", l.name, err)
			missing[l.name] = true
		}
		return err != nil
	})
	if len(all) == 0 {
		return nil
	}
	took := make([]time.Duration, len(all))
	wrong := make([]error, len(all))
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	defer wg.Wait()
	defer stop()
	for i, l := range all {
		if l.never {
			continue
		}
		b.logf("recovery: %s, %s", l.name, l.settings)
		wait, err := b.startAndKill(ctx, l)
		if err != nil {
			wrong[i] = err
			continue
		}
		wg.Go(func() { took[i], wrong[i] = wait() })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "### A worker is killed (-9) during its job\n\n| | settings beside the defaults | its rule | "+
		"settled means | measured |\n|---|---|---|---|---|\n")
	for i, l := range all {
		measured := fmt.Sprintf("%.1f s", took[i].Seconds())
		switch {
		case l.never:
			measured = "not waited for"
		case errors.Is(wrong[i], context.DeadlineExceeded):
			measured = fmt.Sprintf("not within %s", b.patience)
		case wrong[i] != nil:
			measured = "FAILED: " + wrong[i].Error()
		}
		settings := cmp.Or(l.settings, "none")
		fmt.Fprintf(b.out, "| %s | %s | %s | %s | %s |\n", l.name, settings, l.rule, l.settled, measured)
	}
	fmt.Fprintln(b.out)
	return nil
}

// startAndKill starts a system, kills the worker during its job, and returns a function that waits for the recovery.
func (b *bench) startAndKill(ctx context.Context, l lossCase) (func() (time.Duration, error), error) {
	l.plan.slots, l.plan.hold = 4, true
	s, err := l.plan.launch(ctx, b, l.plan)
	if err != nil {
		return nil, err
	}
	wait, err := b.killWorker(ctx, l, s)
	if err != nil {
		err = s.withLogs(err)
		s.end()
		return nil, err
	}
	return func() (time.Duration, error) {
		defer s.end()
		ctx, cancel := context.WithTimeout(ctx, b.patience)
		defer cancel()
		return wait(ctx)
	}, nil
}

func (b *bench) killWorker(ctx context.Context, l lossCase, s *system) (
	_ func(context.Context) (time.Duration, error), err error) {
	defer caught(&err)
	start, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	base, run := "", ""
	var last error
	if err := poll(start, 20*time.Millisecond, func() (bool, error) {
		if l.name != "ours" {
			last = s.accept(start, job(time.Now(), b.text))
			return last == nil, nil
		}
		base = s.at.base
		run, last = createRun(start, base, l.attempts)
		return last == nil, nil
	}); err != nil {
		return nil, fmt.Errorf("it takes no jobs: %w", last)
	}
	if err := poll(start, time.Millisecond, func() (bool, error) { return s.started() == 1, nil }); err != nil {
		return nil, fmt.Errorf("the job does not start: %w", err)
	}
	if l.name == "ours" { // its worker has reported the start
		check(poll(start, 5*time.Millisecond, func() (bool, error) {
			r, err := getRun(start, base, run)
			return r.Status == "running", err
		}))
	}
	victim := s.workers()[0]
	if l.again != "" && !l.after {
		check(s.addWorker(start, l.again))
	}
	s.removeWorker(victim)
	begin := time.Now()
	if l.after {
		check(s.addWorker(start, l.again))
	}
	return func(ctx context.Context) (time.Duration, error) {
		err := poll(ctx, 2*time.Millisecond, func() (bool, error) {
			if l.again != "" {
				return s.started() > 1, nil
			}
			r, err := getRun(ctx, base, run)
			return r.Status == "failed", err
		})
		return time.Since(begin), err
	}, nil
}

// createRun starts a run and returns its id.
func createRun(ctx context.Context, base string, attempts int) (_ string, err error) {
	defer caught(&err)
	body := `{"agent_name":"noop","parameters":` + string(job(time.Now(), 1))
	if attempts > 0 {
		body += fmt.Sprintf(`,"max_attempts":%d`, attempts)
	}
	req := must(http.NewRequestWithContext(ctx, "POST", base+"/runs", strings.NewReader(body+"}")))
	req.Header.Set("Content-Type", "application/json")
	text := must(do(http.DefaultClient, req))
	var r runState
	err = json.Unmarshal([]byte(text), &r)
	return r.ID, err
}
