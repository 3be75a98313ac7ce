package parts

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"ao/coordinator/runs"
	"ao/coordinator/sessions"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// Some requests cannot be taken back, because their callers may have left. They do not wait for a NATS that went away
// after it had stored what they wrote. The answer says that the request may have been carried out, and repeating it is
// safe.
func TestNoRequestWaitsForEverForNATS(t *testing.T) {
	t.Parallel()
	for _, other := range []int{0, 1} { // the first two read on before they write: not where another writer has written
		t.Run([]string{"deletion", "stop of a session"}[other], func(t *testing.T) { noRequestWaits(t, other) })
	}
}

func noRequestWaits(t *testing.T, other int) {
	t.Parallel()
	p := natstest.Proc(t)
	c, end := ending(t, p.Bus(t))
	r := talker(t, c)
	start := func() runs.Accepted { return submit(t, c, `{"agent_name":"talker","prompt":"hi"}`, "") }
	waits, cancelled, deleted, claimed := start(), start(), start(), start()
	finish(t, c, claim(t, c, deleted.RunID, r))
	claim(t, c, claimed.RunID, r)
	end() // its projection stands still, as if NATS were away between the write and what follows from it

	part := subject.Partition
	writers := []struct {
		name   string
		record string
		do     func(*Coordinator) error
		again  fault.Kind // of the answer when it is asked again
	}{
		{"stop of a session", subject.Ended(part(cancelled.SessionID), cancelled.RunID, "*"),
			func(c *Coordinator) error {
				_, err := c.StopSession(t.Context(), cancelled.SessionID, sessions.Stop{})
				return err
			}, 0},
		{"deletion", subject.Deleted(part(deleted.SessionID), deleted.SessionID),
			func(c *Coordinator) error { return c.DeleteSession(t.Context(), deleted.SessionID) }, fault.NotFound},
		{"stop of a waiting run", subject.Ended(part(waits.SessionID), waits.RunID, "*"),
			func(c *Coordinator) error { _, err := c.Stop(t.Context(), waits.RunID); return err }, 0},
		{"stop of a begun run", subject.Stopping(part(claimed.SessionID), claimed.RunID),
			func(c *Coordinator) error { _, err := c.Stop(t.Context(), claimed.RunID); return err }, 0},
	}
	writers = slices.Delete(writers, other, other+1)
	elsewhere := p.Bus(t)
	answers := make(chan error, len(writers))
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	for _, d := range writers {
		wg.Go(func() {
			err := d.do(c)
			if f := fault.Of(err); err == nil || f.Kind != fault.Unavailable || f.RetryAfter == 0 ||
				f.Message != "NATS does not answer; the request may have been carried out, and repeating it is safe" {
				t.Errorf("%s: got %v", d.name, err)
			}
			answers <- err
		})
		natstest.Until(t, d.name+" is written", func() bool {
			m, err := elsewhere.Records(t.Context(), d.record, 0, 1)
			return err == nil && len(m) == 1
		})
	}
	p.Pause()
	natstest.Until(t, "all have their answer", func() bool { return len(answers) == len(writers) })
	p.Resume()

	c, end = ending(t, p.Bus(t))
	defer end()
	for _, d := range writers {
		if err := d.do(c); (err != nil || d.again != 0) && fault.KindOf(err) != d.again {
			t.Errorf("%s, again: got %v", d.name, err)
		}
	}
	if got, err := c.Show(t.Context(), waits.RunID); err != nil || got.Status != run.Stopped {
		t.Errorf("got %+v %v", got, err)
	}
}

// ending runs a coordinator until end is called.
func ending(t testing.TB, b *bus.Bus) (c *Coordinator, end func()) {
	t.Helper()
	c = New(Config{Bus: b, Log: natstest.Log(t), Lease: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Run(ctx)
	}()
	end = func() { cancel(); <-ended }
	t.Cleanup(end)
	natstest.Until(t, "the coordinator is ready", func() bool { return c.Ready() == nil })
	return c, end
}
