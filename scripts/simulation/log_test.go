package simulation

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/run"
)

// runsLog is the simulated stream RUNS: every subject takes one message, ever. Only the loop changes it.
type runsLog struct {
	msgs      []stream.Message // by sequence; the first is unused, purged ones have no subject
	first     uint64           // of the messages that are left; Last+1 where none is
	rotten    map[uint64]bool  // counted, and never given; their subjects stay taken
	bySubject map[string]uint64
	ids       map[string]uint64   // by the ID of a message: its sequence; NATS forgets it after idWindow
	queued    map[string][]uint64 // sequences of queued records, by task queue
	held      map[string]bool     // subjects with a write in flight: refused, as by a cluster's leader
	clustered bool
	down      bool // no server answers, or there is no leader
	ends      int  // counts how often no server was left, nor what was on its way
	created   time.Time
	removals  int // counts what removed records
	queuings  int // counts queued records
}

func newLog(clustered bool) *runsLog {
	return &runsLog{msgs: make([]stream.Message, 1), first: 1, rotten: map[uint64]bool{},
		bySubject: map[string]uint64{}, ids: map[string]uint64{}, queued: map[string][]uint64{},
		held:      map[string]bool{},
		clustered: clustered, created: time.Now()}
}

func (l *runsLog) last() uint64 { return uint64(len(l.msgs) - 1) }

func (l *runsLog) state() stream.State {
	return stream.State{First: l.first, Last: l.last(), LastTime: l.msgs[l.last()].Time,
		Msgs: uint64(len(l.bySubject)), MaxBytes: -1, Created: l.created}
}

// append writes messages, all or none.
func (l *runsLog) append(entries ...entry) (seq uint64, err error) {
	subjects := map[string]bool{}
	for _, e := range entries {
		if l.bySubject[e.Subject] != 0 || l.held[e.Subject] || subjects[e.Subject] || l.knows(e.ID) {
			return 0, stream.ErrTaken
		}
		subjects[e.Subject] = true
	}
	for _, e := range entries {
		seq = uint64(len(l.msgs))
		l.msgs = append(l.msgs, stream.Message{Seq: seq, Subject: e.Subject, Body: e.Body, Time: time.Now().UTC()})
		l.bySubject[e.Subject] = seq
		if e.ID != "" {
			l.ids[e.ID] = seq
		}
		if rec, err := subject.Parse(e.Subject); err == nil && rec.Kind == subject.QueuedKind {
			l.queued[rec.TaskQueue] = append(l.queued[rec.TaskQueue], seq)
			l.queuings++
		}
	}
	return seq, nil
}

// idWindow is how long NATS knows the IDs of messages.
const idWindow = 2 * time.Minute

// knows reports whether a message with an ID was written lately.
func (l *runsLog) knows(id string) bool {
	seq := l.ids[id]
	return seq != 0 && time.Since(l.msgs[seq].Time) < idWindow
}

// forget forgets the IDs of messages from a sequence on, which are lost.
func (l *runsLog) forget(from, n uint64) {
	maps.DeleteFunc(l.ids, func(_ string, seq uint64) bool { return seq >= from && seq-from < n })
}

// outlived reports whether a worker's claim was on its way until what it claims was removed. Records are kept for days,
// so that is not played: nothing would refuse the claim.
func (l *runsLog) outlived(entries []entry) bool {
	rec, err := subject.Parse(entries[0].Subject)
	if err != nil || rec.Kind != subject.ClaimedKind {
		return false
	}
	var c run.Claim
	return json.Unmarshal(entries[0].Body, &c) == nil && c.RunnerID != "" &&
		len(l.read(subject.QueuedOf(rec.Partition, rec.Run), 0, 1)) == 0
}

// get returns a message, or ErrNotFound.
func (l *runsLog) get(seq uint64) (stream.Message, error) {
	if seq == 0 || seq > l.last() || l.msgs[seq].Subject == "" || l.rotten[seq] {
		return stream.Message{}, stream.ErrNotFound
	}
	return l.msgs[seq], nil
}

