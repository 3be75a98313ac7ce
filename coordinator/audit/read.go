package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ao/nats/stream"
	"ao/shared/fault"
)

// Limits of one look into the trail.
const (
	block    = 32              // packs that are read at once
	lookMost = 2 * time.Second // then what was found is given, with where to go on
)

// source is the stream as all coordinators read it.
type source interface {
	AuditState(ctx context.Context) (stream.State, error)
	AuditEntries(ctx context.Context, after uint64, limit int) ([]stream.Message, error)
}

// Query is which entries are wanted, the newest first.
type Query struct {
	Actor  string    // the name, kind or id of who did it
	Action string    // or what an action begins with: agent is agent.create, too
	Run    string    // a run that it was about, or that did it
	After  time.Time // only later ones
	Cursor string    // of the page before
	Limit  int
}

// Page is entries of the trail, the newest first.
type Page struct {
	Entries []Entry `json:"entries"`
	Next    string  `json:"next_cursor,omitempty"`
	Gaps    []Gap   `json:"gaps"` // where entries are missing, of the time that was looked at
}

// Reader reads the trail.
type Reader struct{ from source }

// NewReader reads what is in a stream.
func NewReader(from source) *Reader { return &Reader{from} }

// place is a position in the trail: an entry of a pack. What is before it is yet to be read.
type place struct {
	seq   uint64
	entry int
}

func (p place) String() string { return fmt.Sprintf("%d-%d", p.seq, p.entry) }

func readPlace(text string) (p place, err error) {
	a, b, ok := strings.Cut(text, "-")
	p.seq, err = strconv.ParseUint(a, 10, 63)
	n, errB := strconv.ParseUint(b, 10, 31)
	p.entry = int(n)
	if !ok || err != nil || errB != nil {
		return place{}, fault.Newf(fault.Invalid, "cursor %.80q is none: send next_cursor of the page before", text).With("field", "cursor")
	}
	return p, nil
}

// Audited gives the newest entries that a query wants. It looks for a moment only: a page may have few entries and a cursor.
func (r *Reader) Audited(ctx context.Context, q Query) (Page, error) {
	state, err := r.from.AuditState(ctx)
	if err != nil {
		return Page{}, err
	}
	at := place{seq: state.Last + 1}
	if q.Cursor != "" {
		from, err := readPlace(q.Cursor)
		if err != nil {
			return Page{}, err
		}
		if from.seq < at.seq || from.seq == at.seq && from.entry == 0 {
			at = from
		}
	}
	look := looking{Query: q, page: Page{Entries: []Entry{}, Gaps: []Gap{}}, at: at}
	for until := time.Now().Add(lookMost); ; {
		before := look.at.seq // packs up to this one are read
		if look.at.entry > 0 {
			before++
		}
		if before <= max(state.First, 1) || look.full || time.Now().After(until) {
			break
		}
		first := max(state.First, 1)
		if before > block+first {
			first = before - block
		}
		packs, err := r.read(ctx, first, before)
		if err != nil {
			return Page{}, err
		}
		look.packs(packs, first)
	}
	if first := max(state.First, 1); !look.past && (look.at.seq > first || look.at.seq == first && look.at.entry > 0) {
		look.page.Next = look.at.String()
	}
	return look.page, nil
}

// read gives the packs from first on, and before the other sequence. In a cluster who answers may have yet to get the newest: it waits
// for them, for a moment.
func (r *Reader) read(ctx context.Context, first, before uint64) (packs []stream.Message, err error) {
	for range 10 {
		packs, err = r.from.AuditEntries(ctx, first-1, int(before-first))
		if errors.Is(err, stream.ErrNotFound) {
			packs, err = nil, nil
		}
		if err != nil || len(packs) > 0 && packs[len(packs)-1].Seq >= before-1 {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return packs, err
}

// looking is a look at the trail, from the newest pack back.
type looking struct {
	Query
	page Page
	at   place
	full bool
	past bool // what comes is older than wanted
}

// packs reads packs, the newest of them first; first is the sequence of the oldest that could be there.
func (l *looking) packs(packs []stream.Message, first uint64) {
	for _, m := range slices.Backward(packs) {
		if m.Seq > l.at.seq || m.Seq == l.at.seq && l.at.entry == 0 {
			continue // written meanwhile
		}
		if l.pack(m); l.full || l.past {
			return
		}
	}
	l.at = place{seq: min(l.at.seq, first)}
}

// pack reads one pack, its newest entry first.
func (l *looking) pack(m stream.Message) {
	var p pack
	if json.Unmarshal(m.Body, &p) != nil || p.Version != packVersion {
		l.page.Gaps = append(l.page.Gaps, Gap{After: m.Time, Before: m.Time})
		l.at = place{seq: m.Seq}
		return
	}
	n := len(p.Entries)
	if m.Seq == l.at.seq {
		n = min(n, l.at.entry)
	}
	for i := n - 1; i >= 0; i-- {
		l.at = place{m.Seq, i}
		e := p.Entries[i]
		if !e.Time.After(l.After) && !l.After.IsZero() {
			continue // other coordinators' packs before it may have later ones
		}
		if !l.wants(e) {
			continue
		}
		l.page.Entries = append(l.page.Entries, e)
		if l.full = len(l.page.Entries) >= l.Limit; l.full && i > 0 {
			return
		}
	}
	if p.Lost != nil && (l.After.IsZero() || p.Lost.Before.After(l.After)) {
		l.page.Gaps = append(l.page.Gaps, *p.Lost)
	}
	l.at = place{seq: m.Seq}
	l.past = !l.After.IsZero() && m.Time.Before(l.After.Add(-late))
}

// late is how much later than its entries a pack is written at most, with clocks that differ.
const late = time.Minute

// wants says whether an entry is wanted.
func (l *looking) wants(e Entry) bool {
	by := Actor{}
	if e.Actor != nil {
		by = *e.Actor
	}
	return (l.Actor == "" || slices.Contains([]string{by.Name, by.Kind, by.Session, by.Run, by.Runner, by.Credential}, l.Actor)) &&
		(l.Action == "" || e.Action == l.Action || strings.HasPrefix(e.Action, l.Action+".")) &&
		(l.Run == "" || e.Run == l.Run || by.Run == l.Run)
}
