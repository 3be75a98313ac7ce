package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ao/coordinator/budget"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// position is how far a reader has come: everything of RUNS up to one sequence, everything of EVENTS up to another, and
// of the record after that so many items. As text it is <runs>-<events>, or <runs>-<events>.<items> inside a record.
type position struct {
	runs, events uint64
	items        int
}

func (p position) String() string {
	s := strconv.FormatUint(p.runs, 10) + "-" + strconv.FormatUint(p.events, 10)
	if p.items > 0 {
		s += "." + strconv.Itoa(p.items)
	}
	return s
}

// Before is the position just before a record of RUNS: a reader that comes with it gets that record first, and every event
// that is kept.
func Before(seq uint64) string { return position{runs: seq - 1}.String() }

// maxItems is more than any record has.
const maxItems = 16

func parsePosition(text string) (p position, err error) {
	if text == "" {
		return p, nil
	}
	bad := fault.New(fault.Invalid, "", `after must be a position such as "123-45": the id of an event that was received, or next`).With("field", "after")
	if len(text) > 48 {
		return p, bad
	}
	runs, rest, ok := strings.Cut(text, "-")
	events, items, inside := strings.Cut(rest, ".")
	var errs [3]error
	p.runs, errs[0] = strconv.ParseUint(runs, 10, 62)
	p.events, errs[1] = strconv.ParseUint(events, 10, 62)
	if inside {
		p.items, errs[2] = strconv.Atoi(items)
	}
	if !ok || errors.Join(errs[:]...) != nil || p.items < 0 || p.items > maxItems {
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
func (p position) inside(seq uint64, n int) position { return position{seq - 1, p.events, n} }

// said is a message of EVENTS with what the index says of its run.
type said struct {
	seq   uint64
	event run.Event
	size  int
	run   string
	claim uint64 // of its run's attempt; 0: not known
	early bool   // no runner has begun its run, or the attempt that it proves, as far as the fold knows
	late  bool   // after the last word of its run
}

// hear reads a message of EVENTS; not ok: nothing for readers. Any worker may write there under any session and run, so what
// no worker of ours writes is left out: other kinds, a body that is not its subject's, a run of another session, a wrong proof.
func (j *Journal) hear(m bus.Message) (said, bool) {
	e := said{seq: m.Seq, size: len(m.Body)}
	t := strings.Split(m.Subject, ".") // ao.events.<partition>.<session>.<run>.<kind>
	if len(t) != 6 || !slices.Contains(run.ToldKinds, t[5]) || t[2] != subject.Partition(t[3]) {
		return e, false
	}
	body, by := run.Proven(m.Subject, m.Body)
	if json.Unmarshal(body, &e.event) != nil || e.event.SessionID != t[3] || e.event.RunID != t[4] || e.event.Type != t[5] {
		return e, false
	}
	if e.event.At.IsZero() {
		e.event.At = m.Time
	}
	e.run = e.event.RunID
	s, ok := j.look(e.run)
	if !ok {
		e.early = true
		return e, true
	}
	e.claim, e.early = s.claim, !s.begun && (s.end == 0 || s.runner == "")
	e.late = s.end != 0 && m.Seq > s.events && !s.mute
	if !j.credible(s, by) { // it is of an attempt that is not read yet, or of nobody
		e.early = true
	}
	return e, s.sessionID == e.event.SessionID
}

// credible tells whether an event was written by who was handed an attempt of the run. Workers of older versions prove nothing;
// then the ids of session and run, which are random, have to do.
func (j *Journal) credible(s sight, by func(key string) bool) bool {
	if by == nil || j.key == nil {
		return !s.proven || j.key == nil
	}
	for n := int(s.attempt); n > 0; n-- {
		if by(j.key(s.id, n)) {
			return true
		}
	}
	return false
}

// Event reads a message of EVENTS as the readers of its session get it; not ok: they do not.
func (j *Journal) Event(m bus.Message) (run.Event, bool) {
	e, ok := j.hear(m)
	return e.event, ok && e.shown()
}

// shown tells whether readers get an event: its run was begun, and not over.
func (e said) shown() bool { return !e.early && !e.late }

// first tells whether an event goes before a record of RUNS (seq 0: there is none at hand), for a reader at p. An event
// follows its run's claim and, up to the number that the last word names, precedes that. Both streams are given in their own
// order, so a last word also lets everything before its number pass.
func (e said) first(p position, rec mark) bool {
	switch {
	case e.claim <= p.runs:
		return true
	case rec.seq == 0:
		return false
	case rec.isEnd():
		return e.seq <= rec.run.events || rec.run.events == 0 && rec.run.id == e.run
	}
	return false
}

// mark is a record of RUNS from which a session's events follow.
type mark struct {
	seq uint64
	run sight
}

func (m mark) isEnd() bool { return m.run.end == m.seq && m.seq != 0 }

// life are the events that follow from a record: run_start from the claim that counts, result and run_… from the last word.
func (j *Journal) life(ctx context.Context, m mark) ([]run.Event, error) {
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
		word, err := j.word(ctx, s)
		if err != nil {
			return nil, j.gone(s.id, err)
		}
		var all []run.Event
		doc, err := j.document(ctx, word)
		if err != nil {
			return nil, j.gone(s.id, err)
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
var endEvent = map[run.Status]string{run.Completed: run.EventCompleted, run.Failed: run.EventFailed, run.Stopped: run.EventStopped}

// marks are a session's records after a position, in order.
func (j *Journal) marks(session string, after uint64) (all []mark) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	s := j.fold.sessions[identOf(sessionPrefix, session)]
	if s == nil {
		return nil
	}
	for r := s.firstRow; r != nil; r = r.next {
		for _, seq := range []uint64{r.claim, r.end} {
			if seq > after {
				all = append(all, mark{seq, j.fold.see(r)})
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
func (j *Journal) Events(ctx context.Context, session, after string, limit int) (list []run.Event, next string, err error) {
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
	if _, err := j.Session(ctx, session); err != nil {
		return nil, "", err
	}
	if err := j.catchUp(ctx); err != nil && fault.KindOf(err) != fault.Unavailable {
		return nil, "", err
	}
	list = []run.Event{}
	marks := j.marks(session, p.runs)
	var heard []bus.Message
	more, size, asked := true, 0, uint64(0)
	for len(list) < limit && size < pageBytes && ctx.Err() == nil {
		if len(heard) == 0 && more {
			if heard, err = j.bus.Events(ctx, subject.SessionEvents(session), p.events, piece); err != nil {
				return nil, "", err
			}
			more = len(heard) == piece
		}
		var rec mark
		if len(marks) > 0 {
			rec = marks[0]
		}
		if len(heard) > 0 {
			e, ok := j.hear(heard[0])
			if ok && e.early && asked != e.seq { // perhaps the fold is behind
				asked = e.seq
				if err := j.catchUp(ctx); err != nil {
					return nil, "", err
				}
				marks = j.marks(session, p.runs)
				continue
			}
			if !ok || e.first(p, rec) || rec.seq == 0 {
				if ok && e.shown() {
					if err := budget.Hold(ctx, int64(e.size)); err != nil {
						return nil, "", err
					}
					list = append(list, e.event)
					size += e.size
				}
				p.events, heard = e.seq, heard[1:]
				continue
			}
		}
		if rec.seq == 0 {
			break
		}
		events, err := j.life(ctx, rec)
		if err != nil {
			return nil, "", err
		}
		events = events[min(p.skip(rec.seq), len(events)):]
		if room := limit - len(list); len(events) > room {
			list = append(list, events[:room]...)
			p = p.inside(rec.seq, p.skip(rec.seq)+room)
			break
		}
		list = append(list, events...)
		for _, e := range events {
			size += len(e.Body)
		}
		marks = marks[1:]
		p.passed(rec.seq)
	}
	if err := ctx.Err(); err != nil {
		return nil, "", fmt.Errorf("events of %s: %w", session, err)
	}
	return list, p.String(), nil
}
