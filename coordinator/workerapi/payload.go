package workerapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Payloads hands out and takes the bodies that are too large for a record.
type Payloads struct {
	Store interface {
		GetPart(ctx context.Context, name string, n int) ([]byte, error)
		PutPart(ctx context.Context, name string, n int, body []byte) error
		DropPayload(ctx context.Context, name string) error
	}
	History interface {
		ExecutorSessionID(session string) string
		RunsOf(session string) []string
		Ready() error
	}
	Keys interface {
		Check(run string, attempt int, key string) error
	}
	ActiveSession func(run string, attempt int) (session string, ok bool)
	CatchUp       func(ctx context.Context) error // waits until the fold has what NATS has
	MaxBytes      int64                           // bytes of a result or a state
}

// Get hands a worker one part of a payload of the attempt it holds, or of a state that its session has kept.
func (p *Payloads) Get(ctx context.Context, r runnerapi.PartRequest) ([]byte, error) {
	if err := p.authorize(ctx, r, false); err != nil {
		return nil, err
	}
	body, err := p.Store.GetPart(ctx, r.Name, r.Part)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, fault.Wrap(fault.NotFound, "", "It is not kept any more, or it is damaged", err)
	}
	return body, err
}

// Put takes one part of a result, or of a state, of the attempt that the worker holds.
func (p *Payloads) Put(ctx context.Context, r runnerapi.PartRequest) ([]byte, error) {
	if err := p.authorize(ctx, r, true); err != nil {
		return nil, err
	}
	if len(r.Body) > run.PartSize || int64(r.Part) > p.MaxBytes/run.PartSize ||
		int64(r.Part)*run.PartSize+int64(len(r.Body)) > p.MaxBytes {
		return nil, fault.Newf(fault.TooLarge, "a result or a state may have %d bytes, in parts of %d (AO_MAX_PAYLOAD)",
			p.MaxBytes, run.PartSize)
	}
	return nil, p.Store.PutPart(ctx, r.Name, r.Part, r.Body)
}

// authorize: the key proves that the attempt was handed to who asks, and a payload's name begins with its run's id. What
// is written is the attempt's own result or state, while it is under way; a state of any run of its session is read
// then.
func (p *Payloads) authorize(ctx context.Context, r runnerapi.PartRequest, write bool) error {
	if err := p.Keys.Check(r.RunID, r.Attempt, r.Key); err != nil {
		return err
	}
	pointer, state := runnerapi.StatePointerOf(r.Name)
	switch own := runnerapi.RunOfPayload(r.Name) == r.RunID; {
	case r.Part < 0, !own && !state, write && state && pointer != runnerapi.StatePointer(r.RunID, r.Attempt):
		return fault.New(fault.Forbidden, "", "The payload belongs to another run")
	case write && !state && r.Name != fmt.Sprintf("%s.%d.out", r.RunID, r.Attempt):
		return fault.New(fault.Forbidden, "", "A worker writes its attempt's result and state, nothing else")
	case !write && !state:
		return nil
	}
	session, err := p.sessionOf(ctx, r)
	if err != nil || !state {
		return err
	}
	if !write && p.History.ExecutorSessionID(session) != pointer &&
		!slices.Contains(p.History.RunsOf(session), runnerapi.RunOfPayload(r.Name)) {
		return fault.New(fault.Forbidden, "", "The state belongs to another session")
	}
	return nil
}

// sessionOf is the session of an attempt that is under way.
func (p *Payloads) sessionOf(ctx context.Context, r runnerapi.PartRequest) (string, error) {
	session, ok := p.ActiveSession(r.RunID, r.Attempt)
	if !ok {
		if err := p.CatchUp(ctx); err != nil { // its claim may be a moment old, and another coordinator's news
			return "", err
		}
		session, ok = p.ActiveSession(r.RunID, r.Attempt)
	}
	switch {
	case ok:
		return session, nil
	case p.History.Ready() != nil:
		return "", fault.Wrap(fault.Unavailable, "", "The history is being read; try again in a moment",
			p.History.Ready())
	}
	return "", fault.New(fault.Forbidden, "", "The attempt is over, and keeps nothing any more")
}

// Drop removes a state that its session is no longer bound to, for a run that came after it. Doing it twice is
// harmless.
func (p *Payloads) Drop(ctx context.Context, r runnerapi.PartRequest) ([]byte, error) {
	if err := p.Keys.Check(r.RunID, r.Attempt, r.Key); err != nil {
		return nil, err
	}
	pointer, ok := runnerapi.StatePointerOf(r.Name)
	name, _ := runnerapi.StateName(pointer)
	if !ok || name != r.Name {
		return nil, fault.New(fault.Invalid, "", "The name is not that of a state").With("field", "name")
	}
	if err := p.CatchUp(ctx); err != nil { // what the session is bound to now may be a moment old
		return nil, err
	}
	if runs := p.History.RunsOf(r.SessionID); !slices.Contains(runs, r.RunID) ||
		!slices.Contains(runs, runnerapi.RunOfPayload(name)) {
		return nil, fault.New(fault.Forbidden, "", "The state belongs to another session")
	}
	if p.History.ExecutorSessionID(r.SessionID) == pointer {
		return nil, fault.New(fault.Conflict, "", "The session is bound to this state")
	}
	for _, n := range []string{name, runnerapi.StateBody(name, 0), runnerapi.StateBody(name, 1)} {
		if err := p.Store.DropPayload(ctx, n); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
