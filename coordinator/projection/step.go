package projection

import (
	"time"

	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// Step is how far a record has brought a run, for who measures.
type Step struct {
	Kind Phase
	// since the step before, by the stream's clock; of a run that was queued at once: since it was accepted
	Elapsed  time.Duration
	Total    time.Duration // Ended: since the run was accepted
	Agent    string
	Type     string // of the agent
	RunnerID string // who has begun the attempt; empty: nobody
	Fresh    bool   // Queued, Accepted: the run is new
	Retried  bool   // Ended: that was an attempt, and another follows
	Status   run.Status
	Reason   string // Ended, failed: the error's code
}

// Leg is a kind of step.
type Phase uint8

// Steps of a run.
const (
	None              Phase = iota
	Accepted                // it waits for its turn, or for a runner
	Queued                  // it may be taken
	Claimed                 // a runner has begun it
	Ended                   // its attempt has
	CallbackDelivered       // its parent was told of its end
	WebhookDelivered        // its HTTP callback was delivered
)

// step is what a change brought about. The caller holds mu; at is the record's time. A run that moves to another
// lane goes no step.
func (ch *Change) step(at time.Time) (s Step) {
	r := ch.row
	if !ch.Applied || r == nil || r.gone {
		return s
	}
	s = Step{Agent: r.agent, Type: r.session.agentType, RunnerID: r.runner, Status: ch.After}
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
			since = r.created
		} else if ch.in.lane != "" || r.attempt > 1 {
			return Step{}
		}
		s.Kind = Queued
	case subject.ClaimedKind:
		if r.runner != "" {
			s.Kind = Claimed
		}
	case subject.EndedKind:
		s.Kind, s.Retried = Ended, ch.After == run.Pending
		if ch.overstep {
			s.Reason = CodeRecordVersion
		}
		s.Total = time.Duration(now - r.created)
		if s.Retried {
			s.Status, s.RunnerID = run.Failed, ch.runner
		}
		if s.RunnerID == "" { // nobody began it: it only waited
			since = now
		}
	case subject.CallbackKind:
		s.Kind = CallbackDelivered
	case subject.NotifiedKind:
		if r.hook == hookDelivered {
			s.Kind = WebhookDelivered
		}
	}
	s.Elapsed = time.Duration(now - since)
	return s
}

// of is the step with what its record says of it.
func (s Step) of(m Record) Step {
	if s.Kind == Ended && s.Status == run.Failed && s.Reason == "" {
		s.Reason = reason(m.Body)
	}
	return s
}

// reason is the code of the error in a last word.
func reason(body []byte) (code string) {
	_ = strictjson.Scan(body, func(name, v []byte) {
		if string(name) == "error" {
			_ = strictjson.Scan(v, func(name, v []byte) {
				if string(name) == "error" {
					code = strictjson.String(v)
				}
			})
		}
	})
	return code
}
