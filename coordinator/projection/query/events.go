package query

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ao/coordinator/budget"
	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// position is how far a reader is: all of RUNS up to one sequence and all of EVENTS up to another. Then come so many
// items of the next record, and so many events of the next message of EVENTS. Its text is <runs>-<events>,
// <runs>-<events>.<items> inside a record, and <runs>-<events>.<items>.<packed> inside a pack.
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

// PositionBefore returns the position just before a record of RUNS. A reader from there gets that record first, and
// every event that is kept.
func PositionBefore(seq uint64) string { return position{runs: seq - 1}.String() }

// maxItems is more than any record has.
const maxItems = 16

func parsePosition(text string) (p position, err error) {
	if text == "" {
		return p, nil
	}
	bad := fault.New(fault.Invalid, "",
		`after, or Last-Event-ID, must be a position such as "123-45": the id of an event that was received, or next`).
		With("field", "after")
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

// passed moves the position past a record of RUNS.
func (p *position) passed(seq uint64) { p.runs, p.items = max(p.runs, seq), 0 }

// skip returns how many items of a record the reader already has.
func (p position) skip(seq uint64) int {
	if seq == p.runs+1 {
		return p.items
	}
	return 0
}

// inside returns the position after n items of a record.
func (p position) inside(seq uint64, n int) position { return position{seq - 1, p.events, n, p.packed} }

// heard moves the position past a message of EVENTS.
func (p *position) heard(seq uint64) { p.events, p.packed = seq, 0 }

// packedIn returns how many events of a message the reader already has.
func (p position) packedIn(seq uint64) int {
	if seq == p.events+1 {
		return p.packed
	}
	return 0
}

// within returns the position after n of all events of a message.
func (p position) within(seq uint64, n, all int) position {
	p.heard(seq)
	if n < all {
		p.events, p.packed = seq-1, n
	}
	return p
}

// Feed returns what happens in sessions, as pages of events and live.
type Feed struct {
	p       *projection.Projection
	records Log
	fresh   Freshness
	reader  *Reader
	lists   *Lists
	key     func(run string, attempt int) string // Config.Key
}

// eventMessage is a message of EVENTS: one event or a pack, with what the index says about their run. All are of one
// attempt, so they are shown together or not at all.
type eventMessage struct {
	seq    uint64
	events []run.Event           // none: they belong to nobody
	by     func(key string) bool // reports whose it is by key; nil: the message proves nothing
	claim  uint64                // of their run's attempt; 0: unknown
	early  bool                  // their run, or the attempt they prove, is not claimed as far as the projection knows
	late   bool                  // after their run's end record
}

// rest returns the events that a reader at p does not have yet, at most most of them, and the position after them.
func (e eventMessage) rest(p position, most int) ([]run.Event, position) {
	all := len(e.events)
	from := min(p.packedIn(e.seq), all)
	to := min(from+most, all)
	return e.events[from:to], p.within(e.seq, to, all)
}

// sizeOf returns roughly how many bytes events take.
func sizeOf(events []run.Event) (bytes int) {
	const head = 200
	for _, e := range events {
		bytes += head + len(e.Body)
	}
	return bytes
}

// readEvents reads a message of EVENTS. Any worker may write there under any session and run. So what our workers never
// write has no events: other kinds, a body that contradicts its subject, a pack without proof.
func readEvents(m state.Record) eventMessage {
	e := eventMessage{seq: m.Seq}
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

// judge looks up the message's run. Not ok: it is nothing for readers, as it is nobody's or of another session.
func (x *Feed) judge(e *eventMessage) (ok bool) {
	if len(e.events) == 0 {
		return false
	}
	one := e.events[0]
	s, known := lookup(x.p, one.RunID)
	if !known {
		e.early = true
		return true
	}
	e.claim, e.early = s.Claim, !s.ClaimedByRunner && (s.End == 0 || s.Runner == "")
	e.late = s.End != 0 && e.seq > s.Events && !s.EventsUnknown
	if !credible(s, e.by, x.key) { // of an attempt that is not applied yet, or of nobody
		e.early = true
	}
	return s.SessionID == one.SessionID
}

// credible reports whether an event was written by somebody who was given an attempt of the run. Workers of older
// versions prove nothing; then the random ids of session and run must do.
func credible(s state.View, by func(key string) bool, key func(run string, attempt int) string) bool {
	if by == nil || key == nil {
		return !s.Proven || key == nil
	}
	for n := int(s.Attempt); n > 0; n-- {
		if by(key(s.ID, n)) {
			return true
		}
	}
	return false
}

// VisibleEvents returns the events of a message of EVENTS as the session's readers get them; none if they get none.
func (x *Feed) VisibleEvents(m state.Record) []run.Event {
	e := readEvents(m)
	if !x.judge(&e) || !e.shown() {
		return nil
	}
	return e.events
}

// shown reports whether readers get the events: their run was claimed and not over.
func (e eventMessage) shown() bool { return !e.early && !e.late }

// precedes reports whether a message's events come before a record of RUNS, for a reader at p (seq 0: no record is
// waiting). An event follows its run's claim, and precedes the end record up to the event number named there. Both
// streams are in order, so an end record also releases everything before its number.
func (e eventMessage) precedes(p position, rec boundary) bool {
	switch {
	case e.claim <= p.runs:
		return true
	case rec.seq == 0:
		return false
	case rec.isEnd():
		return e.seq <= rec.run.Events || rec.run.Events == 0 && rec.run.ID == e.events[0].RunID
	}
	return false
}

// boundary is a record of RUNS that has events of its own in a session's feed.
type boundary struct {
	seq uint64
	run state.View
}

func (m boundary) isEnd() bool { return m.run.End == m.seq && m.seq != 0 }

// lifecycleEvents returns the events that follow from a record: run_start from the claim, result and run_…
// from the end.
func (x *Feed) lifecycleEvents(ctx context.Context, m boundary) ([]run.Event, error) {
	s := m.run
	event := func(kind string, at int64, body any) (run.Event, error) {
		raw, err := strictjson.Encode(body)
		return run.Event{Type: kind, SessionID: s.SessionID, RunID: s.ID, At: state.Moment(at), Body: raw}, err
	}
	switch m.seq {
	case s.Claim:
		if s.Runner == "" {
			return nil, nil // a coordinator's claim, to end the run: it never started
		}
		e, err := event(run.EventStart, s.Claimed, map[string]any{"attempt": s.Attempt, "runner_id": s.Runner})
		return []run.Event{e}, err
	case s.End:
		word, err := x.reader.endRecord(ctx, s)
		if err != nil {
			return nil, x.reader.notKept(s.ID, err)
		}
		var all []run.Event
		doc, err := x.reader.document(ctx, word)
		if err != nil {
			return nil, x.reader.notKept(s.ID, err)
		}
		if doc != nil {
			e, err := event(run.EventResult, s.Ended, doc)
			if err != nil {
				return nil, err
			}
			all = append(all, e)
		}
		body := map[string]any{}
		if word.Error != nil {
			body["error"] = word.Error
		}
		e, err := event(endEvent[s.Status], s.Ended, body)
		return append(all, e), err
	}
	return nil, nil
}

// endEvent is the event of each final status.
var endEvent = map[run.Status]string{
	run.Completed: run.EventCompleted,
	run.Failed:    run.EventFailed,
	run.Stopped:   run.EventStopped,
}

// boundaries returns a session's records after a position, in order.
func boundaries(f *state.State, session string, after uint64) (all []boundary) {
	s := f.Session(session)
	if s == nil {
		return nil
	}
	for r := range s.Rows() {
		for _, seq := range []uint64{r.Claim, r.End} {
			if seq > after {
				all = append(all, boundary{seq, state.ViewOf(f, r)})
			}
		}
	}
	slices.SortFunc(all, func(a, b boundary) int { return int(int64(a.seq) - int64(b.seq)) })
	return all
}

// The most bytes of a page of events, and how many messages are read at once.
const (
	pageBytes = 8 << 20
	piece     = 128
)

// Events returns a session's events after a position, and the position to continue from, which is never empty. An
// empty position is before the oldest event kept. The limit is 50 by default, and at most 1000. Conflict: the position
// belongs to another history.
func (x *Feed) Events(ctx context.Context, session, after string, limit int,
) (list []run.Event, next string, err error) {
	p, err := parsePosition(after)
	if err != nil {
		return nil, "", err
	}
	if err := checkQuery(Query{Limit: limit}, run.Statuses); err != nil {
		return nil, "", err
	}
	if _, err := x.lists.Session(ctx, session); err != nil {
		return nil, "", err
	}
	if err := x.fresh.CatchUp(ctx); err != nil && fault.KindOf(err) != fault.Unavailable {
		return nil, "", err
	}
	g := &paging{x: x, session: session, limit: cmp.Or(limit, defaultLimit), p: p, list: []run.Event{}, more: true}
	g.findBoundaries()
	for over := false; !over && len(g.list) < g.limit && g.size < pageBytes && ctx.Err() == nil; {
		over, err = g.next(ctx)
		if err != nil {
			return nil, "", err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, "", fmt.Errorf("events of %s: %w", session, err)
	}
	if p.runs > x.p.Seq() || g.p.events == p.events {
		err = x.inHistory(ctx, p)
	}
	return g.list, g.p.String(), err
}

// paging builds a page of a session's events: it merges lifecycle events with the messages of EVENTS.
type paging struct {
	x       *Feed
	session string
	limit   int
	p       position // after what is in list
	list    []run.Event
	size    int // roughly the bytes of list

	boundaries []boundary     // records to come
	messages   []state.Record // messages to come, as far as read
	more       bool           // there may be more messages
	e          eventMessage   // the first of them
	asked      uint64         // the message for which the page waited for the projection
}

// findBoundaries finds the records to come.
func (g *paging) findBoundaries() {
	g.boundaries = projection.Read(g.x.p, func(f *state.State) []boundary { return boundaries(f, g.session, g.p.runs) })
}

// next takes one step. over: there is nothing more, or no more room inside a record.
func (g *paging) next(ctx context.Context) (over bool, err error) {
	if len(g.messages) == 0 && g.more {
		g.messages, err = g.x.records.Events(ctx, subject.SessionEvents(g.session), g.p.events, piece)
		if err != nil {
			return false, err
		}
		g.more = len(g.messages) == piece
	}
	var rec boundary
	if len(g.boundaries) > 0 {
		rec = g.boundaries[0]
	}
	if len(g.messages) > 0 {
		if done, err := g.message(ctx, rec); done || err != nil {
			return false, err
		}
	}
	if rec.seq == 0 {
		return true, nil
	}
	return g.record(ctx, rec)
}

// message takes the first message, unless the record comes before it.
func (g *paging) message(ctx context.Context, rec boundary) (done bool, err error) {
	if g.e.seq != g.messages[0].Seq {
		g.e = readEvents(g.messages[0])
	}
	ok := g.x.judge(&g.e)
	switch {
	case ok && g.e.early && g.asked != g.e.seq: // the projection may lag
		g.asked = g.e.seq
		if err := g.x.fresh.CatchUp(ctx); err != nil {
			return false, err
		}
		g.findBoundaries()
		return true, nil
	case ok && rec.seq != 0 && !g.e.precedes(g.p, rec):
		return false, nil
	case !ok || !g.e.shown():
		g.p.heard(g.e.seq)
		g.messages = g.messages[1:]
		return true, nil
	}
	var events []run.Event
	events, g.p = g.e.rest(g.p, g.limit-len(g.list))
	if g.p.events == g.e.seq {
		g.messages = g.messages[1:]
	}
	bytes := sizeOf(events)
	if err := budget.Hold(ctx, int64(bytes)); err != nil {
		return false, err
	}
	g.list = append(g.list, events...)
	g.size += bytes
	return true, nil
}

// record takes the first record. full: not all of its events had room.
func (g *paging) record(ctx context.Context, rec boundary) (full bool, err error) {
	events, err := g.x.lifecycleEvents(ctx, rec)
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
	g.boundaries = g.boundaries[1:]
	g.p.passed(rec.seq)
	return false, nil
}
