package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// logLines keeps the lines of a log.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *logLines) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

// line returns the first line with the text.
func (j *logLines) line(text string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for l := range strings.Lines(j.b.String()) {
		if strings.Contains(l, text) {
			return l
		}
	}
	return ""
}

// TestRefusedEndRecord: an attempt keeps its first end record. A later result is logged, cut to a limited size, and
// is not in the run.
func TestRefusedEndRecord(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	goOn := make(chan struct{})
	log := &logLines{}
	w := start(t, b, func(_ context.Context, v executor.Invocation, _ executor.Host) run.Outcome {
		<-goOn
		if v.AgentName == "large" {
			return completed(`"` + strings.Repeat("x", 1<<20) + `the end"`)
		}
		return completed(`"came too late"`)
	}, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(io.MultiWriter(log, t.Output()), nil))
	})
	small, large := s.enqueue(), s.enqueue(func(q *run.Queued) { q.Agent = "large" })
	for _, q := range []run.Queued{small, large} {
		natstest.Until(t, "claimed", func() bool { _, ok := s.claim(q); return ok })
		body, _ := json.Marshal(run.Ended{V: 1, Status: run.Failed, Nonce: "coordinator's"})
		if _, err := b.Append(t.Context(), bus.Entry{Subject: subject.Ended(subject.Partition(q.SessionID), q.ID,
			q.Key), Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	close(goOn)
	natstest.Until(t, "both are refused", func() bool { return w.counts.refused.Load() == 2 })
	for _, q := range []run.Queued{small, large} {
		if e := s.waitEnded(q); e.Nonce != "coordinator's" || e.Result != nil {
			t.Errorf("the end record changed: %+v", e)
		}
		var l string
		natstest.Until(t, "the log says so", func() bool { l = log.line("run.id=" + q.ID); return l != "" })
		if !strings.Contains(l, "level=WARN") || !strings.Contains(l, "end record refused") ||
			!strings.Contains(l, "status=completed") || len(l) > maxExcerpt+600 {
			t.Errorf("it logged %d bytes, %.300s", len(l), l)
		}
	}
	if l := log.line(small.ID); !strings.Contains(l, "came too late") {
		t.Errorf("no evidence in %s", l)
	}
	if l := log.line(large.ID); !strings.Contains(l, "bytes cut") || !strings.Contains(l, "the end") {
		t.Errorf("not cut visibly: %s", l)
	}
}

// TestAResultWithoutRoomEndsItsRun: its slot is free again, and the error says whose share is used up.
func TestAResultWithoutRoomEndsItsRun(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		return completed(`"` + strings.Repeat("x", 1<<20) + `"`)
	})
	w.payloads.noRoom = 2 * time.Second
	tries := 0
	s.with(func() {
		s.onPart = func(string) error {
			tries++
			return fault.New(fault.Busy, run.CodePayloadShare, "this caller has its share").After(time.Second)
		}
	})
	q := s.enqueue()
	e := s.waitEnded(q)
	if e.Status != run.Failed || code(e) != "result_not_stored" || e.Error.Message != "this caller has its share" ||
		e.Body != nil {
		t.Errorf("got %s %v, payload %v", e.Status, e.Error, e.Body)
	}
	s.with(func() {
		if tries < 2 {
			t.Errorf("tried %d times: room may come soon", tries)
		}
		s.onPart = nil
	})
	if e := s.waitEnded(s.enqueue()); e.Status != run.Completed {
		t.Errorf("the next run: %s %s", e.Status, code(e))
	}
}

// TestAbandonedReplyAfterEnd: a heartbeat may name an attempt that ends meanwhile. The reply says it is over, and the
// worker does not count it as abandoned.
func TestAbandonedReplyAfterEnd(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	began, goOn := make(chan struct{}, 1), make(chan struct{})
	w := start(t, b, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		began <- struct{}{}
		<-goOn
		return completed("1")
	})
	q := s.enqueue()
	<-began
	w.attempts.mu.Lock()
	a := w.attempts.all[q.Key]
	w.attempts.mu.Unlock()
	w.attempts.markFinished(a) // its end record is on the way
	w.abandon(q.Key)
	close(goOn)
	natstest.Until(t, "its end record exists", func() bool { return w.counts.ended.Load() == 1 })
	if c := &w.counts; c.abandoned.Load() != 0 || c.refused.Load() != 0 {
		t.Errorf("counted %+v", c)
	}
}

// TestAbandonedResultIsLogged: the result of an abandoned attempt is in the log, too.
func TestAbandonedResultIsLogged(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	log := &logLines{}
	began := make(chan struct{}, 1)
	w := start(t, b, func(ctx context.Context, _ executor.Invocation, _ executor.Host) run.Outcome {
		began <- struct{}{}
		<-ctx.Done()
		return run.Outcome{Status: run.Stopped, Result: completed(`"half done"`).Result}
	}, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(io.MultiWriter(log, t.Output()), nil)) })
	q := s.enqueue()
	<-began
	s.with(func() {
		s.answer = func(runnerapi.Heartbeat) runnerapi.HeartbeatReply {
			return runnerapi.HeartbeatReply{Known: true, TaskQueues: []string{queue}, Abandoned: []string{q.Key}}
		}
	})
	natstest.Until(t, "it is gone", func() bool { return w.counts.abandoned.Load() == 1 && !w.attempts.has(q.Key) })
	if l := log.line("no end record"); !strings.Contains(l, q.ID) || !strings.Contains(l, "half done") ||
		!strings.Contains(l, errAbandoned.Error()) {
		t.Errorf("got %q", l)
	}
}
