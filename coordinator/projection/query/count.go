package query

import (
	"cmp"
	"context"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/run"
)

// Count is how many runs match a query.
type Count struct {
	N     int  `json:"count"`
	Exact bool `json:"exact"` // false: at least so many
}

// Count counts the runs that match a query. Its limit and cursor are ignored.
func (x *Lists) Count(ctx context.Context, q Query) (c Count, err error) {
	q.Limit, q.Cursor = 0, ""
	if err := cmp.Or(checkQuery(q, run.Statuses), waitLoaded(ctx, x.fresh)); err != nil {
		return c, err
	}
	if q.unfiltered() {
		return Count{projection.Read(x.p, func(f *state.State) int { n, _ := state.Kept(f); return n }), true}, nil
	}
	q = q.searching()
	c.Exact = x.scan(ctx, &q, 1<<64-1, func(*state.State, *state.Row) bool { c.N++; return true }) == 0
	return c, ctx.Err()
}
