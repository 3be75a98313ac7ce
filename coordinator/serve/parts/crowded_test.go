package parts

import (
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/nats/bus"
	"ao/nats/embed"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"

	"github.com/nats-io/nats.go"
)

// occupyBatches takes all places that NATS has for batches, and keeps them, until the test ends: as a worker may, and
// commits none.
func occupyBatches(t *testing.T, s *embed.Server) {
	t.Helper()
	others := natstest.Conn(t, s)
	openBatches := func() error {
		for n := range 60 {
			m := nats.NewMsg(subject.Ended("1", "run_"+strconv.Itoa(n), rand.Text()))
			m.Header = nats.Header{"Nats-Batch-Id": {rand.Text()}, "Nats-Batch-Sequence": {"1"}}
			if err := others.PublishMsg(m); err != nil {
				return err
			}
		}
		return nil
	}
	taken := func() { // what was sent before, and what is refused of it is
		m := nats.NewMsg(subject.Ended("1", "run_x", "key"))
		m.Header = nats.Header{"Nats-Expected-Last-Sequence": {"1000000"}}
		if _, err := others.RequestMsg(m, 30*time.Second); err != nil {
			t.Error(err)
		}
	}
	if err := openBatches(); err != nil {
		t.Fatal(err)
	}
	taken()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if err := openBatches(); err != nil {
					return
				}
			}
		}
	})
	t.Cleanup(func() { close(stop); wg.Wait(); taken() })
}

// A client takes all places that NATS has for batches, and keeps them. What is otherwise written as a batch is still
// done within seconds, each thing once, by two coordinators. The limit is for slow machines.
func TestExhaustedBatchesDelayNobody(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	c := start(t, natstest.Open(t, s), Config{})
	f := newFixture(t, c)
	start(t, natstest.Open(t, s), Config{})
	parent := f.start("")
	f.ends(parent.RunID, results("ok"))
	child, lost := f.claim(f.child(parent.SessionID).RunID), f.claim(f.start(mustBe).RunID)
	waits := f.start(`,"additional_demands":{"hostname":"nowhere"}`)
	var late []runs.Accepted
	for range 3 {
		late = append(late, f.start(`,"additional_demands":{"tags":["late"]}`))
	}
	occupyBatches(t, s)
	within := func(what string, do func()) {
		t.Helper()
		began := time.Now()
		if do(); time.Since(began) > 15*time.Second {
			t.Errorf("%s took %v", what, time.Since(began))
		}
	}
	// as callers do, it is asked again where NATS is slow; but nobody is to wait for a place
	done := func(do func() error) {
		t.Helper()
		natstest.Until(t, "it is done", func() bool {
			err := do()
			if errors.Is(err, bus.ErrTooManyBatches) || err != nil && fault.KindOf(err) != fault.Unavailable {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	within("the stop of a waiting run", func() {
		done(func() error { _, err := c.Stop(t.Context(), waits.RunID); return err })
		if o := ended(t, c, waits.RunID); o.Status != run.Stopped {
			t.Errorf("%+v", o)
		}
	})
	within("a session with an id of its caller's", func() {
		var a runs.Accepted
		done(func() (err error) {
			a, err = c.Submit(t.Context(),
				[]byte(`{"agent_name":"thinker","prompt":"think","session_id":"ses_my-own"}`), "test", "key")
			return err
		})
		f.ends(a.RunID, results("ok"))
	})
	within("a callback", func() {
		f.end(child, results("from below"))
		turn, prompt := f.turn(parent.SessionID)
		if !strings.Contains(prompt, "from below") {
			t.Errorf("the turn says %s", prompt)
		}
		f.ends(turn.Spec.ID, results("noted"))
	})
	within("the end of a lost run with an output schema", func() {
		done(func() error { return c.ends.FailLost(t.Context(), lost, "test") })
		if o := ended(t, c, lost.Spec.ID); o.Status != run.Failed || o.Error.Code != run.CodeDisconnected {
			t.Errorf("%+v", o)
		}
	})
	within("runs that waited for a runner", func() {
		r := f.r
		r.Hostname, r.Instance, r.Tags = "there", "late", []string{"late"}
		register(t, c, r)
		for _, a := range late {
			active(t, c, a.RunID, "is queued", func(a state.Active) bool { return a.QueuedSeq != 0 })
			f.ends(a.RunID, results("ok"))
		}
	})
	part := subject.Partition(parent.SessionID)
	turns, err := c.bus.Records(t.Context(), subject.Accepted(part, parent.SessionID, "*"), 0, 10)
	if err != nil || len(turns) != 1 {
		t.Errorf("%d turns %v", len(turns), err)
	}
	sound(t, c, 7, 1, 1)
}
