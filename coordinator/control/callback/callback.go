// Package callback calls parents back when their children have ended, with a new turn of the parent's session.
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
	"ao/coordinator/projection/state"
	"ao/coordinator/record"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/prompt"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/shared/trace"
)

// maxConcurrent is how many callbacks are written at once: each is an atomic batch and reads its children.
const maxConcurrent = 8

// maxAge is how old a look at the pending callbacks may be when it is acted on. Callback records are kept for longer
// than that, so the stream refuses whoever acts on an older one.
const maxAge = time.Minute

// Controller acts on the projection. When several coordinators act at once, the stream decides (decision 0014).
// Children are reported in the order of their ends. The record is named after the first of them, so two callbacks that
// share their first child have the same name.
type Controller struct {
	Config
	Pool *pool.Pool // writes the callbacks

	backlog []state.PendingCallback // found, but not started for lack of room
	sweptAt time.Time
}

// History is the part of the projection that concerns callbacks.
type History interface {
	NewCallbacks() []state.PendingCallback // new since the last call
	DueCallbacks() []state.PendingCallback // all
	DueCallback(session string) (state.PendingCallback, bool)
	End(ctx context.Context, id string) (run.Ended, error)
	Ended(id string) bool
	Spec(ctx context.Context, id string) (run.Spec, error)
	Confirmed() bool
}

// Config is what a Controller works with. Spans may be nil.
type Config struct {
	History History
	Records interface {
		// the list, then the turn
		Callback(o state.PendingCallback, reported int, turn run.Spec) ([]bus.Entry, error)
		Offload(ctx context.Context, s *run.Spec) error
		AppendBatch(ctx context.Context, entries ...bus.Entry) (uint64, error)
		NoteWritten(seq uint64)
		Passed(ctx context.Context, subj string) (passed, unreadable bool, err error)
	}
	Plans interface { // checks a turn like a caller's request
		Plan(ctx context.Context, req *run.Request) (run.Spec, error)
		TooLarge(in *run.Input) error
	}
	MaxPayload int64 // largest parameters of a turn, in bytes
	Spans      *trace.Tracer
	Log        *slog.Logger
}

// New returns a Controller.
func New(c Config) *Controller {
	return &Controller{Config: c, Pool: pool.New(pool.Config{Slots: maxConcurrent, Backoff: run.Backoff})}
}

// Reconcile starts the callbacks that are due: new ones at once, and all of them once a second.
func (c *Controller) Reconcile(ctx context.Context) error {
	c.backlog = append(c.backlog, c.History.NewCallbacks()...)
	if time.Since(c.sweptAt) >= control.Sweep {
		c.sweptAt, c.backlog = time.Now(), c.History.DueCallbacks()
		still := map[string]bool{}
		for _, o := range c.backlog {
			still[o.Session] = true
		}
		c.Pool.Keep(func(session string) bool { return still[session] })
	}
	for ; len(c.backlog) > 0 && c.Pool.Free("") > 0; c.backlog = c.backlog[1:] {
		o := c.backlog[0]
		if o.Misses > 0 && time.Since(o.Ended) < run.Backoff(o.Misses) {
			continue // the turn before ended unclaimed; the next look comes soon
		}
		c.Pool.Go(ctx, o.Session, "", func(ctx context.Context) error { return c.deliver(ctx, o) })
	}
	return nil
}

// deliver calls one parent back. It is as good if another coordinator has done so.
func (c *Controller) deliver(ctx context.Context, o state.PendingCallback) error {
	reported, err := c.Deliver(ctx, o)
	switch {
	case err == nil:
		c.Log.Info("callback delivered", "session", o.Session, "children", reported)
	case errors.Is(err, bus.ErrTaken):
		c.Log.Debug("another coordinator called the parent back", "session", o.Session)
		return nil
	case ctx.Err() == nil:
		c.Log.Warn("parent not called back yet, retrying", "session", o.Session, "err", err)
	}
	return err
}

// Deliver calls a parent back if o still holds. ErrTaken: it does not, or somebody else has done it. After a loss of
// records a callback record may be there that does not count: it cannot be read, or precedes the child's end. Then the
// next number is taken.
func (c *Controller) Deliver(ctx context.Context, o state.PendingCallback) (reported int, err error) {
	for next := o; ; next.Deliveries++ {
		t, err := c.Prepare(ctx, next)
		if err != nil {
			return 0, err
		}
		if !c.stillDue(o) {
			return 0, bus.ErrTaken
		}
		seq, err := c.Records.AppendBatch(ctx, t.Records...)
		if err == nil {
			c.Records.NoteWritten(seq)
			t.span.End()
		}
		if !errors.Is(err, bus.ErrTaken) {
			return t.Reported, err
		}
		if passed, _, err := c.Records.Passed(ctx, next.Subject()); err != nil || !passed || !c.stillDue(o) {
			return 0, cmp.Or(err, error(bus.ErrTaken))
		}
	}
}

// stillDue reports whether o is still what the projection says. It may begin to read the history again meanwhile.
func (c *Controller) stillDue(o state.PendingCallback) bool {
	before := c.History.Confirmed()
	now, ok := c.History.DueCallback(o.Session)
	return ok && before && c.History.Confirmed() && now.Deliveries == o.Deliveries && now.LastRun == o.LastRun &&
		now.Children[0] == o.Children[0] && time.Since(o.ReadAt) < maxAge
}

// Turn is a callback turn that is not written yet.
type Turn struct {
	Reported int         // how many of the pending children it reports: the first ones
	Records  []bus.Entry // the list of children, which carries the turn, then the turn

	span trace.Span
}

