package runners

import (
	"context"
	"encoding/json"
	"errors"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// Registrations are the stored registrations of runners, in bucket `runners`. What is read or written is passed on at
// once, before the watch of the bucket brings it.
type Registrations struct {
	Bucket   *bus.Bucket
	Registry *Registry
}

// Refresh reads a registration again, since another coordinator may just have changed it. rev is its revision, 0 where
// there is none.
func (r *Registrations) Refresh(ctx context.Context, id string) (rev uint64, err error) {
	value, rev, err := r.Bucket.Get(ctx, id)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return 0, err
	}
	put(r.Registry, id, value, rev, rev == 0)
	return rev, nil
}

// write stores a registration over revision rev, 0 for none. ErrTaken: it has changed meanwhile.
func (r *Registrations) write(ctx context.Context, id string, value []byte, rev uint64) error {
	b := r.Bucket
	var err error
	if rev == 0 {
		rev, err = b.Create(ctx, id, value)
	} else {
		rev, err = b.Update(ctx, id, value, rev)
	}
	if errors.Is(err, bus.ErrTaken) {
		return fault.Wrap(fault.Unavailable, "", "The runner is being registered; try again", err)
	} else if err != nil {
		return bus.WriteUnanswered(err)
	}
	put(r.Registry, id, value, rev, true)
	return nil
}

// Load reads a registration. Revision 0: there is none.
func (r *Registrations) Load(ctx context.Context, id string) (stored runnerapi.Runner, rev uint64, err error) {
	raw, rev, err := r.Bucket.Get(ctx, id)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		put(r.Registry, id, nil, 0, true)
		return stored, 0, nil
	case err != nil:
		return stored, 0, bus.WriteUnanswered(err)
	}
	if err := json.Unmarshal(raw, &stored); err != nil {
		return stored, 0, err
	}
	r.Registry.Put(id, raw, rev)
	return stored, rev, nil
}

// remove deletes revision rev of a registration. ErrTaken: it has changed meanwhile.
func (r *Registrations) remove(ctx context.Context, id string, rev uint64) error {
	if err := r.Bucket.DeleteRev(ctx, id, rev); errors.Is(err, bus.ErrTaken) {
		return err
	} else if err != nil {
		return bus.WriteUnanswered(err)
	}
	put(r.Registry, id, nil, rev+1, true) // its tombstone has that revision or a later one
	return nil
}
