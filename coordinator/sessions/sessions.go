package sessions

import (
	"context"
	"fmt"
	"slices"

	"ao/coordinator/projection/query"
	"ao/coordinator/runs"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// Service shows, stops and deletes sessions, and checks session tokens.
type Service struct {
	*Tokens
	Needs
}

// Session returns a session.
func (t *Service) Session(ctx context.Context, id string) (run.Session, error) {
	t.Reads.WaitCurrent(ctx)
	return t.History.Session(ctx, id)
}

// SessionResult returns the result of the session's newest ended run.
func (t *Service) SessionResult(ctx context.Context, id string) (run.Result, run.Run, error) {
	t.Reads.WaitCurrent(ctx)
	return t.History.SessionResult(ctx, id)
}

// Events returns the session's events after a position, the oldest first, and the next position.
func (t *Service) Events(ctx context.Context, session, after string, limit int) ([]run.Event, string, error) {
	t.Reads.WaitCurrent(ctx)
	return t.History.Events(ctx, session, after, limit)
}

// Sessions lists sessions.
func (t *Service) Sessions(ctx context.Context, q query.Query) (query.SessionPage, error) {
	t.Reads.WaitOwnWrites(ctx)
	return t.History.Sessions(ctx, q)
}

// Tree returns a page of a session and all below it, with their runs.
func (t *Service) Tree(ctx context.Context, id string, limit int, cursor string) (query.TreePage, error) {
	t.Reads.WaitOwnWrites(ctx)
	p, err := t.History.Tree(ctx, id, limit, cursor)
	if err == nil {
		err = attempts{t.Stream, t.Keys}.add(ctx, &p)
	}
	return p, err
}

// SessionDetail is a session with the open runs below it.
type SessionDetail struct {
	run.Session
	Below *runs.Below `json:"open_below,omitempty"` // nil: there are none
}

// Detail returns a session with the open runs below it.
func (t *Service) Detail(ctx context.Context, id string) (SessionDetail, error) {
	s, err := t.Session(ctx, id)
	if err != nil {
		return SessionDetail{}, err
	}
	return SessionDetail{s, t.Stops.Below(id, t.History.InStoppedTree(id))}, nil
}

// Stop is how a session is stopped.
type Stop struct {
	Tree   bool `json:"tree,omitempty"`   // all below it, too
	Expect *int `json:"expect,omitempty"` // how many runs have not ended, as the caller has seen; nil: any number
}

// check refuses a caller who expects another number of open runs.
func (s Stop) check(own int, below *runs.Below) error {
	n := own
	if s.Tree && below != nil {
		n += below.Count
	}
	if s.Expect == nil || n == *s.Expect {
		return nil
	}
	return fault.New(fault.Conflict, "expect_mismatch", fmt.Sprintf("%d runs have not ended, but %d were expected: "+
		"check them, and send the new number", n, *s.Expect)).With("count", n).With("expect", *s.Expect)
}

// StopSession stops the open runs of a session and lists those below it. With Tree, it stops those too.
func (t *Service) StopSession(ctx context.Context, id string, how Stop) (s SessionDetail, err error) {
	if err := t.Reads.CatchUp(ctx); err != nil { // runs that another coordinator has just accepted are stopped too
		return s, err
	}
	if _, err := t.Session(ctx, id); err != nil {
		return s, err
	}
	s.Below = t.Stops.Below(id, how.Tree)
	if err := how.check(len(t.History.Open(id)), s.Below); err != nil {
		return s, err
	}
	for n, tree := 0, how.Tree; tree; n++ { // again if a run was claimed meanwhile
		stopped, err := t.Stops.StopTree(ctx, id, t.History.Root(id), "")
		if err == nil && !stopped && n == runs.TreeTries {
			err = runs.Changing("session", id)
		}
		if err != nil {
			return s, err
		}
		tree = !stopped
	}
	// The newest first, so that no turn starts that is to be stopped.
	for _, a := range slices.Backward(t.History.Open(id)) {
		if _, err := t.Stops.Stop(ctx, a.Spec.ID); err != nil && fault.KindOf(err) != fault.Conflict {
			return s, err
		}
	}
	s.Session, err = t.History.Session(ctx, id)
	return s, err
}

// maxGenerations is how many generations isDescendant looks through.
const maxGenerations = 1000

// isDescendant reports whether a session is below another one: started by it or by one below it. An unknown session is
// NotFound.
func (t *Service) isDescendant(ctx context.Context, session, from string) (bool, error) {
	for n := range maxGenerations {
		s, err := t.History.Session(ctx, session)
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

// AsSession turns the body of a run's request into a request of a session. Its run becomes the session's child, and
// the session that it resumes must be below. An unreadable body is returned as it is, to be refused later.
func (t *Service) AsSession(ctx context.Context, session string, body []byte) ([]byte, error) {
	req, err := run.ReadRequest(body)
	if err != nil {
		return body, nil
	}
	if p := req.ParentSessionID; p != "" && p != session {
		return nil, fault.Newf(fault.Forbidden, "parent_session_id: with a session token a run's parent is the "+
			"token's own session %s; leave it out", session).With("field", "parent_session_id")
	}
	if req.Type == run.Start && req.SessionID != "" {
		return nil, fault.New(fault.Forbidden, "", "session_id: with a session token a new session gets its id from "+
			"the coordinator; leave it out").With("field", "session_id")
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
	// present, but empty
	members = slices.DeleteFunc(members, func(m strictjson.Member) bool { return m.Key == "parent_session_id" })
	parent, err := strictjson.Encode(session)
	if err != nil {
		return nil, err
	}
	return strictjson.Object(append(members, strictjson.Member{Key: "parent_session_id", Value: parent})), nil
}

// RequireDescendant refuses a session that is not below own; with itself, own is allowed too. An unknown session is
// NotFound.
func (t *Service) RequireDescendant(ctx context.Context, session, own string, itself bool) error {
	if session == own && itself {
		return nil
	}
	if session == own {
		return fault.New(fault.Forbidden, "", "A session cannot do that to itself with its own token; its turn ends "+
			"with its run").With("session_id", own)
	}
	below, err := t.isDescendant(ctx, session, own)
	if err == nil && !below {
		return fault.Newf(fault.Forbidden, "Session %s was not started by session %s, whose token this is, nor by a "+
			"session below it", session, own).With("session_id", session)
	}
	return err
}

// New makes a Service.
func New(n Needs) *Service {
	return &Service{&Tokens{n.Started, n.Ready, n.Keys, n.History, n.Reads}, n}
}
