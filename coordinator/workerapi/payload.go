package workerapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ao/coordinator/payload"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Payloads stores and returns bodies that are too large for a record.
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
	Active        func(run string) (state.Active, bool)
	ActiveSession func(run string, attempt int) (session string, ok bool)
	CatchUp       func(ctx context.Context) error // waits until the projection has what NATS has
	MaxBytes      int64                           // of a result or a state
	Room          interface {
		Result(o payload.Owner, name string, bytes int64) error
		Forget(name string)
	}
}

// Get returns one part of a payload of the worker's attempt, or of a state that its session keeps.
func (p *Payloads) Get(ctx context.Context, r runnerapi.PartRequest) ([]byte, error) {
	if err := p.authorize(ctx, r, false); err != nil {
		return nil, err
	}
	body, err := p.Store.GetPart(ctx, r.Name, r.Part)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, fault.Wrap(fault.NotFound, "", "The payload was removed or is damaged", err)
	}
	return body, err
}

// Put stores one part of a result or a state of the worker's attempt.
func (p *Payloads) Put(ctx context.Context, r runnerapi.PartRequest) ([]byte, error) {
	if err := p.authorize(ctx, r, true); err != nil {
		return nil, err
	}
	if len(r.Body) > run.PartSize || int64(r.Part) > p.MaxBytes/run.PartSize ||
		int64(r.Part)*run.PartSize+int64(len(r.Body)) > p.MaxBytes {
		return nil, fault.Newf(fault.TooLarge, "a result or a state may have at most %d bytes, in parts of %d "+
			"(AO_MAX_PAYLOAD)",
			p.MaxBytes, run.PartSize)
	}
	if err := p.admit(r); err != nil {
		return nil, err
	}
	return nil, p.Store.PutPart(ctx, r.Name, r.Part, r.Body)
}

// admit makes room for all of a payload, as far as the worker tells its size. A refusal is Busy: it is final, and does
// not hold the run's slot for longer than the worker tries.
func (p *Payloads) admit(r runnerapi.PartRequest) error {
	a, ok := p.Active(r.RunID)
	if !ok {
		return nil
	}
	size := max(min(r.Size, p.MaxBytes), int64(r.Part)*run.PartSize+int64(len(r.Body)))
	err := p.Room.Result(payload.OwnerOf(a.Spec), r.Name, size)
	if f, is := errors.AsType[*fault.Fault](err); is {
		final := *f
		final.Kind = fault.Busy
		return &final
	}
	return err
}

// authorize checks a request for a part. The key proves that the attempt was handed to the caller, and a payload's name
// begins with its run's id. While the attempt is active, its own result and state may be written, and the states of its
// session's runs read.
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

// sessionOf returns the session of an active attempt.
func (p *Payloads) sessionOf(ctx context.Context, r runnerapi.PartRequest) (string, error) {
	session, ok := p.ActiveSession(r.RunID, r.Attempt)
	if !ok {
		if err := p.CatchUp(ctx); err != nil { // its claim may be new, or another coordinator's
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
	return "", fault.New(fault.Forbidden, "", "The attempt is over; nothing can be stored for it")
}

// Drop removes a state that its session is no longer bound to, for a later run of the session. It is safe to repeat.
func (p *Payloads) Drop(ctx context.Context, r runnerapi.PartRequest) ([]byte, error) {
	if err := p.Keys.Check(r.RunID, r.Attempt, r.Key); err != nil {
		return nil, err
	}
	pointer, ok := runnerapi.StatePointerOf(r.Name)
	name, _ := runnerapi.StateName(pointer)
	if !ok || name != r.Name {
		return nil, fault.New(fault.Invalid, "", "The name is not the name of a state").With("field", "name")
	}
	if err := p.CatchUp(ctx); err != nil { // the binding may be new
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
		p.Room.Forget(n)
	}
	return nil, nil
}
