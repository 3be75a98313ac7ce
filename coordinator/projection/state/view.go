package state

import (
	"time"

	"ao/coordinator/projection/scan"
	"ao/shared/run"
)

// View is what the index says about a run at one moment.
type View struct {
	Row           // as it was; do not follow its links
	ID, SessionID string
	Status        run.Status
	Active        *Active // nil: ended
	SessionFirst  uint64
	calls         calls
	Children      int // runs of the sessions right below its own, if counted
}

// ViewOf copies a row. The caller holds at least the read lock.
func ViewOf(f *State, r *Row) View {
	return View{Row: *r, ID: r.ID(), SessionID: r.Session().ID(), Status: r.Status(),
		SessionFirst: r.Session().First, Active: r.Active(), calls: CallsOf(f, r)}
}

// Run returns as much of a run as the index has.
func (s *View) Run() run.Run {
	r := run.Run{
		ID: s.ID, SessionID: s.SessionID, Agent: s.Agent, AgentHash: scan.HashText(s.AgentHash), Status: s.Status,
		Parent: s.Parent, Depth: int(s.Depth), RunnerID: s.Runner, Attempt: max(1, int(s.Attempt)),
		Children: s.Children, ParentDeleted: s.calls.orphan, Callback: s.calls.Parent, HTTPCallback: s.calls.HTTP,
		CreatedAt: Moment(s.Created), ClaimedAt: momentOrNil(s.Claimed), StartedAt: momentOrNil(s.Started),
		EndedAt: momentOrNil(s.Ended),
	}
	if s.Runner == "" { // a coordinator's claim, to end it: no runner has claimed it
		r.ClaimedAt = nil
	}
	if s.Active != nil && s.Active.Stopping {
		r.StoppedWith = s.Active.TreeStop.Session
	}
	if s.Active != nil && s.Active.Started != nil {
		r.StartedAt = s.Active.Started
	}
	if s.Active != nil && s.Active.Key == "" && !s.Active.NotBefore.IsZero() {
		r.NextAt = new(s.Active.NotBefore.UTC())
	}
	if begin := r.StartedAt; (begin != nil || r.ClaimedAt != nil) && s.Timeout > 0 && s.Runner != "" {
		if begin == nil {
			begin = r.ClaimedAt
		}
		r.TimeoutAt = new(begin.Add(time.Duration(s.Timeout) * time.Second))
	}
	return r
}

// calls is the state of a run's callback and webhook.
type calls struct {
	orphan       bool // it names a parent that no longer exists
	Parent, HTTP *run.CallbackState
}

// Why a parent cannot be called back.
const (
	reasonGone       = "parent_gone"
	reasonProcedural = "procedural_agent_no_resume"
	reasonNeverBegan = "session_never_began"
	reasonTree       = "tree_stopped"
)

// CallsOf returns the state of a run's callback and webhook.
func CallsOf(f *State, r *Row) (c calls) {
	if r.Parent != "" {
		c.orphan = f.Session(r.Parent) == nil
		if r.Callback {
			p := f.parentOf(r)
			c.orphan = p == nil
			c.Parent = parentCall(r, p, r.Reported && f.Callbacks.inReservedTurn(r))
		}
	}
	if r.Webhook == WebhookNone {
		return c
	}
	c.HTTP = &run.CallbackState{Status: run.CallbackPending}
	switch h := f.Webhooks.Of(r); {
	case r.Webhook == webhookDelivered:
		c.HTTP.Status = run.CallbackDelivered
	case h == nil:
		c.HTTP.Status = run.CallbackWaiting
	default:
		c.HTTP.Tries, c.HTTP.HTTP, c.HTTP.Reason = h.Tries, h.Status, h.Reason
		if r.Webhook == webhookDead {
			c.HTTP.Status = run.CallbackDead
		} else {
			c.HTTP.Next = new(h.Next.UTC())
		}
	}
	return c
}

// parentCall returns the state of a run's callback to its parent. Reserved: the turn that reports it is not accepted
// yet.
func parentCall(r *Row, p *Session, reserved bool) *run.CallbackState {
	switch {
	case r.Reported && r.Suppressed:
		return &run.CallbackState{Status: run.CallbackSuppressed, Reason: reasonTree}
	case r.Reported && reserved:
		return &run.CallbackState{Status: run.CallbackPending}
	case r.Reported:
		c := &run.CallbackState{Status: run.CallbackDelivered}
		if turn := r.Turn(); turn != nil && !turn.Evicted {
			c.RunID = turn.ID()
		}
		return c
	case p == nil:
		return &run.CallbackState{Status: run.CallbackUndeliverable, Reason: reasonGone}
	case p.AgentType != run.Autonomous:
		return &run.CallbackState{Status: run.CallbackUndeliverable, Reason: reasonProcedural}
	case !p.canReceiveCallback():
		return &run.CallbackState{Status: run.CallbackUndeliverable, Reason: reasonNeverBegan}
	case r.Active() != nil:
		return &run.CallbackState{Status: run.CallbackWaiting}
	case r.Suppressed:
		return &run.CallbackState{Status: run.CallbackSuppressed, Reason: reasonTree}
	}
	return &run.CallbackState{Status: run.CallbackPending}
}
