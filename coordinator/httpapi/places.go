package httpapi

import (
	"context"
	"time"

	"ao/coordinator/access"
	"ao/shared/fault"
	"ao/shared/share"
)

// placeTimeout is how long a request waits for a place where it may wait.
const placeTimeout = 5 * time.Second

// fewStreams is how many live streams a caller may have while any are left.
const fewStreams = 20

// places are what requests of a kind hold while they run, shared by their callers.
type places struct {
	*share.Pool
	what string        // runs there, in the plural
	hint string        // what a refused caller may do
	wait time.Duration // for a place; 0: a request is refused at once
}

func newStreams(most int) *places {
	return &places{share.New(int64(most), share.KeepQuarter(fewStreams)), "live streams are open",
		"close some, or poll", 0}
}

func newValidations() *places {
	return &places{share.New(int64(maxValidations), share.Each(int64(maxOwnValidations))),
		"schemas are being validated", "try again later", placeTimeout}
}

func newExports() *places {
	return &places{share.New(exportAtOnce, share.Free), "exports are being read", "try again later", placeTimeout}
}

// reserve takes a place for a caller, who has it until leave is called. The error is Unavailable.
func (p *places) reserve(ctx context.Context, who access.Caller) (leave func(), err error) {
	owner, ok := who.Owner(), false
	if p.wait == 0 {
		ok = p.Take(owner, 1)
	} else {
		wait, cancel := context.WithTimeout(ctx, p.wait)
		defer cancel()
		ok = p.Wait(wait, owner, 1) == nil
	}
	switch {
	case ok:
		return func() { p.Give(owner, 1) }, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case p.Spent(owner, 1):
		return nil, fault.Newf(fault.Unavailable, "%d %s with your token; what is left is kept for others: %s",
			p.Of(owner), p.what, p.hint).After(placeTimeout)
	}
	return nil, fault.Newf(fault.Unavailable, "%d %s, the maximum; %s", p.Taken(), p.what, p.hint).After(placeTimeout)
}
