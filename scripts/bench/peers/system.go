package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// contender is a system with its settings.
type contender struct {
	name     string
	settings string // settings other than its defaults
	durable  string // when an accepted job is on disk
	fsync    bool   // before it is accepted
	usual    bool   // default settings
	workers  int    // processes
	needs    []string
	launch   func(context.Context, *bench, plan) (*system, error)
}

// plan holds the start options of a system.
type plan struct {
	contender
	slots int      // of all its workers together
	hold  bool     // the first workers never end their jobs
	env   []string // for its processes
}

// system is a running contender.
type system struct {
	dir    string
	procs  []*proc
	accept func(ctx context.Context, job []byte) error // submits a job; returns when it is accepted
	// submits a job and waits for its result; nil: not supported
	answer func(ctx context.Context, job []byte) error
	empty  func(ctx context.Context) (bool, error)         // no job is open
	worker func(name string, env ...string) (*proc, error) // starts a worker process
	at     *endpoints                                      // of our system and the floor
	closes []func()                                        // closes connections

	before int // jobs started by killed workers
}

// launchSystem starts servers with build, then workers.
func launchSystem(ctx context.Context, b *bench, p plan, build func(s *system) error) (_ *system, err error) {
	defer caught(&err)
	s := &system{dir: must(os.MkdirTemp(b.dir, "system-"))}
	if err := s.start(ctx, p, build); err != nil {
		defer s.end()
		return nil, s.withLogs(err)
	}
	return s, nil
}

func (s *system) start(ctx context.Context, p plan, build func(s *system) error) (err error) {
	defer caught(&err)
	check(os.Chmod(s.dir, 0o711))
	check(build(s))
	var env []string
	if p.hold {
		env = []string{"AO_BENCH_HOLD=1", "AO_PEERS_HOLD=1"}
	}
	for i := range max(p.workers, 1) {
		check(s.addWorker(ctx, fmt.Sprintf("worker-%d", i+1), env...))
	}
	return nil
}

// addWorker starts a worker and waits until it takes jobs.
func (s *system) addWorker(ctx context.Context, name string, env ...string) error {
	w, err := s.worker(name, env...)
	if err != nil {
		return err
	}
	s.procs = append(s.procs, w)
	return w.ready(ctx)
}

// removeWorker kills a worker.
func (s *system) removeWorker(w *proc) {
	w.kill()
	for i, p := range s.procs {
		if p == w {
			s.before += w.tally.started()
			s.procs = append(s.procs[:i], s.procs[i+1:]...)
			return
		}
	}
}

func (s *system) startProcess(c child) (*proc, error) {
	p, err := start(c)
	if err == nil {
		s.procs = append(s.procs, p)
	}
	return p, err
}

func (s *system) end() {
	for i := len(s.closes) - 1; i >= 0; i-- {
		s.closes[i]()
	}
	for _, workers := range []bool{true, false} { // workers first, while their servers still run
		var wg sync.WaitGroup
		for _, p := range slices.Backward(s.procs) {
			if (p.tally != nil) != workers {
				continue
			}
			if workers {
				wg.Go(p.end)
			} else {
				p.end()
			}
		}
		wg.Wait()
	}
	os.RemoveAll(s.dir)
}

// workers returns its worker processes.
func (s *system) workers() (all []*proc) {
	for _, p := range s.procs {
		if p.tally != nil {
			all = append(all, p)
		}
	}
	return all
}

// started returns how many jobs its workers have started.
func (s *system) started() int {
	n := s.before
	for _, w := range s.workers() {
		n += w.tally.started()
	}
	return n
}

func (s *system) takeDelays() (took []time.Duration) {
	for _, w := range s.workers() {
		took = append(took, w.tally.takeDelays()...)
	}
	return took
}

