package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ao/nats/natstest"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/worker/process"
	"ao/worker/profile"
)

func TestInabilities(t *testing.T) {
	start := func(err error, reason string) *fault.Fault {
		return fault.Wrap(fault.Internal, "x", "x", &process.StartError{Command: "x", Reason: reason, Err: err})
	}
	code := func(code string) *fault.Fault { return fault.New(fault.Internal, code, "x") }
	for _, tt := range []struct {
		name, executor string
		f              *fault.Fault
		ofAgent, ok    bool
	}{
		{"no program", "any", start(os.ErrNotExist, "gone"), true, true},
		{"no permission", "any", start(os.ErrPermission, "not executable"), true, true},
		{"no interpreter", "any", start(syscall.ENOENT, "its interpreter x does not exist"), true, true},
		{"no memory", "any", start(syscall.ENOMEM, "no memory"), false, true},
		{"no process", "any", start(syscall.EAGAIN, "too many"), false, true},
		{"no file", "any", start(syscall.EMFILE, "cannot create a pipe for it"), false, true},
		{"no space", "any", fault.Wrap(fault.Internal, "x", "x", &os.PathError{Err: syscall.ENOSPC}), false, true},
		{"the run's folder", "any", start(os.ErrNotExist, "the working directory /x does not exist"), false, false},
		{"the run's arguments", "any", start(syscall.E2BIG, "too long"), false, false},
		{"logged out", profile.ClaudeCodeExec, code("claude_not_logged_in"), false, true},
		{"no credit", profile.ClaudeCodeExec, code("claude_no_credit"), false, true},
		{"what another executor writes", "any", code("claude_not_logged_in"), false, false},
		{"what a program calls not found", "any", code("executor_not_found"), false, false},
		{"no key", profile.LLMExec, code("llm_unauthorized"), false, true},
		{"a model that is forbidden", profile.LLMExec, code("llm_forbidden"), false, false},
		{"no money", profile.LLMExec, code("llm_no_credit"), false, true},
		{"a failure", profile.LLMExec, code("llm_bad_request"), false, false},
		{"none", "any", nil, false, false},
	} {
		if ofAgent, ok := inability(tt.executor, tt.f); ofAgent != tt.ofAgent || ok != tt.ok {
			t.Errorf("%s: got %v %v, want %v %v", tt.name, ofAgent, ok, tt.ofAgent, tt.ok)
		}
	}
}

// checkStub is a checker whose answers the test decides.
type checkStub struct {
	mu  sync.Mutex
	bad map[string]*fault.Fault // by agent
}

func (c *checkStub) Check(agent, _ string) *fault.Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bad[agent]
}

func (c *checkStub) set(agent string, f *fault.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bad[agent] = f
}

func (*checkStub) Files(string) []string { return nil }

var errGone = fault.New(fault.Internal, "executor_not_found", "it is gone")

func newRests(t testing.TB, c checker, agents ...string) *rests {
	hashes := map[string]string{}
	for _, name := range agents {
		hashes[name] = "hash"
	}
	return &rests{checker: c, agents: func() map[string]string { return hashes }, changed: func(bool) {},
		log: natstest.Log(t), own: map[string]*rest{}}
}

// runningRests returns rests that are looked at until end is called.
func runningRests(t *testing.T) (r *rests, end func()) {
	t.Helper()
	r = newRests(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go r.run(ctx)
	return r, func() {
		cancel()
		synctest.Wait()
	}
}

// A run that says nothing for a minute does not keep the others waiting until it ends.
func TestATrialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, end := runningRests(t)
		defer end()
		r.fail("a", false, fault.New(fault.Internal, "claude_not_logged_in", "log in"))
		time.Sleep(firstRest + time.Second)
		if ok, trial := r.admit("a", ""); !ok || !trial {
			t.Fatal("no run tries it")
		}
		time.Sleep(trialTimeout - time.Second)
		if r.limit(8) != 0 {
			t.Error("others are taken before it has shown anything")
		}
		time.Sleep(2 * time.Second)
		if r.limit(8) != 8 {
			t.Error("others still wait")
		}
	})
}

// What only a run can tell is tried after 10 s, then 20 s, at most 5 minutes, by one run at a time. A run that works
// ends it.
func TestPausesOfARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, end := runningRests(t)
		defer end()
		out := fault.New(fault.Internal, "claude_not_logged_in", "log in")
		admitted := func() (ok bool) {
			ok, trial := r.admit("a", "")
			if ok && !trial {
				t.Error("a run is admitted beside the one that tries")
			}
			return ok
		}
		r.fail("a", false, out)
		r.fail("a", false, out) // the other runs of that time count as the same
		for _, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
			since := time.Now()
			if r.limit(8) != 0 || r.unable() == nil || admitted() {
				t.Fatal("it does not rest")
			}
			for r.unable() != nil {
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(since); took < want*time.Second || took > want*time.Second+time.Second {
				t.Errorf("tried after %v, want %d s", took, want)
			}
			if r.limit(8) != 1 || !admitted() || r.limit(8) != 0 || admitted() {
				t.Error("it is not tried by one run")
			}
			r.fail("a", false, out)
			r.done()
		}
		for r.unable() != nil {
			time.Sleep(time.Second)
		}
		started := time.Now()
		admitted()
		r.works("a", started.Add(-time.Hour)) // a run of before shows nothing
		if r.limit(8) != 0 {
			t.Error("a run of before ended it")
		}
		r.works("a", started)
		if r.limit(8) != 8 {
			t.Error("a run that works does not end it")
		}
	})
}

