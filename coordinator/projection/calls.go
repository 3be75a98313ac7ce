package projection

import (
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// calls is the state of a run's callback and webhook.
type calls struct {
	orphan       bool // it names a parent that no longer exists
	parent, http *run.CallbackState
}

// Why a parent cannot be called back.
const (
	reasonGone       = "parent_gone"
	reasonProcedural = "procedural_agent_no_resume"
	reasonNeverBegan = "session_never_began"
	reasonTree       = "tree_stopped"
)

func callsOf(f *reducer, r *row) (c calls) {
	if r.Parent != "" {
		c.orphan = f.session(r.Parent) == nil
		if r.Callback {
			p := f.parentOf(r)
			c.orphan = p == nil
			c.parent = parentCall(r, p, r.Reported && f.callbacks.inReservedTurn(r))
		}
	}
	if r.Webhook == webhookNone {
		return c
	}
	c.http = &run.CallbackState{Status: run.CallbackPending}
	switch h := f.webhooks.of[r]; {
	case r.Webhook == webhookDelivered:
		c.http.Status = run.CallbackDelivered
	case h == nil:
		c.http.Status = run.CallbackWaiting
	default:
		c.http.Tries, c.http.HTTP, c.http.Reason = h.Tries, h.Status, h.Reason
		if r.Webhook == webhookDead {
			c.http.Status = run.CallbackDead
		} else {
			c.http.Next = new(h.Next.UTC())
		}
	}
	return c
}

// parentCall returns the state of a run's callback to its parent. Reserved: the turn that reports it is not accepted
// yet.
func parentCall(r *row, p *session, reserved bool) *run.CallbackState {
	switch {
	case r.Reported && r.Suppressed:
		return &run.CallbackState{Status: run.CallbackSuppressed, Reason: reasonTree}
	case r.Reported && reserved:
		return &run.CallbackState{Status: run.CallbackPending}
	case r.Reported:
		c := &run.CallbackState{Status: run.CallbackDelivered}
		if r.turn != nil && !r.turn.Evicted {
			c.RunID = r.turn.runID()
		}
		return c
	case p == nil:
		return &run.CallbackState{Status: run.CallbackUndeliverable, Reason: reasonGone}
	case p.AgentType != run.Autonomous:
		return &run.CallbackState{Status: run.CallbackUndeliverable, Reason: reasonProcedural}
	case !p.canReceiveCallback():
		return &run.CallbackState{Status: run.CallbackUndeliverable, Reason: reasonNeverBegan}
	case r.live != nil:
		return &run.CallbackState{Status: run.CallbackWaiting}
	case r.Suppressed:
		return &run.CallbackState{Status: run.CallbackSuppressed, Reason: reasonTree}
	}
	return &run.CallbackState{Status: run.CallbackPending}
}

// sessionOf returns a session as readers see it.
func sessionOf(f *reducer, s *session) run.Session {
	v := s.view()
	if s.Parent != "" {
		v.ParentGone = f.session(s.Parent) == nil
	}
	return v
}

// PendingCallback is a parent session with nothing open, and its ended children whose callback is pending.
type PendingCallback struct {
	ReadAt      time.Time // when it was read
	Session     string
	LastRun     string    // its run that ended last
	LastClaimed string    // its newest run that a runner claimed
	Ended       time.Time // when LastRun ended, by its own clock
	Parent      string    // of the turn to be written
	Mode        string    // likewise
	Misses      int       // callback turns in a row that ended unclaimed
	Deliveries  int       // how often the first child was reported before, by turns that ended unclaimed
	Children    []Child   // in the order of their ends
}

// Subject returns the subject of the record that reports the children. Each further record that reports the first child
// has the next number.
func (o *PendingCallback) Subject() string {
	return subject.Callback(subject.Partition(o.Session), o.Session, o.Children[0].RunID, o.Deliveries)
}

// maxTold is how many children one turn reports at most. The next turn reports more.
const maxTold = 1000

// Child is an ended run whose callback is pending.
type Child struct {
	RunID, SessionID string
	Status           run.Status
	Ended            time.Time // by its own clock
}

func (d *callbacks) pendingCallback(s *session, now time.Time) (o PendingCallback, ok bool) {
	if s.runs == 0 || len(s.live) > 0 || s.lastEnded == nil || len(s.pending) == 0 || !s.canReceiveCallback() ||
		d.hasReservedTurn(s) {
		return o, false
	}
	o = PendingCallback{ReadAt: now, Session: s.sessionID(), LastRun: s.lastEnded.runID(),
		Ended: moment(s.lastEnded.Ended), Misses: int(s.Misses)}
	if r := s.newestClaimed(nil); r != nil {
		o.LastClaimed = r.runID()
	}
	o.Parent, o.Mode = s.reply()
	for _, r := range s.pending[:min(len(s.pending), maxTold)] {
		if !r.Evicted {
			if len(o.Children) == 0 {
				o.Deliveries = int(r.Deliveries)
			}
			o.Children = append(o.Children, Child{r.runID(), r.session.sessionID(), r.base(), moment(r.Ended)})
		}
	}
	return o, len(o.Children) > 0
}
