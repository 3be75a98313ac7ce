package sessions

import (
	"context"
	"crypto/subtle"
	"time"

	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// Tokens checks session tokens.
type Tokens struct {
	started func() bool // keys and registries have been read
	ready   func() error
	keys    Keys
	history attemptHistory
	reads   interface {
		CatchUp(ctx context.Context) error // the projection has what was written before
	}
}

// SessionOf returns the session of a token. A token is valid while its attempt is active; any other is Unauthorized.
func (t *Tokens) SessionOf(ctx context.Context, token string) (session string, err error) {
	if !t.started() {
		return "", fault.Wrap(fault.Unavailable, "", "Not ready to check tokens", t.ready())
	}
	id, attempt, ok := runnerapi.ReadSessionToken(token)
	if !ok || subtle.ConstantTimeCompare([]byte(runnerapi.SessionToken(id, attempt, t.keys.Of(id, attempt))),
		[]byte(token)) != 1 {
		return "", fault.New(fault.Unauthorized, "", "session token was issued by another deployment")
	}
	session, ok = t.ActiveSession(id, attempt)
	if ok {
		return session, nil
	}
	if err := t.reads.CatchUp(ctx); err != nil { // its claim may be new, or another coordinator's
		return "", err
	}
	session, ok = t.ActiveSession(id, attempt)
	if ok {
		return session, nil
	}
	if err := t.history.Ready(); err != nil { // the history has not been read
		return "", fault.Wrap(fault.Unavailable, "", "Not ready to check tokens", err).After(time.Second)
	}
	return "", fault.New(fault.Unauthorized, "", "session token has expired: its run is over").With("run_id", id)
}

// ActiveSession returns the session of an attempt that was claimed and has not ended.
func (t *Tokens) ActiveSession(id string, attempt int) (session string, ok bool) {
	a, ok := t.history.Active(id)
	if !ok || a.Claim == nil || a.Claim.RunnerID == "" || a.Attempt != attempt {
		return "", false
	}
	return a.Spec.SessionID, true
}
