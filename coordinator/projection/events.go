package projection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ao/coordinator/budget"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// position is how far a reader has come: everything of RUNS up to one sequence, everything of EVENTS up to another, of
// the record after that so many items, and of the message of EVENTS after that so many events. As text it is
// <runs>-<events>, <runs>-<events>.<items> inside a record, and <runs>-<events>.<items>.<packed> inside a pack.
type position struct {
	runs, events  uint64
	items, packed int
}

func (p position) String() string {
	s := strconv.FormatUint(p.runs, 10) + "-" + strconv.FormatUint(p.events, 10)
	if p.items > 0 || p.packed > 0 {
		s += "." + strconv.Itoa(p.items)
	}
	if p.packed > 0 {
		s += "." + strconv.Itoa(p.packed)
	}
	return s
}

// Before is the position just before a record of RUNS: a reader that comes with it gets that record first, and every
// event that is kept.
func PositionBefore(seq uint64) string { return position{runs: seq - 1}.String() }

// maxItems is more than any record has.
const maxItems = 16

func parsePosition(text string) (p position, err error) {
	if text == "" {
		return p, nil
	}
	bad := fault.New(fault.Invalid, "",
		`after must be a position such as "123-45": the id of an event that was received, or next`).With("field",
		"after")
	if len(text) > 48 {
		return p, bad
	}
	runs, rest, ok := strings.Cut(text, "-")
	events, rest, inside := strings.Cut(rest, ".")
	items, packed, deep := strings.Cut(rest, ".")
	var errs [4]error
	p.runs, errs[0] = strconv.ParseUint(runs, 10, 62)
	p.events, errs[1] = strconv.ParseUint(events, 10, 62)
	if inside {
		p.items, errs[2] = strconv.Atoi(items)
	}
	if deep {
		p.packed, errs[3] = strconv.Atoi(packed)
	}
	if !ok || errors.Join(errs[:]...) != nil || p.items < 0 || p.items > maxItems || p.packed < 0 ||
		p.packed >= run.MaxPacked {
		return position{}, bad
	}
	return p, nil
}

// passed moves the position over a record of RUNS.
func (p *position) passed(seq uint64) {
	p.runs, p.items = max(p.runs, seq), 0
}

// skip is how many items of a record the reader has already.
func (p position) skip(seq uint64) int {
	if seq == p.runs+1 {
		return p.items
	}
	return 0
}

// inside is the position after n items of a record.
func (p position) inside(seq uint64, n int) position { return position{seq - 1, p.events, n, p.packed} }

// heard moves the position over a message of EVENTS.
func (p *position) heard(seq uint64) { p.events, p.packed = seq, 0 }

// packedIn is how many events of a message the reader has already.
func (p position) packedIn(seq uint64) int {
	if seq == p.events+1 {
		return p.packed
	}
	return 0
}

// within is the position after n of all events of a message.
func (p position) within(seq uint64, n, all int) position {
	p.heard(seq)
	if n < all {
		p.events, p.packed = seq-1, n
	}
	return p
}

// Feed tells what happens in sessions: as pages of events, and live.
type Feed struct {
	p       *Projection
	records Log
	fresh   freshness
	reader  *Reader
	lists   *Lists
	key     func(run string, attempt int) string // Config.Key
}

// said is a message of EVENTS, its event or those of a pack, with what the index says of their run. They are of one
// attempt, so they are shown together or not at all.
type said struct {
	seq    uint64
	events []run.Event           // none: it is nobody's
	by     func(key string) bool // tells whose it is; nil: it proves nothing
	claim  uint64                // of their run's attempt; 0: not known
	// no runner has begun their run, or the attempt that it proves, as far as the fold knows
	early bool
	late  bool // after the last word of their run
}

// rest are the events that a reader at p has not yet, at most so many, and where it is after them.
func (e said) rest(p position, most int) ([]run.Event, position) {
	all := len(e.events)
	from := min(p.packedIn(e.seq), all)
	to := min(from+most, all)
	return e.events[from:to], p.within(e.seq, to, all)
}

// sizeOf is about how many bytes events take.
func sizeOf(events []run.Event) (bytes int) {
	const head = 200
	for _, e := range events {
		bytes += head + len(e.Body)
	}
	return bytes
}

