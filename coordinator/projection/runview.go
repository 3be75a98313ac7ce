package projection

import (
	"time"

	"ao/shared/run"
)

// runView is what the index says about a run at one moment.
type runView struct {
	row           // as it was; do not follow its links
	id, sessionID string
	status        run.Status
	snap          *Active // nil: ended
	sessionFirst  uint64
	calls         calls
	children      int // runs of the sessions right below its own, if counted
}

// runViewOf copies a row. The caller holds at least the read lock.
func runViewOf(f *reducer, r *row) runView {
	s := runView{row: *r, id: r.runID(), sessionID: r.session.sessionID(), status: r.shown(),
		sessionFirst: r.session.First, calls: callsOf(f, r)}
	if r.live != nil {
		s.snap = r.live.snap
	}
	return s
}

// bare returns as much of a run as the index has.
func (s *runView) bare() run.Run {
	r := run.Run{
		ID: s.id, SessionID: s.sessionID, Agent: s.Agent, AgentHash: hashText(s.AgentHash), Status: s.status,
		Parent: s.Parent, Depth: int(s.Depth), RunnerID: s.Runner, Attempt: max(1, int(s.Attempt)),
		Children: s.children, ParentDeleted: s.calls.orphan, Callback: s.calls.parent, HTTPCallback: s.calls.http,
		CreatedAt: moment(s.Created), ClaimedAt: momentOrNil(s.Claimed), StartedAt: momentOrNil(s.Started),
		EndedAt: momentOrNil(s.Ended),
	}
	if s.Runner == "" { // a coordinator's claim, to end it: no runner has claimed it
		r.ClaimedAt = nil
	}
	if s.snap != nil && s.snap.Stopping {
		r.StoppedWith = s.snap.TreeStop.Session
	}
	if s.snap != nil && s.snap.Started != nil {
		r.StartedAt = s.snap.Started
	}
	if s.snap != nil && s.snap.Key == "" && !s.snap.NotBefore.IsZero() {
		r.NextAt = new(s.snap.NotBefore.UTC())
	}
	if begin := r.StartedAt; (begin != nil || r.ClaimedAt != nil) && s.Timeout > 0 && s.Runner != "" {
		if begin == nil {
			begin = r.ClaimedAt
		}
		r.TimeoutAt = new(begin.Add(time.Duration(s.Timeout) * time.Second))
	}
	return r
}
