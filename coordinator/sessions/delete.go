package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// DeleteSession deletes a session and all that belongs to it. While a run of it is open, that is a Conflict.
func (t *Service) DeleteSession(ctx context.Context, id string) error {
	if err := t.Reads.CatchUp(ctx); err != nil { // what the projection does not know would not be deleted
		return err
	}
	s, err := t.Session(ctx, id)
	if err != nil {
		return err
	}
	if open := t.History.Open(id); len(open) > 0 {
		return fault.Newf(fault.Conflict, "session %s has %d open runs; stop it first (POST "+
			"/sessions/%s/stop)", id, len(open), id).With("session_id", id).With("run_id", open[0].Spec.ID)
	}
	if child := t.History.UndeliveredRun(id); child != "" {
		return fault.Newf(fault.Conflict, "the callback of run %s is pending until the turn of its parent session "+
			"ends; then delete session %s again", child, id).With("session_id", id).With("run_id", child)
	}
	if t.History.StoppingBelow(id) {
		return fault.Newf(fault.Conflict, "runs below session %s are being stopped with their tree; delete it when "+
			"they have ended", id).With("session_id", id)
	}
	runs := t.History.RunsOf(id)
	part := subject.Partition(id)
	if err := t.clearDeletion(ctx, part, id); err != nil {
		return err
	}
	body, err := strictjson.Encode(run.Deleted{V: t.Version(), Parent: s.Parent, At: time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := t.Records.Put(ctx, bus.Entry{Subject: subject.Deleted(part, id), Body: body}); err != nil {
		return bus.OutcomeUnknown(ctx, err)
	}
	return t.FinishDelete(ctx, part, id, runs)
}

// FinishDelete does what follows from the record of a deletion. A run from before the record keeps the session. A run
// from after it fails with session_deleted.
func (t *Service) FinishDelete(ctx context.Context, part, id string, runs []string) error {
	m, err := t.Stream.Last(ctx, subject.Deleted(part, id))
	if err != nil {
		return bus.OutcomeUnknown(ctx, err)
	}
	if err := t.Reads.WaitFor(ctx, m.Seq); err != nil {
		return err
	}
	if t.History.DeletedAt(id) == m.Seq {
		return t.purge(ctx, part, id, runs, m.Seq)
	}
	if err := t.clearDeletion(ctx, part, id); err != nil {
		t.Log.Warn("record of a refused deletion remains; the next deletion removes it", "session", id, "err", err)
	}
	return fault.Newf(fault.Conflict, "session %s was resumed meanwhile; stop it and delete it again", id).
		With("session_id", id)
}

// clearDeletion removes the record of a deletion that had no effect, because a run was open or a later turn followed.
// Its subject takes one message, which the next deletion needs.
func (t *Service) clearDeletion(ctx context.Context, part, session string) error {
	m, err := t.Stream.Last(ctx, subject.Deleted(part, session))
	if errors.Is(err, bus.ErrNotFound) {
		return nil
	} else if err != nil {
		return bus.WriteUnanswered(err)
	}
	if err := t.Reads.WaitFor(ctx, m.Seq); err != nil {
		return err
	}
	if _, err := t.History.Session(ctx, session); err != nil { // deleted by that very record
		return err
	}
	// It had an effect: what it deleted must be removed first, or it would come back.
	if t.History.DeletedAt(session) == m.Seq {
		runs, err := t.runsBefore(ctx, part, session, m.Seq)
		if err == nil {
			err = t.purge(ctx, part, session, runs, m.Seq)
		}
		if err != nil {
			return err
		}
	}
	if err := t.Stream.Purge(ctx, subject.Runs, m.Subject, m.Seq+1); err != nil {
		return bus.WriteUnanswered(err)
	}
	return nil
}

// runsBefore finds the session's runs that have records before a sequence, also those the projection does not know.
func (t *Service) runsBefore(ctx context.Context, part, session string, before uint64) (runs []string, err error) {
	for after := uint64(0); ; {
		records, err := t.Stream.Records(ctx, "ao.runs."+part+".>", after, 500)
		if err != nil {
			return nil, bus.WriteUnanswered(err)
		}
		for _, m := range records {
			rec, err := subject.Parse(m.Subject)
			after = m.Seq
			if err != nil || m.Seq >= before || rec.Kind != subject.QueuedKind && rec.Kind != subject.AcceptedKind {
				continue
			}
			if q, err := run.DecodeQueued(m.Body, nil); err == nil && q.SessionID == session &&
				!slices.Contains(runs, q.ID) {
				runs = append(runs, q.ID)
			}
		}
		if len(records) == 0 || after >= before {
			return runs, nil
		}
	}
}

// purge removes records, events and payloads of a session from before its deletion. It is safe to repeat. What a crash
// leaves is invisible and is removed with the history.
func (t *Service) purge(ctx context.Context, part, session string, runs []string, before uint64) error {
	lists, err := t.callbackRecords(ctx, part, session, before)
	if err != nil {
		return err
	}
	for _, l := range lists {
		if err := t.dropCallback(ctx, l, before); err != nil {
			return err
		}
	}
	filters := []string{subject.Accepted(part, session, "*"), subject.Session(part, session),
		subject.Tree(part, session, "*")}
	for _, id := range runs {
		filters = append(filters, subject.QueuedOf(part, id), subject.Claimed(part, id, "*"),
			subject.Bound(part, id, "*"), subject.Offered(part, id, "*"),
			subject.Ended(part, id, "*"), subject.Stopping(part, id), subject.NotifiedOf(part, id))
	}
	for _, f := range filters {
		if err := t.Stream.Purge(ctx, subject.Runs, f, before); err != nil {
			return bus.WriteUnanswered(err)
		}
	}
	if err := t.Stream.Purge(ctx, subject.Events, subject.SessionEvents(session), 0); err != nil {
		return bus.WriteUnanswered(err)
	}
	if err := t.Stream.DropPayloads(ctx,
		func(name string, _ uint64, _ time.Time) bool { return slices.Contains(runs, t.RunOf(name)) }); err != nil {
		return bus.WriteUnanswered(err)
	}
	return nil
}

// callbackRecord is a callback record of a deleted session.
type callbackRecord struct {
	subject string // of the record
	record  run.Callback
	claimed bool // a runner claimed its turn
}

// callbackRecords finds the session's callback records before a sequence.
func (t *Service) callbackRecords(ctx context.Context, part, session string, before uint64) (all []callbackRecord,
	err error) {
	for after := uint64(0); ; {
		page, err := t.Stream.Records(ctx, subject.Callback(part, session, "*", 0), after, 1000)
		if err != nil {
			return nil, bus.WriteUnanswered(err)
		}
		for _, m := range page {
			after = m.Seq
			l := callbackRecord{subject: m.Subject}
			if m.Seq >= before || json.Unmarshal(m.Body, &l.record) != nil {
				continue
			}
			claims, err := t.Stream.Records(ctx, subject.Claimed(part, l.record.Turn(), "*"), 0, 1000)
			if err != nil {
				return nil, bus.WriteUnanswered(err)
			}
			l.claimed = slices.ContainsFunc(claims, func(m bus.Message) bool {
				var claim run.Claim
				return json.Unmarshal(m.Body, &claim) == nil && claim.RunnerID != ""
			})
			all = append(all, l)
		}
		if len(page) < 1000 {
			return all, nil
		}
	}
}

// dropCallback removes a callback record. If its turn was claimed, the record is written again without the text.
// Otherwise a replay of the history would deliver the callback twice.
func (t *Service) dropCallback(ctx context.Context, l callbackRecord, before uint64) error {
	if l.claimed && len(l.record.Next) == 0 {
		return nil
	}
	if err := t.Stream.Purge(ctx, subject.Runs, l.subject, before); err != nil {
		return bus.WriteUnanswered(err)
	}
	if !l.claimed {
		return nil
	}
	l.record.Next = nil
	body, err := l.record.Encode()
	if err != nil {
		return err
	}
	return t.Records.Put(ctx, bus.Entry{Subject: l.subject, Body: body})
}
