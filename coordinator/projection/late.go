package projection

import "ao/nats/subject"

// note remembers a queued record where its attempt waits no longer. RUNS holds each of them until it is purged.
func (ls *lateness) note(r *row, rec subject.Record, m Record) bool {
	if r.live != nil {
		now := r.live.snap
		if waits := now.Claim == nil && now.Key != ""; rec.N > now.Attempt || rec.N == now.Attempt && waits {
			return false
		}
	}
	ls.all = append(ls.all, LateRecord{m.Seq, m.Subject, r.first})
	return true
}

// held is the sequence before which history must stay for the claims that late records need.
func (ls *lateness) held(least uint64) uint64 {
	for _, l := range ls.all {
		least = min(least, l.first)
	}
	return least
}
