package ledger

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// story is a history that is being written, record by record, one a second.
type story struct {
	t       testing.TB
	at      time.Time
	msgs    []bus.Message
	ids     int
	version int  // of the book
	older   bool // a callback turn precedes its list, as programs of older versions write them
	seq     uint64
}

func newStory(t testing.TB) *story { return &story{t: t, at: noon} }

// bothOrders writes a story twice: with a callback's list before its turn, and as programs of older versions do.
func bothOrders(t *testing.T, f func(t *testing.T, s *story)) {
	for name, older := range map[string]bool{"": false, "of an older version": true} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.older = older
			f(t, s)
		})
	}
}

func (s *story) write(subj string, record any) {
	raw, ok := record.([]byte)
	if !ok {
		var err error
		raw, err = json.Marshal(record)
		if err != nil {
			s.t.Fatal(err)
		}
	}
	s.at = s.at.Add(time.Second)
	s.seq++
	s.msgs = append(s.msgs, bus.Message{Seq: s.seq, Subject: subj, Body: raw, Time: s.at})
}

// id is what the coordinator would make now: its first six bytes are the time.
func (s *story) id(prefix string) string {
	s.ids++
	ms := s.at.UnixMilli()
	b := [16]byte{
		byte(ms >> 40),
		byte(ms >> 32),
		byte(ms >> 24),
		byte(ms >> 16),
		byte(ms >> 8),
		byte(ms),
		0x70, // UUIDv7
		14:   byte(s.ids >> 8),
		13:   byte(s.ids >> 16),
		15:   byte(s.ids),
	}
	return prefix + hex.EncodeToString(b[:])
}

func (s *story) session() string { return s.id("ses_") }

// purge takes away what a condition holds for, as the deletion of a session or truncation does.
func (s *story) purge(of func(bus.Message) bool) {
	var kept []bus.Message
	for _, m := range s.msgs {
		if !of(m) {
			kept = append(kept, m)
		}
	}
	s.msgs = kept
}

// truncate takes the first n records away.
func (s *story) truncate(n uint64) { s.purge(func(m bus.Message) bool { return m.Seq <= n }) }

// close reads the story, some time after its last record.
func (s *story) close(after time.Duration) Report {
	b := s.read()
	return b.Close(s.at.Add(after), b.seq)
}

func (s *story) read() *Verifier {
	b := NewVerifier()
	b.Checked = func(run string, attempt int, mark string) bool { return mark == signatureOf(run, attempt) }
	b.Key, b.Version = keyOf, s.version
	for _, m := range s.msgs {
		b.Add(m)
	}
	return b
}

// unfinished writes the first of records that belong together: a session, a callback, a claim to end a waiting run.
func (s *story) unfinished() {
	next := json.RawMessage(`{}`)
	own, turn := s.run("ses_my-own"), s.run(s.session()).done()
	s.write(subject.Session(own.part(), "ses_my-own"), run.SessionCreated{V: 1, RunID: own.spec.ID, Next: next})
	parent := turn.spec.SessionID
	reported := s.run(s.session(), child(parent)).done()
	s.write(
		subject.Callback(turn.part(), parent, reported.spec.ID, 0),
		run.Callback{V: 1, RunID: turn.spec.ID, TurnID: s.id("run_"), Children: []string{reported.spec.ID}, Next: next},
	)
	ending := s.run(s.session()).queued(1)
	s.write(
		subject.Claimed(ending.part(), ending.spec.ID, ending.key(1)),
		run.Claim{V: 1, SessionID: ending.spec.SessionID, Attempt: 1, Next: next},
	)
}

// actor is a run in a story.
type actor struct {
	s        *story
	spec     run.Spec
	children []*actor // that it reports
	vain     int      // turns that reported it and ended unclaimed
	from     uint64   // the queued record that its claims name
}

func (s *story) run(session string, change ...func(*run.Spec)) *actor {
	a := &actor{
		s: s,
		spec: run.Spec{
			ID:        s.id("run_"),
			SessionID: session,
			Type:      run.Start,
			Agent:     "researcher",
			AgentType: run.Autonomous,
			Mode:      run.AsyncPoll,
			CreatedAt: s.at,
		},
	}
	for _, f := range change {
		f(&a.spec)
	}
	return a
}

func child(parent string) func(*run.Spec) {
	return func(s *run.Spec) { s.Parent, s.Mode = parent, run.AsyncCallback }
}

func attempts(n int) func(*run.Spec) { return func(s *run.Spec) { s.Attempts = n } }

func withWebhook(s *run.Spec) { s.CallbackURL = "https://example.org/hook" }

func bindingOutput(s *run.Spec) { s.HasOutputSchema = true }

// markOf is what a coordinator proves with that it has checked a result.
func signatureOf(run string, attempt int) string { return fmt.Sprint("mark", attempt, run) }

func procedural(s *run.Spec) { s.AgentType = run.Procedural }

func (a *actor) part() string     { return subject.Partition(a.spec.SessionID) }
func (a *actor) key(n int) string { return keyOf(a.spec.ID, n) }

func keyOf(run string, attempt int) string { return fmt.Sprintf("key%d%s", attempt, run) }

func (a *actor) accepted() *actor {
	a.s.write(subject.Accepted(a.part(), a.spec.SessionID, a.spec.ID), run.Accepted{V: 1, Spec: a.spec})
	return a
}

func (a *actor) queued(n int) *actor { return a.queuedIn("autonomous._._", n) }

func (a *actor) queuedIn(queue string, n int) *actor {
	a.s.write(subject.Queued(a.part(), queue, a.spec.ID, n), run.Queued{V: 1, Attempt: n, Key: a.key(n), Spec: a.spec})
	return a
}

