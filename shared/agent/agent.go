// Package agent defines an agent's blueprint. It reads one strictly from a file or a request, and knows which schema
// applies to a start and a resume.
package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/schema"
	"ao/shared/strictjson"
)

// The statuses of an agent. Broken is for a file that cannot be read; it is never stored.
const (
	Active   = "active"
	Inactive = "inactive"
	Broken   = "broken"
)

// Blueprint is an agent's definition. Schemas are kept exactly as given.
type Blueprint struct {
	Name             string          `json:"name"`
	Description      string          `json:"description" empty:"kept"`
	Type             string          `json:"type"`
	ParametersSchema json.RawMessage `json:"parameters_schema,omitempty"`

	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	// in the registry, instead of OutputSchema
	OutputSchemaName    string             `json:"output_schema_name,omitempty"`
	OutputSchemaOptions *run.OutputOptions `json:"output_schema_options,omitempty"`

	SystemPrompt string          `json:"system_prompt,omitempty" empty:"kept"`
	MCPServers   json.RawMessage `json:"mcp_servers,omitempty"`
	// autonomous: the model, if the profile allows it; none: the profile's
	Model string `json:"model,omitempty"`
	// autonomous: model calls in one run, at most the profile's limit
	MaxTurns        int          `json:"max_turns,omitempty"`
	Tags            []string     `json:"tags,omitempty"`
	Demands         *run.Demands `json:"demands,omitempty"`
	ExecutorProfile string       `json:"executor_profile,omitempty"`
	TimeoutSeconds  int          `json:"timeout_seconds,omitempty"`
	MaxAttempts     int          `json:"max_attempts,omitempty"` // 0: one
	Status          string       `json:"status"`
	Command         string       `json:"command,omitempty"`   // runner-owned procedural agents
	RunnerID        string       `json:"runner_id,omitempty"` // the same: the owner, set by the coordinator
	// the same: number of online runners that have it; never stored
	Runners    *int       `json:"runners,omitempty"`
	CreatedAt  *time.Time `json:"created_at,omitempty"`
	ModifiedAt *time.Time `json:"modified_at,omitempty"`
}

