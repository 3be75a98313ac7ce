package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/executor"
	"ao/shared/run"
	"ao/shared/share"

	"github.com/nats-io/nats.go/jetstream"
)

// TestOneRunsEventsLeaveOthersTheirs: a run that writes more events than EVENTS keeps, by its executor and by the
// gateway, displaces none of another session. Its readers learn what was left out, and its result and metadata count.
func TestOneRunsEventsLeaveOthersTheirs(t *testing.T) {
	t.Parallel()
	const share, kept = 256 << 10, 1 << 20
	server := natstest.Server(t)
	b := natstest.Open(t, server)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(natstest.Conn(t, server))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), subject.Events)
	if err != nil {
		t.Fatal(err)
	}
	small := stream.CachedInfo().Config
	small.MaxBytes = kept
	if _, err := js.UpdateStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	s := newFakeCoordinator(t, b)
	text := strings.Repeat("x", 8<<10)
	start(t, s.b, func(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome {
		if !strings.Contains(string(v.Parameters), "flood") {
			host.Emit(run.EventMessage, run.TextMessage("assistant", "one of few"))
			return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Procedural, Text: &text}}
		}
		body := fmt.Sprintf(`{"event_type":"message","role":"system","content":[{"type":"text","text":%q}]}`, text)
		for range 2 * kept / len(text) {
			host.Emit(run.EventMessage, run.TextMessage("assistant", text))
			if status, answer, err := ask(ctx, "POST", host.URL+"/events", body); err != nil ||
				status >= 500 {
				t.Error(status, answer, err)
			}
		}
		host.Emit(run.EventMetadata, json.RawMessage(`{"metadata":{"cost_usd":0.1}}`))
		return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Procedural, Text: &text}}
	}, func(c *Config) { c.EventBytes = share })
	quiet := s.enqueue()
	s.waitEnded(quiet)
	flood := s.enqueue(func(q *run.Queued) { q.Input.Parameters = json.RawMessage(`{"flood":true}`) })
	if e := s.waitEnded(flood); e.Status != run.Completed || e.Result == nil {
		t.Errorf("it ended %s: %v", e.Status, e.Error)
	}
	if got := eventTexts(t, s, quiet); !strings.Contains(got, "one of few") {
		t.Errorf("the other session's events are gone: %q", got)
	}
	bytes, all := 0, ""
	messages, err := s.b.Events(t.Context(), subject.RunEvents(flood.SessionID, flood.ID), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range messages {
		bytes += len(e.Body)
		all += string(e.Body)
	}
	if bytes < share/2 || bytes > share+4<<10 || !strings.Contains(all, "are left out here") ||
		!strings.Contains(all, "AO_EVENT_BYTES") || !strings.Contains(all, "cost_usd") {
		t.Errorf("%d bytes of events, want about %d and a note: %s", bytes, share, all[max(0, len(all)-500):])
	}
}

// TestEventLimit: what is admitted in a minute, what the next note says, and that a run's metadata has its own part.
func TestEventLimit(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	rate := share.NewRate(10_000, time.Minute, 100, clock)
	of := func(id string) *eventLimit { return &eventLimit{share: rate, run: id, most: 10_000, now: clock} }
	a, b := of("a"), of("b")
	take := func(l *eventLimit, kind string, bytes, times int) (n int) {
		for range times {
			if l.admit(kind, bytes) {
				n++
			}
		}
		return n
	}
	if n := take(a, run.EventMessage, 1000-eventCost, 30); n != 10 {
		t.Errorf("%d events are admitted, want 10", n)
	}
	if n := take(a, run.EventMessage, 1, 5); n != 0 {
		t.Errorf("%d small events are admitted after a large one was not", n)
	}
	if n := take(a, run.EventMetadata, 10, 30); n != 1 {
		t.Errorf("%d events with metadata are admitted, want 1", n)
	}
	if n := take(b, run.EventMessage, 1000-eventCost, 30); n != 10 {
		t.Errorf("another run may write %d, want 10", n)
	}
	text, ok := a.takeNote()
	if want := fmt.Sprintf("%d events of %d bytes", 20+5+29, 20*(1000-eventCost)+5+29*10); !ok ||
		!strings.HasPrefix(text, want) {
		t.Errorf("the note is %q, want %q", text, want)
	}
	if text, ok := a.takeNote(); ok {
		t.Errorf("a second note: %q", text)
	}
	now = now.Add(time.Minute)
	if n := take(a, run.EventMessage, 1000-eventCost, 30); n != 10 {
		t.Errorf("a minute later %d events are admitted, want 10", n)
	}
	if again := of("a"); again.admit(run.EventMessage, 1) {
		t.Error("a run's next attempt has a share of its own")
	}
}
