package projection

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

func newReducer(key func(string, int) string) *reducer {
	t := &tables{
		version:  run.Version,
		runs:     map[ident]*row{},
		sessions: map[ident]*session{},
		pending:  map[*session]bool{},
		past:     map[*row][]past{},
		deleted:  map[ident]uint64{},
	}
	scan := &scanner{names: map[string]string{}}
	below := &trees{
		tables:      t,
		stopped:     map[ident]tree{},
		below:       map[ident][]*session{},
		children:    childIndex{},
		parents:     map[ident]ident{},
		stopping:    map[*row]bool{},
		suppressing: map[*session][]*row{},
	}
	return &reducer{
		tables: t, key: key, scan: scan, late: &lateRecords{}, trees: below, waitlists: &waitlists{
			queues: map[string]*waitlist{}},
		webhooks:  &webhooks{tables: t, scan: scan, of: map[*row]*webhook{}},
		callbacks: &callbacks{tables: t, trees: below, reserved: map[ident]reservation{}},
	}
}

// accept applies queued and accepted records: a new run, a run that may be claimed now, or another attempt.
func (f *reducer) accept(ch *Change, rec subject.Record, m Record) (int, error) {
	q, err := f.scan.spec(m.Body)
	if err != nil || q.V > f.version {
		return q.V, err
	}
	id := identOf(runPrefix, rec.Run)
	r := f.runs[id]
	fresh := r == nil
	if fresh {
		q.Spec.ID, q.Spec.SessionID = strings.Clone(rec.Run), cmp.Or(strings.Clone(rec.Session), q.Spec.SessionID)
		r = f.begin(ch, id, &q.Spec, m)
	} else {
		ch.before(r)
	}
	if rec.Kind == subject.QueuedKind {
		f.queue(ch, r, rec, &q, m)
		if q.ExecutorSessionID != "" && r.session.binding().model == "" { // the record that bound it is no longer kept
			r.session.bound = bindingOf(&q.Spec)
		}
	}
	if fresh {
		f.trees.checkNewRun(r)
	}
	ch.after(r)
	f.settle(r.session)
	return q.V, nil
}

// begin makes the row of a new run, and of its session if that is new too.
func (f *reducer) begin(ch *Change, id ident, s *run.Spec, m Record) *row {
	created := nanos(s.CreatedAt)
	if created == 0 {
		created = m.Time.UnixNano()
	}
	sid := identOf(sessionPrefix, s.SessionID)
	sess := f.sessions[sid]
	if sess == nil {
		sess = &session{
			id:        sid,
			agent:     s.Agent,
			agentType: s.AgentType,
			parent:    s.Parent,
			dir:       s.ProjectDir,
			first:     m.Seq,
		}
		f.sessions[sid] = sess
		f.sorder = append(f.sorder, sess)
		f.trees.children.add(sess)
		ch.First = true
	}
	r := &row{
		id: id, session: sess, agent: s.Agent, parent: s.Parent, dir: s.ProjectDir, first: m.Seq, full: m.Seq,
		created: created,
		timeout: int32(
			min(s.Timeout, 1<<30),
		), status: statusIndex(run.Pending), mode: modeIndex(s.Mode), depth: uint8(max(0, min(s.Depth, run.MaxDepth))),
		callback: s.Mode == run.AsyncCallback && s.Parent != "", resume: s.Type == run.Resume,
	}
	if s.CallbackURL != "" {
		r.webhook = webhookPending
	}
	r.live = &live{snap: &Active{Spec: s, Status: run.Pending, FirstSeq: m.Seq}, prev: f.tail}
	if f.tail == nil {
		f.head = r
	} else {
		f.tail.live.next = r
	}
	f.tail = r
	f.waitlists.unqueued.enter(r, m.Time.UnixNano())
	f.runs[id] = r
	r.text = f.texts.keep(promptOf(s))
	f.repeats.add(r, s.RetryOf)
	f.callbacks.fillReservation(id, r)
	f.order = append(f.order, r)
	f.waiting++
	if sess.last == nil {
		sess.firstRow = r
	} else {
		sess.last.next = r
	}
	sess.last = r
	sess.live = append(sess.live, r)
	sess.runs++
	sess.modified = max(sess.modified, created)
	f.trees.indexBelow(sess)
	ch.Applied = true
	ch.identify(r)
	return r
}

// queue makes an attempt the current one.
func (f *reducer) queue(ch *Change, r *row, rec subject.Record, q *run.Queued, m Record) {
	if f.late.add(r, rec, m) {
		return
	}
	if now := r.live.snap; rec.N == now.Attempt {
		if rec.TaskQueue != now.Queue { // moved to another queue (decision 0004): one key and one claim for both
			a, l := r.change(), f.waitlists.queue(rec.TaskQueue)
			l.moveIn(r, m.Time.UnixNano())
			r.adoptSpec(a, &q.Spec)
			a.Queue, a.QueuedSeq = l.queue, ch.Seq
			a.RecordVersion = max(a.RecordVersion, q.RecordVersion) // a worker may have been given either
			f.past[r] = append(f.past[r], past{r.full, false})
			r.full = ch.Seq
			ch.Applied = true
		}
		return
	}
	if now := r.live.snap; now.Key != "" || now.Claim != nil || r.base() != run.Pending {
		return // the attempt before is open, or the run is being ended
	}
	a, l := r.change(), f.waitlists.queue(rec.TaskQueue)
	if !a.open() {
		r.session.open++
	}
	l.moveIn(r, m.Time.UnixNano())
	r.adoptSpec(a, &q.Spec)
	a.Queue, a.Key, a.Attempt, a.QueuedSeq, a.NotBefore = l.queue, q.Key, rec.N, ch.Seq, time.Time{}
	a.RecordVersion = q.RecordVersion
	r.full = ch.Seq
	r.noteAttempt(rec.N)
	ch.Applied = true
}

