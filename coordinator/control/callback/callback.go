// Package callback tells parents of their ended children, each with a turn of its session.
package callback

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"ao/coordinator/control"
	"ao/coordinator/control/pool"
	"ao/coordinator/projection"
	"ao/coordinator/record"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/prompt"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/shared/trace"
)

// So many parents are told at once: each is an atomic batch, and reads its children.
const tellers = 8

// old is how old a look at what is owed may be when it is acted on. Callback records are kept for longer than that after they were
// written (projection), so whoever acts on an old look is refused.
const old = time.Minute

// Controller acts on what the fold says, and what several coordinators do at once the stream decides (decision 0014): children
// are told in the order of their ends, and the record is named after the first of them, so that two that have a child in common
// have the same name.
type Controller struct {
	Config
	Pool *pool.Pool // where parents are told

	left  []projection.PendingCallback // found, and not begun yet: there was no room
	swept time.Time
}

// History is the fold, as far as it is about callbacks.
type History interface {
	NewCallbacks() []projection.PendingCallback // new since the last call
	DueCallbacks() []projection.PendingCallback // all
	DueCallback(session string) (projection.PendingCallback, bool)
	End(ctx context.Context, id string) (run.Ended, error)
	Ended(id string) bool
	Spec(ctx context.Context, id string) (run.Spec, error)
	Confirmed() bool
}

// Config is what a Controller works with. Spans may be nil.
type Config struct {
	History History
	Records interface {
		Callback(o projection.PendingCallback, reported int, turn run.Spec) ([]bus.Entry, error) // the list, then the turn
		Offload(ctx context.Context, s *run.Spec) error
		AppendBatch(ctx context.Context, entries ...bus.Entry) (uint64, error)
		NoteWritten(seq uint64)
	}
	Plans interface { // check a turn as they check what callers send
		Plan(ctx context.Context, req run.Request) (run.Spec, error)
		TooLarge(in *run.Input) error
	}
	Most  int64 // bytes that a turn's parameters may have
	Spans *trace.Tracer
	Log   *slog.Logger
}

// New makes a Controller.
func New(c Config) *Controller {
	return &Controller{Config: c, Pool: pool.New(pool.Config{Slots: tellers, Backoff: run.Backoff})}
}

// Reconcile begins with the parents that can be told: with those of which that is new, and once a second with all.
func (c *Controller) Reconcile(ctx context.Context) error {
	c.left = append(c.left, c.History.NewCallbacks()...)
	if time.Since(c.swept) >= control.Sweep {
		c.swept, c.left = time.Now(), c.History.DueCallbacks()
		still := map[string]bool{}
		for _, o := range c.left {
			still[o.Session] = true
		}
		c.Pool.Keep(func(session string) bool { return still[session] })
	}
	for ; len(c.left) > 0 && c.Pool.Free("") > 0; c.left = c.left[1:] {
		o := c.left[0]
		if o.Misses > 0 && time.Since(o.Ended) < run.Backoff(o.Misses) {
			continue // the turn before ended before it began; the next look comes soon
		}
		c.Pool.Go(ctx, o.Session, "", func(ctx context.Context) error { return c.one(ctx, o) })
	}
	return nil
}

// one tells a parent. That another coordinator has done so is as good.
func (c *Controller) one(ctx context.Context, o projection.PendingCallback) error {
	told, err := c.Deliver(ctx, o)
	switch {
	case err == nil:
		c.Log.Info("parent told", "session", o.Session, "children", told)
	case errors.Is(err, bus.ErrTaken):
		c.Log.Debug("the parent was told by another coordinator", "session", o.Session)
		return nil
	case ctx.Err() == nil:
		c.Log.Warn("parent not told yet; trying again", "session", o.Session, "err", err)
	}
	return err
}

// Tell tells a parent, if what was looked at still holds. ErrTaken: it does not, or that has been done.
func (c *Controller) Deliver(ctx context.Context, o projection.PendingCallback) (told int, err error) {
	t, err := c.Prepare(ctx, o)
	if err != nil {
		return 0, err
	}
	if !c.holds(o) {
		return 0, bus.ErrTaken
	}
	seq, err := c.Records.AppendBatch(ctx, t.Records...)
	if err == nil {
		c.Records.NoteWritten(seq)
		t.span.End()
	}
	return t.Reported, err
}

// holds tells whether a look at what a session is owed is still true.
func (c *Controller) holds(o projection.PendingCallback) bool {
	now, ok := c.History.DueCallback(o.Session)
	return ok && c.History.Confirmed() && now.Deliveries == o.Deliveries && now.LastRun == o.LastRun && now.Children[0] == o.Children[0] && time.Since(o.ReadAt) < old
}

// Turn is a callback turn that is not written yet.
type Turn struct {
	Reported int         // of the children that are owed: the first ones
	Records  []bus.Entry // the list of children, which carries the turn, then the turn

	span trace.Span
}

// Prepare makes the turn that tells a session of what it is owed. What is too large for a record is put aside before.
func (c *Controller) Prepare(ctx context.Context, o projection.PendingCallback) (t Turn, err error) {
	children, err := c.children(ctx, o.Children)
	if err != nil {
		return t, err
	}
	spec, told, err := c.turn(ctx, o, children)
	if err != nil {
		return t, err
	}
	t.Reported, t.span = told, c.handOn(ctx, &spec, o.Children[:told])
	if err := c.Records.Offload(ctx, &spec); err != nil {
		return t, err
	}
	t.Records, err = c.Records.Callback(o, told, spec)
	return t, err
}

