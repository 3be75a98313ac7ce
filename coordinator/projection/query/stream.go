package query

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// The names of the items of a live stream.
const (
	ItemInit           = "init"
	ItemGap            = "gap"
	ItemSessionCreated = "session_created"
	ItemSessionUpdated = "session_updated"
	ItemSessionDeleted = "session_deleted"
	ItemRunUpdated     = "run_updated"
	ItemRunFailed      = "run_failed"
	ItemEvent          = "event"
)

// Item is one item of a live stream. Its ID is the position after it, from which a reader can continue.
type Item struct {
	ID    string
	Event string
	Data  any // Snapshot, Gap, run.Session, Deleted, run.Run or run.Event, by Event
}

// Snapshot is the data of init: the current state.
type Snapshot struct {
	Sessions []run.Session `json:"sessions"`
	Runs     []run.Run     `json:"runs"`
}

// Gap is the data of gap: what followed the reader's position is no longer kept.
type Gap struct {
	After   string `json:"after"`
	Message string `json:"message"`
}

// Deleted is the data of session_deleted.
type Deleted struct {
	SessionID string `json:"session_id"`
}

// The most sessions and runs that a Snapshot has.
const (
	initSessions = 100
	initRuns     = 200
)

// Stream passes to emit what happens in a session, or in all (session ""), until ctx ends or emit fails. An empty
// position begins with init. Any other continues right after it or, if that is no longer kept, emits a gap and then
// init. It holds one message of each stream and waits for emit, so a slow reader costs no memory.
func (x *Feed) Stream(ctx context.Context, session, after string, emit func(Item) error) error {
	p, err := parsePosition(after)
	if err != nil {
		return err
	}
	if session != "" {
		if err := run.CheckSessionID(session); err != nil {
			return err
		}
	}
	t := &streamReader{x: x, session: session, p: p, emit: emit, records: []string{subject.AllRuns},
		events: subject.AllEvents}
	if session != "" {
		t.records, t.events = []string{"ao.runs." + subject.Partition(session) + ".>"}, subject.SessionEvents(session)
	}
	_, heard, began := x.p.RecentChanges(math.MaxUint64) // from before the snapshot, so that none is missed
	if err := t.begin(ctx, after); err != nil {
		return err
	}
	return t.run(ctx, heard, began)
}

// streamReader is one reader of the live stream.
type streamReader struct {
	x       *Feed
	session string
	records []string // filter of RUNS
	events  string   // filter of EVENTS
	p       position
	emit    func(Item) error
}

// begin emits the current state, or nothing if the reader can continue from its position.
func (t *streamReader) begin(ctx context.Context, after string) error {
	runs, err := t.x.records.State(ctx)
	if err != nil {
		return err
	}
	events, err := t.x.records.StreamState(ctx, subject.Events)
	if err != nil {
		return err
	}
	p := t.p
	switch {
	case after == "":
	case p.runs+1 < runs.First,
		p.runs > runs.Last,
		(p.events != 0 || p.packed != 0) && p.events+1 < events.First,
		p.events > events.Last:
		gap := Gap{after, "what followed this position is no longer kept; init has the current state"}
		if err := t.emit(Item{ID: after, Event: ItemGap, Data: gap}); err != nil {
			return err
		}
	default:
		return t.x.fresh.Await(ctx, p.runs)
	}
	if err := t.x.fresh.Await(ctx, runs.Last); err != nil {
		return err
	}
	t.p = position{runs: t.x.p.Seq(), events: events.Last}
	snap := Snapshot{}
	if t.session != "" {
		s, err := t.x.lists.Session(ctx, t.session)
		switch {
		case err == nil:
			snap.Sessions = []run.Session{s}
		case after == "" || fault.KindOf(err) != fault.NotFound:
			return err
		default:
			snap.Sessions = []run.Session{}
		}
	} else {
		page, err := t.x.lists.Sessions(ctx, Query{Limit: initSessions})
		if err != nil {
			return err
		}
		snap.Sessions = page.Sessions
	}
	page, err := t.x.lists.Runs(ctx, Query{Session: t.session, Limit: initRuns})
	if err != nil {
		return err
	}
	snap.Runs = page.Runs
	return t.emit(Item{ID: t.p.String(), Event: ItemInit, Data: snap})
}

