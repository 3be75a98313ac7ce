package projection

import (
	"time"

	"ao/shared/run"
)

// calls is where the callbacks of a run stand.
type calls struct {
	orphan       bool // it names a parent that does not exist any more
	parent, http *run.CallbackState
}

// Why a parent cannot be told.
const (
	reasonGone       = "parent_gone"
	reasonProcedural = "procedural_agent_no_resume"
	reasonNeverBegan = "session_never_began"
	reasonTree       = "tree_stopped"
)

func callsOf(f *fold, r *row) (c calls) {
	if r.parent != "" {
		c.orphan = f.sessions[identOf(sessionPrefix, r.parent)] == nil
		if r.callback {
			p := f.parentOf(r)
			c.orphan = p == nil
			c.parent = parentCall(r, p)
		}
	}
	if r.hook == hookNone {
		return c
	}
	c.http = &run.CallbackState{Status: run.CallbackPending}
	switch h := f.webhooks.of[r]; {
	case r.hook == hookDelivered:
		c.http.Status = run.CallbackDelivered
	case h == nil:
		c.http.Status = run.CallbackWaiting
	default:
		c.http.Tries, c.http.HTTP, c.http.Reason = h.tries, h.status, h.reason
		if r.hook == hookDead {
			c.http.Status = run.CallbackDead
		} else {
			next := h.next.UTC()
			c.http.Next = &next
		}
	}
	return c
}

func parentCall(r *row, p *session) *run.CallbackState {
	switch {
	case r.told && r.suppressed:
		return &run.CallbackState{Status: run.CallbackSuppressed, Reason: reasonTree}
	case r.told:
		c := &run.CallbackState{Status: run.CallbackDelivered}
		if r.by != nil && !r.by.gone {
			c.RunID = r.by.runID()
		}
		return c
	case p == nil:
		return &run.CallbackState{Status: run.CallbackUndeliverable, Reason: reasonGone}
	case p.agentType != run.Autonomous:
		return &run.CallbackState{Status: run.CallbackUndeliverable, Reason: reasonProcedural}
	case !p.hears():
		return &run.CallbackState{Status: run.CallbackUndeliverable, Reason: reasonNeverBegan}
	case r.live != nil:
		return &run.CallbackState{Status: run.CallbackWaiting}
	case r.suppressed:
		return &run.CallbackState{Status: run.CallbackSuppressed, Reason: reasonTree}
	}
	return &run.CallbackState{Status: run.CallbackPending}
}

// viewOf is a session as readers see it.
func sessionOf(f *fold, s *session) run.Session {
	v := s.view()
	if s.parent != "" {
		v.ParentGone = f.sessions[identOf(sessionPrefix, s.parent)] == nil
	}
	return v
}

// Owing is a parent session with nothing under way that is to be told of ended children.
type PendingCallback struct {
	ReadAt      time.Time // when it was looked at
	Session     string
	LastRun     string    // the run of it that ended last
	LastClaimed string    // the newest run of it that a runner claimed
	Ended       time.Time // when that was, by its own word
	Parent      string    // of the turn that will tell it
	Mode        string    // likewise
	Misses      int       // such turns in a row that ended before a runner began them
	Deliveries  int       // how often the first of the children was told of before, by turns that ended so
	Children    []Child   // in the order of their ends
}

// maxTold is how many children one turn tells of at most; more come in the next one.
const maxTold = 1000

// Child is an ended run whose parent is to be told of it.
type Child struct {
	RunID, SessionID string
	Status           run.Status
	Ended            time.Time // by its own word
}

func (d *debts) owingOf(s *session, now time.Time) (o PendingCallback, ok bool) {
	if s.runs == 0 || len(s.live) > 0 || s.lastEnded == nil || len(s.owed) == 0 || !s.hears() || d.expects(s) {
		return o, false
	}
	o = PendingCallback{ReadAt: now, Session: s.sessionID(), LastRun: s.lastEnded.runID(),
		Ended: moment(s.lastEnded.ended), Misses: int(s.misses)}
	if r := s.newestBegun(nil); r != nil {
		o.LastClaimed = r.runID()
	}
	o.Parent, o.Mode = s.reply()
	for _, r := range s.owed[:min(len(s.owed), maxTold)] {
		if !r.gone {
			if len(o.Children) == 0 {
				o.Deliveries = int(r.tellings)
			}
			o.Children = append(o.Children, Child{r.runID(), r.session.sessionID(), r.base(), moment(r.ended)})
		}
	}
	return o, len(o.Children) > 0
}
