package runners

import (
	"context"
	"encoding/json"
	"errors"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// Registrations are those of runners, as bucket `runners` has them. What is read or written is noted at once, before
// the bucket says so.
type Registrations struct {
	Bucket   *bus.Bucket
	OnChange func(id string, value []byte) // nil: there is none
}

// Refresh reads a runner's registration anew: another coordinator may have changed it a moment ago. It gives its
// revision, 0 where there is none.
func (r *Registrations) Refresh(ctx context.Context, id string) (rev uint64, err error) {
	value, rev, err := r.Bucket.Get(ctx, id)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return 0, err
	}
	r.OnChange(id, value)
	return rev, nil
}

// write stores a registration in place of the one that was read with this revision, 0 for none. ErrTaken: it has
// changed meanwhile.
func (r *Registrations) write(ctx context.Context, id string, value []byte, rev uint64) error {
	b := r.Bucket
	var err error
	if rev == 0 {
		_, err = b.Create(ctx, id, value)
	} else {
		_, err = b.Update(ctx, id, value, rev)
	}
	if errors.Is(err, bus.ErrTaken) {
		return fault.Wrap(fault.Unavailable, "", "The runner registers just now; try again", err)
	} else if err != nil {
		return bus.WriteUnanswered(err)
	}
	r.OnChange(id, value)
	return nil
}

// Load reads a registration, and notes what it read. Revision 0: there is none.
func (r *Registrations) Load(ctx context.Context, id string) (stored runnerapi.Runner, rev uint64, err error) {
	raw, rev, err := r.Bucket.Get(ctx, id)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		r.OnChange(id, nil)
		return stored, 0, nil
	case err != nil:
		return stored, 0, bus.WriteUnanswered(err)
	}
	if err := json.Unmarshal(raw, &stored); err != nil {
		return stored, 0, err
	}
	r.OnChange(id, raw)
	return stored, rev, nil
}

// remove takes a registration away that was read with this revision. ErrTaken: it has changed meanwhile.
func (r *Registrations) remove(ctx context.Context, id string, rev uint64) error {
	if err := r.Bucket.DeleteRev(ctx, id, rev); errors.Is(err, bus.ErrTaken) {
		return err
	} else if err != nil {
		return bus.WriteUnanswered(err)
	}
	r.OnChange(id, nil)
	return nil
}
