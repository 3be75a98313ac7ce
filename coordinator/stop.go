package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// Stop stops a run: a waiting one ends at once, a begun one when its process tree is gone. A run that is stopped or stopping
// already stays so; one that ended otherwise is a conflict. The run is given as it is then.
func (c *Coordinator) Stop(ctx context.Context, id string) (run.Run, error) {
	for range 20 {
		r, err := c.Journal.Get(ctx, id)
		if err != nil {
			return r, err
		}
		a, ok := c.Journal.Active(id)
		switch {
		case ok && a.EndSeq != 0: // it is being ended
			if err = c.ends.EndAsCarried(ctx, a); err == nil {
				err = c.caughtUp(ctx)
			}
		case r.Status == run.Stopped || ok && a.Stopping && a.Claim != nil:
			return c.Show(ctx, id)
		case r.Status.Final():
			return r, fault.Newf(fault.Conflict, "run %s has ended already: %s", id, r.Status).With("run_id", id).With("status", r.Status)
		case !ok: // it ended between the two looks
			continue
		case a.Claim == nil:
			err = c.ends.EndWaiting(ctx, a, run.Stopped, unbegun(a))
			if errors.Is(err, bus.ErrTaken) { // a worker was faster; see what it is now
				err = c.caughtUp(ctx)
			}
		default:
			err = c.wishStop(ctx, a)
		}
		if err != nil {
			return r, err
		}
	}
	return run.Run{}, fault.Newf(fault.Unavailable, "run %s is changing; try again", id).After(time.Second)
}

// unbegun is the error of a run that is stopped while nobody works on it.
func unbegun(a journal.Active) *fault.Fault {
	if a.Halt.Seq != 0 {
		return haltedBy(a.Halt)
	}
	if n := a.Next(); n > 1 {
		return fault.New(fault.Internal, "stopped", fmt.Sprintf("Stopped before its attempt %d began", n))
	}
	return fault.New(fault.Internal, "stopped", "Stopped before it began")
}

// wishStop has an attempt stopped, and the fold know it.
func (c *Coordinator) wishStop(ctx context.Context, a journal.Active) error {
	if err := c.ends.Stop(ctx, a); err != nil {
		return err
	}
	return c.caughtUp(ctx)
}

