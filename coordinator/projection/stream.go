package projection

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"

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

// Item is one piece of a live stream. Its ID is the position after it: who comes back with it goes on behind it.
type Item struct {
	ID    string
	Event string
	Data  any // Snapshot, Gap, run.Session, Deleted, run.Run or run.Event, by Event
}

// Snapshot is the data of init: how things stand.
type Snapshot struct {
	Sessions []run.Session `json:"sessions"`
	Runs     []run.Run     `json:"runs"`
}

// Gap is the data of gap: what followed the position that was asked for is no longer kept.
type Gap struct {
	After   string `json:"after"`
	Message string `json:"message"`
}

// Deleted is the data of session_deleted.
type Deleted struct {
	SessionID string `json:"session_id"`
}

// A snapshot has at most so many sessions and runs.
const (
	initSessions = 100
	initRuns     = 200
)

// Stream gives emit what happens in a session, or in all (session ""), until ctx ends or emit errs. An empty position
// begins with init; any other goes on right behind it, or, where that is no longer kept, tells the gap and begins with
// init. It keeps one message of either stream at hand and waits for emit, so a slow reader costs no memory.
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
	t := &teller{x: x, session: session, p: p, emit: emit, records: []string{subject.AllRuns},
		events: subject.AllEvents}
	if session != "" {
		t.records, t.events = []string{"ao.runs." + subject.Partition(session) + ".>"}, subject.SessionEvents(session)
	}
	// from now on: before the snapshot, so that none is missed in between
	_, heard, began := x.p.started(math.MaxUint64)
	if err := t.begin(ctx, after); err != nil {
		return err
	}
	return t.run(ctx, heard, began)
}

// teller is one reader of the live stream.
type teller struct {
	x       *Feed
	session string
	records []string // filter of RUNS
	events  string   // filter of EVENTS
	p       position
	emit    func(Item) error
}

