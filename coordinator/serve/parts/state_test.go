package parts

import (
	"context"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// part asks for a part of a payload, or brings one, as the worker of an attempt does.
func part(a state.Active, name string, body string) runnerapi.PartRequest {
	return runnerapi.PartRequest{RunID: a.Spec.ID, SessionID: a.Spec.SessionID, Attempt: a.Attempt, Key: a.Key,
		Name: name, Body: []byte(body)}
}

// keeps has an attempt keep a state, as a worker does.
func (f fixture) keeps(a state.Active, state string) (name string) {
	f.Helper()
	pointer := runnerapi.StatePointer(a.Spec.ID, a.Attempt)
	name, _ = runnerapi.StateName(pointer)
	for _, p := range []runnerapi.PartRequest{part(a, runnerapi.StateBody(name, 0), state), part(a, name, "{}")} {
		if _, err := f.c.WorkerAPI.Payloads.Put(f.Context(), p); err != nil {
			f.Fatal(err)
		}
	}
	put(f.T, f.c.bus, subject.Bound(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key),
		run.Bound{V: run.Version, SessionID: a.Spec.SessionID, RunnerID: f.r.ID(), Attempt: a.Attempt,
			ExecutorSessionID: pointer,
			At:                time.Now()})
	natstest.Until(f.T, "the session is bound",
		func() bool { return f.c.History.ExecutorSessionID(a.Spec.SessionID) == pointer })
	return name
}

func (f fixture) resume(session string) state.Active {
	f.Helper()
	return f.claim(submit(f.T, f.c, `{"session_id":"`+session+`","prompt":"go on"}`, "").RunID)
}

// A worker writes the result of the attempt that it holds, and nothing more: not under other names, nor once the
// attempt is over.
func TestAnAttemptWritesItsOwnResult(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	a := f.claim(f.start("").RunID)
	write := func(name string) error {
		_, err := f.c.WorkerAPI.Payloads.Put(t.Context(), part(a, name, "x"))
		return err
	}
	own := a.Spec.ID + ".1.out"
	if err := write(own); err != nil {
		t.Error(err)
	}
	for _, name := range []string{a.Spec.ID + ".junk", a.Spec.ID + ".2.out", a.Spec.ID + ".ab.in", a.Spec.ID,
		own + "x"} {
		if err := write(name); fault.KindOf(err) != fault.Forbidden {
			t.Errorf("%s is written: %v", name, err)
		}
	}
	finish(t, f.c, a)
	if err := write(own); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("after the end: %v", err)
	}
}

