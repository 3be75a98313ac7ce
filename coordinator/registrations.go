package coordinator

import (
	"context"
	"encoding/json"
	"errors"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/fleet"
)

// registrations are those of runners, as bucket `runners` has them. What is read or written is noted at once, before the bucket says so.
type registrations struct {
	bucket *bus.Bucket
	note   func(id string, value []byte) // nil: there is none
}

// refresh reads a runner's registration anew: another coordinator may have changed it a moment ago. It gives its revision, 0 where there
// is none.
func (r *registrations) refresh(ctx context.Context, id string) (rev uint64, err error) {
	value, rev, err := r.bucket.Get(ctx, id)
	if err != nil && !errors.Is(err, bus.ErrNone) {
		return 0, err
	}
	r.note(id, value)
	return rev, nil
}

// write stores a registration in place of the one that was read with this revision, 0 for none. ErrTaken: it has changed meanwhile.
func (r *registrations) write(ctx context.Context, id string, value []byte, rev uint64) error {
	b := r.bucket
	var err error
	if rev == 0 {
		_, err = b.Create(ctx, id, value)
	} else {
		_, err = b.Update(ctx, id, value, rev)
	}
	if errors.Is(err, bus.ErrTaken) {
		return fault.Wrap(fault.Unavailable, "", "The runner registers just now; try again", err)
	} else if err != nil {
		return unavailable(err)
	}
	r.note(id, value)
	return nil
}

// stored reads a registration, and notes what it read. Revision 0: there is none.
func (r *registrations) stored(ctx context.Context, id string) (is fleet.Runner, rev uint64, err error) {
	raw, rev, err := r.bucket.Get(ctx, id)
	switch {
	case errors.Is(err, bus.ErrNone):
		r.note(id, nil)
		return is, 0, nil
	case err != nil:
		return is, 0, unavailable(err)
	}
	if err := json.Unmarshal(raw, &is); err != nil {
		return is, 0, err
	}
	r.note(id, raw)
	return is, rev, nil
}

// drop takes a registration away that was read with this revision. ErrTaken: it has changed meanwhile.
func (r *registrations) drop(ctx context.Context, id string, rev uint64) error {
	if err := r.bucket.DeleteRev(ctx, id, rev); errors.Is(err, bus.ErrTaken) {
		return err
	} else if err != nil {
		return unavailable(err)
	}
	r.note(id, nil)
	return nil
}
