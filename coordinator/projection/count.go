package projection

import (
	"cmp"
	"context"

	"ao/shared/run"
)

// Count is how many runs match a query.
type Count struct {
	N     int  `json:"count"`
	Exact bool `json:"exact"` // false: there are at least so many
}

// Count counts the runs that match a query; its limit and cursor say nothing here.
func (x *Lists) Count(ctx context.Context, q Query) (c Count, err error) {
	q.Limit, q.Cursor = 0, ""
	if err := cmp.Or(refuse(q, run.Statuses), x.fresh.waitLoaded(ctx)); err != nil {
		return c, err
	}
	if q.unfiltered() {
		return Count{read(x.p, func(f *fold) int { return len(f.runs) }), true}, nil
	}
	q = q.searching()
	c.Exact = x.scan(ctx, &q, 1<<64-1, func(*fold, *row) bool { c.N++; return true }) == 0
	return c, ctx.Err()
}
