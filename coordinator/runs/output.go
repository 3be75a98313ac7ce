package runs

import (
	"context"

	"ao/coordinator/agents"
	"ao/coordinator/schemas"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/schema"
)

// blueprintRetries is the default number of retries where the schema is the agent's.
const blueprintRetries = 1

// output returns what the answer must match; nil: anything. The request's own schema wins over the one it names, and
// that over the agent's. An option comes from the request, else from the agent where the schema is the agent's, else
// from the default.
func (p *Planner) output(ctx context.Context, req *run.Request, a *agents.Resolved) (*run.Output, error) {
	var opts []run.OutputOptions
	if req.OutputSchemaOptions != nil {
		opts = append(opts, *req.OutputSchemaOptions)
	}
	o := &run.Output{Schema: req.OutputSchema, Source: run.SourceRequest, Retries: p.limits.Retries}
	name := req.OutputSchemaName
	switch {
	case req.OutputSchema != nil:
		name = ""
	case name != "":
		o.Source = run.SourceRegistry
	case a.OutputSchema != nil || a.OutputSchemaName != "":
		o.Source, o.Schema, name, o.Retries = run.SourceBlueprint, a.OutputSchema, a.OutputSchemaName, blueprintRetries
		if a.OutputSchemaOptions != nil {
			opts = append(opts, *a.OutputSchemaOptions)
		}
	case req.OutputSchemaOptions != nil:
		return nil, fault.Newf(fault.Invalid, "output_schema_options say how an output schema is enforced, and there "+
			"is none: give output_schema or output_schema_name, as agent %q has none of its own", a.Name).
			With("field", "output_schema_options")
	default:
		return nil, nil
	}
	if name != "" {
		s, err := p.schema(ctx, name)
		if err != nil && o.Source == run.SourceBlueprint {
			return nil, fault.Of(err).With("agent_name", a.Name)
		} else if err != nil {
			return nil, err
		}
		o.Schema, o.Name = s.Schema, s.Name
	}
	var err error
	o.Schema, err = p.embed(ctx, o.Schema)
	if err == nil {
		_, err = schema.Compile(o.Schema)
	}
	err = agent.InvalidSchema("output_schema", err)
	switch {
	case err != nil && o.Source == run.SourceBlueprint:
		return nil, a.SchemaError(err)
	case err != nil:
		return nil, err
	}
	o.Strict = p.limits.WholeOnly
	for i := len(opts) - 1; i >= 0; i-- { // the first wins, so it is applied last
		if n := opts[i].MaxRetries; n != nil {
			o.Retries = *n
		}
		if strict, said := opts[i].Strict(); said {
			o.Strict = strict
		}
	}
	if a.Type == run.Procedural { // a program is not asked again
		o.Retries = 0
	}
	return o, nil
}

// TooLarge refuses an input that is larger than AO_MAX_PAYLOAD.
func (p *Planner) TooLarge(in *run.Input) error {
	if size := in.Size(); size > p.limits.Payload {
		return fault.Newf(fault.TooLarge, "parameters, agent and output schema are %d bytes, more than the %d that "+
			"are allowed (AO_MAX_PAYLOAD); send less, or a path to a file", size, p.limits.Payload).
			With("field", "parameters").With("limit", p.limits.Payload)
	}
	return nil
}

// Planner checks requests and plans their runs.
type Planner struct {
	limits   Limits
	history  planHistory
	reads    catchUp
	agents   Agents
	runners  Runners
	schema   func(ctx context.Context, name string) (schemas.Schema, error) // by name
	embed    agent.EmbedFunc                                                // the schemas that one refers to
	callback func(url string) error                                         // refuses a URL that must not be called
}
