// Package highwater keeps the high-water mark of RUNS: how far the history had come, outside of the history. Against it
// a history proves that it has lost nothing (decision 0045).
package highwater

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"ao/nats/stream"
	"ao/nats/subject"
)

// mark is how far RUNS had come. It is only raised, except where a damage is recorded.
type mark struct {
	V           int    `json:"v"`
	Incarnation string `json:"incarnation"` // of RUNS: when it was created
	Generation  int    `json:"generation"`  // counts the damages
	Seq         uint64 `json:"sequence"`    // the last confirmed record
	Durable     uint64 `json:"durable"`     // the last one that is older than AO_NATS_SYNC
	// how many RUNS held up to Seq; it counts only while nobody removes any. Negative: the last ones were removed
	Records int64     `json:"records"`
	Written time.Time `json:"written"`
	Time    int64     `json:"time"` // of record Seq, in nanoseconds
	// of the last records
	Last     []stream.Fingerprint `json:"last"`
	Removing map[string]time.Time `json:"removing,omitempty"` // since when, by process
	Damages  []Damage             `json:"damages,omitempty"`
}

// maxDamages is how many damages are remembered.
const maxDamages = 16

// removalTimeout is when a removal counts as over whose process has not said so.
const removalTimeout = 10 * time.Minute

// freshness is how much younger than the mark the last record may be for the count of records to prove anything. A
// coordinator of an older version removes records without saying so.
const freshness = time.Minute

func incarnation(s stream.State) string { return subject.Incarnation(s.Created) }

// removing reports whether records may be missing because they are being removed.
func (m *mark) removing() bool {
	for _, since := range m.Removing {
		if time.Since(since) < removalTimeout {
			return true
		}
	}
	return false
}

// withRemoval returns the mark with a process that removes records since a time.
func (m mark) withRemoval(name string, since time.Time) *mark {
	removing := map[string]time.Time{}
	maps.Copy(removing, m.Removing)
	removing[name] = since
	m.Removing = removing
	return &m
}

// reader reads RUNS.
type reader interface {
	State(ctx context.Context) (stream.State, error)
	Get(ctx context.Context, seq uint64) (stream.Message, error)
}

// compare returns how RUNS falls short of the mark; nil: it does not. An error means that NATS did not answer.
func (m *mark) compare(ctx context.Context, s stream.State, from reader) (*Damage, error) {
	d := Damage{Ends: s.Last, Reached: m.Seq, Tolerated: m.Seq > m.Durable}
	if m.Incarnation != incarnation(s) {
		d.Missing, d.Tolerated = uint64(max(m.Records, 0)), false
		d.Message = fmt.Sprintf("the stream RUNS was created anew at %s and ends at %d; the one before had reached %d",
			s.Created.UTC().Format(time.DateTime), s.Last, m.Seq)
		return &d, nil
	}
	if s.Last < m.Seq {
		d.Missing, d.Tolerated = m.Seq-s.Last, s.Last >= m.Durable
		d.Message = fmt.Sprintf("the stream ends at %d, it had reached %d: %s", s.Last, m.Seq, areMissing(d.Missing))
		return &d, nil
	}
	_, changed, err := stream.Compare(ctx, from, m.Last)
	if err != nil {
		return nil, err
	}
	if changed != 0 {
		d.Missing, d.Tolerated = 1, changed > m.Durable
		d.Message = fmt.Sprintf("record %d is not the one that it was: the stream has lost its last records up to "+
			"%d, and others have got their sequences", changed, m.Seq)
		return &d, nil
	}
	return m.count(s, d), nil
}

// count compares the number of records.
func (m *mark) count(s stream.State, d Damage) *Damage {
	have, want := int64(s.Msgs), m.Records+int64(s.Last-m.Seq)
	old := s.Last > m.Seq && s.LastTime.Sub(time.Unix(0, m.Time)) > freshness
	if m.removing() || have >= want || old {
		return nil
	}
	d.Missing, d.Tolerated = uint64(want-have), false
	d.Message = fmt.Sprintf("the stream holds %d records up to %d, it should hold %d: %s", s.Msgs, s.Last, want,
		areMissing(d.Missing))
	return &d
}

func areMissing(n uint64) string {
	if n == 1 {
		return "1 record is missing"
	}
	return strconv.FormatUint(n, 10) + " records are missing"
}

// Damage is a loss of records.
type Damage struct {
	Message string    `json:"message"`
	Ends    uint64    `json:"ends"`    // where the stream ended when it was found
	Reached uint64    `json:"reached"` // where it had ended
	Missing uint64    `json:"missing"` // records, at least
	FoundAt time.Time `json:"found_at"`
	// since when the affected runs are known; until then nothing starts
	ResolvedAt *time.Time `json:"resolved_at"`
	AcceptedAt *time.Time `json:"accepted_at"`
	Failed     int        `json:"failed"` // runs that failed with history_damaged
	Lost       int        `json:"lost"`   // runs of which nothing is left in the stream
	Runs       []Run      `json:"runs"`   // the first of both

	Tolerated  bool `json:"-"`                    // AO_NATS_SYNC allows it
	Unreadable bool `json:"unreadable,omitempty"` // the records are there and cannot be read
}

// Missing returns how many records are lost, at least, and not accepted as lost.
func Missing(all []Damage) (n uint64) {
	for _, d := range all {
		if d.AcceptedAt == nil {
			n += max(d.Missing, 1)
		}
	}
	return n
}

// Run is a run that a damage affects.
type Run struct {
	ID       string `json:"run_id"`
	Was      string `json:"was,omitempty"` // its last known status
	Evidence string `json:"evidence"`      // how it is known that it had begun
}

// maxRuns is how many affected runs a damage names.
const maxRuns = 100
