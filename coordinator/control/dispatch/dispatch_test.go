package dispatch_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ao/coordinator/control/dispatch"
	"ao/coordinator/coordinatortest"
	"ao/coordinator/projection/state"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// "No online runner matches for RUN_NO_MATCH_TIMEOUT in a row": while nobody checked, no time counts.
func TestPauseDoesNotExpireRuns(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{NoMatch: time.Minute})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	id := coordinatortest.Submit(t, c, `{"agent_name":"a","additional_demands":{"hostname":"elsewhere"}}`, "").RunID
	natstest.Until(t, "it is seen to wait", func() bool { return c.Dispatch.Paused(id, time.Hour) })
	var first time.Time
	natstest.Until(t, "the next scan and one more", func() bool {
		last := c.Dispatch.Swept()
		if first.IsZero() && time.Since(last) < time.Minute {
			first = last
		}
		return !first.IsZero() && last.After(first)
	})
	if c.History.Ended(id) {
		t.Error("it was expired")
	}
}

// A lookup of waiting runs may be old when a run's turn comes: one that has been claimed since is not queued again.
func TestClaimedRunIsNotQueuedAgain(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	both := coordinatortest.Runner("one", coordinatortest.Echo("a"), coordinatortest.Echo("b"))
	coordinatortest.Register(t, c, both)
	id := coordinatortest.Submit(t, c, `{"agent_name":"a"}`, "").RunID
	before := coordinatortest.Active(t, c, id, "is queued", coordinatortest.IsQueued)
	coordinatortest.Finish(t, c, coordinatortest.Claim(t, c, id, both))
	if err := c.Deregister(t.Context(), runnerapi.Deregistration{RunnerID: both.ID(), Instance: "one"}); err != nil {
		t.Fatal(err)
	}
	coordinatortest.Register(t, c, coordinatortest.Runner("two", coordinatortest.Echo("a")))
	c.Dispatch.Queue(t.Context(), []state.Active{before})
	records, err := c.Bus.Records(t.Context(), subject.QueuedOf(subject.Partition(before.Spec.SessionID), id), 0, 10)
	if err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// A run may wait in another queue than its own: it was in its own before, and is not queued there again. However often
// a runner registers, the dispatcher tries to move the run less and less often, down to once in 10 s.
func TestMovingARunBacksOff(t *testing.T) {
	var w dispatch.Wait
	now, seconds := time.Unix(0, 0), []int(nil)
	for ms := 0; ms < 60_000; ms += 100 { // a runner comes ten times a second
		if w.Move(now.Add(time.Duration(ms) * time.Millisecond)) {
			seconds = append(seconds, ms/1000)
		}
	}
	if want := []int{0, 1, 3, 7, 15, 25, 35, 45, 55}; !slices.Equal(seconds, want) {
		t.Errorf("it was looked at after %v s, want %v", seconds, want)
	}
}

// unwritable refuses every batch, as a NATS does that does not write, and counts them.
type unwritable struct {
	records
	batches int
}

type records interface {
	Queued(part, queue string, s run.Spec, attempt int, returnable bool) (bus.Entry, error)
	Append(ctx context.Context, e bus.Entry) error
	Passed(ctx context.Context, subj string) (passed, unreadable bool, err error)
	FailDamaged(ctx context.Context, a state.Active, evidence string) error
	Affects(seq uint64) bool
	EndWaiting(ctx context.Context, a state.Active, status run.Status, f *fault.Fault) error
}

func (u *unwritable) AppendBatch(context.Context, ...bus.Entry) (uint64, error) {
	u.batches++
	return 0, fault.New(fault.Unavailable, "", "NATS does not write")
}

// TestNoRunOvertakesOneThatWasNotQueued: behind a batch that NATS did not write no later one is sent.
func TestNoRunOvertakesOneThatWasNotQueued(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	r := coordinatortest.Runner("one", coordinatortest.Echo("a"))
	coordinatortest.Register(t, c, r)
	id := coordinatortest.Submit(t, c, `{"agent_name":"a","additional_demands":{"hostname":"elsewhere"}}`, "").RunID
	waits := coordinatortest.Active(t, c, id, "waits", func(state.Active) bool { return true })
	due := slices.Repeat([]state.Active{waits}, 600)
	alone := &dispatch.Controller{
		History: c.Dispatch.History,
		Fleet:   everywhere{c.Dispatch.Fleet},
		NoMatch: time.Minute,
		Log:     natstest.Log(t),
	}
	u := &unwritable{records: c.Dispatch.Records}
	alone.Records = u
	alone.Queue(t.Context(), due)
	if u.batches != 1 {
		t.Errorf("%d batches were sent, want 1: the others come after it", u.batches)
	}
}

// everywhere is a registry in which some runner takes any run.
type everywhere struct{ dispatch.Fleet }

func (everywhere) QueueMatches(string, runnerapi.RoutingKey) bool { return true }

func (everywhere) Matches(runnerapi.RoutingKey) bool { return true }

func (everywhere) Ensure(_ context.Context, queue string, _ runnerapi.RoutingKey, _ string, _ bool) (string, error) {
	return queue, nil
}

// late is a registry whose runner comes after the scan of what waits.
type late struct{ everywhere }

func (late) QueueMatches(string, runnerapi.RoutingKey) bool { return false }

// endings counts the runs that are ended.
type endings struct {
	unwritable
	runs atomic.Int32
}

func (e *endings) EndWaiting(context.Context, state.Active, run.Status, *fault.Fault) error {
	e.runs.Add(1)
	return nil
}

// TestRunnerThatRegistersAfterTheLookup: a run that waited for too long is not failed for want of a runner.
func TestRunnerThatRegistersAfterTheLookup(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	coordinatortest.Register(t, c, coordinatortest.Runner("one", coordinatortest.Echo("a")))
	id := coordinatortest.Submit(t, c, `{"agent_name":"a","additional_demands":{"hostname":"elsewhere"}}`, "").RunID
	coordinatortest.Active(t, c, id, "waits", func(state.Active) bool { return true })
	ends := &endings{unwritable: unwritable{records: c.Dispatch.Records}}
	alone := &dispatch.Controller{History: c.Dispatch.History, Fleet: late{everywhere{c.Dispatch.Fleet}},
		NoMatch: time.Second, Records: ends, Log: natstest.Log(t)}
	for range 2 { // the first scan starts to wait
		if err := alone.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		alone.Paused(id, 2*time.Second)
	}
	if n := ends.runs.Load(); n != 0 {
		t.Errorf("%d runs were ended", n)
	}
}

// taken is a history in which a run's queued record is there already, and what is done about it.
type taken struct {
	endings
	passed, damaged bool
	failed          []string
}

func (*taken) Append(context.Context, bus.Entry) error              { return bus.ErrTaken }
func (r *taken) Passed(context.Context, string) (bool, bool, error) { return r.passed, false, nil }
func (r *taken) Affects(seq uint64) bool                            { return r.damaged && seq == 1 }
func (r *taken) FailDamaged(_ context.Context, a state.Active, _ string) error {
	r.failed = append(r.failed, a.Spec.ID)
	return nil
}

// TestAQueuedRecordThatDoesNotCount: it cannot be written again, and the projection is past it. Its run fails, also if
// it was accepted again after the damage. One that the projection has not reached may be another coordinator's.
func TestAQueuedRecordThatDoesNotCount(t *testing.T) {
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	coordinatortest.Register(t, c, coordinatortest.Runner("one", coordinatortest.Echo("a")))
	const elsewhere = `{"agent_name":"a","additional_demands":{"hostname":"elsewhere"}}`
	coordinatortest.Submit(t, c, elsewhere, "") // of before the damage
	id := coordinatortest.Submit(t, c, elsewhere, "").RunID
	waits := coordinatortest.Active(t, c, id, "waits", func(state.Active) bool { return true })
	for _, tt := range []struct{ passed, damaged, fails bool }{
		{true, true, true}, {false, true, false}, {true, false, false},
	} {
		r := &taken{endings: endings{unwritable: unwritable{records: c.Dispatch.Records}},
			passed: tt.passed, damaged: tt.damaged}
		alone := &dispatch.Controller{History: c.Dispatch.History, Fleet: everywhere{c.Dispatch.Fleet},
			NoMatch: time.Minute, Records: r, Log: natstest.Log(t)}
		alone.Queue(t.Context(), []state.Active{waits})
		if got := len(r.failed) == 1; got != tt.fails {
			t.Errorf("%+v: failed %v", tt, r.failed)
		}
	}
}
