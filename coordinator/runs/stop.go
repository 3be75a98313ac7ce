package runs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ao/coordinator/projection"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// Stopper stops runs, and what is below their sessions.
type Stopper struct {
	ends    Ends
	records Records
	history stopHistory
	reads   catchUp
	show    func(ctx context.Context, id string) (run.Run, error)
	version func() int // of the records that are written
}

// Stop stops a run: a waiting one ends at once, a begun one when its process tree is gone. A run that is stopped or
// stopping already stays so; one that ended otherwise is a conflict. The run is given as it is then.
func (s *Stopper) Stop(ctx context.Context, id string) (run.Run, error) {
	for range 20 {
		r, err := s.history.Get(ctx, id)
		if err != nil {
			return r, err
		}
		a, ok := s.history.Active(id)
		switch {
		case ok && a.CarriedEndSeq != 0: // it is being ended
			err = s.ends.AppendCarriedEnd(ctx, a)
			if err == nil {
				err = s.reads.CatchUp(ctx)
			}
		case r.Status == run.Stopped || ok && a.Stopping && a.Claim != nil:
			return s.show(ctx, id)
		case r.Status.Final():
			return r, fault.Newf(fault.Conflict, "run %s has ended already: %s", id, r.Status).With("run_id", id).
				With("status", r.Status)
		case !ok: // it ended between the two looks
			continue
		case a.Claim == nil:
			err = s.ends.EndWaiting(ctx, a, run.Stopped, a.StoppedError())
			if errors.Is(err, bus.ErrTaken) { // a worker was faster; see what it is now
				err = s.reads.CatchUp(ctx)
			}
		default:
			err = s.requestStop(ctx, a)
		}
		if err != nil {
			return r, err
		}
	}
	return run.Run{}, fault.Newf(fault.Unavailable, "run %s is changing; try again", id).After(time.Second)
}

// requestStop has an attempt stopped, and the fold know it.
func (s *Stopper) requestStop(ctx context.Context, a projection.Active) error {
	if err := s.ends.Stop(ctx, a); err != nil {
		return err
	}
	return s.reads.CatchUp(ctx)
}

// Below are the runs below a session that have not ended: those that go on after a stop, or that are stopped with it.
type Below struct {
	Count    int      `json:"count"`
	Runs     []string `json:"run_ids"` // the oldest, 100 at most
	Stopping bool     `json:"stopping"`
}

// StoppedRun answers the stop of a run.
type StoppedRun struct {
	run.Run
	Below *Below `json:"open_below,omitempty"` // nil: there is nothing
}

// maxListedBelow is how many runs below a session an answer names.
const maxListedBelow = 100

// Below are the open runs below a session at this moment; nil: there are none.
func (s *Stopper) Below(session string, stopping bool) *Below {
	n, oldest := s.history.Below(session, maxListedBelow)
	if n == 0 {
		return nil
	}
	return &Below{n, oldest, stopping}
}

// StopRun stops a run, as Stop does, and says what is open below its session. With tree, all that is stopped too, and a
// run that has ended is no conflict as long as no later one of its session was begun. What is below belongs to the run
// of the session that was begun last: a run that waits behind it has nothing below it.
func (s *Stopper) StopRun(ctx context.Context, id string, tree bool) (StoppedRun, error) {
	if tree {
		return s.stopRunTree(ctx, id)
	}
	r, err := s.Stop(ctx, id)
	if err != nil {
		return StoppedRun{}, err
	}
	return StoppedRun{r, s.Below(r.SessionID, false)}, nil
}

func (s *Stopper) stopRunTree(ctx context.Context, id string) (stopped StoppedRun, err error) {
	for range TreeTries {
		if err := s.reads.CatchUp(ctx); err != nil {
			return stopped, err
		}
		r, err := s.history.Get(ctx, id)
		if err != nil {
			return stopped, err
		}
		if root := s.history.Root(r.SessionID); root == id {
			stopped.Below = s.Below(r.SessionID, true) // before it has an effect
			done, err := s.StopTree(ctx, r.SessionID, root, id)
			if err != nil {
				return stopped, err
			}
			if !done { // another was begun at this moment
				continue
			}
		} else if r.Status.Final() && r.Status != run.Stopped {
			return stopped, fault.Newf(fault.Conflict, "run %s has ended already: %s, and a later run of its session "+
				"was begun; stop the session with its tree: POST /sessions/%s/stop", id, r.Status, r.SessionID).
				With("run_id", id).With("status", r.Status).With("session_id", r.SessionID)
		}
		// it had ended, and what is below it had not
		stopped.Run, err = s.Stop(ctx, id)
		if fault.KindOf(err) == fault.Conflict {
			stopped.Run, err = s.show(ctx, id)
		}
		return stopped, err
	}
	return stopped, Changing("run", id)
}

// TreeTries is how often the wish to stop a tree is written anew, since a run was begun meanwhile.
const TreeTries = 20

// Changing refuses to go on with what others change all the time.
func Changing(what, id string) error {
	return fault.Newf(fault.Unavailable, "%s %s is changing; try again", what, id).After(time.Second)
}

// StopTree makes the wish durable to stop a session's tree, and of the session's own runs this one, or all. Not
// stopped: a run was begun after root, and the wish counts for nothing.
func (s *Stopper) StopTree(ctx context.Context, session, root, own string) (stopped bool, err error) {
	if root == "" { // the session is gone
		return true, nil
	}
	body, err := json.Marshal(run.TreeStop{V: s.version(), SessionID: session, RunID: own, At: time.Now().UTC()})
	if err != nil {
		return false, err
	}
	e := bus.Entry{Subject: subject.Tree(subject.Partition(session), session, root), Body: body}
	if err := s.records.Put(ctx, e); err != nil {
		return false, bus.OutcomeUnknown(ctx, err)
	}
	if err := s.reads.CatchUp(ctx); err != nil {
		return false, err
	}
	return s.history.TreeStopped(session), nil
}
