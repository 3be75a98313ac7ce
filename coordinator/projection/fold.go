package projection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// Change is what a record did.
type Change struct {
	Seq           uint64
	Kind          subject.Kind
	RunID         string
	SessionID     string
	Before, After run.Status // Before is empty for a new run; both are for a deleted session
	First         bool       // the session's first record
	Live          bool       // all was read that history held at the beginning
	Moved         bool       // false: a duplicate, late, or of no concern; nothing changed

	overstep bool // of EndedKind: by a record above the attempt's version, of whatever kind

	row    *row   // of the run
	in     *line  // where that stood before the record, since then, and who had begun it; of callbacks since is the end that they tell of
	since  int64  // nanoseconds since 1970
	runner string // … by id
}

// Stats counts records since the start.
type Stats struct {
	Applied    uint64 // changed something
	Ignored    uint64 // duplicates, late words, records of runs that are no longer kept
	Unknown    uint64 // of kinds that this version doesn't know
	Unreadable uint64
}

// tables are what all parts of the fold share: who there is, in which order.
type tables struct {
	version  int // the newest version of records that this program reads
	runs     map[ident]*row
	sessions map[ident]*session
	order    []*row     // by first; may hold rows that are gone
	sorder   []*session // by first; likewise
	goneRuns int
	goneSess int
	head     *row // the live ones, by first
	tail     *row
	fresh    []*row            // became eligible since it was asked last
	owing    map[*session]bool // sessions with children that they are to be told of
	past     map[*row][]past   // of runs that were queued more than once
	deleted  map[ident]uint64  // sessions, with the sequence of their deletion
	pass     *pass             // nil: no snapshot is being written

	waiting, begun, ended int
}

// fold is the state that the records make, one after the other. It is a pure function of them: the same in every process. Each part
// keeps what is its own beside the tables; debts ask trees, and the fold asks all of them.
type fold struct {
	*tables
	scan     *scanner
	lines    *lines
	webhooks *webhooks
	late     *lateness
	trees    *trees
	debts    *debts

	key     func(run string, attempt int) string            // the attempts' keys; nil: any key of a run never queued counts
	checked func(run string, attempt int, mark string) bool // whether a coordinator has checked a result against its schema; nil: none has
	offers  []*row                                          // results were offered since it was asked last

	seq     uint64
	newer   uint64 // sequence of the first record of a newer version that counts; 0: none
	strange bool   // there were records of unknown kinds: a newer version may make something of them
	stats   Stats
	prints  [prints]print // of the last records, in a ring
	printed uint64        // how many there have been
	scratch []byte
}

func newFold(key func(string, int) string) *fold {
	t := &tables{version: run.Version, runs: map[ident]*row{}, sessions: map[ident]*session{}, owing: map[*session]bool{}, past: map[*row][]past{}, deleted: map[ident]uint64{}}
	scan := &scanner{names: map[string]string{}}
	below := &trees{tables: t, stopped: map[ident]tree{}, below: map[ident]map[*session]bool{}, halting: map[*row]bool{}, suppressing: map[*session][]*row{}}
	return &fold{
		tables: t, key: key, scan: scan, late: &lateness{}, trees: below, lines: &lines{lanes: map[string]*line{}},
		webhooks: &webhooks{tables: t, scan: scan, of: map[*row]*hook{}},
		debts:    &debts{tables: t, trees: below, promised: map[ident]promise{}, unlisted: map[*row]bool{}},
	}
}

