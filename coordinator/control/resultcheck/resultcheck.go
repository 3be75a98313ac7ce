// Package resultcheck checks the results that workers report against the output schemas of their runs (decision 0015).
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
	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/coordinator/record"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/schema"
	"ao/shared/strictjson"
	"ao/shared/trace"
)

// maxConcurrent is how many results are checked at once. They may be large.
const maxConcurrent = 8

// Controller checks each reported result before the attempt's end record is written. Every coordinator runs one; the
// stream takes one end record.
type Controller struct {
	Config
	Pool *pool.Pool // checks the results

	backlog []state.Active // found, but not started for lack of room
	sweptAt time.Time
}

// Config is what a Controller works with. Spans may be nil.
type Config struct {
	History interface {
		Active(id string) (state.Active, bool)
		NewResults() []state.Active        // new since the last call
		UnverifiedResults() []state.Active // all
		UnverifiedResult(ctx context.Context, a state.Active) (run.Ended, *run.Result, error)
		Spec(ctx context.Context, id string) (run.Spec, error)
		WaitOwnWrites(ctx context.Context) error
	}
	Ends interface {
		Superseded(a state.Active) (bool, error)
		NewEnd(a state.Active) run.Ended
		SignChecked(a state.Active) string
		AppendEnd(ctx context.Context, a state.Active, word bus.Entry) error
	}
	Meter interface {
		Checked(run.Status) // counts a checked result by its run's status
		Mismatch()          // counts a result that its worker should not have reported
	}
	Spans *trace.Tracer
	Log   *slog.Logger
}

// New returns a Controller.
func New(c Config) *Controller {
	pause := func(times int) time.Duration { return run.Backoff(times) / 4 }
	return &Controller{Config: c, Pool: pool.New(pool.Config{Slots: maxConcurrent, Backoff: pause})}
}

// Reconcile starts checks: of new results at once, and of all results once a second.
func (c *Controller) Reconcile(ctx context.Context) error {
	c.backlog = append(c.backlog, c.History.NewResults()...)
	if time.Since(c.sweptAt) >= control.Sweep {
		c.sweptAt, c.backlog = time.Now(), c.History.UnverifiedResults()
		still := map[string]bool{}
		for _, a := range c.backlog {
			still[a.Key] = true
		}
		c.Pool.Keep(func(key string) bool { return still[key] })
	}
	for ; len(c.backlog) > 0 && c.Pool.Free("") > 0; c.backlog = c.backlog[1:] {
		a := c.backlog[0]
		c.Pool.Go(ctx, a.Key, "", func(ctx context.Context) error { return c.check(ctx, a) })
	}
	return nil
}

func (c *Controller) check(ctx context.Context, a state.Active) error {
	err := c.decide(ctx, a)
	switch {
	case err == nil:
		wait, cancel := context.WithTimeout(ctx, record.RequestTimeout)
		defer cancel()
		_ = c.History.WaitOwnWrites(wait) // so that no look finds the same result again
	case ctx.Err() == nil:
		c.Log.Warn("result not checked yet, retrying", "run", a.Spec.ID, "err", err)
	}
	return err
}

// decide appends the end record of an attempt whose result was reported.
func (c *Controller) decide(ctx context.Context, a state.Active) error {
	if now, ok := c.History.Active(a.Spec.ID); !ok || now.UnverifiedSeq != a.UnverifiedSeq {
		return nil
	}
	ctx, span := c.Spans.Start(trace.ContextWith(ctx, a.Spec.Trace), trace.Internal, "check offer")
	defer span.End()
	end, err := c.checked(ctx, a)
	if err != nil {
		span.RecordError(err)
		return err
	}
	span.SetRun(a.Spec)
	span.SetInt(trace.Attempt, a.Attempt)
	span.Set(trace.Status, string(end.Status))
	if end.Status == run.Failed {
		span.SetFault(end.Error)
	}
	body, err := end.Encode()
	if err == nil && len(body) > run.MaxEndRecord {
		body, err = tooLarge(&end).Encode()
	}
	if err != nil {
		return err
	}
	if moot, err := c.Ends.Superseded(a); moot {
		return err
	}
	if err := c.Ends.AppendEnd(ctx, a,
		bus.Entry{Subject: subject.Ended(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key),
			Body: body}); err != nil {
		return err
	}
	c.Meter.Checked(end.Status)
	c.Log.Debug("result checked", "run", a.Spec.ID, "status", end.Status)
	return nil
}

// tooLarge turns an end record that no record can hold into one that fits. A reported result may be as large as a
// record, and the end record says more.
func tooLarge(end *run.Ended) *run.Ended {
	if end.Status == run.Completed {
		end.Status = run.Failed
	}
	end.Checked, end.Result, end.Body = "", nil, nil
	end.Error = fault.New(fault.Internal, run.CodeTooLarge, fmt.Sprintf(
		"The runner's result leaves no room for the check's outcome in a record of %d bytes; runners store large "+
			"results as payloads", run.MaxEndRecord))
	return end
}

