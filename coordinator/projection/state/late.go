package state

import (
	"slices"

	"ao/nats/subject"
)

// add notes a queued record whose attempt no longer waits, and reports whether it is one. RUNS holds it until
// it is purged.
func (ls *lateRecords) add(r *Row, rec subject.Record, m Record) bool {
	if r.live != nil {
		now := r.live.snap
		if waits := now.Claim == nil && now.Key != ""; rec.N > now.Attempt || rec.N == now.Attempt && waits {
			return false
		}
	}
	ls.all = append(ls.all, LateRecord{m.Seq, m.Subject, r.First})
	return true
}

// maxIgnored is how many ignored records of workers are remembered: more than RUNS has by default.
const maxIgnored = 4_000_000

// ignored are sequences of records of workers that belonged to no current attempt, since the start of this process.
type ignored []uint64

func (is *ignored) add(seq uint64) {
	if len(*is) < maxIgnored {
		*is = append(*is, seq)
	}
}

// Forget removes those before a sequence.
func (is *ignored) Forget(before uint64) {
	n, _ := slices.BinarySearch(*is, before)
	*is = (*is)[n:]
}

// lowWater returns the sequence from which history is needed for the claims of late records.
func (ls *lateRecords) lowWater(least uint64) uint64 {
	for _, l := range ls.all {
		least = min(least, l.First)
	}
	return least
}