// apply takes the next record of the stream. A sequence that was applied changes nothing. An error is about a record that
// cannot be read; the fold goes on.
func (f *fold) apply(m Record) (Change, error) {
	ch := Change{Seq: m.Seq}
	if m.Seq <= f.seq {
		return ch, nil
	}
	f.seq = m.Seq
	f.prints[f.printed%prints], f.scratch = printOf(m, f.scratch)
	f.printed++
	rec, err := subject.Parse(m.Subject)
	if err != nil {
		f.stats.Unreadable++
		return ch, err
	}
	if ch.Kind = rec.Kind; rec.Kind == subject.Unknown {
		f.stats.Unknown++
		f.strange = true
		return ch, nil
	}
	var version int
	switch rec.Kind {
	case subject.QueuedKind, subject.AcceptedKind:
		version, err = f.accept(&ch, rec, m)
	case subject.ClaimedKind, subject.BoundKind, subject.OfferedKind, subject.EndedKind:
		version, err = f.keyed(&ch, rec, m)
	case subject.StoppingKind:
		version, err = scanVersion(m.Body)
		f.trees.stop(&ch, rec)
	case subject.DeletedKind:
		version, err = scanVersion(m.Body)
		f.delete(&ch, rec)
	case subject.CallbackKind:
		version, err = f.debts.report(&ch, rec, m)
	case subject.TreeKind:
		version, err = f.trees.stopTree(&ch, rec, m)
	case subject.NotifiedKind:
		version, err = f.webhooks.notify(&ch, rec, m)
	case subject.SessionKind:
		version, err = f.debts.beginSession(rec, m)
	default: // of no concern to the index, but of some version
		version, err = scanVersion(m.Body)
	}
	if f.pass != nil && rec.Run != "" {
		f.pass.touch(f.runs[identOf(runPrefix, rec.Run)])
	}
	if version > f.version && f.newer == 0 {
		f.newer = m.Seq
	}
	switch {
	case err != nil:
		f.stats.Unreadable++
		return ch, fmt.Errorf("record %d (%s): %w", m.Seq, rec.Kind, err)
	case ch.Moved:
		f.stats.Applied++
	default:
		f.stats.Ignored++
	}
	return ch, nil
}

// accept is for queued and accepted: a run that is new, that may be taken now, or that gets another attempt.
func (f *fold) accept(ch *Change, rec subject.Record, m Record) (int, error) {
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
		if q.Model != "" && r.session.bond().model == "" { // the record that bound it is no longer kept
			r.session.bound = bondOf(&q.Spec)
		}
	}
	if fresh {
		f.trees.born(r)
	}
	ch.after(r)
	f.settle(r.session)
	return q.V, nil
}

// begin makes the row of a new run, and of its session where that is new too.
func (f *fold) begin(ch *Change, id ident, s *run.Spec, m Record) *row {
	created := nanos(s.CreatedAt)
	if created == 0 {
		created = m.Time.UnixNano()
	}
	sid := identOf(sessionPrefix, s.SessionID)
	sess := f.sessions[sid]
	if sess == nil {
		sess = &session{id: sid, agent: s.Agent, agentType: s.AgentType, parent: s.Parent, dir: s.ProjectDir, first: m.Seq}
		f.sessions[sid] = sess
		f.sorder = append(f.sorder, sess)
		ch.First = true
	}
	r := &row{
		id: id, session: sess, agent: s.Agent, parent: s.Parent, dir: s.ProjectDir, first: m.Seq, whole: m.Seq, created: created,
		timeout: int32(min(s.Timeout, 1<<30)), status: statusIndex(run.Pending), mode: modeIndex(s.Mode), depth: uint8(max(0, min(s.Depth, run.MaxDepth))),
		callback: s.Mode == run.AsyncCallback && s.Parent != "",
	}
	if s.CallbackTo != "" {
		r.hook = hookOwed
	}
	r.live = &live{snap: &Active{Spec: s, Status: run.Pending, FirstSeq: m.Seq}, prev: f.tail}
	if f.tail == nil {
		f.head = r
	} else {
		f.tail.live.next = r
	}
	f.tail = r
	f.lines.apart.enter(r, m.Time.UnixNano())
	f.runs[id] = r
	f.debts.keepPromise(id, r)
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
	ch.Moved = true
	ch.identify(r)
	return r
}

