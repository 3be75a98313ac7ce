package runs

import (
	"context"
	"errors"
	"time"

	"ao/coordinator/projection/query"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// AppendJSON appends the outcome as JSON to b.
func (o Outcome) AppendJSON(b []byte) ([]byte, error) {
	w := strictjson.Build(b)
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

// WaitTimeout answers a caller whose wait ended before the run. The run goes on.
type WaitTimeout struct {
	Accepted
	Limit   string  `json:"limit"`
	Seconds float64 `json:"timeout_seconds"`
	By      string  `json:"timeout_by"` // who set the limit: request or default
}

// TimedOut returns the answer after a wait of this length.
func (a Accepted) TimedOut(wait time.Duration) WaitTimeout {
	by := "default"
	if a.Wait != nil {
		by = "request"
	}
	return WaitTimeout{a, "wait_seconds", wait.Seconds(), by}
}

// Await waits until a run has ended and returns it with its result. When ctx ends first, ended is false and the run is
// returned as it is.
func (r *Service) Await(ctx context.Context, id string) (o Outcome, ended bool, err error) {
	now := context.WithoutCancel(ctx)
	if _, err := r.History.Wait(ctx, id); err != nil {
		if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
			return o, false, err
		}
		o.Run, err = r.Show(now, id)
		if err != nil || !o.Status.Final() {
			return o, false, err
		}
	}
	o, err = r.Outcome(now, id)
	return o, err == nil && o.Status.Final(), err
}

// Finish is Await for a run that was accepted just now. It retries while NATS cannot be read, since an accepted run is
// not a failed request.
func (r *Service) Finish(ctx context.Context, a Accepted) (o Outcome, ended bool, err error) {
	if !a.fresh {
		return r.Await(ctx, a.RunID)
	}
	if r.History.Done(ctx, a.RunID) != nil {
		return o, false, nil
	}
	err = r.Retry(ctx, "read how a run ended", func() error {
		if err != nil && ctx.Err() != nil {
			return err
		}
		o, err = r.Outcome(context.WithoutCancel(ctx), a.RunID)
		return err
	})
	switch {
	case err == nil && o.Status.Final():
		r.meter.observeAnswer(o)
		return o, true, nil
	case err == nil, fault.KindOf(err) == fault.Unavailable: // NATS has lost its end record
		return o, false, nil
	}
	return o, false, err
}

// Outcome returns a run with its result as it is now.
func (r *Service) Outcome(ctx context.Context, id string) (Outcome, error) {
	res, of, err := r.Result(ctx, id)
	switch f, ok := errors.AsType[*fault.Fault](err); {
	case err == nil:
		return Outcome{of, &res}, nil
	case ok && f.Kind == fault.Conflict && of.ID != "": // it has none, or has not ended
		of.WaitingFor = r.Waiting(of)
		r.treeStops.note(ctx, &of)
		return Outcome{Run: of}, nil
	}
	return Outcome{}, err
}

// Show returns a run and why it waits. A run that has not ended is read again once the projection is current.
func (r *Service) Show(ctx context.Context, id string) (run.Run, error) {
	shown, err := r.History.Get(ctx, id)
	if err == nil && !shown.Status.Final() {
		r.Reads.WaitCurrent(ctx)
		shown, err = r.History.Get(ctx, id)
	}
	if err == nil {
		shown.WaitingFor = r.Waiting(shown)
		r.treeStops.note(ctx, &shown)
	}
	return shown, err
}

// Result returns the result of an ended run. A run without a result, or one that has not ended, is a Conflict.
func (r *Service) Result(ctx context.Context, id string) (run.Result, run.Run, error) {
	res, of, err := r.History.Result(ctx, id)
	if fault.KindOf(err) == fault.Conflict && !of.Status.Final() {
		r.Reads.WaitCurrent(ctx)
		res, of, err = r.History.Result(ctx, id)
	}
	return res, of, err
}

// Count counts runs.
func (r *Service) Count(ctx context.Context, q query.Query) (query.Count, error) {
	r.Reads.WaitOwnWrites(ctx)
	return r.History.Count(ctx, q)
}

// Watch calls emit with the state of each matching run whenever it changed. Rows say why the run waits.
func (r *Service) Watch(ctx context.Context, q query.Query, after string, emit func(query.Item) error) error {
	return r.History.WatchRuns(ctx, q, after, func(i query.Item) error {
		if changed, ok := i.Data.(query.RunsChanged); ok {
			addWaitReasons(changed.Runs, r.Waiting)
		}
		return emit(i)
	})
}

// addWaitReasons adds to each row why it waits.
func addWaitReasons(rows []run.Run, waiting func(run.Run) string) {
	for i, one := range rows {
		rows[i].WaitingFor = waiting(one)
	}
}

// Runs lists runs, each with why it waits.
func (r *Service) Runs(ctx context.Context, q query.Query) (query.Page, error) {
	r.Reads.WaitOwnWrites(ctx)
	p, err := r.History.Runs(ctx, q)
	addWaitReasons(p.Runs, r.Waiting)
	return p, err
}
