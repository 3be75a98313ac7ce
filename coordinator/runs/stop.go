package runs

import (
	"context"
	"errors"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// Stopper stops runs and the sessions below them.
type Stopper struct {
	ends    Ends
	records Records
	history stopHistory
	reads   catchUp
	show    func(ctx context.Context, id string) (run.Run, error)
	version func() int // of records to write
}

// Stop stops a run and returns it. A waiting run ends at once, a claimed one when its process tree is gone. A run that
// is stopped or stopping stays so. A run that ended otherwise is a Conflict.
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
		case !ok: // it ended between the two lookups
			continue
		case a.Claim == nil:
			err = s.ends.EndWaiting(ctx, a, run.Stopped, a.StoppedError())
			if errors.Is(err, bus.ErrTaken) { // a worker claimed it first
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

// requestStop asks for an attempt to be stopped, and waits until the projection has the request.
func (s *Stopper) requestStop(ctx context.Context, a state.Active) error {
	if err := s.ends.Stop(ctx, a); err != nil {
		return err
	}
	return s.reads.CatchUp(ctx)
}

// Below lists the open runs below a session: those that go on after a stop, or are stopped with it.
type Below struct {
	Count    int      `json:"count"`
	Runs     []string `json:"run_ids"` // the oldest, at most 100
	Stopping bool     `json:"stopping"`
}

// StoppedRun answers the stop of a run.
type StoppedRun struct {
	run.Run
	Below *Below `json:"open_below,omitempty"` // nil: there are none
}

// maxListedBelow is the most runs below a session that an answer names.
const maxListedBelow = 100

// Below returns the open runs below a session; nil: there are none.
func (s *Stopper) Below(session string, stopping bool) *Below {
	n, oldest := s.history.Below(session, maxListedBelow)
	if n == 0 {
		return nil
	}
	return &Below{n, oldest, stopping}
}

// StopRun stops a run as Stop does, and lists the open runs below its session. With tree, it stops those too. Then an
// ended run is no conflict unless a later run of its session was claimed. Runs below a session belong to the run that
// the session claimed last.
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
			stopped.Below = s.Below(r.SessionID, true) // as it is before the stop
			done, err := s.StopTree(ctx, r.SessionID, root, id)
			if err != nil {
				return stopped, err
			}
			if !done { // another run was claimed just now
				continue
			}
		} else if r.Status.Final() && r.Status != run.Stopped {
			return stopped, fault.Newf(fault.Conflict, "run %s has ended already: %s, and a later run of its session "+
				"was claimed; stop the session with its tree: POST /sessions/%s/stop", id, r.Status, r.SessionID).
				With("run_id", id).With("status", r.Status).With("session_id", r.SessionID)
		}
		// It had ended, but not what is below it.
		stopped.Run, err = s.Stop(ctx, id)
		if fault.KindOf(err) == fault.Conflict {
			stopped.Run, err = s.show(ctx, id)
		}
		return stopped, err
	}
	return stopped, Changing("run", id)
}

// TreeTries is how often a tree stop is written again because a run was claimed meanwhile.
const TreeTries = 20

// Changing returns the error for a run or session that others change all the time.
func Changing(what, id string) error {
	return fault.Newf(fault.Unavailable, "%s %s is changing; try again", what, id).After(time.Second)
}

// StopTree stores a request to stop a session's tree, and of the session's own runs the named one, or all. Not stopped:
// a run was claimed after root, and the request has no effect.
func (s *Stopper) StopTree(ctx context.Context, session, root, own string) (stopped bool, err error) {
	if root == "" { // the session was deleted
		return true, nil
	}
	body, err := strictjson.Encode(run.TreeStop{V: s.version(), SessionID: session, RunID: own, At: time.Now().UTC()})
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