// saidIn reads a message of EVENTS. Any worker may write there under any session and run, so what no worker of ours
// writes has no events: other kinds, a body that is not its subject's, a pack without a proof.
func saidIn(m Record) said {
	e := said{seq: m.Seq}
	t := strings.Split(m.Subject, ".") // ao.events.<partition>.<session>.<run>.<kind>
	if len(t) != 6 || t[2] != subject.Partition(t[3]) {
		return e
	}
	body, by := run.SplitSignature(m.Subject, m.Body)
	var events []run.Event
	switch packed := t[5] == run.PackKind; {
	case packed && by != nil:
		events, _ = run.Unpack(body)
	case !packed:
		events = make([]run.Event, 1)
		if json.Unmarshal(body, &events[0]) != nil || events[0].Type != t[5] {
			return e
		}
	}
	for i := range events {
		one := &events[i]
		if one.SessionID != t[3] || one.RunID != t[4] || !slices.Contains(run.ReportedKinds, one.Type) {
			return e
		}
		if one.At.IsZero() {
			one.At = m.Time
		}
	}
	e.events, e.by = events, by
	return e
}

// judge looks up what the index says of a message; not ok: it is nothing for readers, nobody's or of a run of another
// session.
func (x *Feed) judge(e *said) (ok bool) {
	if len(e.events) == 0 {
		return false
	}
	one := e.events[0]
	s, known := x.p.look(one.RunID)
	if !known {
		e.early = true
		return true
	}
	e.claim, e.early = s.claim, !s.begun && (s.end == 0 || s.runner == "")
	e.late = s.end != 0 && e.seq > s.events && !s.mute
	if !credible(s, e.by, x.key) { // it is of an attempt that is not read yet, or of nobody
		e.early = true
	}
	return s.sessionID == one.SessionID
}

// credible tells whether an event was written by who was handed an attempt of the run. Workers of older versions prove
// nothing; then the ids of session and run, which are random, have to do.
func credible(s sight, by func(key string) bool, key func(run string, attempt int) string) bool {
	if by == nil || key == nil {
		return !s.proven || key == nil
	}
	for n := int(s.attempt); n > 0; n-- {
		if by(key(s.id, n)) {
			return true
		}
	}
	return false
}

// Told reads a message of EVENTS: its events, as the readers of its session get them. None: they get nothing.
func (x *Feed) VisibleEvents(m Record) []run.Event {
	e := saidIn(m)
	if !x.judge(&e) || !e.shown() {
		return nil
	}
	return e.events
}

// shown tells whether readers get the events of a message: their run was begun, and not over.
func (e said) shown() bool { return !e.early && !e.late }

// first tells whether a message's events go before a record of RUNS (seq 0: there is none at hand), for a reader at p.
// An event follows its run's claim and, up to the number that the last word names, precedes that. Both streams are
// given in their own order, so a last word also lets everything before its number pass.
func (e said) first(p position, rec mark) bool {
	switch {
	case e.claim <= p.runs:
		return true
	case rec.seq == 0:
		return false
	case rec.isEnd():
		return e.seq <= rec.run.events || rec.run.events == 0 && rec.run.id == e.events[0].RunID
	}
	return false
}

// mark is a record of RUNS from which a session's events follow.
type mark struct {
	seq uint64
	run sight
}

func (m mark) isEnd() bool { return m.run.end == m.seq && m.seq != 0 }