// queue makes an attempt the current one.
func (f *fold) queue(ch *Change, r *row, rec subject.Record, q *run.Queued, m Record) {
	if f.late.note(r, rec, m) {
		return
	}
	if now := r.live.snap; rec.N == now.Attempt {
		if rec.Lane != now.Lane { // it waits in another lane now (decision 0004): one key, one claim for both
			a, l := r.change(), f.lines.lane(rec.Lane)
			l.into(r, m.Time.UnixNano())
			r.renew(a, &q.Spec)
			a.Lane, a.QueuedSeq = l.lane, ch.Seq
			a.RecordVersion = max(a.RecordVersion, q.RecordVersion) // a worker may have been handed either
			f.past[r] = append(f.past[r], past{r.whole, false})
			r.whole = ch.Seq
			ch.Moved = true
		}
		return
	}
	if now := r.live.snap; now.Key != "" || now.Claim != nil || r.base() != run.Pending {
		return // the attempt before is under way, or the run is being ended
	}
	a, l := r.change(), f.lines.lane(rec.Lane)
	if !a.open() {
		r.session.open++
	}
	l.into(r, m.Time.UnixNano())
	r.renew(a, &q.Spec)
	a.Lane, a.Key, a.Attempt, a.QueuedSeq, a.NotBefore = l.lane, q.Key, rec.N, ch.Seq, time.Time{}
	a.RecordVersion = q.RecordVersion
	r.whole = ch.Seq
	r.reach(rec.N)
	ch.Moved = true
}

// claim is the beginning of an attempt.
func (f *fold) claim(ch *Change, r *row, rec subject.Record, c run.Claim, m Record) {
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
	f.begun++
	f.lines.underway.into(r, m.Time.UnixNano())
	a.Attempt = a.Next()
	if c.RunnerID == "" && f.scan.carries(c.Next) {
		a.EndSeq = m.Seq
	}
	c.Next = nil // a part of the record
	a.Claim, a.ClaimSeq, a.Key = &c, m.Seq, strings.Clone(rec.Key)
	r.claim, r.claimed, r.runner = m.Seq, nanos(c.At), c.RunnerID
	if c.RunnerID != "" {
		r.reach(a.Attempt)
		r.proven = c.Proves && (a.Attempt == 1 || r.proven)
		r.begun, r.live.children, r.session.misses = true, nil, 0
		f.trees.reopen(r)
	}
	r.session.modified = max(r.session.modified, r.claimed)
	r.move(run.MoveClaimed)
	ch.Moved = true
	ch.after(r)
}

// last is the move of a last word.
var last = map[run.Status]run.Move{run.Completed: run.MoveCompleted, run.Failed: run.MoveFailed, run.Stopped: run.MoveStopped}

// end is the last word of an attempt. One that cannot be read is a failure: its subject is taken, no other will come.
func (f *fold) end(ch *Change, r *row, e run.Ended, m Record) {
	move, ok := last[e.Status]
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
		f.begun--
	} else {
		f.waiting--
	}
	if a := r.live.snap; move == run.MoveFailed && a.Spec.Retried(a.Next(), a.Claim.Claimant(), r.base()) {
		f.retry(r, m)
		ch.Moved = true
		ch.after(r)
		f.settle(s)
		return
	}
	f.ended++
	r.change() // the one handed out stays as it is
	r.move(move)
	r.end, r.events, r.ended = m.Seq, e.Events, nanos(e.At)
	// Of 0: a coordinator could not ask for the last one, or only the attempts before told any.
	r.mute = e.Events == 0 && (r.attempt > 1 || e.RunnerID == "" && r.live.snap.OfferSeq == 0)
	r.runner = cmp.Or(r.runner, e.RunnerID)
	r.attempt = max(r.attempt, 1)
	if a := r.live.snap; a.Claim == nil { // it is lost: nothing else has told which attempt that was
		r.reach(a.Next())
	}
	if e.StartedAt != nil {
		r.started = nanos(*e.StartedAt)
	}
	f.debts.giveBack(r)
	if r.hook == hookOwed {
		f.webhooks.promise(r, m)
	}
	delete(f.debts.unlisted, r)
	f.unlink(r)
	delete(f.trees.halting, r)
	s.live = slices.DeleteFunc(s.live, func(o *row) bool { return o == r })
	if len(s.live) == 0 {
		s.live = nil
	}
	s.lastEnded = r
	s.modified = max(s.modified, r.ended)
	f.debts.owe(r)
	f.trees.indexBelow(s)
	ch.Moved = true
	ch.after(r)
	f.settle(s)
	f.debts.callable(s)
}

