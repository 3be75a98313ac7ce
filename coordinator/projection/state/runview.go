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
