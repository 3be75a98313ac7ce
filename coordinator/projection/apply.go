package projection

import (
	"fmt"

	"ao/nats/subject"
)

// apply takes the next record of the stream. A record that was applied before changes nothing. An error says that the
// record is unreadable; the state stays valid.
func (f *reducer) apply(m Record) (Change, error) {
	ch := Change{Seq: m.Seq}
	if m.Seq <= f.seq {
		return ch, nil
	}
	f.seq = m.Seq
	f.lastRead.Add(m)
	rec, err := subject.Parse(m.Subject)
	if err != nil {
		f.stats.Unreadable++
		return ch, err
	}
	ch.Kind = rec.Kind
	if rec.Kind == subject.Unknown {
		f.stats.Unknown++
		f.unknownKinds = true
		return ch, nil
	}
	var version int
	switch rec.Kind {
	case subject.QueuedKind, subject.AcceptedKind:
		version, err = f.accept(&ch, rec, m)
	case subject.ClaimedKind, subject.BoundKind, subject.OfferedKind, subject.EndedKind:
		version, err = f.keyed(&ch, rec, m)
	case subject.StoppingKind:
		version, err = scanVersion(m.Body)
		f.trees.stop(&ch, rec)
	case subject.DeletedKind:
		version, err = f.delete(&ch, rec, m)
	case subject.CallbackKind:
		version, err = f.callbacks.applyCallback(&ch, rec, m)
	case subject.TreeKind:
		version, err = f.trees.stopTree(&ch, rec, m)
	case subject.NotifiedKind:
		version, err = f.webhooks.applyNotified(&ch, rec, m)
	case subject.SessionKind:
		version, err = f.callbacks.applySession(rec, m)
	default: // not indexed, but it has a version
		version, err = scanVersion(m.Body)
	}
	if f.dirty != nil && rec.Run != "" {
		f.dirty.add(f.run(rec.Run))
	}
	if ch.Applied && ch.row != nil {
		f.changes.add(m.Seq, ch.row)
		f.usage.count(ch.row, m)
	}
	if version > f.version && f.newer == 0 {
		f.newer = m.Seq
	}
	switch {
	case err != nil:
		f.stats.Unreadable++
		return ch, fmt.Errorf("record %d (%s): %w", m.Seq, rec.Kind, err)
	case ch.Applied:
		f.stats.Applied++
	default:
		f.stats.Ignored++
	}
	return ch, nil
}