// retry has the run wait for its next attempt; nobody but the coordinators sees that one ended.
func (f *fold) retry(r *row, m Record) {
	a := r.change()
	a.Attempt = a.Next()
	r.reach(a.Attempt)
	f.past[r] = append(f.past[r], past{r.whole, a.Claim != nil})
	a.NotBefore = m.Time.Add(run.Backoff(a.Attempt))
	a.Lane, a.Key, a.QueuedSeq, a.Claim, a.ClaimSeq, a.OfferSeq, a.EndSeq, a.Started, a.RecordVersion = "", "", 0, nil, 0, 0, 0, nil, 0
	r.claim, r.claimed, r.runner = 0, 0, ""
	f.waiting++
	f.lines.apart.into(r, m.Time.UnixNano())
	r.move(run.MoveRetried)
}

// delete is the end of a session: honoured only if nothing of it runs or waits at this place in the stream, and nothing below it is
// yet to be stopped with its tree.
func (f *fold) delete(ch *Change, rec subject.Record) {
	sid := identOf(sessionPrefix, strings.Clone(rec.Session))
	ch.SessionID = sid.text(sessionPrefix)
	s := f.sessions[sid]
	if s != nil && (len(s.live) > 0 || f.debts.owes(s) || f.trees.haltsBelow(s)) {
		return
	}
	f.deleted[sid] = ch.Seq
	f.debts.breakPromises(ch.SessionID)
	ch.Moved = true
	if s == nil {
		return
	}
	for r := s.firstRow; r != nil; r = r.next {
		f.drop(r)
	}
	f.dropSession(s)
	f.compact()
}

// change gives a copy of the snapshot that takes its place; those handed out stay as they are.
func (r *row) change() *Active {
	a := *r.live.snap
	r.live.snap = &a
	return &a
}

// move is the only place where a status changes.
func (r *row) move(m run.Move) {
	r.status = statusIndex(r.base().After(m))
	r.show()
}

// show puts the overlay over the status.
func (r *row) show() {
	a := r.live.snap
	if a.Status = r.base(); a.Started != nil || a.OfferSeq != 0 {
		a.Status = a.Status.After(run.MoveStarted)
	}
}

// startedAt is the overlay: what a runner says of its attempt. It decides nothing.
func (t *tables) startedAt(id, key string, at time.Time) (changed bool) {
	r := t.runs[identOf(runPrefix, id)]
	if r == nil || r.live == nil || r.live.snap.Key != key || r.live.snap.Claim == nil || r.live.snap.Started != nil {
		return false
	}
	r.change().Started = &at
	r.show()
	return true
}

// settle notes the session's next turn where it may be queued.
func (t *tables) settle(s *session) {
	if r := s.turn(); r != nil && !r.live.fresh {
		r.live.fresh = true
		t.fresh = append(t.fresh, r)
	}
}

func (t *tables) unlink(r *row) {
	l := r.live
	r.quit()
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

func statusIndex(s run.Status) uint8 { return uint8(slices.Index(run.Statuses, s)) }

func (ch *Change) identify(r *row) {
	ch.row = r
	if r.live != nil { // which has them as text
		ch.RunID, ch.SessionID = r.live.snap.Spec.ID, r.live.snap.Spec.SessionID
		return
	}
	ch.RunID, ch.SessionID = r.runID(), r.session.sessionID()
}

func (ch *Change) before(r *row) {
	ch.identify(r)
	ch.Before = r.base()
	if r.live != nil {
		ch.in, ch.since, ch.runner = r.live.in, r.live.since, r.runner
	}
}

func (ch *Change) after(r *row) { ch.After = r.base() }
