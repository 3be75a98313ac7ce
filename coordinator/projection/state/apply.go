package state

import (
	"fmt"

	"ao/coordinator/projection/scan"
	"ao/nats/subject"
)

// Apply takes the next record of the stream. A record that was applied before changes nothing. An error says that the
// record is unreadable; the state stays valid.
func (f *State) Apply(m Record) (Change, error) {
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
		version, err = scan.Version(m.Body)
		f.Trees.stop(&ch, rec)
	case subject.DeletedKind:
		version, err = f.delete(&ch, rec, m)
	case subject.CallbackKind:
		version, err = f.Callbacks.applyCallback(&ch, rec, m)
	case subject.TreeKind:
		version, err = f.Trees.stopTree(&ch, rec, m)
	case subject.NotifiedKind:
		version, err = f.Webhooks.applyNotified(&ch, rec, m)
	case subject.SessionKind:
		version, err = f.Callbacks.applySession(rec, m)
	default: // not indexed, but it has a version
		version, err = scan.Version(m.Body)
	}
	if f.dirty != nil && rec.Run != "" {
		f.dirty.add(f.Run(rec.Run))
	}
	if ch.Applied && ch.row != nil {
		f.Changes.add(m.Seq, ch.row)
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
