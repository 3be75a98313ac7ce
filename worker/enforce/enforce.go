// Package enforce lets a run complete only with an answer that matches its output schema, whatever executor does it.
//
//	the executor's end                         the run's
//	completed, its answer fits                 completed: result_data is the answer, result_text null, raw_output the model's text
//	completed, it does not, retries are left   goes on: the same session is told what is wrong, and answers anew
//	completed, it does not, none is left       failed, OutputSchemaValidationError with the errors and the last answer
//	failed or stopped                          that end; the error says where it came while the session was asked again
//
// Each answer that does not fit is told in the session as a message of the system. All of it happens within the run's time limit.
package enforce

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/outputschema"
	"ao/shared/prompt"
	"ao/shared/run"
	"ao/shared/schema"
	"ao/shared/strictjson"
	"ao/shared/trace"
	"ao/worker/process"
)

// What is told of an answer that does not fit, in bytes; more is cut visibly.
const (
	maxPrevious = 32 << 10 // to the model
	maxRejected = 8 << 10  // in the session's event
	maxLast     = 16 << 10 // in the run's error
	maxRaw      = 1 << 20  // in the result, also of one that fits
	maxPath     = 300
	maxMessage  = 1000
)

// Executor does a run; each of a worker's is one.
type Executor interface {
	Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome
}

// Enforcer is an executor that is held to an output schema. It is good for one run.
type Enforcer struct {
	Executor      Executor
	Output        run.Output
	AgentType     string // a procedural agent is checked once and asked nothing
	SystemPrompts bool   // the executor gives the blueprint's system_prompt to its model: there the schema is told, else at the prompt's end

	Asked func() // called each time the session is asked again; may be nil

	schema   *schema.Schema
	rejected []run.Rejected
}

// Run has the executor do the run until its answer fits, as often as the schema's options allow.
func (c Enforcer) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	retries := c.Output.Retries
	var err error
	if c.schema, err = schema.Compile(c.Output.Schema); err != nil {
		return failed(fault.New(fault.Internal, "InvalidSchema", "The run's output_schema is not a valid draft-07 JSON Schema").With("details", err.Error()))
	}
	if c.AgentType == run.Procedural {
		retries = 0
	} else if inv, err = c.ask(inv); err != nil {
		return failed(fault.Of(err))
	}
	s := session{model: inv.ExecutorSession}
	host = s.listen(host)
	var before *run.Result // what was rejected last
	for n := 1; ; n++ {
		o := c.once(ctx, inv, host, n)
		if o.Status != run.Completed {
			return c.broken(o, before, n, retries, host)
		}
		a := c.judge(o.Result)
		if len(a.wrong) == 0 {
			return run.Outcome{Status: run.Completed, Result: c.result(o.Result, a, n)}
		}
		c.rejected = append(c.rejected, run.Rejected{Attempt: n, Errors: a.wrong})
		host.Emit(run.EventMessage, run.RejectionMessage(n, retries+1, a.wrong, cut(a.said, maxRejected)))
		before = c.result(o.Result, a, n)
		switch {
		case n > retries:
			return run.Outcome{Status: run.Failed, Error: run.OutputInvalid(a.wrong, retries, cut(a.said, maxLast)), Result: before}
		case ctx.Err() != nil:
			return run.Outcome{Status: run.Stopped, Result: before}
		}
		if inv, err = again(inv, s.bound(), prompt.Retry(a.wrong, a.said, c.Output.Schema, maxPrevious)); err != nil {
			return run.Outcome{Status: run.Failed, Error: fault.Of(err), Result: before}
		}
		if c.Asked != nil {
			c.Asked()
		}
	}
}

// once is the n-th time that the executor is asked; from the second on that is a span of its own.
func (c Enforcer) once(ctx context.Context, inv executor.Invocation, host executor.Host, n int) run.Outcome {
	if n > 1 {
		var span trace.Span
		ctx, span = trace.Start(ctx, "schema retry")
		span.SetInt("ao.schema.retry", n-1)
		defer span.End()
	}
	return c.Executor.Run(ctx, inv, host)
}

func failed(why *fault.Fault) run.Outcome { return run.Outcome{Status: run.Failed, Error: why} }