// checked returns the end record for a reported result. An error says that it cannot be made yet.
func (c *Controller) checked(ctx context.Context, a state.Active) (end run.Ended, err error) {
	end = c.Ends.NewEnd(a)
	offer, res, err := c.History.UnverifiedResult(ctx, a)
	end.Status, end.Error, end.Events = offer.Status, offer.Error, offer.Events
	unreadable := func(what string, err error) (run.Ended, error) {
		if !permanent(err, offer.At) {
			return end, err
		}
		c.Log.Error(what+" is unreadable", "run", a.Spec.ID, "err", err)
		end.Status, end.Error = run.Failed, fault.New(fault.Internal, "result_unreadable",
			what+" is unreadable, so the result cannot be checked")
		return end, nil
	}
	if err != nil {
		return unreadable("What the runner reported as the result of this run", err)
	}
	if offer.StartedAt != nil {
		end.StartedAt = offer.StartedAt
	}
	if offer.Status != run.Completed { // a failure needs no check
		if offer.Status != run.Stopped {
			end.Status = run.Failed
		}
		end.Result, end.Body = offer.Result, offer.Body
		return end, nil
	}
	spec := *a.Spec
	if spec.Body != nil {
		spec, err = c.History.Spec(ctx, spec.ID)
	}
	if err == nil && (spec.Input == nil || spec.Output == nil) {
		err = fmt.Errorf("%w: the run has none", query.ErrUnreadable)
	}
	if err != nil {
		return unreadable("The output schema of this run", err)
	}
	if wrong := mismatch(spec.Output.Schema, res); len(wrong) > 0 {
		c.Meter.Mismatch()
		c.Log.Warn("reported result does not match the run's output schema", "run", a.Spec.ID,
			"runner", a.Claim.RunnerID)
		v := validationOf(spec.Output, res)
		v.Valid = false
		end.Status, end.Error = run.Failed, run.OutputInvalid(wrong, v.Retries, answerText(res))
		end.Result = evidence(res, v)
		return end, nil
	}
	end.Checked, end.Result, end.Body = c.Ends.SignChecked(a), offer.Result, offer.Body
	if end.Result != nil {
		if v := validationOf(spec.Output, res); !v.reported || !v.Valid {
			v.Valid = true
			end.Result.SchemaValidation = v.raw()
		}
	}
	return end, nil
}

// permanent reports whether a result will never be readable. In a cluster, what is not found at first may appear later.
func permanent(err error, offered time.Time) bool {
	return fault.KindOf(err) == fault.NotFound && !offered.IsZero() &&
		time.Since(offered).Abs() > record.ReplicaLag || errors.Is(err, query.ErrUnreadable)
}

// maxErrors is how many errors of an answer are reported.
const maxErrors = 100

// mismatch returns what is wrong with a result that must match a schema.
func mismatch(raw json.RawMessage, res *run.Result) (wrong []run.OutputError) {
	switch {
	case res == nil, len(res.Data) == 0, res.Text != nil && isNull(res.Data):
		return []run.OutputError{{Path: "$", Message: run.NoOutput}}
	case res.Text != nil:
		return []run.OutputError{{Path: "$", Message: "result_text and result_data are both there; with an " +
			"output_schema the answer is result_data alone"}}
	}
	s, err := schema.Compile(raw)
	if err != nil {
		return []run.OutputError{{Path: "$", Message: "The output schema cannot be used: " + err.Error()}}
	}
	for _, v := range s.Check(res.Data) {
		if isNull(res.Data) { // there is no answer, and null does not match
			return []run.OutputError{{Path: "$", Message: run.NoOutput}}
		}
		if len(wrong) < maxErrors {
			wrong = append(wrong, run.OutputError{Path: v.Path, Message: v.Message})
		}
	}
	return wrong
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// validation is what a result says about its check.
type validation struct {
	run.Validation
	reported bool
}

// validationOf returns what the worker reported about enforcing the schema, or what can be said without that.
func validationOf(o *run.Output, res *run.Result) (v validation) {
	if res != nil && len(res.SchemaValidation) > 0 && !isNull(res.SchemaValidation) {
		v.reported = json.Unmarshal(res.SchemaValidation, &v.Validation) == nil
	}
	v.Source = o.Source
	v.Name = nil
	if o.Name != "" {
		v.Name = &o.Name
	}
	return v
}

func (v validation) raw() json.RawMessage {
	raw, err := strictjson.Encode(v.Validation)
	if err != nil { // texts and numbers always encode
		panic(err)
	}
	return raw
}

// maxEvidence is how many bytes of an answer that does not match are kept.
const maxEvidence = 32 << 10

// answerText returns the answer as text.
func answerText(res *run.Result) string {
	switch {
	case res == nil:
		return ""
	case res.RawOutput != nil:
		return truncate(*res.RawOutput, maxEvidence)
	case res.Text != nil:
		return truncate(*res.Text, maxEvidence)
	}
	return truncate(string(res.Data), maxEvidence)
}

// evidence returns what is kept of a result that does not match. A program's data stays readable; an agent's answer is
// kept as text only.
func evidence(res *run.Result, v validation) *run.Result {
	if res == nil {
		return nil
	}
	kept := run.Result{Type: res.Type, ExitCode: res.ExitCode, SchemaValidation: v.raw(), Note: res.Note}
	if text := answerText(res); res.Type == run.Procedural && len(res.Data) <= maxEvidence {
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

// truncate returns the beginning of a text, and says how many bytes are missing.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head := strings.ToValidUTF8(text[:most], "")
	return fmt.Sprintf("%s\n[Cut here. Bytes missing: %d]", head, len(text)-len(head))
}
