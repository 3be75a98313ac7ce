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
	"ao/shared/clock"
	"ao/shared/fault"
)

// Limits of one scan of the trail.
const (
	scanPacks = 32              // packs that are read at once
	scanTime  = 2 * time.Second // then the page ends, with a cursor
)

// source is the stream, as all coordinators read it.
type source interface {
	AuditState(ctx context.Context) (stream.State, error)
	AuditEntries(ctx context.Context, after uint64, limit int) ([]stream.Message, error)
}

// Query says which entries are wanted, newest first.
type Query struct {
	Actor  string    // the name, kind or id of who did it
	Action string    // or the beginning of an action: agent also matches agent.create
	Run    string    // a run that it was about, or that did it
	After  time.Time // only later ones
	Cursor string    // of the page before
	Limit  int
}

// Page is a page of entries, newest first.
type Page struct {
	Entries []Entry `json:"entries"`
	Next    string  `json:"next_cursor,omitempty"`
	Gaps    []Gap   `json:"gaps"` // where entries are missing, within the time that was scanned
}

// Reader reads the trail.
type Reader struct{ from source }

// NewReader returns a Reader of a stream.
func NewReader(from source) *Reader { return &Reader{from} }

// cursor is a position in the trail: an entry of a pack. What is before it is yet to be read.
type cursor struct {
	seq   uint64
	entry int
}

func (p cursor) String() string { return fmt.Sprintf("%d-%d", p.seq, p.entry) }

func parseCursor(text string) (p cursor, err error) {
	a, b, ok := strings.Cut(text, "-")
	p.seq, err = strconv.ParseUint(a, 10, 63)
	n, errB := strconv.ParseUint(b, 10, 31)
	p.entry = int(n)
	if !ok || err != nil || errB != nil {
		return cursor{}, fault.Newf(fault.Invalid, "cursor %.80q is not valid: send next_cursor of the page before",
			text).With("field", "cursor")
	}
	return p, nil
}

// Audited returns the newest entries that match. It scans for a limited time, so a page may be short with a cursor.
func (r *Reader) Audited(ctx context.Context, q Query) (Page, error) {
	state, err := r.from.AuditState(ctx)
	if err != nil {
		return Page{}, err
	}
	at := cursor{seq: state.Last + 1}
	if q.Cursor != "" {
		from, err := parseCursor(q.Cursor)
		if err != nil {
			return Page{}, err
		}
		if from.seq < at.seq || from.seq == at.seq && from.entry == 0 {
			at = from
		}
	}
	look := scan{Query: q, page: Page{Entries: []Entry{}, Gaps: []Gap{}}, at: at}
	for until := time.Now().Add(scanTime); ; {
		before := look.at.seq // packs before this one are yet to be read
		if look.at.entry > 0 {
			before++
		}
		if before <= max(state.First, 1) || look.full || time.Now().After(until) {
			break
		}
		first := max(state.First, 1)
		if before > scanPacks+first {
			first = before - scanPacks
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

// read returns the packs from first on and before the other sequence. In a cluster the replica that answers may not
// have the newest yet: read waits for them for a moment.
func (r *Reader) read(ctx context.Context, first, before uint64) (packs []stream.Message, err error) {
	for range 10 {
		packs, err = r.from.AuditEntries(ctx, first-1, int(before-first))
		if errors.Is(err, stream.ErrNotFound) {
			packs, err = nil, nil
		}
		if err != nil || len(packs) > 0 && packs[len(packs)-1].Seq >= before-1 {
			break
		}
		if !clock.Sleep(ctx, 100*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
	return packs, err
}

// scan is a scan of the trail, from the newest pack back.
type scan struct {
	Query
	page Page
	at   cursor
	full bool
	past bool // what follows is older than wanted
}

// packs reads packs, newest first. first is the sequence of the oldest that can exist.
func (l *scan) packs(packs []stream.Message, first uint64) {
	for _, m := range slices.Backward(packs) {
		if m.Seq > l.at.seq || m.Seq == l.at.seq && l.at.entry == 0 {
			continue // written meanwhile
		}
		l.pack(m)
		if l.full || l.past {
			return
		}
	}
	l.at = cursor{seq: min(l.at.seq, first)}
}

// pack reads one pack, its newest entry first.
func (l *scan) pack(m stream.Message) {
	var p pack
	if json.Unmarshal(m.Body, &p) != nil || p.Version != packVersion {
		l.page.Gaps = append(l.page.Gaps, Gap{After: m.Time, Before: m.Time})
		l.at = cursor{seq: m.Seq}
		return
	}
	n := len(p.Entries)
	if m.Seq == l.at.seq {
		n = min(n, l.at.entry)
	}
	for i := n - 1; i >= 0; i-- {
		l.at = cursor{m.Seq, i}
		e := p.Entries[i]
		if !e.Time.After(l.After) && !l.After.IsZero() {
			continue // other coordinators' packs before it may have later ones
		}
		if !l.wants(e) {
			continue
		}
		l.page.Entries = append(l.page.Entries, e)
		l.full = len(l.page.Entries) >= l.Limit
		if l.full && i > 0 {
			return
		}
	}
	if p.Lost != nil && (l.After.IsZero() || p.Lost.Before.After(l.After)) {
		l.page.Gaps = append(l.page.Gaps, *p.Lost)
	}
	l.at = cursor{seq: m.Seq}
	l.past = !l.After.IsZero() && m.Time.Before(l.After.Add(-late))
}

// late is how much later than its entries a pack is written at most, allowing for clocks that differ.
const late = time.Minute

// wants reports whether an entry matches.
func (l *scan) wants(e Entry) bool {
	by := Actor{}
	if e.Actor != nil {
		by = *e.Actor
	}
	return (l.Actor == "" || slices.Contains([]string{by.Name, by.Kind, by.Session, by.Run, by.Runner, by.Credential},
		l.Actor)) && (l.Action == "" || e.Action == l.Action || strings.HasPrefix(e.Action, l.Action+".")) &&
		(l.Run == "" || e.Run == l.Run || by.Run == l.Run)
}
