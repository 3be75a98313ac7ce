package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

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

// StoppedSession answers the stop of a session.
type StoppedSession struct {
	run.Session
	Below *Below `json:"open_below,omitempty"` // nil: there is nothing
}

// maxNamed is how many runs below a session an answer names.
const maxNamed = 100

// below are the open runs below a session at this moment.
func (c *Coordinator) below(session string, stopping bool) *Below {
	n, oldest := c.Journal.Below(session, maxNamed)
	if n == 0 {
		return nil
	}
	return &Below{n, oldest, stopping}
}

// StopRun stops a run, as Stop does, and says what is open below its session. With tree, all that is stopped too, and a run that has
// ended is no conflict as long as no later one of its session was begun. What is below belongs to the run of the session that was begun
// last: a run that waits behind it has nothing below it.
func (c *Coordinator) StopRun(ctx context.Context, id string, tree bool) (StoppedRun, error) {
	if tree {
		return c.stopRunTree(ctx, id)
	}
	r, err := c.Stop(ctx, id)
	if err != nil {
		return StoppedRun{}, err
	}
	return StoppedRun{r, c.below(r.SessionID, false)}, nil
}

func (c *Coordinator) stopRunTree(ctx context.Context, id string) (s StoppedRun, err error) {
	for range treeTries {
		if err := c.caughtUp(ctx); err != nil {
			return s, err
		}
		r, err := c.Journal.Get(ctx, id)
		if err != nil {
			return s, err
		}
		if root := c.Journal.Root(r.SessionID); root == id {
			s.Below = c.below(r.SessionID, true) // before it has an effect
			stopped, err := c.stopTree(ctx, r.SessionID, root, id)
			if err != nil {
				return s, err
			}
			if !stopped { // another was begun at this moment
				continue
			}
		} else if r.Status.Final() && r.Status != run.Stopped {
			return s, fault.Newf(fault.Conflict, "run %s has ended already: %s, and a later run of its session was begun; stop the session with its tree: POST /sessions/%s/stop", id, r.Status, r.SessionID).
				With("run_id", id).With("status", r.Status).With("session_id", r.SessionID)
		}
		if s.Run, err = c.Stop(ctx, id); fault.KindOf(err) == fault.Conflict { // it had ended, and what is below it had not
			s.Run, err = c.Show(ctx, id)
		}
		return s, err
	}
	return s, changing("run", id)
}

// treeTries is how often the wish to stop a tree is written anew, since a run was begun meanwhile.
const treeTries = 20

func changing(what, id string) error {
	return fault.Newf(fault.Unavailable, "%s %s is changing; try again", what, id).After(time.Second)
}

// StopSession stops what runs in a session and cancels what waits, and says what is open below it. With tree, that is stopped too.
func (c *Coordinator) StopSession(ctx context.Context, id string, tree bool) (s StoppedSession, err error) {
	if err := c.caughtUp(ctx); err != nil { // what another coordinator has accepted a moment ago is stopped too
		return s, err
	}
	if _, err := c.Session(ctx, id); err != nil {
		return s, err
	}
	s.Below = c.below(id, tree)
	for n := 0; tree; n++ { // again where a run was begun at this moment
		stopped, err := c.stopTree(ctx, id, c.Journal.Root(id), "")
		if err == nil && !stopped && n == treeTries {
			err = changing("session", id)
		}
		if err != nil {
			return s, err
		}
		tree = !stopped
	}
	// The last one first: a turn that ends must not let one begin that is to be cancelled.
	open := c.Journal.Open(id)
	for i := len(open) - 1; i >= 0; i-- {
		if _, err := c.Stop(ctx, open[i].Spec.ID); err != nil && fault.KindOf(err) != fault.Conflict {
			return s, err
		}
	}
	s.Session, err = c.Journal.Session(ctx, id)
	return s, err
}

// stopTree makes the wish durable to stop a session's tree, and of the session's own runs this one, or all. Not stopped: a run was begun
// after root, and the wish counts for nothing.
func (c *Coordinator) stopTree(ctx context.Context, session, root, own string) (stopped bool, err error) {
	if root == "" { // the session is gone
		return true, nil
	}
	body, err := json.Marshal(run.TreeStop{V: c.versions.Now(), SessionID: session, RunID: own, At: time.Now().UTC()})
	if err != nil {
		return false, err
	}
	e := bus.Entry{Subject: subject.Tree(subject.Partition(session), session, root), Body: body}
	if err := c.records.Put(ctx, e); err != nil {
		return false, unsure(ctx, err)
	}
	if err := c.caughtUp(ctx); err != nil {
		return false, err
	}
	return c.Journal.TreeStopped(session), nil
}

// stopped tells whether what a session starts is stopped at once, as far as the fold knows.
func (c *Coordinator) stopped(parent string) bool { return parent != "" && c.Journal.Covered(parent) }

// haltedBy says with what a run was stopped that nobody has begun.
func haltedBy(h journal.Halt) *fault.Fault {
	return fault.New(fault.Internal, "stopped", fmt.Sprintf("Stopped before it began, with all that is below session %s", h.Session)).With("stopped_with", h.Session)
}
