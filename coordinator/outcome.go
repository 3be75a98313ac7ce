package coordinator

import (
	"context"
	"errors"
	"time"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/wire"
)

// Outcome is a run and its result in one document (contract section 4).
type Outcome struct {
	run.Run
	Result *run.Result `json:"result"` // null: it has none, or has not ended
}

// AppendJSON writes it behind b.
func (o Outcome) AppendJSON(b []byte) ([]byte, error) {
	w := wire.Build(b)
	o.Run.Write(&w)
	if o.Result == nil {
		w.Null("result")
	} else {
		w.Open("result")
		o.Result.Write(&w)
		w.Close()
	}
	return w.End()
}

// Late answers a caller whose wait was over before the run: the ids, which limit it was, and who set it. The run goes on.
type Late struct {
	Accepted
	Limit   string  `json:"limit"`
	Seconds float64 `json:"timeout_seconds"`
	By      string  `json:"timeout_by"` // request, default
}

// Late says that a caller has waited for so long.
func (a Accepted) Late(wait time.Duration) Late {
	by := "default"
	if a.Wait != nil {
		by = "request"
	}
	return Late{a, "wait_seconds", wait.Seconds(), by}
}

// Await waits until a run has ended, and gives it with its result. When ctx ends before, the run comes as it is: ended tells
// which.
func (c *Coordinator) Await(ctx context.Context, id string) (o Outcome, ended bool, err error) {
	now := context.WithoutCancel(ctx)
	if _, err := c.Journal.Wait(ctx, id); err != nil {
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			return o, false, err
		}
		if o.Run, err = c.Show(now, id); err != nil || !o.Status.Final() {
			return o, false, err
		}
	}
	o, err = c.Outcome(now, id)
	return o, err == nil && o.Status.Final(), err
}

// Finish is Await of a run that was accepted a moment ago. What NATS does not let anybody read is waited for: an accepted run is no
// failed request.
func (c *Coordinator) Finish(ctx context.Context, a Accepted) (o Outcome, ended bool, err error) {
	if !a.fresh {
		return c.Await(ctx, a.RunID)
	}
	if c.Journal.Done(ctx, a.RunID) != nil {
		return o, false, nil
	}
	err = c.insist(ctx, "how a run ended", func() error {
		if err != nil && ctx.Err() != nil {
			return err
		}
		o, err = c.Outcome(context.WithoutCancel(ctx), a.RunID)
		return err
	})
	switch {
	case err == nil && o.Status.Final():
		c.meters.answered(o)
		return o, true, nil
	case err == nil, fault.KindOf(err) == fault.Unavailable: // open again: NATS has lost its end
		return o, false, nil
	}
	return o, false, err
}

// Outcome is a run with its result as it is now.
func (c *Coordinator) Outcome(ctx context.Context, id string) (Outcome, error) {
	res, r, err := c.Result(ctx, id)
	switch f, ok := errors.AsType[*fault.Fault](err); {
	case err == nil:
		return Outcome{r, &res}, nil
	case ok && f.Kind == fault.Conflict && r.ID != "": // there is none, or not yet
		r.WaitingFor = c.waitingFor(r)
		return Outcome{Run: r}, nil
	}
	return Outcome{}, err
}