// run merges the two streams: it holds one message of each, and decides which comes first.
func (t *streamReader) run(ctx context.Context, heard uint64, began <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	follow := func(name string, after uint64, filters []string) <-chan state.Record {
		c := make(chan state.Record)
		wg.Go(func() {
			t.x.records.Follow(ctx, name, after, filters, func(m state.Record) error {
				select {
				case c <- m:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		})
		return c
	}
	records := follow(subject.Runs, t.p.runs, t.records)
	events := follow(subject.Events, t.p.events, []string{t.events})
	var rec *state.Record
	var ev *eventMessage
	for {
		wantRec, wantEv := records, events
		if rec != nil {
			wantRec = nil
		}
		if ev != nil {
			wantEv = nil
		}
		moved, err := t.step(ctx, &rec, &ev)
		if err != nil {
			return err
		}
		if moved {
			continue
		}
		select {
		case m := <-wantRec:
			rec = &m
		case m := <-wantEv:
			e := readEvents(m)
			ev = &e
		case <-began:
			heard, began, err = t.emitStarted(ctx, heard)
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// emitStarted emits runs that started since the last call. What a slow reader misses, the next record shows.
func (t *streamReader) emitStarted(ctx context.Context, heard uint64) (uint64, <-chan struct{}, error) {
	ids, count, more := t.x.p.RecentChanges(heard)
	for _, id := range ids {
		if strings.HasPrefix(id, state.SessionPrefix) {
			if err := t.emitIdle(id); err != nil {
				return count, more, err
			}
			continue
		}
		s, ok := lookup(t.x.p, id)
		if !ok || s.Status != run.Running || s.Claim > t.p.runs || t.session != "" && t.session != s.SessionID {
			continue
		}
		r, err := t.x.reader.brief(ctx, s)
		if err != nil {
			return count, more, err
		}
		if err := t.emit(Item{t.p.String(), ItemRunUpdated, r}); err != nil {
			return count, more, err
		}
	}
	return count, more, nil
}

// emitIdle emits a session that became idle or stopped being idle. A reader not yet past its last run's end
// gets it there.
func (t *streamReader) emitIdle(id string) error {
	if t.session != "" && t.session != id {
		return nil
	}
	var v run.Session
	told := false
	t.x.p.Reading(func(f *state.State) {
		s := f.Session(id)
		told = s != nil && s.Runs() > 0 && len(s.OpenRuns()) == 0 && s.LastEnded() != nil &&
			s.LastEnded().End <= t.p.runs
		if told {
			v = viewOf(t.x.p, f, s)
		}
	})
	if !told {
		return nil
	}
	return t.emit(Item{t.p.String(), ItemSessionUpdated, v})
}

// step emits one of the two messages, if one is ready.
func (t *streamReader) step(ctx context.Context, rec **state.Record, ev **eventMessage) (moved bool, err error) {
	var about recordItems
	if *rec != nil {
		about, err = t.about(ctx, **rec)
		if err != nil {
			return false, err
		}
		if !about.any() {
			t.p.passed((*rec).Seq)
			*rec = nil
			return true, nil
		}
	}
	if *ev != nil {
		e := *ev
		ok := t.x.judge(e)
		if ok && e.early { // the projection may lag
			if err := catchUpUntilDone(ctx, t.x.fresh); err != nil {
				return false, err
			}
			ok = t.x.judge(e)
		}
		switch {
		case !ok || e.precedes(t.p, about.boundary):
			*ev = nil
			if ok && e.shown() {
				err = t.emitEvents(e)
			}
			t.p.heard(e.seq)
			return true, err
		case *rec == nil:
			return false, nil
		}
	} else if about.isEnd() && about.run.Events > t.p.events {
		// The end record waits for the events before it, as far as they are kept.
		switch next, err := t.x.records.NextEvent(ctx, t.events, t.p.events); {
		case err == nil && next.Seq <= about.run.Events:
			return false, nil
		case err != nil && !errors.Is(err, stream.ErrNotFound):
			return false, err
		}
	}
	if *rec == nil {
		return false, nil
	}
	seq := (*rec).Seq
	*rec = nil
	return true, t.emitRecord(ctx, seq, about)
}

// recordItems is what there is to emit for a record.
type recordItems struct {
	boundary
	kind    subject.Kind
	session string
}

func (a recordItems) any() bool { return a.session != "" }

// about looks up a record once it is applied. What had no effect is not emitted.
func (t *streamReader) about(ctx context.Context, m state.Record) (recordItems, error) {
	none := recordItems{}
	rec, err := subject.Parse(m.Subject)
	if err != nil {
		return none, nil
	}
	if err := t.x.fresh.Await(ctx, m.Seq); err != nil {
		return none, err
	}
	a := recordItems{boundary{seq: m.Seq}, rec.Kind, rec.Session}
	switch rec.Kind {
	case subject.DeletedKind:
		if projection.Read(t.x.p, func(f *state.State) uint64 { return state.DeletedAt(f, rec.Session) }) != m.Seq {
			return none, nil
		}
	case subject.QueuedKind,
		subject.AcceptedKind,
		subject.StoppingKind,
		subject.ClaimedKind,
		subject.BoundKind,
		subject.OfferedKind,
		subject.EndedKind:
		s, ok := lookup(t.x.p, rec.Run)
		if !ok || rec.Kind.Keyed() && s.Claim != m.Seq && s.End != m.Seq {
			return none, nil
		}
		a.run, a.session = s, s.SessionID
	default:
		return none, nil
	}
	if t.session != "" && a.session != t.session {
		return none, nil
	}
	return a, nil
}

// emitEvents emits the events of a message that the reader does not have yet.
func (t *streamReader) emitEvents(e *eventMessage) error {
	for at := t.p; at.events < e.seq; {
		var one []run.Event
		one, at = e.rest(at, 1)
		if len(one) == 0 {
			break
		}
		if err := t.emit(Item{at.String(), ItemEvent, one[0]}); err != nil {
			return err
		}
	}
	return nil
}

// emitRecord emits the items of a record that the reader does not have yet.
func (t *streamReader) emitRecord(ctx context.Context, seq uint64, a recordItems) error {
	items, err := t.items(ctx, a)
	if err != nil && fault.KindOf(err) != fault.NotFound { // truncated just now
		return err
	}
	for n := t.p.skip(seq); n < len(items); n++ {
		at := t.p.inside(seq, n+1)
		if n == len(items)-1 {
			at = t.p
			at.passed(seq)
		}
		items[n].ID = at.String()
		if err := t.emit(items[n]); err != nil {
			return err
		}
	}
	t.p.passed(seq)
	return nil
}

func (t *streamReader) items(ctx context.Context, a recordItems) (items []Item, err error) {
	if a.kind == subject.DeletedKind {
		return []Item{{Event: ItemSessionDeleted, Data: Deleted{a.session}}}, nil
	}
	events, err := t.x.lifecycleEvents(ctx, a.boundary)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		items = append(items, Item{Event: ItemEvent, Data: e})
	}
	s, ok := sessionBy(t.x.p, a.session)
	if !ok {
		return nil, nil
	}
	name := ItemSessionUpdated
	if a.run.SessionFirst == a.seq {
		name = ItemSessionCreated
	}
	r, err := t.x.reader.brief(ctx, a.run)
	if err != nil {
		return nil, err
	}
	items = append(items, Item{Event: name, Data: s}, Item{Event: ItemRunUpdated, Data: r})
	if a.isEnd() && a.run.Status == run.Failed {
		items = append(items, Item{Event: ItemRunFailed, Data: r})
	}
	return items, nil
}