// A program that is gone is seen without a run, and so is its return.
func TestAProgramThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &checkStub{bad: map[string]*fault.Fault{}}
		r := newRests(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		go r.run(ctx)
		defer synctest.Wait()
		defer cancel()
		for range 3 {
			c.set("", errGone)
			time.Sleep(9 * lookEvery)
			if u := r.unable(); u == nil || u.Code != errGone.Code || !u.NextLook.IsZero() {
				t.Errorf("got %+v, want %s", u, errGone.Code)
			}
			time.Sleep(time.Hour)
			c.set("", nil)
			time.Sleep(2 * lookEvery)
			if u := r.unable(); u != nil || r.limit(8) != 8 {
				t.Errorf("it is back, and the runner is unable: %+v", u)
			}
		}
	})
}

// One of a runner's own agents rests alone: its runs are put back, and after the pause one is let through. The runner
// is unable when all of them rest.
func TestOneAgentRestsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &checkStub{bad: map[string]*fault.Fault{"a": errGone}}
		r := newRests(t, c, "a", "b")
		admitted := func(agent string) bool { ok, _ := r.admit(agent, "hash"); return ok }
		if admitted("a") || !admitted("b") || r.unable() != nil || len(r.broken()) != 1 {
			t.Errorf("unable %+v, broken %v", r.unable(), r.broken())
		}
		time.Sleep(11 * time.Second)
		if !admitted("a") || admitted("a") {
			t.Error("not one run of it is let through after the pause")
		}
		c.set("b", errGone)
		r.look(true)
		if r.unable() == nil {
			t.Error("all agents rest, and the runner is able")
		}
		c.set("a", nil)
		r.look(false)
		if r.unable() != nil || !admitted("a") || admitted("b") {
			t.Error("the agent that is back does not work")
		}
	})
}

// A runner whose program goes away takes no run, says so, and continues when the program is back.
func TestAWorkerRestsWhileItsProgramIsGone(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	dir := t.TempDir()
	file := filepath.Join(dir, "do")
	install := func() {
		if err := os.WriteFile(file, []byte("#!/bin/sh\ncat >/dev/null; echo done\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	install()
	start(t, b, nil, func(c *Config) {
		c.Executor = nil
		c.Profile = profile.Profile{Name: "p", Path: filepath.Join(dir, "p.json"), Type: run.Autonomous,
			Command: file, MaxConcurrentRuns: 4}
	})
	last := func() (u *runnerapi.Unable) {
		s.with(func() {
			if n := len(s.heartbeats); n > 0 {
				u = s.heartbeats[n-1].Unable
			}
		})
		return u
	}
	autonomous := func(q *run.Queued) { q.AgentType, q.Returnable = run.Autonomous, true }
	if e := s.waitEnded(s.enqueue(autonomous)); e.Status != run.Completed {
		t.Fatalf("got %+v", e)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	var all []run.Queued
	for range 8 {
		all = append(all, s.enqueue(autonomous))
	}
	natstest.Until(t, "it says that it is unable", func() bool {
		u := last()
		return u != nil && u.Code == "executor_not_found"
	})
	for _, q := range all {
		if _, ok := s.claim(q); ok {
			t.Error("it claimed a run that it cannot do")
		}
	}
	install()
	for _, q := range all {
		if e := s.waitEnded(q); e.Status != run.Completed || e.Returned {
			t.Errorf("got %+v", e)
		}
	}
	natstest.Until(t, "it says that it is able", func() bool { return last() == nil })
}

// What only a run can tell gives that run back, if nothing of it was done and the run may be given back.
func TestGivenBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		may, works, want bool
	}{
		{"given back", true, false, true},
		{"not returnable", false, false, false},
		{"it has worked", true, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := natstest.Bus(t)
			s := newFakeCoordinator(t, b)
			var runs atomic.Int32
			w := start(t, b, func(_ context.Context, _ executor.Invocation, host executor.Host) run.Outcome {
				runs.Add(1)
				host.Emit(run.EventMessage, run.TextMessage("system", "it begins"))
				if tt.works {
					host.Emit(run.EventPreTool, json.RawMessage(`{"tool_name":"rm","tool_input":{}}`))
				}
				return run.Outcome{Status: run.Failed,
					Error: fault.New(fault.Internal, "claude_not_logged_in", "log in")}
			}, func(c *Config) { c.Profile.Command, c.Profile.Type = profile.ClaudeCodeExec, run.Autonomous })
			q := s.enqueue(func(q *run.Queued) { q.Returnable = tt.may })
			e := s.waitEnded(q)
			if e.Returned != tt.want || e.Status != run.Failed || code(e) != "claude_not_logged_in" {
				t.Errorf("got %+v", e)
			}
			natstest.Until(t, "it is unable", func() bool { return w.rests.unable() != nil })
			for range 4 {
				s.enqueue()
			}
			natstest.Until(t, "heartbeats say so", func() (said bool) {
				s.with(func() {
					for _, h := range s.heartbeats {
						said = h.Unable != nil && h.Unable.Code == "claude_not_logged_in" && !h.Unable.NextLook.IsZero()
					}
				})
				return said
			})
			if n := runs.Load(); n != 1 {
				t.Error(fmt.Sprint(n, " runs were started, want 1"))
			}
		})
	}
}
