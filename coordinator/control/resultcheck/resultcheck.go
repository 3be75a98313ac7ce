// Package resultcheck checks the results that workers offer against the output schemas of their runs (decision 0015).
package resultcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"ao/coordinator/control"
	"ao/coordinator/control/pool"
	"ao/coordinator/projection"
	"ao/coordinator/record"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/schema"
	"ao/shared/strictjson"
	"ao/shared/trace"
)

// So many results are checked at once: they may be large.
const checkers = 8

// Controller checks each result that is offered before its attempt's last word is said. Every coordinator does so; the stream takes
// one last word.
type Controller struct {
	Config
	Pool *pool.Pool // where results are checked

	left  []projection.Active // found, and not begun yet: there was no room
	swept time.Time
}

// Config is what a Controller works with. Spans may be nil.
type Config struct {
	History interface {
		Active(id string) (projection.Active, bool)
		NewResults() []projection.Active        // new since the last call
		UnverifiedResults() []projection.Active // all
		UnverifiedResult(ctx context.Context, a projection.Active) (run.Ended, *run.Result, error)
		Spec(ctx context.Context, id string) (run.Spec, error)
		WaitOwnWrites(ctx context.Context) error
	}
	Ends interface {
		Superseded(a projection.Active) (bool, error)
		NewEnd(a projection.Active) run.Ended
		SignChecked(a projection.Active) string
		AppendEnd(ctx context.Context, a projection.Active, word bus.Entry) error
	}
	Meter interface {
		Checked(run.Status) // a result, and what its run became
		Mismatch()          // one that its worker should not have offered
	}
	Spans *trace.Tracer
	Log   *slog.Logger
}

// New makes a Controller.
func New(c Config) *Controller {
	pause := func(times int) time.Duration { return run.Backoff(times) / 4 }
	return &Controller{Config: c, Pool: pool.New(pool.Config{Slots: checkers, Backoff: pause})}
}

// Reconcile begins to check what is offered: what is new, and once a second all.
func (c *Controller) Reconcile(ctx context.Context) error {
	c.left = append(c.left, c.History.NewResults()...)
	if time.Since(c.swept) >= control.Sweep {
		c.swept, c.left = time.Now(), c.History.UnverifiedResults()
		still := map[string]bool{}
		for _, a := range c.left {
			still[a.Key] = true
		}
		c.Pool.Keep(func(key string) bool { return still[key] })
	}
	for ; len(c.left) > 0 && c.Pool.Free("") > 0; c.left = c.left[1:] {
		a := c.left[0]
		c.Pool.Go(ctx, a.Key, "", func(ctx context.Context) error { return c.one(ctx, a) })
	}
	return nil
}

func (c *Controller) one(ctx context.Context, a projection.Active) error {
	err := c.decide(ctx, a)
	switch {
	case err == nil:
		wait, cancel := context.WithTimeout(ctx, record.RequestTimeout)
		defer cancel()
		_ = c.History.WaitOwnWrites(wait) // so that no look finds the same offer again
	case ctx.Err() == nil:
		c.Log.Warn("result not checked yet; trying again", "run", a.Spec.ID, "err", err)
	}
	return err
}

// decide says the last word of an attempt whose result was offered, if nobody has.
func (c *Controller) decide(ctx context.Context, a projection.Active) error {
	if now, ok := c.History.Active(a.Spec.ID); !ok || now.UnverifiedSeq != a.UnverifiedSeq {
		return nil
	}
	ctx, span := c.Spans.Start(trace.ContextWith(ctx, a.Spec.Trace), trace.Internal, "check offer")
	defer span.End()
	word, err := c.checked(ctx, a)
	if err != nil {
		span.RecordError(err)
		return err
	}
	span.SetRun(a.Spec)
	span.SetInt(trace.Attempt, a.Attempt)
	span.Set(trace.Status, string(word.Status))
	if word.Status == run.Failed {
		span.SetFault(word.Error)
	}
	body, err := word.Encode()
	if err == nil && len(body) > run.MaxEndRecord {
		body, err = oversize(&word).Encode()
	}
	if err != nil {
		return err
	}
	if moot, err := c.Ends.Superseded(a); moot {
		return err
	}
	if err := c.Ends.AppendEnd(ctx, a, bus.Entry{Subject: subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key), Body: body}); err != nil {
		return err
	}
	c.Meter.Checked(word.Status)
	c.Log.Debug("result checked", "run", a.Spec.ID, "status", word.Status)
	return nil
}

// oversize makes a last word that no record holds one that fits: an offer may be as large as a record, and what is said
// of it is longer.
func oversize(word *run.Ended) *run.Ended {
	if word.Status == run.Completed {
		word.Status = run.Failed
	}
	word.Checked, word.Result, word.Body = "", nil, nil
	word.Error = fault.New(fault.Internal, "result_too_large", fmt.Sprintf("What the runner offered leaves no room for the check's outcome in a record of %d bytes; runners put what is large aside", run.MaxEndRecord))
	return word
}