// returnable queues an attempt that its runner may give back.
func (a *actor) returnable(n int) *actor {
	a.s.write(subject.Queued(a.part(), "autonomous._._", a.spec.ID, n), run.Queued{V: 1, Attempt: n, Key: a.key(n),
		Returnable: true, Spec: a.spec})
	return a
}

// returned is the end record of a runner that gives the run back.
func (a *actor) returned(n int, runner string) *actor {
	a.s.write(subject.Ended(a.part(), a.spec.ID, a.key(n)), run.Ended{V: 1, SessionID: a.spec.SessionID,
		RunnerID: runner, Nonce: "e", Attempt: n, Status: run.Failed, Returned: true, At: a.s.at})
	return a
}

func (a *actor) claimed(n int, runner string) *actor { return a.claimedWith(n, n, runner) }

// claimedWith is a claim with the key of another attempt.
func (a *actor) claimedWith(of, n int, runner string) *actor {
	a.s.write(
		subject.Claimed(a.part(), a.spec.ID, a.key(of)),
		run.Claim{V: 1, SessionID: a.spec.SessionID, RunnerID: runner, Nonce: "n", Attempt: n, At: a.s.at,
			Queued: a.from},
	)
	return a
}

func (a *actor) ended(n int, status run.Status, runner string) *actor {
	return a.endedWith(n, n, status, runner)
}

func (a *actor) endedWith(of, n int, status run.Status, runner string) *actor {
	a.s.write(
		subject.Ended(a.part(), a.spec.ID, a.key(of)),
		run.Ended{
			V:         1,
			SessionID: a.spec.SessionID,
			RunnerID:  runner,
			Nonce:     "e",
			Attempt:   n,
			Status:    status,
			At:        a.s.at,
		},
	)
	return a
}

// offered is an unverified result; without a runner it is a coordinator's, which refuses later ones.
func (a *actor) offered(n int, runner string) *actor {
	a.s.write(
		subject.Offered(a.part(), a.spec.ID, a.key(n)),
		run.Ended{
			V:         1,
			SessionID: a.spec.SessionID,
			RunnerID:  runner,
			Nonce:     "o",
			Attempt:   n,
			Status:    run.Completed,
			At:        a.s.at,
		},
	)
	return a
}

// checked is a coordinator's end record after it.
func (a *actor) checked(n int, mark string) *actor {
	a.s.write(
		subject.Ended(a.part(), a.spec.ID, a.key(n)),
		run.Ended{
			V:         1,
			SessionID: a.spec.SessionID,
			Nonce:     "e",
			Attempt:   n,
			Status:    run.Completed,
			Checked:   mark,
			At:        a.s.at,
		},
	)
	return a
}

func (a *actor) stopping() *actor {
	a.s.write(subject.Stopping(a.part(), a.spec.ID), run.Stop{V: 1, SessionID: a.spec.SessionID, At: a.s.at})
	return a
}

// treeStopping is a request to stop it, and what is below its session.
func (a *actor) treeStopping() *actor {
	a.s.write(subject.Tree(a.part(), a.spec.SessionID, a.spec.ID), run.TreeStop{V: 1, SessionID: a.spec.SessionID,
		RunID: a.spec.ID, At: a.s.at})
	return a
}

func (a *actor) bound(n int, runner string) *actor {
	a.s.write(
		subject.Bound(a.part(), a.spec.ID, a.key(n)),
		run.Bound{V: 1, SessionID: a.spec.SessionID, RunnerID: runner, Attempt: n, ExecutorSessionID: "m", At: a.s.at},
	)
	return a
}

func (a *actor) notified(n int, status string) *actor {
	a.s.write(
		subject.Notified(a.part(), a.spec.ID, n),
		run.Notified{V: 1, SessionID: a.spec.SessionID, N: n, Status: status, At: a.s.at},
	)
	return a
}

// done is the whole life of a run, from queued on.
func (a *actor) done() *actor {
	return a.queued(1).claimed(1, "rnr_1").ended(1, run.Completed, "rnr_1")
}

// cancelled is the end of a run that no runner claimed: claim and end record are a coordinator's.
func (a *actor) cancelled(n int) *actor {
	for _, child := range a.children {
		child.vain++
	}
	return a.claimed(n, "").ended(n, run.Stopped, "")
}

// reports writes the batch of a callback turn: which children it reports, and its accepted record.
func (a *actor) reports(after *actor, children ...*actor) *actor {
	if a.s.older {
		return a.accepted().lists(after, children...)
	}
	return a.lists(after, children...).accepted()
}

func (a *actor) lists(after *actor, children ...*actor) *actor {
	if len(children) == 0 {
		return a.names(after, a, 0)
	}
	return a.names(after, children[0], children[0].vain, children...)
}

// names is lists with a name of its own.
func (a *actor) names(after, first *actor, before int, children ...*actor) *actor {
	c := run.Callback{V: 1, RunID: a.spec.ID, At: a.s.at}
	if !a.s.older {
		c.RunID, c.TurnID, c.Next = after.spec.ID, a.spec.ID, json.RawMessage(`{}`)
	}
	for _, child := range children {
		c.Children = append(c.Children, child.spec.ID)
	}
	p := after.spec.SessionID
	a.children = children
	a.s.write(subject.Callback(subject.Partition(p), p, first.spec.ID, before), c)
	return a
}

func (s *story) deleted(session string) {
	s.write(subject.Deleted(subject.Partition(session), session), run.Deleted{V: 1, At: s.at})
}
