package sessions

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	"ao/coordinator/projection"
	"ao/coordinator/runs"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// Service shows, stops and deletes sessions, tells which is below which, and whose session tokens are.
type Service struct {
	*Tokens
	history History
	reads   runs.Freshness
	stops   Stops
	records Records
	stream  Stream
	version func() int
	runOf   func(payload string) string
	log     *slog.Logger
}

// Session is a session as readers see it.
func (t *Service) Session(ctx context.Context, id string) (run.Session, error) {
	t.reads.WaitCurrent(ctx)
	return t.history.Session(ctx, id)
}

// SessionResult is the result of the newest ended run of a session.
func (t *Service) SessionResult(ctx context.Context, id string) (run.Result, run.Run, error) {
	t.reads.WaitCurrent(ctx)
	return t.history.SessionResult(ctx, id)
}

// Events are what happened in a session after a position, oldest first, and where to go on.
func (t *Service) Events(ctx context.Context, session, after string, limit int) ([]run.Event, string, error) {
	t.reads.WaitCurrent(ctx)
	return t.history.Events(ctx, session, after, limit)
}

// Sessions lists sessions.
func (t *Service) Sessions(ctx context.Context, q projection.Query) (projection.SessionPage, error) {
	t.reads.WaitOwnWrites(ctx)
	return t.history.Sessions(ctx, q)
}

// Tree is a page of a session and all below it, with their runs.
func (t *Service) Tree(ctx context.Context, id string, limit int, cursor string) (projection.TreePage, error) {
	t.reads.WaitOwnWrites(ctx)
	p, err := t.history.Tree(ctx, id, limit, cursor)
	if err == nil {
		err = attempts{t.stream, t.keys}.add(ctx, &p)
	}
	return p, err
}

// StoppedSession answers the stop of a session.
type StoppedSession struct {
	run.Session
	Below *runs.Below `json:"open_below,omitempty"` // nil: there is nothing
}

// StopSession stops what runs in a session and cancels what waits, and says what is open below it. With tree, that is
// stopped too.
func (t *Service) StopSession(ctx context.Context, id string, tree bool) (s StoppedSession, err error) {
	if err := t.reads.CatchUp(ctx); err != nil { // what another coordinator has accepted a moment ago is stopped too
		return s, err
	}
	if _, err := t.Session(ctx, id); err != nil {
		return s, err
	}
	s.Below = t.stops.Below(id, tree)
	for n := 0; tree; n++ { // again where a run was begun at this moment
		stopped, err := t.stops.StopTree(ctx, id, t.history.Root(id), "")
		if err == nil && !stopped && n == runs.TreeTries {
			err = runs.Changing("session", id)
		}
		if err != nil {
			return s, err
		}
		tree = !stopped
	}
	// The last one first: a turn that ends must not let one begin that is to be cancelled.
	open := t.history.Open(id)
	for i := len(open) - 1; i >= 0; i-- {
		if _, err := t.stops.Stop(ctx, open[i].Spec.ID); err != nil && fault.KindOf(err) != fault.Conflict {
			return s, err
		}
	}
	s.Session, err = t.history.Session(ctx, id)
	return s, err
}

// maxGenerations is how far down a session's descendants are looked for.
const maxGenerations = 1000

// IsDescendant tells whether a session is below another one: started by it, or by one that is below it. An unknown session
// is NotFound.
func (t *Service) IsDescendant(ctx context.Context, session, from string) (bool, error) {
	for n := range maxGenerations {
		s, err := t.history.Session(ctx, session)
		if err != nil && n > 0 && fault.KindOf(err) == fault.NotFound { // one in between was deleted
			return false, nil
		} else if err != nil {
			return false, err
		}
		if s.Parent == from {
			return true, nil
		}
		session = s.Parent
		if session == "" {
			return false, nil
		}
	}
	return false, nil
}

// AsSession makes the body of a run's request the request of a session: its run is that session's child, and what it
// resumes must be below it. A body that cannot be read stays as it is: who takes it says why.
func (t *Service) AsSession(ctx context.Context, session string, body []byte) ([]byte, error) {
	req, err := run.ReadRequest(body)
	if err != nil {
		return body, nil
	}
	if p := req.ParentSessionID; p != "" && p != session {
		return nil, fault.Newf(fault.Forbidden, "parent_session_id: with a session token a run's parent is the "+
			"token's own session %s; leave it out", session).With("field", "parent_session_id")
	}
	if req.Type == run.Resume {
		if err := t.RequireDescendant(ctx, req.SessionID, session, false); err != nil {
			return nil, err
		}
	}
	if req.ParentSessionID != "" {
		return body, nil
	}
	members, err := strictjson.Members(body)
	if err != nil {
		return body, nil
	}
	// there, and empty
	members = slices.DeleteFunc(members, func(m strictjson.Member) bool { return m.Key == "parent_session_id" })
	parent, err := json.Marshal(session)
	if err != nil {
		return nil, err
	}
	return strictjson.Object(append(members, strictjson.Member{Key: "parent_session_id", Value: parent})), nil
}

// RequireDescendant refuses a session what is not its own: one below it, or itself where that is enough. An unknown session is
// NotFound.
func (t *Service) RequireDescendant(ctx context.Context, session, own string, itself bool) error {
	if session == own && itself {
		return nil
	}
	if session == own {
		return fault.New(fault.Forbidden, "", "A session cannot do that to itself with its own token; its turn ends "+
			"when its run does").With("session_id", own)
	}
	below, err := t.IsDescendant(ctx, session, own)
	if err == nil && !below {
		return fault.Newf(fault.Forbidden, "Session %s was not started by session %s, whose token this is, nor by a "+
			"session below it", session, own).With("session_id", session)
	}
	return err
}