// checked is the last word on an offer. An error says that it cannot be made yet.
func (c *Controller) checked(ctx context.Context, a projection.Active) (word run.Ended, err error) {
	word = c.Ends.NewEnd(a)
	offer, res, err := c.History.UnverifiedResult(ctx, a)
	word.Status, word.Error, word.Events = offer.Status, offer.Error, offer.Events
	unreadable := func(what string, err error) (run.Ended, error) {
		if !hopeless(err, offer.At) {
			return word, err
		}
		c.Log.Error(what+" cannot be read", "run", a.Spec.ID, "err", err)
		word.Status, word.Error = run.Failed, fault.New(fault.Internal, "result_unreadable", what+" cannot be read, so that its result cannot be checked")
		return word, nil
	}
	if err != nil {
		return unreadable("What the runner offered as the result of this run", err)
	}
	if offer.StartedAt != nil {
		word.StartedAt = offer.StartedAt
	}
	if offer.Status != run.Completed { // there is nothing to check in a failure
		if offer.Status != run.Stopped {
			word.Status = run.Failed
		}
		word.Result, word.Body = offer.Result, offer.Body
		return word, nil
	}
	spec := *a.Spec
	if spec.Body != nil {
		spec, err = c.History.Spec(ctx, spec.ID)
	}
	if err == nil && (spec.Input == nil || spec.Output == nil) {
		err = fmt.Errorf("%w: it has none", projection.ErrUnreadable)
	}
	if err != nil {
		return unreadable("The output schema of this run", err)
	}
	if wrong := mismatch(spec.Output.Schema, res); len(wrong) > 0 {
		c.Meter.Mismatch()
		c.Log.Warn("a result that does not match the run's output schema was offered", "run", a.Spec.ID, "runner", a.Claim.RunnerID)
		v := validation(spec.Output, res)
		v.Valid = false
		word.Status, word.Error, word.Result = run.Failed, run.OutputInvalid(wrong, v.Retries, last(res)), evidence(res, v)
		return word, nil
	}
	word.Checked, word.Result, word.Body = c.Ends.SignChecked(a), offer.Result, offer.Body
	if word.Result != nil {
		if v := validation(spec.Output, res); !v.said || !v.Valid {
			v.Valid = true
			word.Result.SchemaValidation = v.raw()
		}
	}
	return word, nil
}

// hopeless tells whether what an offer consists of will never be read: what is not found at first may come, in a cluster.
func hopeless(err error, offered time.Time) bool {
	lost := fault.KindOf(err) == fault.NotFound && !offered.IsZero() && time.Since(offered).Abs() > record.ReplicaLag
	return lost || errors.Is(err, projection.ErrUnreadable)
}

// mostErrors is how many errors of an answer are told.
const mostErrors = 100

// mismatch tells what is wrong with a result that must match a schema.
func mismatch(raw json.RawMessage, res *run.Result) (wrong []run.OutputError) {
	switch {
	case res == nil, len(res.Data) == 0, res.Text != nil && null(res.Data):
		return []run.OutputError{{Path: "$", Message: run.NoOutput}}
	case res.Text != nil:
		return []run.OutputError{{Path: "$", Message: "result_text and result_data are there; with an output_schema the answer is result_data alone"}}
	}
	s, err := schema.Compile(raw)
	if err != nil {
		return []run.OutputError{{Path: "$", Message: "The output schema cannot be used: " + err.Error()}}
	}
	for _, v := range s.Check(res.Data) {
		if null(res.Data) { // there is none, and none will not do
			return []run.OutputError{{Path: "$", Message: run.NoOutput}}
		}
		if len(wrong) < mostErrors {
			wrong = append(wrong, run.OutputError{Path: v.Path, Message: v.Message})
		}
	}
	return wrong
}

func null(raw json.RawMessage) bool { return string(raw) == "null" }

// verdict is what a result says of its check.
type verdict struct {
	run.Validation
	said bool
}

// validation is what the worker says of how it enforced the schema, or what can be said without it.
func validation(o *run.Output, res *run.Result) (v verdict) {
	if res != nil && len(res.SchemaValidation) > 0 && !null(res.SchemaValidation) {
		v.said = json.Unmarshal(res.SchemaValidation, &v.Validation) == nil
	}
	v.Source = o.Source
	if v.Name = nil; o.Name != "" {
		v.Name = &o.Name
	}
	return v
}

func (v verdict) raw() json.RawMessage {
	raw, err := strictjson.Encode(v.Validation)
	if err != nil { // texts and numbers can always be written
		panic(err)
	}
	return raw
}

// maxEvidence is how much of an answer that does not match is kept, in bytes.
const maxEvidence = 32 << 10

// last is the answer as text.
func last(res *run.Result) string {
	switch {
	case res == nil:
		return ""
	case res.RawOutput != nil:
		return cut(*res.RawOutput, maxEvidence)
	case res.Text != nil:
		return cut(*res.Text, maxEvidence)
	}
	return cut(string(res.Data), maxEvidence)
}

// evidence is the result of a run that failed since its answer does not match: what a program gave stays readable, an agent's answer
// is only text then.
func evidence(res *run.Result, v verdict) *run.Result {
	if res == nil {
		return nil
	}
	kept := run.Result{Type: res.Type, ExitCode: res.ExitCode, SchemaValidation: v.raw()}
	if text := last(res); res.Type == run.Procedural && len(res.Data) <= maxEvidence {
		kept.Data = res.Data
	} else if text != "" {
		kept.RawOutput = &text
	}
	if len(kept.SchemaValidation) > maxEvidence {
		v.Rejected = nil
		kept.SchemaValidation = v.raw()
	}
	return &kept
}

// cut is the beginning of a text; it says how much is missing.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head := strings.ToValidUTF8(text[:most], "")
	return fmt.Sprintf("%s\n[Cut here. Bytes missing: %d]", head, len(text)-len(head))
}
