package audit

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"ao/shared/clock"
	"ao/shared/strictjson"
)

// Limits of the trail that nobody needs to change.
const (
	packAt      = 64 << 10        // bytes of entries that are written at once
	finalWrites = 2 * time.Second // for what is left at the end
	maxPause    = 5 * time.Second // between two tries to write
)

// store is the stream of all coordinators. A pack that is written twice under the same id exists once.
type store interface {
	AppendAudit(ctx context.Context, id string, pack []byte) error
}

// Trail writes entries to the stream that every coordinator can read, several in one message. It never
// blocks: what cannot be written for long is lost, and recorded as a gap.
type Trail struct {
	log *slog.Logger
	in  chan *Entry
	id  string // of this process
	n   uint64 // packs made

	mu   sync.Mutex
	lost Gap // since the last pack

	refusals refusals
}

// pack is a message of the stream.
type pack struct {
	Version int     `json:"v"`
	Entries []Entry `json:"entries,omitempty"`
	Lost    *Gap    `json:"lost,omitempty"` // before the entries
}

// packVersion is the layout of packs. Readers skip newer ones.
const packVersion = 1

// Gap is where entries are missing.
type Gap struct {
	After  time.Time `json:"after"`  // of the first that is missing
	Before time.Time `json:"before"` // of the last one
	Count  uint64    `json:"count,omitempty"`
}

// NewTrail returns a Trail that takes entries at once. Run writes them.
func NewTrail(log *slog.Logger) *Trail {
	return &Trail{log: cmp.Or(log, slog.Default()), in: make(chan *Entry, queue), id: rand.Text()}
}

// record takes an entry and returns at once.
func (t *Trail) record(e Entry) {
	if t == nil || !t.refusals.allow(&e) {
		return
	}
	t.add(&e)
}

// add takes an entry that is within its quota.
func (t *Trail) add(e *Entry) {
	select {
	case t.in <- e:
	default:
		t.addLost(e.Time, e.Time, 1)
	}
}

// addLost notes that entries are missing.
func (t *Trail) addLost(after, before time.Time, n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost.Count == 0 {
		t.lost.After = after
	}
	t.lost.Before = before
	t.lost.Count += n
}

// missing returns what was lost since the last call.
func (t *Trail) missing() *Gap {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost.Count == 0 {
		return nil
	}
	gap := t.lost
	t.lost = Gap{}
	return &gap
}

// Run writes entries until ctx ends, then those that are left, for a moment.
func (t *Trail) Run(ctx context.Context, to store) {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(finalWrites, cancel) })()
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			over = true
		}
		for _, e := range t.refusals.omitted(time.Now(), over) {
			t.add(&e)
		}
		for t.write(writing, to) {
		}
	}
}

// write writes one pack, and retries until it is written. False: nothing waits, or ctx has ended.
func (t *Trail) write(ctx context.Context, to store) bool {
	gap := t.missing()
	entries, count := t.waiting()
	if count == 0 && gap == nil {
		return false
	}
	o := strictjson.Build(nil)
	o.Int("v", packVersion)
	o.OptRaw("entries", entries)
	if gap != nil {
		o.Value("lost", gap)
	}
	raw, err := o.End()
	if err != nil {
		t.log.Error("audit entries cannot be encoded", "err", err)
		return true
	}
	t.n++
	id := t.id + "-" + strconv.FormatUint(t.n, 10)
	err = t.writeUntilDone(ctx, to, id, raw)
	if err == nil {
		return true
	}
	t.log.Error("audit entries not written to NATS", "count", count, "err", err)
	return false
}

// waiting takes waiting entries, as many as a pack may have, as a JSON array; nil: there are none.
func (t *Trail) waiting() (entries []byte, count int) {
	for len(entries) < packAt && len(t.in) > 0 { // nobody else takes from it
		entries = append(entries, "[,"[min(count, 1)])
		entries = (<-t.in).append(entries)
		count++
	}
	if count == 0 {
		return nil, 0
	}
	return append(entries, ']'), count
}

// writeUntilDone retries until the pack is written or ctx ends.
func (t *Trail) writeUntilDone(ctx context.Context, to store, id string, raw []byte) error {
	said := false
	for pause := flushEvery; ; pause = min(2*pause, maxPause) {
		err := to.AppendAudit(ctx, id, raw)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if !said {
			t.log.Warn("audit entries wait for NATS", "err", err)
			said = true
		}
		if !clock.Sleep(ctx, pause) {
			return err
		}
	}
}
