package state

import (
	"time"

	"ao/coordinator/projection/scan"
	"ao/nats/subject"
	"ao/shared/run"
)

// Step is a step of a run, for metrics.
type Step struct {
	Kind Phase
	// since the step before, by the stream's clock; for a run queued at once, since it was accepted
	Elapsed  time.Duration
	Total    time.Duration // Ended: since the run was accepted
	Agent    string
	Type     string // of the agent
	RunnerID string // who claimed the attempt; empty: nobody
	Fresh    bool   // Queued, Accepted: the run is new
	Retried  bool   // Ended: an attempt ended, and another follows
	Status   run.Status
	Reason   string // Ended, failed: the error's code
}

// Phase is a kind of step.
type Phase uint8

// The steps of a run.
const (
	None              Phase = iota
	Accepted                // it waits for its turn, or for a runner
	Queued                  // it may be claimed
	Claimed                 // a runner has claimed it
	Ended                   // its attempt has
	CallbackDelivered       // its parent was called back
	WebhookDelivered        // its webhook was delivered
)

// Step returns the step that a change made. The caller holds mu; at is the record's time. A move to another
// queue is none.
func (ch *Change) Step(at time.Time) (s Step) {
	r := ch.row
	if !ch.Applied || r == nil || r.Evicted {
		return s
	}
	s = Step{Agent: r.Agent, Type: r.session.AgentType, RunnerID: r.Runner, Status: ch.After}
	now, since := at.UnixNano(), ch.since
	switch ch.Kind {
	case subject.AcceptedKind:
		s.Fresh = ch.Before == ""
		if s.Fresh {
			s.Kind, since = Accepted, now
		}
	case subject.QueuedKind:
		s.Fresh = ch.Before == ""
		if s.Fresh {
			since = r.Created
		} else if ch.in.queue != "" || r.Attempt > 1 {
			return Step{}
		}
		s.Kind = Queued
	case subject.ClaimedKind:
		if r.Runner != "" {
			s.Kind = Claimed
		}
	case subject.EndedKind:
		s.Kind, s.Retried = Ended, ch.After == run.Pending
		if ch.versionExceeded {
			s.Reason = CodeRecordVersion
		}
		s.Total = time.Duration(now - r.Created)
		if s.Retried {
			s.Status, s.RunnerID = run.Failed, ch.runner
		}
		if s.RunnerID == "" { // unclaimed: it only waited
			since = now
		}
	case subject.CallbackKind:
		s.Kind = CallbackDelivered
	case subject.NotifiedKind:
		if r.Webhook == webhookDelivered {
			s.Kind = WebhookDelivered
		}
	}
	s.Elapsed = time.Duration(now - since)
	return s
}

// Of adds what the record says about the step.
func (s Step) Of(m Record) Step {
	if s.Kind == Ended && s.Status == run.Failed && s.Reason == "" {
		s.Reason, _ = scan.ErrorOf(m.Body)
	}
	return s
}

// Effect is a set of bits: what follows from a record. Whoever acts on it asks the Worklist for the details.
type Effect uint32

// The effects of records, and of the connection to NATS.
const (
	TurnDue          Effect = 1 << iota // Eligible has something new
	ResultDue                           // NewResults has
	CallbackDue                         // NewCallbacks has
	TreeStopDue                         // StoppingTrees or SuppressedCallbacks have
	WebhookDue                          // a run ended or a try was recorded, and webhooks are pending
	HistoryConfirmed                    // the history is confirmed again: do what was left undone meanwhile
)

// EffectOf returns what is due after a record.
func EffectOf(f *State, ch *Change) (e Effect) {
	for _, x := range [...]struct {
		effect Effect
		is     bool
	}{
		{TurnDue, len(f.fresh) > 0},
		{ResultDue, len(f.results) > 0},
		{CallbackDue, len(f.Callbacks.due) > 0},
		{TreeStopDue, f.Trees.changed},
		{WebhookDue, len(f.Webhooks.Hosts.first) > 0 && (ch.After.Final() || ch.Kind == subject.NotifiedKind)},
	} {
		if x.is {
			e |= x.effect
		}
	}
	return e
}