// begin tells where the reader stands: nothing where it can go on.
func (t *teller) begin(ctx context.Context, after string) error {
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
	case p.runs+1 < runs.First, p.runs > runs.Last, (p.events != 0 || p.packed != 0) && p.events+1 < events.First,
		p.events > events.Last:
		gap := Gap{after, "what followed this position is no longer kept; init tells how things stand now"}
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

// run merges the two streams: of either it has one message at hand and decides which goes first.
func (t *teller) run(ctx context.Context, heard uint64, began <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	follow := func(name string, after uint64, filters []string) <-chan Record {
		c := make(chan Record)
		wg.Go(func() {
			t.x.records.Follow(ctx, name, after, filters, func(m Record) error {
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
	var rec *Record
	var ev *said
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
			e := saidIn(m)
			ev = &e
		case <-began:
			heard, began, err = t.began(ctx, heard)
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// started is what there was after the first so many, how many there have been now, and what is closed when there are
// more.
func (p *Projection) started(heard uint64) (ids []string, count uint64, more <-chan struct{}) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.starts.since(heard), p.starts.count, p.starts.more
}

// began tells that runs are running since the reader looked last; what a slow reader misses of that, the next record
// shows.
func (t *teller) began(ctx context.Context, heard uint64) (uint64, <-chan struct{}, error) {
	ids, count, more := t.x.p.started(heard)
	for _, id := range ids {
		if strings.HasPrefix(id, sessionPrefix) {
			if err := t.idle(id); err != nil {
				return count, more, err
			}
			continue
		}
		s, ok := t.x.p.look(id)
		if !ok || s.status != run.Running || s.claim > t.p.runs || t.session != "" && t.session != s.sessionID {
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

// idle tells that a session is idle, or not any more. A reader that is not yet where its last run ended is told so
// there.
func (t *teller) idle(id string) error {
	if t.session != "" && t.session != id {
		return nil
	}
	var v run.Session
	told := false
	t.x.p.reading(func(f *fold) {
		s := f.sessions[identOf(sessionPrefix, id)]
		told = s != nil && s.runs > 0 && len(s.live) == 0 && s.lastEnded != nil && s.lastEnded.end <= t.p.runs
		if told {
			v = t.x.p.viewOf(s)
		}
	})
	if !told {
		return nil
	}
	return t.emit(Item{t.p.String(), ItemSessionUpdated, v})
}

// step tells one of the messages at hand, if one can be told now.
func (t *teller) step(ctx context.Context, rec **Record, ev **said) (moved bool, err error) {
	var about telling
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
		if ok && e.early { // perhaps the fold is behind
			if err := t.x.fresh.catchUpUntilDone(ctx); err != nil {
				return false, err
			}
			ok = t.x.judge(e)
		}
		switch {
		case !ok || e.first(t.p, about.mark):
			*ev = nil
			if ok && e.shown() {
				err = t.show(e)
			}
			t.p.heard(e.seq)
			return true, err
		case *rec == nil:
			return false, nil
		}
	} else if about.isEnd() && about.run.events > t.p.events {
		// The last word waits for the events before it, as far as they are kept.
		switch next, err := t.x.records.NextEvent(ctx, t.events, t.p.events); {
		case err == nil && next.Seq <= about.run.events:
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
	return true, t.tell(ctx, seq, about)
}

// telling is what there is to tell of a record.
type telling struct {
	mark
	kind    subject.Kind
	session string
}

func (a telling) any() bool { return a.session != "" }

// about looks a record up in a fold that has it: what the fold did not take is not told.
func (t *teller) about(ctx context.Context, m Record) (telling, error) {
	none := telling{}
	rec, err := subject.Parse(m.Subject)
	if err != nil {
		return none, nil
	}
	if err := t.x.fresh.Await(ctx, m.Seq); err != nil {
		return none, err
	}
	a := telling{mark{seq: m.Seq}, rec.Kind, rec.Session}
	switch rec.Kind {
	case subject.DeletedKind:
		if read(t.x.p, func(f *fold) uint64 { return f.deleted[identOf(sessionPrefix, rec.Session)] }) != m.Seq {
			return none, nil
		}
	case subject.QueuedKind, subject.AcceptedKind, subject.StoppingKind, subject.ClaimedKind, subject.BoundKind,
		subject.OfferedKind, subject.EndedKind:
		s, ok := t.x.p.look(rec.Run)
		if !ok || rec.Kind.Keyed() && s.claim != m.Seq && s.end != m.Seq {
			return none, nil
		}
		a.run, a.session = s, s.sessionID
	default:
		return none, nil
	}
	if t.session != "" && a.session != t.session {
		return none, nil
	}
	return a, nil
}

// show emits the events of a message, but those that the reader has already.
func (t *teller) show(e *said) error {
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

// tell emits the items of a record, but those that the reader has already.
func (t *teller) tell(ctx context.Context, seq uint64, a telling) error {
	items, err := t.items(ctx, a)
	if err != nil && fault.KindOf(err) != fault.NotFound { // it was forgotten at this moment
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

func (t *teller) items(ctx context.Context, a telling) (items []Item, err error) {
	if a.kind == subject.DeletedKind {
		return []Item{{Event: ItemSessionDeleted, Data: Deleted{a.session}}}, nil
	}
	events, err := t.x.life(ctx, a.mark)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		items = append(items, Item{Event: ItemEvent, Data: e})
	}
	s, ok := t.x.p.session(a.session)
	if !ok {
		return nil, nil
	}
	name := ItemSessionUpdated
	if a.run.sessionFirst == a.seq {
		name = ItemSessionCreated
	}
	r, err := t.x.reader.brief(ctx, a.run)
	if err != nil {
		return nil, err
	}
	items = append(items, Item{Event: name, Data: s}, Item{Event: ItemRunUpdated, Data: r})
	if a.isEnd() && a.run.status == run.Failed {
		items = append(items, Item{Event: ItemRunFailed, Data: r})
	}
	return items, nil
}
