package stream

import (
	"context"
	"errors"
	"slices"
)

// comparedRecords is how many records a Tail remembers. The last one that was not purged is compared.
const comparedRecords = 16

// Tail remembers the last records that were read of a stream. The zero value is ready.
type Tail struct {
	ring    [comparedRecords]Fingerprint
	read    uint64 // of all records ever
	scratch []byte
}

// Add notes a record that was read.
func (t *Tail) Add(m Message) {
	t.ring[t.read%comparedRecords], t.scratch = FingerprintOf(m, t.scratch)
	t.read++
}

// Last returns the fingerprints of the last records, oldest first.
func (t *Tail) Last() (all []Fingerprint) {
	for n := t.read - min(t.read, comparedRecords); n < t.read; n++ {
		all = append(all, t.ring[n%comparedRecords])
	}
	return all
}

// TailOf returns the Tail with these last records.
func TailOf(last []Fingerprint) (t Tail) {
	t.read = uint64(copy(t.ring[:], last))
	return t
}

// Getter returns records of a stream, or ErrNotFound.
type Getter interface {
	Get(ctx context.Context, seq uint64) (Message, error)
}

// Compare compares a stream with the last records that were read of it, oldest first. changed is the sequence of one
// that is another record now, 0: none. kept is the newest one that was not removed; those before it are older.
func Compare(ctx context.Context, from Getter, last []Fingerprint) (kept Message, changed uint64, err error) {
	for _, want := range slices.Backward(last) {
		m, err := from.Get(ctx, want.Seq)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return Message{}, 0, err
		}
		if now, _ := FingerprintOf(m, nil); now != want {
			return Message{}, want.Seq, nil
		}
		return m, 0, nil
	}
	return Message{}, 0, nil
}
