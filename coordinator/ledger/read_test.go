package ledger

import (
	"strings"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
)

// stream writes a story to a real stream, all of it at once.
func stream(t testing.TB, b *bus.Bus, s *story) {
	t.Helper()
	var all []bus.Entry
	for _, m := range s.msgs {
		all = append(all, bus.Entry{Subject: m.Subject, Body: m.Body})
	}
	if _, err := b.AppendBatch(t.Context(), all...); err != nil {
		t.Error(err)
	}
}

func read1(t testing.TB, b *bus.Bus) Report {
	t.Helper()
	r, _, err := auditStream(t.Context(), b, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReadTheStream(t *testing.T) {
	b := natstest.Bus(t)
	if r := read1(t, b); !r.OK || r.Sequence != 0 || r.Records != 0 {
		t.Errorf("an empty stream: %+v", r)
	}
	s := newStory(t)
	s.run(s.session()).done()
	s.run(s.session()).done()
	stream(t, b, s)
	if r := read1(t, b); !r.OK || r.Sequence != 6 || r.Records != 6 || r.Runs.Ended != 2 || r.Before != 1 {
		t.Errorf("two runs: %+v", r)
	}
	// Its last record goes: there is nothing to wait for.
	if err := b.Purge(t.Context(), subject.Runs, s.msgs[5].Subject, 0); err != nil {
		t.Fatal(err)
	}
	if r := read1(t, b); !r.OK || r.Sequence != 6 || r.Records != 5 || r.Runs.Running != 1 {
		t.Errorf("without the last record: %+v", r)
	}
	if err := b.Truncate(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if r := read1(t, b); !r.OK || r.Before != 4 || r.Runs.Accepted != 1 {
		t.Errorf("truncated: %+v", r)
	}
	if err := b.Truncate(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if r := read1(t, b); !r.OK || r.Before != 7 || r.Records != 0 {
		t.Errorf("all of it: %+v", r)
	}
}

// TestWritersDoNotDisturb: a stream that is written, and of which sessions are deleted, is read as it was at one place.
func TestWritersDoNotDisturb(t *testing.T) {
	b := natstest.Bus(t)
	s := newStory(t)
	for range 300 {
		s.run(s.session()).done()
	}
	stream(t, b, s)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			a := &story{t: t, at: s.at, ids: s.ids}
			r := a.run(a.session()).done()
			a.run(r.spec.SessionID).accepted().cancelled(1)
			a.deleted(r.spec.SessionID)
			s.ids = a.ids
			last := len(a.msgs) - 1
			stream(t, b, &story{t: t, msgs: a.msgs[:last]})
			stream(t, b, &story{t: t, msgs: a.msgs[last:]}) // a reader may begin before it
			for _, m := range a.msgs {
				if !strings.Contains(m.Subject, ".deleted.") {
					if err := b.Purge(t.Context(), subject.Runs, m.Subject, 0); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}()
	for range 12 {
		r, _, err := auditStream(t.Context(), b, Rules{})
		if err == nil && (!r.OK || r.Runs.Completed < 300) {
			t.Errorf("%+v", r)
		}
	}
	close(stop)
	<-done
	if r := read1(t, b); !r.OK || r.Runs.Accepted != 300 || r.Runs.Ended != 300 {
		t.Errorf("in the end: %+v", r)
	}
	lost := s.msgs[4].Subject // a claim, of a run that nobody deleted
	if err := b.Purge(t.Context(), subject.Runs, lost, 0); err != nil {
		t.Fatal(err)
	}
	if r := read1(t, b); kinds(r) != kindUnclaimed {
		t.Errorf("without %s: %v", lost, r.Wrong)
	}
}