// ask adds to what the model is told that it is to answer in the schema.
func (c Enforcer) ask(inv executor.Invocation) (executor.Invocation, error) {
	if !c.SystemPrompts {
		inv.Prompt = outputschema.WithFormat(inv.Prompt, c.Output.Schema)
		return inv, nil
	}
	var members []strictjson.Member
	if raw := bytes.TrimSpace(inv.Blueprint); len(raw) > 0 && string(raw) != "null" {
		var err error
		if members, err = strictjson.Members(raw); err != nil {
			return inv, fault.Wrap(fault.Invalid, "", "The agent's blueprint cannot be read: it must be a JSON object", err).With("field", "agent_blueprint")
		}
	}
	i := slices.IndexFunc(members, func(m strictjson.Member) bool { return m.Key == "system_prompt" })
	if i < 0 {
		i, members = len(members), append(members, strictjson.Member{Key: "system_prompt"})
	}
	raw, err := strictjson.Encode(outputschema.WithFormat(strictjson.Text(members[i].Value), c.Output.Schema))
	if err != nil {
		return inv, err
	}
	members[i].Value = raw
	inv.Blueprint = strictjson.Object(members)
	return inv, nil
}

// again is the invocation that goes on with the session.
func again(inv executor.Invocation, model, text string) (executor.Invocation, error) {
	parameters, err := strictjson.Encode(struct {
		Prompt string `json:"prompt"`
	}{text})
	inv.Mode, inv.ExecutorSession, inv.Prompt, inv.Parameters = executor.Resume, model, text, parameters
	return inv, err
}

// answer is what an executor came to.
type answer struct {
	data       json.RawMessage   // the value in it; nil: there is none
	candidates *int              // how many values of a text could have been meant; nil: it was not looked for
	said       string            // all of it
	wrong      []run.OutputError // in which ways it does not fit
}

// judge looks at an executor's result. Data that it gave itself are taken as they are, in its text they are looked for. Null stands for
// none, unless the schema wants it.
func (c Enforcer) judge(r *run.Result) answer {
	var a answer
	switch {
	case r == nil:
	case len(r.Data) > 0 && (string(r.Data) != "null" || r.Text == nil && c.fits(r.Data)):
		a.data, a.said = r.Data, string(r.Data)
	case r.Text != nil:
		a.said = *r.Text
		found := outputschema.Find(a.said, c.Output.Strict, c.fits)
		n := len(found.Candidates)
		a.data, a.candidates = found.Value(), &n
	}
	if a.data == nil {
		a.wrong = []run.OutputError{{Path: "$", Message: run.NoOutput}}
		return a
	}
	for _, v := range c.schema.Check(a.data) {
		a.wrong = append(a.wrong, run.OutputError{Path: cut(v.Path, maxPath), Message: cut(v.Message, maxMessage)})
	}
	return a
}

func (c Enforcer) fits(value json.RawMessage) bool { return c.schema.Check(value) == nil }

// result is the result document with what is said of its answer, the n-th. An autonomous agent's data that do not fit are shown as
// raw_output only: nobody shall take them for an answer.
func (c Enforcer) result(r *run.Result, a answer, n int) *run.Result {
	out := run.Result{Type: c.AgentType}
	if r != nil {
		out = *r
	}
	if c.AgentType != run.Procedural {
		raw := cut(a.said, maxRaw)
		out.Data, out.RawOutput = nil, &raw
		if len(a.wrong) == 0 {
			out.Text, out.Data = nil, a.data
		}
	}
	out.SchemaValidation = c.validation(len(a.wrong) == 0, n, a.candidates)
	return &out
}

// validation is what the result says of the schema after the n-th answer.
func (c Enforcer) validation(valid bool, n int, candidates *int) json.RawMessage {
	v := run.Validation{Valid: valid, Source: c.Output.Source, Retries: n - 1, Candidates: candidates, Rejected: c.rejected}
	if c.Output.Name != "" {
		v.Name = &c.Output.Name
	}
	raw, err := strictjson.Encode(v)
	if err != nil { // texts and numbers can always be written
		panic(err)
	}
	return raw
}

// broken is the end of an executor that did not come to an answer. Where it was asked again, the end says so, and the result is
// what was rejected before unless it has one of its own.
func (c Enforcer) broken(o run.Outcome, before *run.Result, n, retries int, host executor.Host) run.Outcome {
	if n == 1 {
		return o
	}
	if o.Result == nil {
		o.Result = before
	} else if c.AgentType != run.Procedural {
		mine := *o.Result
		mine.SchemaValidation = c.validation(false, n, nil)
		o.Result = &mine
	}
	if o.Error != nil {
		why := *o.Error
		why.Fields = append(slices.Clip(why.Fields), fault.Field{Name: "output_retry", Value: n - 1}, fault.Field{Name: "output_errors", Value: c.rejected[len(c.rejected)-1].Errors})
		o.Error = &why
	}
	host.Emit(run.EventMessage, run.TextMessage("system", fmt.Sprintf("The run ended %s while it was asked again for output that matches its output schema (retry %d of %d)", o.Status, n-1, retries)))
	return o
}

func cut(text string, most int) string { return process.Plain(process.Cut([]byte(text), most)) }
