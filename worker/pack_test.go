package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/executor"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// eventsOf returns a run's events in the order of the stream, their messages, and how many of these are packs. All
// are signed.
func eventsOf(t *testing.T, b *bus.Bus, q run.Queued) (texts []string, messages []bus.Message, packs int) {
	t.Helper()
	messages, err := b.Events(t.Context(), subject.RunEvents(q.SessionID, q.ID), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		bare, by := run.SplitSignature(m.Subject, m.Body)
		if by == nil || !by(q.Key) {
			t.Errorf("%s %s is not proven", m.Subject, m.Body)
		}
		events := []run.Event{{}}
		if m.Subject == subject.Event(subject.Partition(q.SessionID), q.SessionID, q.ID, run.PackKind) {
			packs++
			events, err = run.Unpack(bare)
			if err != nil || len(events) < 2 {
				t.Errorf("a pack of %d: %v", len(events), err)
			}
		} else if err := json.Unmarshal(bare, &events[0]); err != nil ||
			m.Subject != subject.Event(subject.Partition(q.SessionID), q.SessionID, q.ID, events[0].Type) {
			t.Errorf("%s is %s, %v", m.Subject, m.Body, err)
		}
		for _, e := range events {
			var said run.Message
			if err := json.Unmarshal(e.Body, &said); err != nil || e.SessionID != q.SessionID || e.RunID != q.ID ||
				e.At.IsZero() {
				t.Errorf("%+v: %v", e, err)
			}
			texts = append(texts, said.Content[0].Text)
		}
	}
	return texts, messages, packs
}

// TestEventsArePackedIfAllCanReadPacks: both when the attempt starts and when the event is emitted.
func TestEventsArePackedIfAllCanReadPacks(t *testing.T) {
	t.Parallel()
	const half = 300
	for _, tt := range []struct {
		name string
		// what coordinators announce: at the registration, in heartbeats before the attempt and during it
		join, before, then int
		first, second      bool
	}{
		{"nobody can", 0, 0, 0, false, false},
		{"all can", 2, 2, 2, true, true},
		{"and more", 3, 3, 3, true, true},
		{"an older coordinator came before", 2, 0, 0, false, false},
		{"one comes meanwhile", 2, 2, 1, true, false},
		{"the last one goes meanwhile", 0, 0, 2, false, false},
		{"the last one went before", 0, 2, 2, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := natstest.Bus(t)
			s := newFakeCoordinator(t, b)
			announce := func(form int) (known func() bool) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.answer = func(beat runnerapi.Heartbeat) runnerapi.HeartbeatReply {
					r := knownReply(beat)
					r.EventVersion = form
					return r
				}
				n := len(s.heartbeats) + 2 // the answer to the next one may not be read when that after it comes
				return func() bool {
					s.mu.Lock()
					defer s.mu.Unlock()
					return len(s.heartbeats) >= n
				}
			}
			s.with(func() { s.eventVersion = tt.join })
			w := start(t, b, func(_ context.Context, _ executor.Invocation, host executor.Host) run.Outcome {
				for n := range 2 * half {
					if n == half {
						natstest.Until(t, "the worker knows", announce(tt.then))
					}
					host.Emit(run.EventMessage, run.TextMessage("system", fmt.Sprint(n)))
				}
				return completed("1")
			})
			natstest.Until(t, "the worker knows", announce(tt.before))
			q := s.enqueue()
			e := s.waitEnded(q)
			texts, messages, _ := eventsOf(t, b, q)
			if len(texts) != 2*half || e.Status != run.Completed || e.Events != messages[len(messages)-1].Seq {
				t.Errorf("%s with %d events, the last in %d", e.Status, len(texts), e.Events)
			}
			parts, n := [2]int{}, 0 // messages of each half
			for i, text := range texts {
				if text != fmt.Sprint(i) {
					t.Fatalf("event %s where %d is due", text, i)
				}
			}
			for _, m := range messages {
				parts[n/half]++
				bare, _ := run.SplitSignature(m.Subject, m.Body)
				if all, err := run.Unpack(bare); err == nil {
					n += len(all)
				} else {
					n++
				}
			}
			for i, packed := range []bool{tt.first, tt.second} {
				if packed != (parts[i] < half) || !packed && parts[i] != half {
					t.Errorf("%d events came in %v messages, packed %v %v", half, parts, tt.first, tt.second)
					break
				}
			}
			w.end(t)
		})
	}
}

// TestEventsOfSeveralProgramsArePacked: events of several goroutines are all there, those of each in order.
func TestEventsOfSeveralProgramsArePacked(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	s.with(func() {
		s.eventVersion = run.EventVersion
		s.answer = func(beat runnerapi.Heartbeat) runnerapi.HeartbeatReply {
			r := knownReply(beat)
			r.EventVersion = run.EventVersion
			return r
		}
	})
	start(t, b, func(_ context.Context, _ executor.Invocation, host executor.Host) run.Outcome {
		ended := make(chan bool)
		for who := range 4 {
			go func() {
				for n := range 100 {
					size := 10
					if n%10 == 0 {
						size = 60 << 10
					}
					host.Emit(run.EventMessage, run.TextMessage("system", fmt.Sprintf("%d %03d %*d", who, n, size, n)))
				}
				ended <- true
			}()
		}
		for range 4 {
			<-ended
		}
		return completed("1")
	})
	q := s.enqueue()
	s.waitEnded(q)
	texts, messages, packs := eventsOf(t, b, q)
	last := map[string]string{}
	for _, text := range texts {
		if text[:5] <= last[text[:1]] {
			t.Errorf("%s comes behind %s", text[:5], last[text[:1]])
		}
		last[text[:1]] = text[:5]
	}
	if len(texts) != 400 || packs == 0 {
		t.Errorf("%d events in %d messages, %d of them packs", len(texts), len(messages), packs)
	}
}
