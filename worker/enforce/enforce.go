// Package enforce completes a run only with an answer that matches its output schema, whatever the executor.
//
//	executor's end                           run's end
//	completed, answer matches                completed: result_data is the answer, result_text null,
//	                                         raw_output the model's text
//	completed, no match, retries left        continues: the session gets the errors and answers again
//	completed, no match, no retries left     failed, OutputSchemaValidationError with the errors and the last answer
//	failed or stopped                        that end; its error says if it happened during a retry
//
// Each rejected answer is a system message in the session. All retries share the run's time limit.
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

// How much of a rejected answer is shown, in bytes; the rest is cut visibly.
const (
	maxPrevious = 32 << 10 // to the model
	maxRejected = 8 << 10  // in the session's message
	maxLast     = 16 << 10 // in the run's error
	maxRaw      = 1 << 20  // in the result, also of a matching one
	maxPath     = 300
	maxMessage  = 1000
)

// Executor does a run.
type Executor interface {
	Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome
}

// Enforcer is an executor that enforces an output schema. Use one per run.
type Enforcer struct {
	Executor  Executor
	Output    run.Output
	AgentType string // a procedural agent has no retries
	// the executor passes system_prompt to its model: the agent's own schema goes there
	SystemPrompts bool

	OnRetry func() // called for each retry; may be nil

	schema   *schema.Schema
	rejected []run.Rejected
}

// Run runs the executor until its answer matches, as often as the schema's options allow.
func (c Enforcer) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	retries := c.Output.Retries
	var err error
	c.schema, err = schema.Compile(c.Output.Schema)
	if err != nil {
		return failed(fault.New(fault.Internal, "InvalidSchema",
			"the run's output_schema is not a valid draft-07 JSON Schema").With("details", err.Error()))
	}
	if c.AgentType == run.Procedural {
		retries = 0
	} else {
		inv, err = c.addSchema(inv)
		if err != nil {
			return failed(fault.Of(err))
		}
	}
	s := session{id: inv.ExecutorSession}
	host = s.wrap(host)
	var before *run.Result // the last rejected result
	for n := 1; ; n++ {
		o := c.runOnce(ctx, inv, host, n)
		if o.Status != run.Completed {
			return c.endedEarly(o, before, n, retries, host)
		}
		a := c.check(o.Result)
		if len(a.errors) == 0 {
			return run.Outcome{Status: run.Completed, Result: c.result(o.Result, a, n)}
		}
		c.rejected = append(c.rejected, run.Rejected{Attempt: n, Errors: a.errors})
		host.Emit(run.EventMessage, run.RejectionMessage(n, retries+1, a.errors, cut(a.text, maxRejected)))
		before = c.result(o.Result, a, n)
		switch {
		case n > retries:
			return run.Outcome{Status: run.Failed, Error: run.OutputInvalid(a.errors, retries, cut(a.text, maxLast)),
				Result: before}
		case ctx.Err() != nil:
			return run.Outcome{Status: run.Stopped, Result: before}
		}
		inv, err = retryInvocation(inv, s.sessionID(), prompt.Retry(a.errors, a.text, c.Output.Schema, maxPrevious))
		if err != nil {
			return run.Outcome{Status: run.Failed, Error: fault.Of(err), Result: before}
		}
		if c.OnRetry != nil {
			c.OnRetry()
		}
	}
}

// runOnce runs the n-th try; each retry has its own span.
func (c Enforcer) runOnce(ctx context.Context, inv executor.Invocation, host executor.Host, n int) run.Outcome {
	if n > 1 {
		var span trace.Span
		ctx, span = trace.Start(ctx, "schema retry")
		span.SetInt("ao.schema.retry", n-1)
		defer span.End()
	}
	return c.Executor.Run(ctx, inv, host)
}

func failed(why *fault.Fault) run.Outcome { return run.Outcome{Status: run.Failed, Error: why} }

