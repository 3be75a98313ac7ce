package sessions

import (
	"context"
	"crypto/subtle"
	"time"

	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// Tokens tells whose session tokens are.
type Tokens struct {
	started func() bool // keys and registries are read
	ready   func() error
	keys    Keys
	history attemptHistory
	reads   interface {
		CatchUp(ctx context.Context) error // the fold has what was written before
	}
}

// SessionOf tells whose session token it is: good while the attempt that it names is under way. Anything else is
// Unauthorized.
func (t *Tokens) SessionOf(ctx context.Context, token string) (session string, err error) {
	if !t.started() {
		return "", fault.Wrap(fault.Unavailable, "", "Not ready to check who asks", t.ready())
	}
	id, attempt, ok := runnerapi.ReadSessionToken(token)
	if !ok || subtle.ConstantTimeCompare([]byte(runnerapi.SessionToken(id, attempt, t.keys.Of(id, attempt))),
		[]byte(token)) != 1 {
		return "", fault.New(fault.Unauthorized, "", "This session token is none of this deployment's")
	}
	session, ok = t.ActiveSession(id, attempt)
	if ok {
		return session, nil
	}
	if err := t.reads.CatchUp(ctx); err != nil { // its claim may be a moment old, and another coordinator's news
		return "", err
	}
	session, ok = t.ActiveSession(id, attempt)
	if ok {
		return session, nil
	}
	if err := t.history.Ready(); err != nil { // nothing is known of any run
		return "", fault.Wrap(fault.Unavailable, "", "Not ready to check who asks", err).After(time.Second)
	}
	return "", fault.New(fault.Unauthorized, "", "The run of this session token is over; the token ended with it").
		With("run_id", id)
}

// ActiveSession gives the session of an attempt that is begun and not ended.
func (t *Tokens) ActiveSession(id string, attempt int) (session string, ok bool) {
	a, ok := t.history.Active(id)
	if !ok || a.Claim == nil || a.Claim.RunnerID == "" || a.Attempt != attempt {
		return "", false
	}
	return a.Spec.SessionID, true
}
