package parts

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/coordinator/control/retention"
	"ao/coordinator/runs"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// talker is a runner of autonomous agents, and c gets one of these.
func talker(t testing.TB, c *Coordinator) runnerapi.Runner {
	t.Helper()
	if _, err := c.Agents.CreateAgent(t.Context(), []byte(`{"name":"talker"}`)); err != nil {
		t.Fatal(err)
	}
	r := runner("one")
	r.ExecutorType, r.ExecutorProfile = run.Autonomous, "talk"
	register(t, c, r)
	return r
}

// A deletion that came while something ran is not honoured; it must not block the next one.
func TestASessionCanBeDeletedAfterAFailedDeletion(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	r := talker(t, c)
	first := submit(t, c, `{"agent_name":"talker","prompt":"hi"}`, "")
	a := claim(t, c, first.RunID, r)
	put(t, c.bus, subject.Deleted(subject.Partition(first.SessionID), first.SessionID),
		run.Deleted{V: run.Version, At: time.Now()})
	finish(t, c, a)
	if err := c.DeleteSession(t.Context(), first.SessionID); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if _, err := c.History.Session(t.Context(), first.SessionID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the session is there: %v", err)
	}
}

// A turn that was accepted at the moment of a deletion ends, and what it left can be deleted as well.
func TestTurnAfterADeletionCanBeDeleted(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	r := talker(t, c)
	first := submit(t, c, `{"agent_name":"talker","prompt":"hi"}`, "")
	a := claim(t, c, first.RunID, r)
	finish(t, c, a)
	if err := c.DeleteSession(t.Context(), first.SessionID); err != nil {
		t.Fatal(err)
	}
	late := *a.Spec
	late.ID, late.Type = run.NewID(), run.Resume
	late.Input = &run.Input{Parameters: []byte(`{"prompt":"more"}`), Blueprint: []byte(`{"name":"talker"}`)}
	put(t, c.bus, subject.Accepted(subject.Partition(late.SessionID), late.SessionID, late.ID),
		run.Accepted{V: run.Version, Spec: late})
	natstest.Until(t, "the late turn ends", func() bool { return c.History.Ended(late.ID) })
	if err := c.DeleteSession(t.Context(), first.SessionID); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if _, err := c.History.Session(t.Context(), first.SessionID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the session is there: %v", err)
	}
}

// payloads are what is stored, by the run.
func payloads(t testing.TB, b *bus.Bus) map[string]int {
	t.Helper()
	byRun := map[string]int{}
	for name, p := range natstest.Payloads(t, b) {
		byRun[runnerapi.RunOfPayload(name)] = p
	}
	return byRun
}

func big() string {
	return fmt.Sprintf(`{"agent_name":"talker","prompt":%q}`, strings.Repeat("x", run.MaxInline+1))
}

func TestADeletedSessionLeavesNoPayloads(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{})
	r := talker(t, c)
	kept := submit(t, c, big(), "")
	first := submit(t, c, big(), "")
	a := claim(t, c, first.RunID, r)
	if err := c.bus.PutPart(t.Context(), first.RunID+".1.out", 0, []byte("result")); err != nil {
		t.Fatal(err)
	}
	finish(t, c, a)
	if err := c.DeleteSession(t.Context(), first.SessionID); err != nil {
		t.Fatal(err)
	}
	if all := payloads(t, c.bus); len(all) != 1 || all[kept.RunID] == 0 {
		t.Errorf("left are %v", all)
	}
}

// Payloads that no run names any more are deleted: of truncated history, of a creation that failed half-way, of an
// abandoned attempt.
func TestUnreferencedPayloadsAreDeleted(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{Keep: 1})
	r := talker(t, c)
	old, newer := submit(t, c, big(), ""), submit(t, c, big(), "")
	finish(t, c, claim(t, c, old.RunID, r))
	finish(t, c, claim(t, c, newer.RunID, r))
	open := submit(t, c, big(), "")
	for _, name := range []string{run.NewID() + ".in", open.RunID + ".other.in"} {
		if err := c.bus.PutPart(t.Context(), name, 0, []byte("never stored")); err != nil {
			t.Fatal(err)
		}
	}
	c.retained.Truncate(t.Context(), retention.Step)
	c.retained.Payloads.Sweep(t.Context(), time.Now().Add(-time.Hour))
	if all := natstest.Payloads(t, c.bus); len(all) != 5 {
		t.Errorf("what is young may be about to be named; left are %v", all)
	}
	c.retained.Payloads.Sweep(t.Context(), time.Now().Add(time.Second))
	all := payloads(t, c.bus) // a waiting run may be taken with any of its inputs
	if len(natstest.Payloads(t, c.bus)) != 3 || all[newer.RunID] == 0 || all[open.RunID] == 0 {
		t.Errorf("left are %v", all)
	}
}

// The end record names the run's last event also where a coordinator writes it, so that readers get all events first.
func TestALostRunsEndRecordNamesItsLastEvent(t *testing.T) {
	c := start(t, natstest.Bus(t), Config{Lease: 500 * time.Millisecond})
	r := talker(t, c)
	first := submit(t, c, `{"agent_name":"talker","prompt":"hi"}`, "")
	other := submit(t, c, `{"agent_name":"talker","prompt":"hi"}`, "")
	var want uint64
	emit := func(a runs.Accepted) {
		e := c.bus.Emitter(context.Background(), nil)
		if err := e.Emit(t.Context(), subject.Event(subject.Partition(a.SessionID), a.SessionID, a.RunID,
			run.EventMessage), []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		seq, err := e.Flush(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a == first {
			want = seq
		}
	}
	emit(first)
	emit(first)
	emit(other)
	claim(t, c, first.RunID, r) // afterwards: its lease is short
	natstest.Until(t, "the lease is over", func() bool { return c.History.Ended(first.RunID) })
	records, err := c.bus.Records(t.Context(), subject.Ended(subject.Partition(first.SessionID), first.RunID, "*"), 0,
		1)
	if err != nil || len(records) != 1 ||
		!strings.Contains(string(records[0].Body), fmt.Sprintf(`"events":%d,`, want)) {
		t.Errorf("want event %d named: %s %v", want, records[0].Body, err)
	}
}

// A runner that cannot be reached does not keep a run from being stopped: its lease ends it.
func TestStopOfARunWithoutItsRunner(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{Lease: 5 * time.Second})
	r := runner("one", echo("a"))
	register(t, c, r)
	id := submit(t, c, `{"agent_name":"a"}`, "").RunID
	claim(t, c, id, r)
	for range 2 { // once more changes nothing
		if got, err := c.Stop(t.Context(), id); err != nil || got.Status != run.Stopping {
			t.Fatalf("%+v %v", got, err)
		}
	}
	natstest.Until(t, "it has ended", func() bool { return c.History.Ended(id) })
	got, err := c.Stop(t.Context(), id)
	if err != nil || got.Status != run.Stopped || got.Error == nil || got.Error.Code != "stopped" {
		t.Errorf("%+v %v", got, err)
	}
}