var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$`)

// CheckName checks the name of an agent or a profile.
func CheckName(field, s string) error {
	if name.MatchString(s) {
		return nil
	}
	return fault.Newf(fault.Invalid,
		"%s %.80q: use 1 to 60 letters, digits, '_' or '-', beginning with a letter or digit", field, s).With("field",
		field)
}

// aliases are other names of members.
var aliases = map[string]string{"default_output_schema": "output_schema",
	"default_output_schema_options": "output_schema_options"}

// Read reads a definition strictly and checks it. kind is the type if the definition has none.
func Read(raw []byte, kind string) (Blueprint, error) {
	var b Blueprint
	if err := strictjson.Check(raw); err != nil {
		return b, err
	}
	members, err := strictjson.Members(raw)
	if err != nil {
		return b, fault.New(fault.Invalid, "", "An agent is a JSON object with a name")
	}
	kept := members[:0]
	for _, m := range members { // null means "not given"
		if string(m.Value) != "null" {
			kept = append(kept, m)
		}
	}
	kept, err = CanonicalNames(kept)
	if err != nil {
		return b, err
	}
	if err := strictjson.DecodeFilled(strictjson.Object(kept), &b); err != nil {
		return b, err
	}
	if err := b.checkGiven(kept); err != nil {
		return b, err
	}
	if b.Type == "" {
		b.Type = kind
	}
	if b.Status == "" {
		b.Status = Active
	}
	return b, b.Check()
}

// checkGiven refuses members that the coordinator sets, and a zero that would mean "none".
func (b Blueprint) checkGiven(members []strictjson.Member) error {
	for _, m := range members {
		say := ""
		switch m.Key {
		case "runner_id", "runners", "created_at", "modified_at":
			say = m.Key + " is set by the coordinator; leave it out"
		case "timeout_seconds":
			if b.TimeoutSeconds == 0 {
				say = "timeout_seconds must be from 1 to 2592000; leave it out for none"
			}
		case "max_turns":
			if b.MaxTurns == 0 {
				say = "max_turns must be from 1 to 10000; leave it out for the profile's"
			}
		case "max_attempts":
			if b.MaxAttempts == 0 {
				say = "max_attempts must be from 1 to 100; leave it out for one"
			}
		}
		if say != "" {
			return fault.New(fault.Invalid, "", say).With("field", m.Key)
		}
	}
	return nil
}

// Names returns all names of a member, its own first.
func Names(member string) []string {
	all := []string{member}
	for alias, own := range aliases {
		if own == member {
			all = append(all, alias)
		}
	}
	return all
}

// CanonicalNames gives members their own names. The error is for one that is given under both names with
// different values.
func CanonicalNames(members []strictjson.Member) (kept []strictjson.Member, err error) {
	for _, m := range members {
		own, ok := aliases[m.Key]
		if !ok {
			kept = append(kept, m)
			continue
		}
		i := slices.IndexFunc(members, func(o strictjson.Member) bool { return o.Key == own })
		switch {
		case i < 0:
			kept = append(kept, strictjson.Member{Key: own, Value: m.Value})
		case !EqualJSON(members[i].Value, m.Value):
			return nil, fault.Newf(fault.Invalid,
				"%s and %s differ; they are two names of one member, send one of them", own, m.Key).With("field", m.Key)
		}
	}
	return kept, nil
}

// EqualJSON reports whether two JSON values differ only in the space between their parts.
func EqualJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// Check checks every member of the definition. The error for a bad schema is InvalidSchema.
func (b Blueprint) Check() error {
	if err := CheckName("name", b.Name); err != nil {
		return err
	}
	for _, c := range []struct {
		field string
		bad   bool
		say   string
	}{
		{"type", b.Type != run.Autonomous && b.Type != run.Procedural, "type must be autonomous or procedural"},
		{"status", b.Status != Active && b.Status != Inactive, "status must be active or inactive"},
		{"timeout_seconds", b.TimeoutSeconds < 0 || b.TimeoutSeconds > run.MaxTimeout,
			"timeout_seconds must be from 1 to 2592000"},
		{"max_attempts", b.MaxAttempts < 0 || b.MaxAttempts > run.MaxAttempts, "max_attempts must be from 1 to 100"},
		{"model", b.Model != "" && b.Type == run.Procedural, "model belongs to autonomous agents"},
		{"model", badModel(b.Model), "model must be a model's name: at most 200 bytes, no control characters, no " +
			"space around it, no '-' at its beginning"},
		{"max_turns", b.MaxTurns != 0 && b.Type == run.Procedural, "max_turns belongs to autonomous agents"},
		{"max_turns", b.MaxTurns < 0 || b.MaxTurns > maxTurns, "max_turns must be from 1 to 10000"},
		{"description", len(b.Description) > 64<<10, "description must be at most 64 KiB"},
		{"system_prompt", len(b.SystemPrompt) > 512<<10, "system_prompt must be at most 512 KiB"},
		{"command", b.Type == run.Procedural && b.Command == "",
			"a procedural agent needs command: the program it runs"},
		{"command", b.Type == run.Autonomous && b.Command != "",
			"command belongs to procedural agents; an autonomous one is run by its executor profile"},
		{"command", strings.ContainsRune(b.Command, 0), "command must not hold a NUL"},
		{"mcp_servers", len(b.MCPServers) > 0 && b.MCPServers[0] != '{',
			"mcp_servers must be an object, one member per server"},
	} {
		if c.bad {
			return fault.New(fault.Invalid, "", c.say).With("field", c.field)
		}
	}
	if b.ExecutorProfile != "" {
		if err := CheckName("executor_profile", b.ExecutorProfile); err != nil {
			return err
		}
	}
	if b.ParametersSchema != nil {
		if _, err := schema.NamedRefs(b.ParametersSchema); err != nil {
			return InvalidSchema("parameters_schema", err)
		}
	}
	return b.checkOutput()
}

func (b Blueprint) checkOutput() error {
	if b.OutputSchema != nil {
		if _, err := schema.NamedRefs(b.OutputSchema); err != nil {
			return InvalidSchema("output_schema", err)
		}
	}
	if b.OutputSchemaName != "" {
		if err := CheckName("output_schema_name", b.OutputSchemaName); err != nil {
			return err
		}
		if b.OutputSchema != nil {
			return fault.New(fault.Invalid, "",
				"output_schema and output_schema_name exclude each other; keep one of them").With("field",
				"output_schema_name")
		}
	}
	if b.OutputSchemaOptions == nil {
		return nil
	}
	if b.OutputSchema == nil && b.OutputSchemaName == "" {
		return fault.New(fault.Invalid, "", "output_schema_options say how an output schema is enforced, and there is "+
			"none; give output_schema or output_schema_name, or leave them out").With("field", "output_schema_options")
	}
	return b.OutputSchemaOptions.Check()
}

// InvalidSchema is the fault for a schema that cannot be used. Errors about anything else are returned as they are.
func InvalidSchema(field string, err error) error {
	if _, ok := errors.AsType[*schema.Error](err); !ok {
		return err
	}
	return fault.New(fault.Invalid, "InvalidSchema", field+" is not a valid JSON Schema").With("details",
		err.Error()).With("field", field).First(err.Error())
}

// EmbedFunc puts the named schemas into a schema that refers to them.
type EmbedFunc func(ctx context.Context, raw json.RawMessage) (json.RawMessage, error)

// InputSchema returns the schema for the parameters of a run of this type, with the named schemas that it refers to.
// The error is InvalidSchema, or embed's own. embed may be nil where it refers to none.
func (b Blueprint) InputSchema(ctx context.Context, runType string, embed EmbedFunc) (*schema.Schema, error) {
	switch {
	case b.Type == run.Autonomous && (runType == run.Resume || b.ParametersSchema == nil):
		return schema.Implicit(), nil
	case b.ParametersSchema == nil:
		return schema.Object(), nil
	}
	raw, err := b.ParametersSchema, error(nil)
	if embed != nil {
		raw, err = embed(ctx, raw)
	}
	if err != nil {
		return nil, InvalidSchema("parameters_schema", err)
	}
	s, err := schema.Compile(raw)
	if err != nil {
		return nil, InvalidSchema("parameters_schema", err)
	}
	return s, nil
}

// SchemaNames returns the named schemas that the definition names or refers to.
func (b Blueprint) SchemaNames() []string {
	var all []string
	if b.OutputSchemaName != "" {
		all = append(all, b.OutputSchemaName)
	}
	for _, raw := range []json.RawMessage{b.OutputSchema, b.ParametersSchema} {
		all = append(all, schema.Names(raw)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Hash identifies a definition: runners that announce the same one share the agent. Owner and times do not count.
func (b Blueprint) Hash() string {
	b.RunnerID, b.Runners, b.CreatedAt, b.ModifiedAt = "", nil, nil, nil
	raw, err := json.Marshal(b)
	if err != nil { // every member was read from JSON
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// HashOf returns the Hash of a definition as runs carry it; empty: it is unreadable.
func HashOf(definition json.RawMessage) string {
	var b Blueprint
	if json.Unmarshal(definition, &b) != nil || b.Name == "" {
		return ""
	}
	return b.Hash()
}

var hash = regexp.MustCompile(`^[0-9a-f]{16}$`)

// CheckHash checks a Hash.
func CheckHash(s string) error {
	if hash.MatchString(s) {
		return nil
	}
	return fault.Newf(fault.Invalid, "agent_hash %.40q: use the 16 hexadecimal digits that GET /agents/{name} or "+
		"GET /runs/{id} shows", s).With("field", "agent_hash")
}
