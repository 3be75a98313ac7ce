// Package ledger audits the RUNS stream: it reads every record from the first one kept to the last one there is, and
// tells whether the promises hold: what was accepted waits, runs or has ended; no attempt was begun twice or has two
// last words; a session did one thing at a time, in order; every callback owed came once, or will. It is the judge of
// the coordinators, so it has nothing in common with the fold they decide by.
package ledger

import (
	"cmp"
	"fmt"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/run"
)

// book reads records one after the other; Close says what they add up to. It is for one goroutine.
//
// Not everything that is absent is wrong. Two things take records away, and leave a trace by which the book knows them:
//
//   - A deleted session. Its deleted record precedes the purge, so whatever seems wrong with a session is let go if
//     such a record follows and was to be honoured: nothing of the session was open there, and no parent was yet to be
//     told of it. A child that a callback names, and that nobody knows, may have gone that way if a session was deleted
//     after the child's id was made.
//   - Truncation, which takes whole runs that ended, and what lies between, from the front. A record that lacks what
//     must precede it is let go if its run's id (which has the time) is older than the oldest record kept, and the run
//     has ended: an open one is never cut.
//
// What contradicts itself, such as two claims of one attempt, is wrong in any case.
type book struct {
	Rules

	*memory
	records uint64
	unknown uint64
	foreign []uint64 // the first maxForeign sequences
	nobodys uint64   // how many such records there are

	runs  runsBook
	calls callsBook
	enter map[subject.Kind]func(subject.Record, fields)
}

// newBook is an empty book.
func newBook() *book {
	m := &memory{byRun: index{}, bySession: index{}}
	m.entries.add(entry{}) // 0 is none
	m.places.add(place{})
	b := &book{memory: m}
	runs, calls := &b.runs, &b.calls
	*runs = runsBook{
		memory: m, rules: &b.Rules, open: map[uint32][]uint32{}, live: map[uint32]attempt{}, ends: map[uint32]int64{},
		over:     map[uint32]string{},
		promised: map[uint32]int64{},
	}
	*calls = callsBook{memory: m, runs: runs, hooks: map[uint32]hook{}}
	b.enter = map[subject.Kind]func(subject.Record, fields){
		subject.SessionKind:  runs.begunSession,
		subject.AcceptedKind: runs.accept,
		subject.QueuedKind:   runs.accept,
		subject.ClaimedKind:  runs.claim,
		subject.BoundKind:    runs.speak,
		subject.OfferedKind:  runs.offer,
		subject.EndedKind:    runs.end,
		subject.StoppingKind: runs.stop,
		subject.TreeKind:     runs.tree,
		subject.CallbackKind: calls.report,
		subject.NotifiedKind: calls.notify,
		subject.DeletedKind:  calls.delete,
	}
	return b
}

// Enter reads the next record.
func (b *book) Enter(m bus.Message) {
	b.records++
	if b.records == 1 {
		b.first, b.cut = m.Seq, m.Time
	}
	if m.Seq <= b.seq {
		b.wrong(kindUnreadable, "", fmt.Sprintf("Record %d comes after record %d", m.Seq, b.seq))
		return
	}
	b.seq, b.at, b.about = m.Seq, m.Time, 0
	rec, f, ok := b.read(m)
	if !ok || !b.named(&rec, f) {
		return
	}
	s := session(rec, f)
	b.about = b.place(s)
	if s != "" && subject.Partition(s) != rec.Partition {
		b.wrong(kindMismatch, rec.Run,
			fmt.Sprintf("Record %d (%s) of session %.80q lies in partition %.10s instead of %s", m.Seq, rec.Kind, s,
				rec.Partition, subject.Partition(s)))
	}
	if enter := b.enter[rec.Kind]; enter != nil {
		enter(rec, f)
	}
}

// read reads a record. false: it says nothing to the book, and what is wrong with that is noted.
func (b *book) read(m bus.Message) (rec subject.Record, f fields, ok bool) {
	rec, err := subject.Parse(m.Subject)
	switch {
	case err != nil:
		b.wrong(kindUnreadable, "", fmt.Sprintf("Record %d: %v", m.Seq, err))
		return rec, f, false
	case rec.Kind == subject.Unknown:
		b.unknown++
		return rec, f, false
	case rec.Kind.Keyed() && b.runs.isForeign(rec):
		b.nobodys++
		if len(b.foreign) < maxForeign {
			b.foreign = append(b.foreign, m.Seq)
		}
		return rec, f, false
	}
	f, err = read(m.Body)
	if rec.Kind.Keyed() && b.runs.overstepped(rec, f.v) {
		return rec, f, false
	}
	switch most := cmp.Or(b.Version, run.Version); {
	case err != nil:
		b.wrong(kindUnreadable, rec.Run, fmt.Sprintf("Record %d (%s) cannot be read: %v", m.Seq, rec.Kind, err))
	case f.v < 1 || f.v > most:
		b.wrong(kindVersion, rec.Run, fmt.Sprintf("Record %d (%s) is of version %d; versions 1 to %d are known", m.Seq,
			rec.Kind, f.v, most))
	default:
		return rec, f, true
	}
	return rec, f, false
}

// named takes a record's names apart. false: one of them is none that a coordinator makes, which is noted.
func (b *book) named(rec *subject.Record, f fields) bool {
	if rec.Kind == subject.CallbackKind {
		var err error
		rec.Run, rec.N, err = turnName(rec.Run)
		if err != nil {
			b.wrong(kindUnreadable, "", fmt.Sprintf("Record %d (callback): %v", b.seq, err))
			return false
		}
	}
	for _, id := range []string{rec.Run, f.run, f.turn} {
		if _, ok := runIdent(id); id != "" && !ok {
			b.wrong(kindUnreadable, "",
				fmt.Sprintf("Record %d (%s) is of run %.80q, which is no id that a coordinator makes", b.seq, rec.Kind,
					id))
			return false
		}
	}
	return true
}
