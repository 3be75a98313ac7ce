package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/fleet"
)

// runOf is the run that a payload belongs to: <run>.<hash>.in, <run>.<attempt>.out, and states (fleet.StateName).
func runOf(name string) string {
	id, _, _ := strings.Cut(name, ".")
	return id
}

// getPart hands a worker one part of a payload of the attempt it holds, or of a state that its session has kept.
func (c *Coordinator) getPart(ctx context.Context, r fleet.PartRequest) ([]byte, error) {
	if err := c.mayTouch(ctx, r, false); err != nil {
		return nil, err
	}
	body, err := c.bus.GetPart(ctx, r.Name, r.Part)
	if errors.Is(err, bus.ErrNone) {
		return nil, fault.Wrap(fault.NotFound, "", "It is not kept any more, or it is damaged", err)
	}
	return body, err
}

// putPart takes one part of a result, or of a state, of the attempt that the worker holds.
func (c *Coordinator) putPart(ctx context.Context, r fleet.PartRequest) ([]byte, error) {
	if err := c.mayTouch(ctx, r, true); err != nil {
		return nil, err
	}
	if len(r.Body) > fleet.PartSize || int64(r.Part) > c.MaxPayload/fleet.PartSize || int64(r.Part)*fleet.PartSize+int64(len(r.Body)) > c.MaxPayload {
		return nil, fault.Newf(fault.TooLarge, "a result or a state may have %d bytes, in parts of %d (AO_MAX_PAYLOAD)", c.MaxPayload, fleet.PartSize)
	}
	return nil, c.bus.PutPart(ctx, r.Name, r.Part, r.Body)
}

// mayTouch: the key proves that the attempt was handed to who asks, and a payload's name begins with its run's id. What is written is
// the attempt's own result or state, while it is under way; a state of any run of its session is read then.
func (c *Coordinator) mayTouch(ctx context.Context, r fleet.PartRequest, write bool) error {
	if err := c.keys.Check(r.RunID, r.Attempt, r.Key); err != nil {
		return err
	}
	pointer, state := fleet.StateOf(r.Name)
	switch own := runOf(r.Name) == r.RunID; {
	case r.Part < 0, !own && !state, write && state && pointer != fleet.StatePointer(r.RunID, r.Attempt):
		return fault.New(fault.Forbidden, "", "The payload belongs to another run")
	case write && !state && r.Name != fmt.Sprintf("%s.%d.out", r.RunID, r.Attempt):
		return fault.New(fault.Forbidden, "", "A worker writes its attempt's result and state, nothing else")
	case !write && !state:
		return nil
	}
	session, ok := c.UnderWay(r.RunID, r.Attempt)
	if !ok {
		if err := c.reads.CaughtUp(ctx); err != nil { // its claim may be a moment old, and another coordinator's news
			return err
		}
		session, ok = c.UnderWay(r.RunID, r.Attempt)
	}
	if !ok && c.Journal.Ready() != nil {
		return fault.Wrap(fault.Unavailable, "", "The history is being read; try again in a moment", c.Journal.Ready())
	}
	if !ok {
		return fault.New(fault.Forbidden, "", "The attempt is over, and keeps nothing any more")
	}
	if !state {
		return nil
	}
	if !write && c.Journal.Model(session) != pointer && !slices.Contains(c.Journal.RunsOf(session), runOf(r.Name)) {
		return fault.New(fault.Forbidden, "", "The state belongs to another session")
	}
	return nil
}

// dropState removes a state that its session is no longer bound to, for a run that came after it. Doing it twice is harmless.
func (c *Coordinator) dropState(ctx context.Context, r fleet.PartRequest) ([]byte, error) {
	if err := c.keys.Check(r.RunID, r.Attempt, r.Key); err != nil {
		return nil, err
	}
	pointer, ok := fleet.StateOf(r.Name)
	name, _ := fleet.StateName(pointer)
	if !ok || name != r.Name {
		return nil, fault.New(fault.Invalid, "", "The name is not that of a state").With("field", "name")
	}
	if err := c.reads.CaughtUp(ctx); err != nil { // what the session is bound to now may be a moment old
		return nil, err
	}
	if runs := c.Journal.RunsOf(r.SessionID); !slices.Contains(runs, r.RunID) || !slices.Contains(runs, runOf(name)) {
		return nil, fault.New(fault.Forbidden, "", "The state belongs to another session")
	}
	if c.Journal.Model(r.SessionID) == pointer {
		return nil, fault.New(fault.Conflict, "", "The session is bound to this state")
	}
	for _, n := range []string{name, fleet.StateBody(name, 0), fleet.StateBody(name, 1)} {
		if err := c.bus.DropPayload(ctx, n); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