// children reads how they ended: as many as a turn can hold. A result that is no longer kept, or cannot be read, is told as none.
func (c *Controller) children(ctx context.Context, owed []projection.Child) (all []prompt.Child, err error) {
	var size int64
	for _, child := range owed {
		e, err := c.History.End(ctx, child.RunID)
		switch {
		case ctx.Err() != nil: // whatever was read, it is not all
			return nil, ctx.Err()
		case fault.KindOf(err) == fault.Unavailable:
			return nil, err
		case fault.KindOf(err) == fault.NotFound && time.Since(child.Ended).Abs() < record.ReplicaLag && c.History.Ended(child.RunID):
			return nil, fault.Wrap(fault.Unavailable, "", "The end of run "+child.RunID+" cannot be found yet; try again", err)
		case err != nil && fault.KindOf(err) != fault.NotFound:
			c.Log.Error("the end of a child cannot be read; its parent is told without it", "run", child.RunID, "err", err)
		}
		all = append(all, prompt.Child{RunID: child.RunID, SessionID: child.SessionID, Status: child.Status, Result: e.Result, Error: e.Error})
		if size += weight(e); size > c.Most {
			break
		}
	}
	return all, nil
}

// weight is how many bytes an end holds that a parent is told.
func weight(e run.Ended) (n int64) {
	if r := e.Result; r != nil {
		n = int64(len(r.Data))
		if r.Text != nil {
			n += int64(len(*r.Text))
		}
		if r.RawOutput != nil {
			n += int64(len(*r.RawOutput))
		}
	}
	if e.Error != nil {
		n += int64(len(e.Error.Message))
	}
	return n
}

// turn is the parent's run that tells of children: of all, or of as many of the first as fit into one. A single one that does
// not fit is cut.
func (c *Controller) turn(ctx context.Context, o projection.PendingCallback, children []prompt.Child) (spec run.Spec, told int, err error) {
	told = len(children)
	for most := c.Most / 2; ; {
		text := prompt.Callback(children[:told], int(most))
		parameters, err := strictjson.Encode(map[string]string{"prompt": text})
		if err != nil {
			return spec, 0, err
		}
		spec, err = c.resume(ctx, o, parameters)
		switch {
		case fault.KindOf(err) != fault.TooLarge:
			return spec, told, err
		case told > 1:
			told = (told + 1) / 2
		case most > 1<<10:
			most /= 4
		default:
			return spec, 0, err
		}
	}
}

// resume is a run that goes on with the session, with the session's own parent, mode and output schema. An agent that cannot be used any more
// is taken as the session's last run had it: who is owed a callback gets it.
func (c *Controller) resume(ctx context.Context, o projection.PendingCallback, parameters json.RawMessage) (run.Spec, error) {
	last, lastErr := c.History.Spec(ctx, o.LastRun)
	if fault.KindOf(lastErr) == fault.Unavailable || ctx.Err() != nil {
		return last, cmp.Or(ctx.Err(), lastErr)
	}
	spec, err := c.Plans.Plan(ctx, run.Request{Type: run.Resume, SessionID: o.Session, Mode: run.AsyncPoll, Parameters: parameters})
	switch kind := fault.KindOf(err); {
	case err == nil:
	case kind == fault.TooLarge || kind == fault.Unavailable:
		return spec, err
	case lastErr != nil:
		return spec, lastErr
	default:
		spec, err = last, nil
		spec.Type, spec.Body, spec.ExecutorSessionID, spec.CallbackURL, spec.RetryOf, spec.Requested = run.Resume, nil, "", "", "", nil
		spec.Input = &run.Input{Parameters: parameters, Blueprint: last.Blueprint}
		spec.CreatedAt = time.Now().UTC()
	}
	if lastErr == nil { // what the answer must be is what it had to be before
		spec.HasOutputSchema, spec.Output, spec.Trace, spec.Caller = last.HasOutputSchema, nil, last.Trace, last.Caller
		if last.Input != nil {
			spec.Output = last.Output
		}
		err = c.Plans.TooLarge(spec.Input)
	}
	spec.ID, spec.Mode, spec.Parent, spec.IsCallbackTurn = run.NewID(), o.Mode, o.Parent, true
	return spec, err
}

// mostLinks is how many children a callback's span names.
const mostLinks = 32

// handOn has a callback's turn go on with the trace of the session's last run. Its span names the children's; it is to be ended once
// the turn is accepted.
func (c *Controller) handOn(ctx context.Context, turn *run.Spec, children []projection.Child) trace.Span {
	if c.Spans == nil {
		return trace.Span{}
	}
	below, span := c.Spans.Start(trace.ContextWith(context.Background(), turn.Trace), trace.Producer, "callback")
	turn.Trace = trace.FromContext(below)
	span.SetRun(turn)
	if span.IsRecording() {
		for _, child := range children[:min(len(children), mostLinks)] {
			if of, err := c.History.Spec(ctx, child.RunID); err == nil {
				span.Link(of.Trace)
			}
		}
	}
	return span
}
