package preview

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"ao/coordinator/agents"
	"ao/coordinator/insight/explain"
	"ao/shared/agent"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/outputschema"
	"ao/shared/prompt"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/schema"
	"ao/shared/strictjson"
)

// Previewer shows what definitions would do. Every field is required.
type Previewer struct {
	// by default, only an answer that is JSON as a whole counts
	WholeOnly   bool
	NamedSchema func(ctx context.Context, name string) (json.RawMessage, error)  // an output schema of the registry
	Embed       agent.EmbedFunc                                                  // of the registry
	Agent       func(ctx context.Context, name string) (*agents.Resolved, error) // an existing agent
	Runners     func(w runnerapi.RoutingKey, model string) []explain.Candidate   // the closest match first
}

// AgentRequest asks what a run of a definition would get, and which runners would take it.
type AgentRequest struct {
	// as for POST /agents; what the coordinator adds to it is ignored
	Definition json.RawMessage `json:"definition,omitempty"`
	AgentName  string          `json:"agent_name,omitempty"` // an existing agent instead of a definition
	Parameters json.RawMessage `json:"parameters,omitempty"` // default {}
}

// AgentPreview is what a run with these parameters would get.
type AgentPreview struct {
	Valid            bool               `json:"valid"` // the parameters match
	ValidationErrors []schema.Violation `json:"validation_errors"`
	ParametersSchema json.RawMessage    `json:"parameters_schema"` // what they are validated against
	// null: there is none, or the parameters lack it
	Prompt       *string  `json:"prompt"`
	SystemPrompt *string  `json:"system_prompt"` // with the request for output; null: there is none
	Runners      []Runner `json:"runners"`
}

// Runner says whether a runner would take the run now.
type Runner struct {
	explain.Candidate
	Matches bool `json:"matches"`
}

// ignoredMembers are in the answers of the API, but are no part of a definition.
var ignoredMembers = []string{"runner_id", "runners", "created_at", "modified_at", "agent_hash", "origin", "path",
	"editable", "reason", "drafts", "unused_file"}

// Preview returns what a run of a definition would get. It refuses a definition that POST /agents would refuse.
func (p *Previewer) Preview(ctx context.Context, raw []byte) (AgentPreview, error) {
	var req AgentRequest
	if err := strictjson.DecodeFilled(raw, &req); err != nil {
		return AgentPreview{}, err
	}
	k, err := p.resolve(ctx, req)
	if err != nil {
		return AgentPreview{}, err
	}
	refused := func(err error) (AgentPreview, error) {
		if req.AgentName != "" {
			err = k.SchemaError(err)
		}
		return AgentPreview{}, err
	}
	s, err := k.InputSchema(ctx, run.Start, p.Embed)
	if err != nil {
		return refused(err)
	}
	parameters := req.Parameters
	if len(parameters) == 0 || string(parameters) == "null" {
		parameters = json.RawMessage(`{}`)
	}
	if parameters[0] != '{' {
		return AgentPreview{}, fault.New(fault.Invalid, "", "parameters must be a JSON object").
			With("field", "parameters")
	}
	wrong := s.Check(parameters)
	out := AgentPreview{Valid: wrong == nil, ValidationErrors: append([]schema.Violation{}, wrong...),
		ParametersSchema: s.Raw(), Runners: []Runner{}}
	if k.Type == run.Autonomous {
		out.Prompt, err = promptOf(k, parameters)
		if err != nil {
			return AgentPreview{}, err
		}
		out.SystemPrompt, err = p.systemPrompt(ctx, k.Blueprint)
		if err != nil {
			return refused(err)
		}
	}
	for _, c := range p.Runners(k.RoutingKey(k.MergedDemands(run.Demands{})), k.Model) {
		c.Holds = nil
		out.Runners = append(out.Runners, Runner{c, len(c.Mismatches) == 0})
	}
	return out, nil
}

// resolve reads the definition, or finds the agent.
func (p *Previewer) resolve(ctx context.Context, req AgentRequest) (*agents.Resolved, error) {
	given := len(req.Definition) > 0 && string(req.Definition) != "null"
	switch {
	case given && req.AgentName != "":
		return nil, fault.New(fault.Invalid, "", "definition and agent_name exclude each other; send one of them").
			With("field", "agent_name")
	case req.AgentName != "":
		return p.Agent(ctx, req.AgentName)
	case !given:
		return nil, fault.New(fault.Invalid, "", "definition is required: what POST /agents takes").
			With("field", "definition")
	}
	members, err := strictjson.Members(req.Definition)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "definition must be a JSON object").With("field", "definition")
	}
	members = slices.DeleteFunc(members,
		func(m strictjson.Member) bool { return slices.Contains(ignoredMembers, m.Key) })
	b, err := agent.Read(strictjson.Object(members), run.Autonomous)
	return &agents.Resolved{Blueprint: b}, err
}

// promptOf returns the model's prompt; nil where the parameters lack it.
func promptOf(k *agents.Resolved, parameters json.RawMessage) (*string, error) {
	raw, err := k.Snapshot()
	if err != nil {
		return nil, err
	}
	text, err := prompt.Text(raw, executor.Start, parameters)
	switch {
	case fault.KindOf(err) == fault.Invalid && err != nil:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &text, nil
}

// systemPrompt returns the system prompt with the request for output in the agent's schema.
func (p *Previewer) systemPrompt(ctx context.Context, b agent.Blueprint) (*string, error) {
	text, wanted := b.SystemPrompt, b.OutputSchema
	if b.OutputSchemaName != "" {
		named, err := p.NamedSchema(ctx, b.OutputSchemaName)
		if err != nil {
			return nil, err
		}
		wanted = named
	}
	if len(bytes.TrimSpace(wanted)) > 0 {
		wanted, err := p.Embed(ctx, wanted)
		if err != nil {
			return nil, agent.InvalidSchema("output_schema", err)
		}
		text = outputschema.WithFormat(text, wanted)
	}
	if text == "" {
		return nil, nil
	}
	return &text, nil
}
