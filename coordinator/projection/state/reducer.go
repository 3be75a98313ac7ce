package state

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ao/coordinator/projection/scan"
	"ao/coordinator/projection/text"
	"ao/nats/subject"
	"ao/shared/run"
)

func newReducer(key func(string, int) string) *State {
	t := &tables{version: run.Version, runs: map[Ident]*Row{}, sessions: map[Ident]*Session{},
		pending: map[*Session]bool{}, past: map[*Row][]past{}, deleted: map[Ident]uint64{}, retryOf: map[*Row]Ident{},
		payloads: newPayloads(), usage: usage{callers: map[uint32]*Used{}}}
	scan := scan.New()
	below := &trees{tables: t, stopped: map[Ident]tree{}, below: map[Ident][]*Session{}, Children: childIndex{},
		parents: map[Ident]Ident{}, stopping: map[*Row]bool{}, suppressing: map[*Session][]*Row{}}
	return &State{
		tables: t, key: key, scan: scan, Late: &lateRecords{}, Trees: below, Waitlists: newWaitlists(),
		Webhooks:  &webhooks{tables: t, scan: scan, of: map[*Row]*webhook{}},
		Callbacks: &callbacks{tables: t, trees: below, reserved: map[Ident]reservation{}},
	}
}

// accept applies queued and accepted records: a new run, a run that may be claimed now, or another attempt.
func (f *State) accept(ch *Change, rec subject.Record, m Record) (int, error) {
	q, err := run.DecodeQueued(m.Body, f.scan.Name)
	if err != nil || q.V > f.version {
		return q.V, err
	}
	id := IdentOf(RunPrefix, rec.Run)
	r := f.runs[id]
	fresh := r == nil
	if fresh {
		q.Spec.ID, q.Spec.SessionID = strings.Clone(rec.Run), cmp.Or(strings.Clone(rec.Session), q.Spec.SessionID)
		r = f.begin(ch, id, &q.Spec, m)
	} else {
		ch.before(r)
		if rec.Kind == subject.AcceptedKind && m.Seq > r.First { // a repeated request, delayed
			f.Late.all = append(f.Late.all, LateRecord{m.Seq, m.Subject, r.First})
		}
	}
	if rec.Kind == subject.QueuedKind {
		f.queue(ch, r, rec, &q, m)
		if q.ExecutorSessionID != "" && r.session.Binding().Model == "" { // the record that bound it is no longer kept
			r.session.Bound = bindingOf(&q.Spec)
		}
	}
	if fresh {
		f.Trees.checkNewRun(r)
	}
	ch.after(r)
	f.settle(r.session)
	return q.V, nil
}

// begin makes the row of a new run, and of its session if that is new too.
func (f *State) begin(ch *Change, id Ident, s *run.Spec, m Record) *Row {
	created := cmp.Or(nanos(s.CreatedAt), m.Time.UnixNano())
	sid := IdentOf(SessionPrefix, s.SessionID)
	sess := f.sessions[sid]
	if sess == nil {
		sess = &Session{Ident: sid, Agent: s.Agent, AgentType: s.AgentType, Parent: s.Parent, Dir: s.ProjectDir,
			First: m.Seq}
		f.sessions[sid] = sess
		f.sorder = append(f.sorder, sess)
		f.Trees.Children.add(sess)
		joinTree(f.tables, sess, maxDepth)
		ch.First = true
	}
	r := &Row{
		Ident: id, session: sess, Agent: s.Agent, Parent: s.Parent, Dir: s.ProjectDir, First: m.Seq, Full: m.Seq,
		Created: created, Timeout: int32(min(s.Timeout, 1<<30)), Depth: uint8(max(0, min(s.Depth, run.MaxDepth))),
		Caller: callerNumber(s.Caller), AgentHash: f.scan.Definitions.HashOf(s),
		StatusIndex: statusIndex(run.Pending), ModeIndex: modeIndex(s.Mode),
		Callback: s.Mode == run.AsyncCallback && s.Parent != "", Resume: s.Type == run.Resume,
	}
	if s.CallbackURL != "" {
		r.Webhook = webhookPending
	}
	r.live = &live{snap: &Active{Spec: s, Status: run.Pending, FirstSeq: m.Seq}}
	r.noteOwners(f.Trees)
	f.Waitlists.unqueued.enter(r, m.Time.UnixNano())
	f.runs[id] = r
	f.payloads.input(r, s)
	r.Text = f.Texts.Keep(text.OfSpec(s))
	if s.RetryOf != "" {
		f.retryOf[r] = IdentOf(RunPrefix, s.RetryOf)
	}
	f.Callbacks.fillReservation(id, r)
	f.order = append(f.order, r)
	link(f, r)
	sess.Modified = max(sess.Modified, created)
	f.Trees.indexBelow(sess)
	ch.Applied = true
	ch.identify(r)
	return r
}