// TestStates: only a run itself writes its state, while it is active. Active runs of its session read it. The state is
// removed when the session continues from a newer one, or is deleted.
func TestStates(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	first := f.claim(f.start("").RunID)
	name := f.keeps(first, "one")
	finish(t, f.c, first)
	other := f.claim(f.start("").RunID)
	next := f.resume(first.Spec.SessionID)

	get := func(p runnerapi.PartRequest) (string, error) {
		body, err := f.c.WorkerAPI.Payloads.Get(t.Context(), p)
		return string(body), err
	}
	if body, err := get(part(next, runnerapi.StateBody(name, 0), "")); body != "one" || err != nil {
		t.Errorf("the session's next run gets %q, %v", body, err)
	}
	stolen := part(other, name, "")
	stolen.SessionID = first.Spec.SessionID
	forged := part(next, name, "")
	forged.Key = other.Key
	for what, p := range map[string]runnerapi.PartRequest{
		"another session's run": part(other, name, ""), "one that says it is of the session": stolen,
		"a wrong key":             forged,
		"an attempt that is over": part(first, name, ""), "an input of the session's": part(next, first.Spec.ID+".x.in",
			""),
	} {
		if body, err := get(p); fault.KindOf(err) != fault.Forbidden {
			t.Errorf("%s gets %q, %v", what, body, err)
		}
	}
	// Nor does who binds it get it: a worker writes that record as it likes.
	put(t, f.c.bus, subject.Bound(subject.Partition(other.Spec.SessionID), other.Spec.ID, other.Key),
		run.Bound{V: run.Version, SessionID: other.Spec.SessionID, RunnerID: f.r.ID(), Attempt: other.Attempt,
			ExecutorSessionID: runnerapi.StatePointer(first.Spec.ID, first.Attempt), At: time.Now()})
	if err := f.c.reads.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if body, err := get(part(other, name, "")); fault.KindOf(err) != fault.Forbidden {
		t.Errorf("a run that binds another session's state gets %q, %v", body, err)
	}
	own, _ := runnerapi.StateName(runnerapi.StatePointer(next.Spec.ID, next.Attempt))
	for what, p := range map[string]runnerapi.PartRequest{
		"the earlier run's": part(next, name, "x"), "by an attempt that is over": part(first, name, "x"),
		"another attempt's": part(next, strings.Replace(own, ".1.", ".2.", 1), "x"),
		"another session's": part(other, name, "x"),
	} {
		if _, err := f.c.WorkerAPI.Payloads.Put(t.Context(), p); fault.KindOf(err) != fault.Forbidden {
			t.Errorf("written: %s, %v", what, err)
		}
	}
	far := part(next, own, "x")
	far.Part = 1 << 60
	if _, err := f.c.WorkerAPI.Payloads.Put(t.Context(), far); fault.KindOf(err) != fault.TooLarge {
		t.Errorf("a part far behind: %v", err)
	}

	drop := func(p runnerapi.PartRequest) error { _, err := f.c.WorkerAPI.Payloads.Drop(t.Context(), p); return err }
	wantCode(t, drop(part(next, name, "")), "conflict") // it still goes on by it
	f.keeps(next, "two")
	wantCode(t, drop(part(other, name, "")), "forbidden")
	wantCode(t, drop(part(next, next.Spec.ID+".1.out", "")), "invalid_request")
	for range 2 {
		if err := drop(part(next, name, "")); err != nil {
			t.Error(err)
		}
	}
	finish(t, f.c, next)
	left := func() string {
		var names []string
		for n := range natstest.Payloads(t, f.c.bus) {
			names = append(names, n)
		}
		return strings.Join(names, " ")
	}
	if l := left(); strings.Contains(l, first.Spec.ID) || !strings.Contains(l, own) {
		t.Errorf("left %s", l)
	}
	if err := f.c.DeleteSession(context.WithoutCancel(t.Context()), first.Spec.SessionID); err != nil {
		t.Fatal(err)
	}
	if l := left(); l != "" {
		t.Errorf("left of a deleted session: %s", l)
	}
}

// TestASessionsStateIsNotSwept: a session goes on by a state whose run is no longer kept; that is no payload of
// nobody's.
func TestASessionsStateIsNotSwept(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	a := f.claim(f.start("").RunID)
	name := f.keeps(a, "one")
	finish(t, f.c, a)
	b := f.resume(a.Spec.SessionID)
	stray, _ := runnerapi.StateName(runnerapi.StatePointer("run_gone", 1))
	if err := f.c.bus.PutPart(t.Context(), stray, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	finish(t, f.c, b)
	seq := uint64(0)
	records, err := f.c.bus.Records(t.Context(), "ao.runs.>", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range records { // history up to the second run goes, as a truncation takes it
		if strings.Contains(m.Subject, ".queued.") && strings.Contains(m.Subject, b.Spec.ID) {
			seq = m.Seq
		}
	}
	f.c.History.Forget(seq)
	if f.c.History.Ended(a.Spec.ID) {
		t.Fatal("the first run is still known")
	}
	f.c.retained.Payloads.Sweep(t.Context(), time.Now().Add(time.Hour))
	if all := natstest.Payloads(t, f.c.bus); all[name] == 0 || len(all) != 2 {
		t.Errorf("left %v", all)
	}
}
