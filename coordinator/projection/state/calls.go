package state

import "ao/shared/run"

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