// DeleteSession takes a session and all that belongs to it away; while something of it runs or waits that is a conflict.
func (c *Coordinator) DeleteSession(ctx context.Context, id string) error {
	if err := c.caughtUp(ctx); err != nil { // what is not known here would stay
		return err
	}
	if _, err := c.Session(ctx, id); err != nil {
		return err
	}
	if open := c.Journal.Open(id); len(open) > 0 {
		return fault.Newf(fault.Conflict, "session %s has %d runs that run or wait; stop it first (POST /sessions/%s/stop)", id, len(open), id).
			With("session_id", id).With("run_id", open[0].Spec.ID)
	}
	if child := c.Journal.Owes(id); child != "" {
		return fault.Newf(fault.Conflict, "the parent session of run %s is yet to be told of its end; that comes when the parent's turn ends, then delete session %s again", child, id).
			With("session_id", id).With("run_id", child)
	}
	if c.Journal.HaltsBelow(id) {
		return fault.Newf(fault.Conflict, "runs below session %s are being stopped with their tree; delete it when they have ended", id).With("session_id", id)
	}
	runs := c.Journal.RunsOf(id)
	part := subject.Partition(id)
	if err := c.undelete(ctx, part, id); err != nil {
		return err
	}
	body, err := json.Marshal(run.Deleted{V: c.versions.Now(), At: time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := c.records.Put(ctx, bus.Entry{Subject: subject.Deleted(part, id), Body: body}); err != nil {
		return unsure(ctx, err)
	}
	return c.deleted(ctx, part, id, runs)
}

// deleted does what follows from the record of a deletion. A run that came in before it keeps the session; one that came behind it
// ends by itself (session_deleted), whatever the session looks like meanwhile.
func (c *Coordinator) deleted(ctx context.Context, part, id string, runs []string) error {
	m, err := c.bus.Last(ctx, subject.Deleted(part, id))
	if err != nil {
		return unsure(ctx, err)
	}
	if err := c.reached(ctx, m.Seq); err != nil {
		return err
	}
	if c.Journal.DeletedAt(id) == m.Seq {
		return c.purge(ctx, part, id, runs, m.Seq)
	}
	if err := c.undelete(ctx, part, id); err != nil {
		c.log.Warn("a deletion in vain stands; the next one takes it away", "session", id, "err", err)
	}
	return fault.Newf(fault.Conflict, "session %s was resumed at this moment; stop it and delete it again", id).With("session_id", id)
}

// undelete takes a deletion away that was not honoured, since something of the session ran or waited then, or that a later turn
// outlived: its subject takes one message, and the next deletion needs it.
func (c *Coordinator) undelete(ctx context.Context, part, session string) error {
	m, err := c.bus.Last(ctx, subject.Deleted(part, session))
	if errors.Is(err, bus.ErrNone) {
		return nil
	} else if err != nil {
		return unavailable(err)
	}
	if err := c.reached(ctx, m.Seq); err != nil {
		return err
	}
	if _, err := c.Journal.Session(ctx, session); err != nil { // gone by that very deletion
		return err
	}
	if c.Journal.DeletedAt(session) == m.Seq { // it counted: what it deleted must be gone before it goes, or it would come back
		runs, err := c.runsBefore(ctx, part, session, m.Seq)
		if err == nil {
			err = c.purge(ctx, part, session, runs, m.Seq)
		}
		if err != nil {
			return err
		}
	}
	if err := c.bus.Purge(ctx, subject.Runs, m.Subject, m.Seq+1); err != nil {
		return unavailable(err)
	}
	return nil
}

// runsBefore finds a session's runs of which the stream has records before a sequence, whatever the fold thinks of them.
func (c *Coordinator) runsBefore(ctx context.Context, part, session string, before uint64) (runs []string, err error) {
	for after := uint64(0); ; {
		records, err := c.bus.Records(ctx, "ao.runs."+part+".>", after, 500)
		if err != nil {
			return nil, unavailable(err)
		}
		for _, m := range records {
			rec, err := subject.Parse(m.Subject)
			if after = m.Seq; err != nil || m.Seq >= before || rec.Kind != subject.QueuedKind && rec.Kind != subject.AcceptedKind {
				continue
			}
			if q, err := run.DecodeQueued(m.Body, nil); err == nil && q.SessionID == session && !slices.Contains(runs, q.ID) {
				runs = append(runs, q.ID)
			}
		}
		if len(records) == 0 || after >= before {
			return runs, nil
		}
	}
}

// purge removes what precedes the deletion: the records, events and payloads of a deleted session. Doing it twice changes nothing; what a crash leaves
// behind is no longer seen by anybody and goes with the history.
func (c *Coordinator) purge(ctx context.Context, part, session string, runs []string, before uint64) error {
	filters, err := c.unbegun(ctx, part, session, before)
	if err != nil {
		return err
	}
	filters = append(filters, subject.Accepted(part, session, "*"), subject.Session(part, session), subject.Tree(part, session, "*"))
	for _, id := range runs {
		filters = append(filters, subject.QueuedOf(part, id), subject.Claimed(part, id, "*"), subject.Bound(part, id, "*"), subject.Offered(part, id, "*"),
			subject.Ended(part, id, "*"), subject.Stopping(part, id), subject.NotifiedOf(part, id))
	}
	for _, f := range filters {
		if err := c.bus.Purge(ctx, subject.Runs, f, before); err != nil {
			return unavailable(err)
		}
	}
	if err := c.bus.Purge(ctx, subject.Events, subject.SessionEvents(session), 0); err != nil {
		return unavailable(err)
	}
	if err := c.bus.DropPayloads(ctx, func(name string, _ time.Time) bool { return slices.Contains(runs, runOf(name)) }); err != nil {
		return unavailable(err)
	}
	return nil
}

// unbegun names the callback records of a session's turns that ended before a runner began them: they told nobody of anything. Those
// of the others stay, so that the children are told for who reads the history anew, too.
func (c *Coordinator) unbegun(ctx context.Context, part, session string, before uint64) (subjects []string, err error) {
	for after := uint64(0); ; {
		page, err := c.bus.Records(ctx, subject.Callback(part, session, "*", 0), after, 1000)
		if err != nil {
			return nil, unavailable(err)
		}
		for _, m := range page {
			after = m.Seq
			var told run.Callback
			if m.Seq >= before || json.Unmarshal(m.Body, &told) != nil {
				continue
			}
			claims, err := c.bus.Records(ctx, subject.Claimed(part, told.RunID, "*"), 0, 1000)
			if err != nil {
				return nil, unavailable(err)
			}
			if !slices.ContainsFunc(claims, func(m bus.Message) bool {
				var claim run.Claim
				return json.Unmarshal(m.Body, &claim) == nil && claim.RunnerID != ""
			}) {
				subjects = append(subjects, m.Subject)
			}
		}
		if len(page) < 1000 {
			return subjects, nil
		}
	}
}