// Prepare builds the turn that reports the children in o. It stores large bodies as payloads first.
func (c *Controller) Prepare(ctx context.Context, o state.PendingCallback) (t Turn, err error) {
	children, err := c.children(ctx, o.Children)
	if err != nil {
		return t, err
	}
	spec, reported, err := c.turn(ctx, o, children)
	if err != nil {
		return t, err
	}
	t.Reported, t.span = reported, c.traceTurn(ctx, &spec, o.Children[:reported])
	if err := c.Records.Offload(ctx, &spec); err != nil {
		return t, err
	}
	t.Records, err = c.Records.Callback(o, reported, spec)
	return t, err
}

// children reads how they ended, as many as one turn can hold. A result that is no longer kept, or unreadable, is
// reported as none.
func (c *Controller) children(ctx context.Context, pending []state.Child) (all []prompt.Child, err error) {
	var size int64
	for _, child := range pending {
		e, err := c.History.End(ctx, child.RunID)
		switch {
		case ctx.Err() != nil: // whatever was read may be incomplete
			return nil, ctx.Err()
		case fault.KindOf(err) == fault.Unavailable:
			return nil, err
		case fault.KindOf(err) == fault.NotFound && time.Since(child.Ended).Abs() < record.ReplicaLag &&
			c.History.Ended(child.RunID):
			return nil, fault.Wrap(fault.Unavailable, "",
				"the end of run "+child.RunID+" is not visible yet; try again", err)
		case err != nil && fault.KindOf(err) != fault.NotFound:
			c.Log.Error("the end of a child is unreadable; its parent is called back without it", "run", child.RunID,
				"err", err)
		}
		all = append(all, prompt.Child{RunID: child.RunID, SessionID: child.SessionID, Status: child.Status,
			Result: e.Result, Error: e.Error})
		size += endSize(e)
		if size > c.MaxPayload {
			break
		}
	}
	return all, nil
}

// endSize returns how many bytes of an end a parent gets to read.
func endSize(e run.Ended) (n int64) {
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

// turn builds the parent's run that reports children: all of them, or as many of the first as fit. A single child that
// does not fit is cut.
func (c *Controller) turn(ctx context.Context, o state.PendingCallback, children []prompt.Child,
) (spec run.Spec, reported int, err error) {
	reported = len(children)
	for limit := c.MaxPayload / 2; ; {
		text := prompt.Callback(children[:reported], int(limit))
		parameters, err := strictjson.Encode(map[string]string{"prompt": text})
		if err != nil {
			return spec, 0, err
		}
		spec, err = c.resume(ctx, o, parameters)
		switch {
		case fault.KindOf(err) != fault.TooLarge:
			return spec, reported, err
		case reported > 1:
			reported = (reported + 1) / 2
		case limit > 1<<10:
			limit /= 4
		default:
			return spec, 0, err
		}
	}
}

// resume builds a run that continues the session with the session's own parent, mode and output schema. If its agent
// cannot be used any more, the session's last run says how the agent was: a due callback is always written.
func (c *Controller) resume(ctx context.Context, o state.PendingCallback, parameters json.RawMessage,
) (run.Spec, error) {
	last, lastErr := c.History.Spec(ctx, o.LastRun)
	if fault.KindOf(lastErr) == fault.Unavailable || ctx.Err() != nil {
		return last, cmp.Or(ctx.Err(), lastErr)
	}
	spec, err := c.Plans.Plan(ctx,
		&run.Request{Type: run.Resume, SessionID: o.Session, Mode: run.AsyncPoll, Parameters: parameters})
	switch kind := fault.KindOf(err); {
	case err == nil:
	case kind == fault.TooLarge || kind == fault.Unavailable:
		return spec, err
	case lastErr != nil:
		return spec, lastErr
	default:
		spec, err = last, nil
		spec.Type, spec.Body, spec.ExecutorSessionID, spec.CallbackURL, spec.RetryOf, spec.Requested = run.Resume, nil,
			"", "", "", nil
		spec.Input = &run.Input{Parameters: parameters, Blueprint: last.Blueprint}
		spec.CreatedAt = time.Now().UTC()
	}
	if lastErr == nil { // the answer must match what it had to match before
		spec.HasOutputSchema, spec.Output, spec.Trace, spec.Caller = last.HasOutputSchema, nil, last.Trace, last.Caller
		if last.Input != nil {
			spec.Output = last.Output
		}
		err = c.Plans.TooLarge(spec.Input)
	}
	spec.ID, spec.Mode, spec.Parent, spec.IsCallbackTurn = run.NewID(), o.Mode, o.Parent, true
	return spec, err
}

// maxLinks is how many children a callback's span names.
const maxLinks = 32

// traceTurn continues the trace of the session's last run in the callback turn. The span links the children's traces.
// End it once the turn is accepted.
func (c *Controller) traceTurn(ctx context.Context, turn *run.Spec, children []state.Child) trace.Span {
	if c.Spans == nil {
		return trace.Span{}
	}
	below, span := c.Spans.Start(trace.ContextWith(context.Background(), turn.Trace), trace.Producer, "callback")
	turn.Trace = trace.FromContext(below)
	span.SetRun(turn)
	if span.IsRecording() {
		for _, child := range children[:min(len(children), maxLinks)] {
			if of, err := c.History.Spec(ctx, child.RunID); err == nil {
				span.Link(of.Trace)
			}
		}
	}
	return span
}