// claim starts an attempt.
func (f *reducer) claim(ch *Change, r *row, rec subject.Record, c run.Claim, m Record) {
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
	f.waitlists.claimed.moveIn(r, m.Time.UnixNano())
	a.Attempt = a.AttemptNumber()
	if c.RunnerID == "" && f.scan.isCarriedEnd(c.Next) {
		a.CarriedEndSeq = m.Seq
	}
	c.Next = nil // a part of the record
	a.Claim, a.ClaimSeq, a.Key = &c, m.Seq, strings.Clone(rec.Key)
	r.claim, r.claimed, r.runner = m.Seq, nanos(c.At), c.RunnerID
	if c.RunnerID != "" {
		r.noteAttempt(a.Attempt)
		r.proven = c.SignsEvents && (a.Attempt == 1 || r.proven)
		r.claimedByRunner, r.live.children, r.session.misses = true, nil, 0
		f.trees.reopen(r)
	}
	r.session.modified = max(r.session.modified, r.claimed)
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

// end applies an attempt's end record. An unreadable one is a failure: its subject is taken, no other can
// come.
func (f *reducer) end(ch *Change, r *row, e run.Ended, m Record) {
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
	if a := r.live.snap; move == run.MoveFailed && a.Spec.WillRetry(a.AttemptNumber(), a.Claim.Claimant(), r.base()) {
		f.retry(r, m)
		ch.Applied = true
		ch.after(r)
		f.settle(s)
		return
	}
	f.ended++
	if move != run.MoveCompleted {
		r.failure = f.texts.keep(failureOf(m.Body))
	}
	r.close(move, e, m)
	f.callbacks.returnChildren(r)
	if r.webhook == webhookPending {
		f.webhooks.add(r, m)
	}
	f.unlink(r)
	delete(f.trees.stopping, r)
	s.live = slices.DeleteFunc(s.live, func(o *row) bool { return o == r })
	if len(s.live) == 0 {
		s.live = nil
	}
	s.lastEnded = r
	s.modified = max(s.modified, r.ended)
	f.callbacks.addPending(r)
	f.trees.indexBelow(s)
	ch.Applied = true
	ch.after(r)
	f.settle(s)
	f.callbacks.noteReady(s)
}

// close turns a run's row into that of an ended run.
func (r *row) close(move run.Move, e run.Ended, m Record) {
	r.change() // the snapshot handed out stays as it is
	r.move(move)
	r.end, r.events, r.ended = m.Seq, e.Events, nanos(e.At)
	// With 0 events, a coordinator could not ask for the last one, or only earlier attempts had any.
	r.eventsUnknown = e.Events == 0 && (r.attempt > 1 || e.RunnerID == "" && r.live.snap.UnverifiedSeq == 0)
	r.runner = cmp.Or(r.runner, e.RunnerID)
	r.attempt = max(r.attempt, 1)
	if a := r.live.snap; a.Claim == nil { // the claim is lost: nothing else says which attempt that was
		r.noteAttempt(a.AttemptNumber())
	}
	if e.StartedAt != nil {
		r.started = nanos(*e.StartedAt)
	}
}

// retry makes the run wait for its next attempt. Only coordinators see that an attempt ended.
func (f *reducer) retry(r *row, m Record) {
	a := r.change()
	a.Attempt = a.AttemptNumber()
	r.noteAttempt(a.Attempt)
	f.past[r] = append(f.past[r], past{r.full, a.Claim != nil})
	a.NotBefore = m.Time.Add(run.Backoff(a.Attempt))
	a.Queue, a.Key, a.QueuedSeq, a.Claim, a.ClaimSeq, a.UnverifiedSeq, a.CarriedEndSeq, a.Started, a.RecordVersion = "",
		"", 0, nil, 0, 0, 0, nil, 0
	r.claim, r.claimed, r.runner = 0, 0, ""
	f.waiting++
	f.waitlists.unqueued.moveIn(r, m.Time.UnixNano())
	r.move(run.MoveRetried)
}

// startedAt notes that a runner reports its executor as running. Nothing is decided by it.
func (t *tables) startedAt(id, key string, at time.Time) (changed bool) {
	r := t.runs[identOf(runPrefix, id)]
	if r == nil || r.live == nil || r.live.snap.Key != key || r.live.snap.Claim == nil || r.live.snap.Started != nil {
		return false
	}
	r.change().Started = &at
	r.show()
	return true
}

func (t *tables) unlink(r *row) {
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
