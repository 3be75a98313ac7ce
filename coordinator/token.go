package coordinator

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"slices"
	"time"

	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"
	"ao/shared/wire"
)

// SessionOf tells whose session token it is (design section 6): good while the attempt that it names is under way. Anything else is
// Unauthorized.
func (c *Coordinator) SessionOf(ctx context.Context, token string) (session string, err error) {
	if !c.started.Load() {
		return "", fault.Wrap(fault.Unavailable, "", "Not ready to check who asks", c.Ready())
	}
	id, attempt, ok := fleet.ReadSessionToken(token)
	if !ok || subtle.ConstantTimeCompare([]byte(fleet.SessionToken(id, attempt, c.keys.Of(id, attempt))), []byte(token)) != 1 {
		return "", fault.New(fault.Unauthorized, "", "This session token is none of this deployment's")
	}
	if session, ok = c.underWay(id, attempt); ok {
		return session, nil
	}
	if err := c.caughtUp(ctx); err != nil { // its claim may be a moment old, and another coordinator's news
		return "", err
	}
	if session, ok = c.underWay(id, attempt); ok {
		return session, nil
	}
	if err := c.Journal.Ready(); err != nil { // nothing is known of any run
		return "", fault.Wrap(fault.Unavailable, "", "Not ready to check who asks", err).After(time.Second)
	}
	return "", fault.New(fault.Unauthorized, "", "The run of this session token is over; the token ended with it").With("run_id", id)
}

// underWay gives the session of an attempt that is begun and not ended.
func (c *Coordinator) underWay(id string, attempt int) (session string, ok bool) {
	a, ok := c.Journal.Active(id)
	if !ok || a.Claim == nil || a.Claim.RunnerID == "" || a.Attempt != attempt {
		return "", false
	}
	return a.Spec.SessionID, true
}

// generations is how far down a session's descendants are looked for.
const generations = 1000

// Descends tells whether a session is below another one: started by it, or by one that is below it. An unknown session is NotFound.
func (c *Coordinator) Descends(ctx context.Context, session, from string) (bool, error) {
	for n := range generations {
		s, err := c.Journal.Session(ctx, session)
		if err != nil && n > 0 && fault.KindOf(err) == fault.NotFound { // one in between was deleted
			return false, nil
		} else if err != nil {
			return false, err
		}
		if s.Parent == from {
			return true, nil
		}
		if session = s.Parent; session == "" {
			return false, nil
		}
	}
	return false, nil
}

// AsSession makes the body of a run's request the request of a session: its run is that session's child, and what it resumes must
// be below it. A body that cannot be read stays as it is: who takes it says why.
func (c *Coordinator) AsSession(ctx context.Context, session string, body []byte) ([]byte, error) {
	req, err := run.ReadRequest(body)
	if err != nil {
		return body, nil
	}
	if p := req.ParentSessionID; p != "" && p != session {
		return nil, fault.Newf(fault.Forbidden, "parent_session_id: with a session token a run's parent is the token's own session %s; leave it out", session).With("field", "parent_session_id")
	}
	if req.Type == run.Resume {
		if err := c.Within(ctx, req.SessionID, session, false); err != nil {
			return nil, err
		}
	}
	if req.ParentSessionID != "" {
		return body, nil
	}
	members, err := wire.Members(body)
	if err != nil {
		return body, nil
	}
	members = slices.DeleteFunc(members, func(m wire.Member) bool { return m.Key == "parent_session_id" }) // there, and empty
	parent, err := json.Marshal(session)
	if err != nil {
		return nil, err
	}
	return wire.Object(append(members, wire.Member{Key: "parent_session_id", Value: parent})), nil
}

// Within refuses a session what is not its own: one below it, or itself where that is enough. An unknown session is NotFound.
func (c *Coordinator) Within(ctx context.Context, session, own string, itself bool) error {
	if session == own && itself {
		return nil
	}
	if session == own {
		return fault.New(fault.Forbidden, "", "A session cannot do that to itself with its own token; its turn ends when its run does").With("session_id", own)
	}
	below, err := c.Descends(ctx, session, own)
	if err == nil && !below {
		return fault.Newf(fault.Forbidden, "Session %s was not started by session %s, whose token this is, nor by a session below it", session, own).With("session_id", session)
	}
	return err
}
