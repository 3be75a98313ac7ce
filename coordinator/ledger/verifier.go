// Package ledger audits the RUNS stream. It reads every record that is kept, and reports whether the promises hold.
// Every accepted run waits, runs or has ended. No attempt was claimed twice or has two end records. A session did one
// thing at a time, in order. Every pending callback was delivered once, or will be. It shares no code with the
// projection that coordinators decide by.
package ledger

import (
	"cmp"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

// Verifier reads records in order; Close reports what they add up to. It is for one goroutine.
//
// Not everything that is missing is wrong. Two things remove records, and leave a trace:
//
//   - Deletion of a session. Its deleted record comes before the purge. So whatever seems wrong with a session is
//     exempt if a valid one follows: nothing of the session was open, and no callback was pending. An unknown child
//     of a callback may have been deleted with its session after its id was made.
//   - Truncation, which removes ended runs, and what lies between them, from the front. A missing earlier record is
//     exempt if the run has ended and is older than the oldest record kept, by the time in its id. Where an id tells no
//     time, its claim names the record that queued it.
//
// A contradiction, such as two claims of one attempt, is never exempt.
type Verifier struct {
	Rules

	*memory
	records      uint64
	unknown      uint64
	foreign      []uint64 // the first maxForeign sequences
	foreignCount uint64   // how many there are

	runs  runVerifier
	calls callbackVerifier
	apply map[subject.Kind]func(subject.Record, fields)
}

// NewVerifier returns an empty verifier.
func NewVerifier() *Verifier {
	m := &memory{byRun: index{}, bySession: index{}, claimedFrom: map[uint32]uint64{}}
	m.runStates.add(runState{}) // 0 is none
	m.sessions.add(sessionState{})
	b := &Verifier{memory: m}
	runs, calls := &b.runs, &b.calls
	*runs = runVerifier{
		memory: m, rules: &b.Rules, open: map[uint32][]uint32{}, live: map[uint32]attempt{}, ends: map[uint32]int64{},
		versionExceeded: map[uint32]string{},
		reserved:        map[uint32]int64{},
	}
	*calls = callbackVerifier{memory: m, runs: runs, webhooks: map[uint32]webhookState{}}
	b.apply = map[subject.Kind]func(subject.Record, fields){
		subject.SessionKind:  runs.beginSession,
		subject.AcceptedKind: runs.accept,
		subject.QueuedKind:   runs.accept,
		subject.ClaimedKind:  runs.claim,
		subject.BoundKind:    runs.workerRecord,
		subject.OfferedKind:  runs.result,
		subject.EndedKind:    runs.end,
		subject.StoppingKind: runs.stop,
		subject.TreeKind:     runs.tree,
		subject.CallbackKind: calls.report,
		subject.NotifiedKind: calls.notify,
		subject.DeletedKind:  calls.delete,
	}
	return b
}

// Add reads the next record.
func (b *Verifier) Add(m bus.Message) {
	b.records++
	if b.records == 1 {
		b.first, b.cut = m.Seq, m.Time
	}
	if m.Seq <= b.seq {
		b.wrong(kindUnreadable, "", "Record %d comes after record %d", m.Seq, b.seq)
		return
	}
	b.seq, b.at, b.about = m.Seq, m.Time, 0
	rec, f, ok := b.read(m)
	if !ok || !b.checkNames(&rec, f) {
		return
	}
	s := session(rec, f)
	b.about = b.session(s)
	if s != "" && subject.Partition(s) != rec.Partition {
		b.wrong(kindMismatch, rec.Run, "Record %d (%s) of session %.80q lies in partition %.10s instead of %s", m.Seq,
			rec.Kind, s, rec.Partition, subject.Partition(s))
	}
	if enter := b.apply[rec.Kind]; enter != nil {
		enter(rec, f)
	}
}

// read parses a record. False: it does not count; what is wrong with it is noted.
func (b *Verifier) read(m bus.Message) (rec subject.Record, f fields, ok bool) {
	rec, err := subject.Parse(m.Subject)
	switch {
	case err != nil:
		b.wrong(kindUnreadable, "", "Record %d: %v", m.Seq, err)
		return rec, f, false
	case rec.Kind == subject.Unknown:
		b.unknown++
		return rec, f, false
	}
	f, err = read(m.Body)
	if rec.Kind.Keyed() && b.runs.isForeign(rec, f.attempt) {
		b.foreignCount++
		if len(b.foreign) < maxForeign {
			b.foreign = append(b.foreign, m.Seq)
		}
		return rec, f, false
	}
	if rec.Kind.Keyed() && b.runs.exceedsVersion(rec, f.v) {
		return rec, f, false
	}
	switch most := cmp.Or(b.Version, run.Version); {
	case err != nil:
		b.wrong(kindUnreadable, rec.Run, "Record %d (%s) is unreadable: %v", m.Seq, rec.Kind, err)
	case f.v < 1 || f.v > most:
		b.wrong(kindVersion, rec.Run, "Record %d (%s) is of version %d; versions 1 to %d are known", m.Seq, rec.Kind,
			f.v, most)
	default:
		return rec, f, true
	}
	return rec, f, false
}

// checkNames parses a record's names. False: a coordinator would not make one of them, which is noted.
func (b *Verifier) checkNames(rec *subject.Record, f fields) bool {
	if rec.Kind == subject.CallbackKind {
		var err error
		rec.Run, rec.N, err = turnName(rec.Run)
		if err != nil {
			b.wrong(kindUnreadable, "", "Record %d (callback): %v", b.seq, err)
			return false
		}
	}
	for _, id := range []string{rec.Run, f.run, f.turn} {
		if _, ok := runIdent(id); id != "" && !ok {
			b.wrong(kindUnreadable, "", "Record %d (%s) is of run %.80q, which is not an id that a coordinator makes",
				b.seq, rec.Kind, id)
			return false
		}
	}
	return true
}