// addSchema adds the output schema to the system prompt, which only the agent's author writes. A caller's schema goes
// to the end of the prompt, and so does every schema if the executor has no system prompts.
func (c Enforcer) addSchema(inv executor.Invocation) (executor.Invocation, error) {
	if !c.SystemPrompts || c.Output.Source != run.SourceBlueprint {
		inv.Prompt = outputschema.WithFormat(inv.Prompt, c.Output.Schema)
		return inv, nil
	}
	var members []strictjson.Member
	if raw := bytes.TrimSpace(inv.Blueprint); len(raw) > 0 && string(raw) != "null" {
		var err error
		members, err = strictjson.Members(raw)
		if err != nil {
			return inv, fault.Wrap(fault.Invalid, "", "the agent's blueprint must be a JSON object", err).
				With("field", "agent_blueprint")
		}
	}
	i := slices.IndexFunc(members, func(m strictjson.Member) bool { return m.Key == "system_prompt" })
	if i < 0 {
		i, members = len(members), append(members, strictjson.Member{Key: "system_prompt"})
	}
	raw, err := strictjson.Encode(outputschema.WithFormat(strictjson.String(members[i].Value), c.Output.Schema))
	if err != nil {
		return inv, err
	}
	members[i].Value = raw
	inv.Blueprint = strictjson.Object(members)
	return inv, nil
}

// retryInvocation returns the invocation that continues the session.
func retryInvocation(inv executor.Invocation, model, text string) (executor.Invocation, error) {
	parameters, err := strictjson.Encode(struct {
		Prompt string `json:"prompt"`
	}{text})
	inv.Mode, inv.ExecutorSession, inv.Prompt, inv.Parameters = executor.Resume, model, text, parameters
	return inv, err
}

type answer struct {
	data       json.RawMessage   // its JSON value; nil: none
	candidates *int              // how many values of a text could be the answer; nil: not searched
	text       string            // the whole answer
	errors     []run.OutputError // how it violates the schema; empty: it matches
}

// check checks an executor's result. Its data is taken as it is; in its text the value is searched for. Null counts
// as none unless the schema allows it.
func (c Enforcer) check(r *run.Result) answer {
	var a answer
	switch {
	case r == nil:
	case len(r.Data) > 0 && (string(r.Data) != "null" || r.Text == nil && c.matches(r.Data)):
		a.data, a.text = r.Data, string(r.Data)
	case r.Text != nil:
		a.text = *r.Text
		found := outputschema.Find(a.text, c.Output.Strict, c.Output.Schema, c.matches)
		n := len(found.Candidates)
		a.data, a.candidates = found.Value(), &n
	}
	if a.data == nil {
		a.errors = []run.OutputError{{Path: "$", Message: run.NoOutput}}
		return a
	}
	for _, v := range c.schema.Check(a.data) {
		a.errors = append(a.errors, run.OutputError{Path: cut(v.Path, maxPath), Message: cut(v.Message, maxMessage)})
	}
	return a
}

func (c Enforcer) matches(value json.RawMessage) bool { return c.schema.Check(value) == nil }

// result returns the result document of the n-th answer. An autonomous agent's data that does not match is shown as
// raw_output only, so that nobody takes it for an answer.
func (c Enforcer) result(r *run.Result, a answer, n int) *run.Result {
	out := run.Result{Type: c.AgentType}
	if r != nil {
		out = *r
	}
	if c.AgentType != run.Procedural {
		raw := cut(a.text, maxRaw)
		out.Data, out.RawOutput = nil, &raw
		if len(a.errors) == 0 {
			out.Text, out.Data = nil, a.data
		}
	}
	out.SchemaValidation = c.validation(len(a.errors) == 0, n, a.candidates)
	return &out
}

// validation returns the result's schema_validation after the n-th answer.
func (c Enforcer) validation(valid bool, n int, candidates *int) json.RawMessage {
	v := run.Validation{Valid: valid, Source: c.Output.Source, Retries: n - 1, Candidates: candidates,
		Rejected: c.rejected}
	if c.Output.Name != "" {
		v.Name = &c.Output.Name
	}
	raw, err := strictjson.Encode(v)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	return raw
}

// endedEarly returns the end of an executor that gave no answer. After a retry the error says so, and the result is
// the last rejected one unless it has its own.
func (c Enforcer) endedEarly(o run.Outcome, before *run.Result, n, retries int, host executor.Host) run.Outcome {
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
		why.Fields = append(slices.Clip(why.Fields), fault.Field{Name: "output_retry", Value: n - 1},
			fault.Field{Name: "output_errors", Value: c.rejected[len(c.rejected)-1].Errors})
		o.Error = &why
	}
	host.Emit(run.EventMessage, run.TextMessage("system",
		fmt.Sprintf("the run ended %s during a retry for output that matches its output schema (retry %d of %d)",
			o.Status, n-1, retries)))
	return o
}

func cut(text string, most int) string { return process.Plain(process.Cut([]byte(text), most)) }