// life are the events that follow from a record: run_start from the claim that counts, result and run_… from the last
// word.
func (x *Feed) life(ctx context.Context, m mark) ([]run.Event, error) {
	s := m.run
	event := func(kind string, at int64, body any) (run.Event, error) {
		raw, err := json.Marshal(body)
		return run.Event{Type: kind, SessionID: s.sessionID, RunID: s.id, At: moment(at), Body: raw}, err
	}
	switch m.seq {
	case s.claim:
		if s.runner == "" {
			return nil, nil // taken to be ended: it never began
		}
		e, err := event(run.EventStart, s.claimed, map[string]any{"attempt": s.attempt, "runner_id": s.runner})
		return []run.Event{e}, err
	case s.end:
		word, err := x.reader.word(ctx, s)
		if err != nil {
			return nil, x.reader.gone(s.id, err)
		}
		var all []run.Event
		doc, err := x.reader.document(ctx, word)
		if err != nil {
			return nil, x.reader.gone(s.id, err)
		}
		if doc != nil {
			e, err := event(run.EventResult, s.ended, doc)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		body := map[string]any{}
		if word.Error != nil {
			body["error"] = word.Error
		}
		e, err := event(endEvent[s.status], s.ended, body)
		return append(all, e), err
	}
	return nil, nil
}

// endEvent is the event of each end.
var endEvent = map[run.Status]string{run.Completed: run.EventCompleted, run.Failed: run.EventFailed,
	run.Stopped: run.EventStopped}

// marks are a session's records after a position, in order.
func marks(f *fold, session string, after uint64) (all []mark) {
	s := f.sessions[identOf(sessionPrefix, session)]
	if s == nil {
		return nil
	}
	for r := s.firstRow; r != nil; r = r.next {
		for _, seq := range []uint64{r.claim, r.end} {
			if seq > after {
				all = append(all, mark{seq, sightOf(f, r)})
			}
		}
	}
	slices.SortFunc(all, func(a, b mark) int { return int(int64(a.seq) - int64(b.seq)) })
	return all
}

// A page of events has at most so many bytes of them, and reads them in pieces.
const (
	pageBytes = 8 << 20
	piece     = 128
)

// Events gives a session's events after a position (empty: from the beginning of what is kept), at most limit of them
// (default 50, at most 1000), and the position after them, to go on from; that is never empty.
func (x *Feed) Events(ctx context.Context, session, after string, limit int) (list []run.Event, next string,
	err error) {
	p, err := parsePosition(after)
	if err != nil {
		return nil, "", err
	}
	if err := refuse(Query{Limit: limit}, run.Statuses); err != nil {
		return nil, "", err
	}
	if limit == 0 {
		limit = defaultLimit
	}
	if _, err := x.lists.Session(ctx, session); err != nil {
		return nil, "", err
	}
	if err := x.fresh.catchUp(ctx); err != nil && fault.KindOf(err) != fault.Unavailable {
		return nil, "", err
	}
	g := &paging{x: x, session: session, limit: limit, p: p, list: []run.Event{}, more: true}
	g.look()
	for over := false; !over && len(g.list) < limit && g.size < pageBytes && ctx.Err() == nil; {
		over, err = g.next(ctx)
		if err != nil {
			return nil, "", err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, "", fmt.Errorf("events of %s: %w", session, err)
	}
	return g.list, g.p.String(), nil
}

// paging is a page of a session's events on its way: it merges the records that events follow from with the messages of
// EVENTS.
type paging struct {
	x       *Feed
	session string
	limit   int
	p       position // after what is in list
	list    []run.Event
	size    int // about how many bytes that is

	marks []mark   // records to come
	heard []Record // messages to come, as far as they were read
	more  bool     // there may be more of these
	e     said     // the first of them
	asked uint64   // the message for which the fold was waited for
}

// look finds the records to come in the fold.
func (g *paging) look() {
	g.marks = read(g.x.p, func(f *fold) []mark { return marks(f, g.session, g.p.runs) })
}

// next goes one step on; over: there is no more, or no more room inside a record.
func (g *paging) next(ctx context.Context) (over bool, err error) {
	if len(g.heard) == 0 && g.more {
		g.heard, err = g.x.records.Events(ctx, subject.SessionEvents(g.session), g.p.events, piece)
		if err != nil {
			return false, err
		}
		g.more = len(g.heard) == piece
	}
	var rec mark
	if len(g.marks) > 0 {
		rec = g.marks[0]
	}
	if len(g.heard) > 0 {
		if done, err := g.message(ctx, rec); done || err != nil {
			return false, err
		}
	}
	if rec.seq == 0 {
		return true, nil
	}
	return g.record(ctx, rec)
}

// message takes the first message, unless the record goes before it.
func (g *paging) message(ctx context.Context, rec mark) (done bool, err error) {
	if g.e.seq != g.heard[0].Seq {
		g.e = saidIn(g.heard[0])
	}
	ok := g.x.judge(&g.e)
	switch {
	case ok && g.e.early && g.asked != g.e.seq: // perhaps the fold is behind
		g.asked = g.e.seq
		if err := g.x.fresh.catchUp(ctx); err != nil {
			return false, err
		}
		g.look()
		return true, nil
	case ok && rec.seq != 0 && !g.e.first(g.p, rec):
		return false, nil
	case !ok || !g.e.shown():
		g.p.heard(g.e.seq)
		g.heard = g.heard[1:]
		return true, nil
	}
	var events []run.Event
	events, g.p = g.e.rest(g.p, g.limit-len(g.list))
	if g.p.events == g.e.seq {
		g.heard = g.heard[1:]
	}
	bytes := sizeOf(events)
	if err := budget.Hold(ctx, int64(bytes)); err != nil {
		return false, err
	}
	g.list = append(g.list, events...)
	g.size += bytes
	return true, nil
}

// record takes the first record; full: not all of its events had room.
func (g *paging) record(ctx context.Context, rec mark) (full bool, err error) {
	events, err := g.x.life(ctx, rec)
	if err != nil {
		return false, err
	}
	events = events[min(g.p.skip(rec.seq), len(events)):]
	if room := g.limit - len(g.list); len(events) > room {
		g.list = append(g.list, events[:room]...)
		g.p = g.p.inside(rec.seq, g.p.skip(rec.seq)+room)
		return true, nil
	}
	g.list = append(g.list, events...)
	for _, e := range events {
		g.size += len(e.Body)
	}
	g.marks = g.marks[1:]
	g.p.passed(rec.seq)
	return false, nil
}