// read returns messages after a sequence that match a filter, in order.
func (l *runsLog) read(filter string, after uint64, limit int) (all []stream.Message) {
	if !strings.ContainsAny(filter, "*>") {
		if seq := l.bySubject[filter]; seq > after && !l.rotten[seq] {
			return []stream.Message{l.msgs[seq]}
		}
		return nil
	}
	for seq := max(after+1, l.first); seq <= l.last() && len(all) < limit; seq++ {
		if m := l.msgs[seq]; m.Subject != "" && !l.rotten[seq] && matches(filter, m.Subject) {
			all = append(all, m)
		}
	}
	return all
}

// matches reports whether a subject matches a filter.
func matches(filter, subj string) bool {
	prefix, all := strings.CutSuffix(filter, ">")
	if all && !strings.Contains(prefix, "*") {
		return len(subj) > len(prefix) && strings.HasPrefix(subj, prefix)
	}
	for {
		token, rest, more := strings.Cut(filter, ".")
		if token == ">" {
			return subj != ""
		}
		at, left, further := strings.Cut(subj, ".")
		if token != "*" && token != at || more != further {
			return false
		}
		if !more {
			return true
		}
		filter, subj = rest, left
	}
}

// purge removes the messages under a filter before a sequence; 0: all.
func (l *runsLog) purge(filter string, before uint64) {
	if before == 0 || before > l.last() {
		before = l.last() + 1
	}
	for seq := l.first; seq < before; seq++ {
		if m := l.msgs[seq]; m.Subject != "" && !l.rotten[seq] && (filter == "" || matches(filter, m.Subject)) {
			l.remove(seq)
		}
	}
}

func (l *runsLog) remove(seq uint64) {
	delete(l.bySubject, l.msgs[seq].Subject)
	l.msgs[seq].Subject, l.msgs[seq].Body = "", nil
	l.removals++
	for l.first <= l.last() && l.msgs[l.first].Subject == "" {
		l.first++
	}
}

// hole loses records, perhaps also the last one, whose sequence NATS keeps.
func (l *runsLog) hole(from, n uint64) (lost []stream.Message) {
	l.forget(from, n)
	for seq := from; seq < from+n && seq <= l.last(); seq++ {
		if m := l.msgs[seq]; m.Subject != "" && !l.rotten[seq] {
			lost = append(lost, m)
			l.remove(seq)
		}
	}
	return lost
}

// cut loses everything from a sequence on. Its sequences are used again.
func (l *runsLog) cut(from uint64) (lost []stream.Message) {
	l.forget(from, l.last()+1)
	for seq := from; seq <= l.last(); seq++ {
		if m := l.msgs[seq]; m.Subject != "" {
			lost = append(lost, m)
			delete(l.bySubject, m.Subject)
			delete(l.rotten, seq)
		}
	}
	l.msgs = l.msgs[:min(from, uint64(len(l.msgs)))]
	l.first = min(l.first, l.last()+1)
	l.removals++
	for queue, seqs := range l.queued {
		l.queued[queue] = slices.DeleteFunc(seqs, func(seq uint64) bool { return seq >= from })
	}
	return lost
}

// decay makes a record unreadable, as a flipped bit does after a clean end. A single server counts it, does not give
// it, takes no other one in its place, and does not remove it.
func (l *runsLog) decay(seq uint64) {
	l.rotten[seq] = true
	l.removals++
}

// left returns how many records a consumer still counts when it has delivered seq, if it began after start. These are
// the records that follow, and those that it skipped.
func (l *runsLog) left(start, seq uint64) (n uint64) {
	for at := seq + 1; at <= l.last(); at++ {
		if l.msgs[at].Subject != "" {
			n++
		}
	}
	for at := range l.rotten {
		if at > start && at < seq {
			n++
		}
	}
	return n
}