// noteOwners notes whose shares a run counts to while it waits.
func (r *Row) noteOwners(ts *trees) {
	r.live.caller, r.live.tree = r.live.snap.Spec.Caller, ts.Top(r.session.ID())
}

// link appends a row to its session's runs and, if it is open, to the open runs.
func link(f *State, r *Row) {
	s := r.session
	if s.last == nil {
		s.firstRow = r
	} else {
		s.last.next = r
	}
	s.last = r
	s.runs++
	if r.live == nil {
		f.ended++
		if s.lastEnded == nil || s.lastEnded.End < r.End {
			s.lastEnded = r
		}
		return
	}
	s.live = append(s.live, r)
	a := r.live.snap
	if a.TreeStop.Seq != 0 {
		f.Trees.stopping[r] = true
	}
	if a.UnverifiedSeq != 0 {
		f.results = append(f.results, r)
	}
	if a.open() {
		s.open++
	}
	if a.Claim != nil {
		f.claimed++
	} else {
		f.waiting++
	}
	r.live.prev = f.tail
	if f.tail == nil {
		f.head = r
	} else {
		f.tail.live.next = r
	}
	f.tail = r
}

// queue makes an attempt the current one.
func (f *State) queue(ch *Change, r *Row, rec subject.Record, q *run.Queued, m Record) {
	if f.Late.add(r, rec, m) {
		return
	}
	if now := r.live.snap; rec.N == now.Attempt {
		if rec.TaskQueue != now.Queue { // moved to another queue (decision 0004): one key and one claim for both
			a, l := r.change(), f.Waitlists.queue(rec.TaskQueue)
			l.moveIn(r, m.Time.UnixNano())
			r.adoptSpec(a, &q.Spec, f.scan)
			f.payloads.input(r, a.Spec)
			a.Queue, a.QueuedSeq = l.queue, ch.Seq
			a.RecordVersion = max(a.RecordVersion, q.RecordVersion) // a worker may have been given either
			a.Returnable = a.Returnable || q.Returnable
			f.past[r] = append(f.past[r], past{r.Full, false})
			r.Full = ch.Seq
			ch.Applied = true
		}
		return
	}
	if now := r.live.snap; now.Key != "" || now.Claim != nil || r.base() != run.Pending {
		return // the attempt before is open, or the run is being ended
	}
	a, l := r.change(), f.Waitlists.queue(rec.TaskQueue)
	if !a.open() {
		r.session.open++
	}
	l.moveIn(r, m.Time.UnixNano())
	r.adoptSpec(a, &q.Spec, f.scan)
	f.payloads.input(r, a.Spec)
	a.Queue, a.Key, a.Attempt, a.QueuedSeq, a.NotBefore = l.queue, q.Key, rec.N, ch.Seq, time.Time{}
	a.RecordVersion, a.Returnable = q.RecordVersion, q.Returnable
	r.Full = ch.Seq
	r.noteAttempt(rec.N)
	ch.Applied = true
}

// claim starts an attempt.
func (f *State) claim(ch *Change, r *Row, rec subject.Record, c run.Claim, m Record) {
	if r.live.snap.Claim != nil {
		return
	}
	if c.At.IsZero() {
		c.At = m.Time
	}
	ch.before(r)
	a := r.change()
	if !a.open() {
		r.session.open++
	}
	f.waiting--
	f.claimed++
	f.Waitlists.claimed.moveIn(r, m.Time.UnixNano())
	a.Attempt = a.AttemptNumber()
	if c.RunnerID == "" && isCarriedEnd(f.scan, c.Next) {
		a.CarriedEndSeq = m.Seq
	}
	c.Next = nil // a part of the record
	a.Claim, a.ClaimSeq, a.Key = &c, m.Seq, strings.Clone(rec.Key)
	r.Claim, r.Claimed, r.Runner = m.Seq, nanos(c.At), c.RunnerID
	if c.RunnerID != "" {
		r.noteAttempt(a.Attempt)
		r.Proven = c.SignsEvents && (a.Attempt == 1 || r.Proven)
		r.ClaimedByRunner, r.live.children, r.session.Misses = true, nil, 0
		f.Trees.reopen(r)
	}
	r.session.Modified = max(r.session.Modified, r.Claimed)
	r.move(run.MoveClaimed)
	ch.Applied = true
	ch.after(r)
}

// endMove is the move of each final status.
var endMove = map[run.Status]run.Move{
	run.Completed: run.MoveCompleted,
	run.Failed:    run.MoveFailed,
	run.Stopped:   run.MoveStopped,
}