// waitSettled waits until that many jobs have started and none is open.
func (s *system) waitSettled(ctx context.Context, started int) error {
	last, since := -1, time.Now()
	err := poll(ctx, 2*time.Millisecond, func() (bool, error) {
		n := s.started()
		if n != last {
			last, since = n, time.Now()
		}
		if time.Since(since) > 30*time.Second {
			return false, fmt.Errorf("%d of %d jobs have started, and none for 30 s", n, started)
		}
		return n >= started, nil
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := poll(ctx, 2*time.Millisecond, func() (bool, error) { return s.empty(ctx) }); err != nil {
		return fmt.Errorf("jobs are left: %w", err)
	}
	return nil
}

// roles are the roles of child processes.
var roles = map[string]func(context.Context) error{
	"asynq-worker": asynqWorker,
	"river-worker": riverWorker,
}

// startRole starts this program as a worker.
func (s *system) startRole(kind, name string, env ...string) (*proc, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(child{kind: "workers", name: name, path: self, env: append(env, "AO_PEERS_ROLE="+kind), tells: true,
		log: s.logFile(name)})
}

// logFile returns the log file of a process.
func (s *system) logFile(name string) string { return filepath.Join(s.dir, name+".log") }

// close is deferred: it ends the system, and adds the last lines of its logs to the error of a failed check.
func (s *system) close() {
	defer s.end()
	switch r := recover().(type) {
	case nil:
	case failure:
		panic(failure{s.withLogs(r.error)})
	default:
		panic(r)
	}
}

// withLogs adds the last lines of all logs to an error.
func (s *system) withLogs(err error) error {
	files, _ := filepath.Glob(s.logFile("*"))
	for _, path := range files {
		text, _ := os.ReadFile(path)
		text = bytes.TrimSpace(text)
		if len(text) > 0 {
			err = fmt.Errorf("%w; %s says: %s", err, filepath.Base(path),
				strings.ReplaceAll(string(text[max(len(text)-400, 0):]), "\n", " / "))
		}
	}
	return err
}

const (
	always  = "fsync before it is accepted"
	flushed = "the system's page cache, fsync every 2 min"
)

// contenders returns all systems in the order of the tables: first those that fsync every accepted job.
func contenders() []contender {
	postgres, redis := []string{"postgres", "initdb"}, []string{"redis-server"}
	return []contender{
		{name: "floor", durable: always, fsync: true, launch: launchFloor},
		{name: "ours", durable: always, fsync: true, usual: true, launch: launchOurs},
		{name: "asynq", settings: "AOF always", durable: always, fsync: true, needs: redis,
			launch: launchAsynq(redisAlways, asynqUsual)},
		{name: "asynq, tuned", settings: "AOF always; check interval 5 ms, 8 worker processes", workers: 8,
			durable: always, fsync: true, needs: redis, launch: launchAsynq(redisAlways, asynqTuned)},
		{name: "river", durable: always, fsync: true, usual: true, needs: postgres,
			launch: launchRiver("on", riverUsual)},
		{name: "river, tuned", settings: "fetch cooldown 2 ms, poll 20 ms, 2000 slots, 64 connections", durable: always,
			fsync: true, needs: postgres, launch: launchRiver("on", riverTuned)},

		{name: "floor", settings: "sync every 2 min", durable: flushed, launch: launchFloor},
		{name: "ours", settings: "AO_NATS_SYNC=2m", durable: flushed, launch: launchOurs},
		{name: "asynq", durable: "memory, a snapshot after 1 to 60 min", usual: true, needs: redis,
			launch: launchAsynq(redisUsual, asynqUsual)},
		{name: "asynq, tuned", settings: "AOF everysec; check interval 5 ms, 8 worker processes", workers: 8,
			durable: "fsync every second", needs: redis, launch: launchAsynq(redisEverysec, asynqTuned)},
		{name: "river, tuned",
			settings: "synchronous_commit=off; fetch cooldown 2 ms, poll 20 ms, 2000 slots, 64 connections",
			durable:  "fsync within 0.6 s", needs: postgres, launch: launchRiver("off", riverTuned)},
	}
}

// selectContenders returns the requested systems whose servers are installed, and logs the others.
func (b *bench) selectContenders(names []string) (all []contender, err error) {
	missing := map[string]bool{}
	known := map[string]bool{}
	for _, c := range contenders() {
		wanted := len(names) == 0
		for _, n := range names {
			if strings.HasPrefix(c.name, n) {
				wanted, known[n] = true, true
			}
		}
		if !wanted {
			continue
		}
		if err := missingProgram(c.needs); err != nil {
			if !missing[err.Error()] {
				fmt.Fprintf(b.out, "SKIPPED: %s: %v\n\n", strings.Split(c.name, ",")[0], err)
			}
			missing[err.Error()] = true
			continue
		}
		all = append(all, c)
	}
	for _, n := range names {
		if !known[n] {
			return nil, fmt.Errorf("-systems: there is no %q; there are floor, ours, asynq, river", n)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("nothing is left to measure")
	}
	return all, nil
}

// missingProgram returns an error for a program that is not installed.
func missingProgram(programs []string) error {
	for _, name := range programs {
		if _, err := findProgram(name); err != nil {
			return err
		}
	}
	return nil
}

// sync returns the plan's AO_NATS_SYNC.
func (p plan) sync() string {
	if p.fsync {
		return "always"
	}
	return "2m"
}