// end applies an attempt's end record. An unreadable one is a failure: its subject is taken, no other can come. last:
// no attempt follows.
func (f *State) end(ch *Change, r *Row, e run.Ended, m Record, last bool) {
	move, ok := endMove[e.Status]
	if !ok {
		e, move = run.Ended{}, run.MoveFailed
	}
	if move == run.MoveCompleted && !f.mayComplete(r, e.Checked) {
		move = run.MoveFailed
	}
	if e.At.IsZero() {
		e.At = m.Time
	}
	ch.before(r)
	s := r.session
	if r.live.snap.open() {
		s.open--
	}
	if r.live.snap.Claim != nil {
		f.claimed--
	} else {
		f.waiting--
	}
	a := r.live.snap
	returned := e.WillReturn(a.Returnable, a.Claim.Claimant(), r.base())
	if !last && (returned || move == run.MoveFailed &&
		a.Spec.WillRetry(a.AttemptNumber(), a.Claim.Claimant(), r.base())) {
		f.retry(r, m, returned)
		ch.Applied = true
		ch.after(r)
		f.settle(s)
		return
	}
	f.ended++
	if move != run.MoveCompleted {
		r.Failure = f.Texts.Keep(failureOf(m.Body))
	}
	f.payloads.output(r, r.live.snap.Spec, e.Body)
	r.close(move, e, m)
	f.Callbacks.returnChildren(r)
	if r.Webhook == webhookPending {
		f.Webhooks.add(r, m)
	}
	unlink(f.tables, r)
	delete(f.Trees.stopping, r)
	s.live = slices.DeleteFunc(s.live, func(o *Row) bool { return o == r })
	if len(s.live) == 0 {
		s.live = nil
	}
	s.lastEnded = r
	s.Modified = max(s.Modified, r.Ended)
	f.Callbacks.addPending(r)
	f.Trees.indexBelow(s)
	ch.Applied = true
	ch.after(r)
	f.settle(s)
	f.Callbacks.noteReady(s)
}

// close turns a run's row into that of an ended run.
func (r *Row) close(move run.Move, e run.Ended, m Record) {
	r.change() // the snapshot handed out stays as it is
	r.move(move)
	r.End, r.Events, r.Ended = m.Seq, e.Events, nanos(e.At)
	// With 0 events, a coordinator could not ask for the last one, or only earlier attempts had any.
	r.EventsUnknown = e.Events == 0 && (r.Attempt > 1 || e.RunnerID == "" && r.live.snap.UnverifiedSeq == 0)
	r.Runner = cmp.Or(r.Runner, e.RunnerID)
	r.Attempt = max(r.Attempt, 1)
	if a := r.live.snap; a.Claim == nil { // the claim is lost: nothing else says which attempt that was
		r.noteAttempt(a.AttemptNumber())
	}
	if e.StartedAt != nil {
		r.Started = nanos(*e.StartedAt)
	}
}

// retry makes the run wait for its next attempt. Only coordinators see that an attempt ended. returned: it does not
// count, and the next one follows at once.
func (f *State) retry(r *Row, m Record, returned bool) {
	a := r.change()
	a.Attempt = a.AttemptNumber()
	r.noteAttempt(a.Attempt)
	f.past[r] = append(f.past[r], past{r.Full, a.Claim != nil})
	if returned {
		spec := *a.Spec
		spec.AddReturn()
		a.Spec, a.ReturnedBy = &spec, append(slices.Clone(a.ReturnedBy), a.Claim.RunnerID)
	} else {
		a.NotBefore = m.Time.Add(run.Backoff(a.Attempt))
	}
	a.Queue, a.Key, a.QueuedSeq, a.Claim, a.ClaimSeq, a.UnverifiedSeq, a.CarriedEndSeq, a.Started, a.RecordVersion = "",
		"", 0, nil, 0, 0, 0, nil, 0
	a.Returnable = false
	r.Claim, r.Claimed, r.Runner = 0, 0, ""
	f.waiting++
	f.Waitlists.unqueued.moveIn(r, m.Time.UnixNano())
	r.move(run.MoveRetried)
}

// unlink takes a run off the open runs.
func unlink(t *tables, r *Row) {
	l := r.live
	r.leaveWaitlist()
	if l.prev != nil {
		l.prev.live.next = l.next
	} else {
		t.head = l.next
	}
	if l.next != nil {
		l.next.live.prev = l.prev
	} else {
		t.tail = l.prev
	}
	r.live = nil
}

// New returns the state before the first record. key computes the keys of attempts; nil: any key of a run never
// queued counts. checked reports whether a coordinator checked a result; nil: none has. version is the newest readable
// version of records, by default run.Version.
func New(key func(run string, attempt int) string, checked func(run string, attempt int, mark string) bool,
	version int) *State {
	f := newReducer(key)
	f.checked, f.version = checked, cmp.Or(version, run.Version)
	return f
}
