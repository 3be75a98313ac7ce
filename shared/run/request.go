package run

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"ao/shared/fault"
	"ao/shared/strictjson"
)

// Request is the body of POST /runs.
type Request struct {
	Type              string          `json:"type,omitempty"`
	AgentName         string          `json:"agent_name,omitempty"`
	SessionID         string          `json:"session_id,omitempty"`
	Parameters        json.RawMessage `json:"parameters"`
	Prompt            *string         `json:"prompt"`
	Mode              string          `json:"mode,omitempty"`
	ExecutionMode     string          `json:"execution_mode,omitempty"`
	ParentSessionID   string          `json:"parent_session_id,omitempty"`
	ProjectDir        string          `json:"project_dir,omitempty"`
	AdditionalDemands Demands         `json:"additional_demands"`
	TimeoutSeconds    *int            `json:"timeout_seconds"`
	WaitSeconds       *int            `json:"wait_seconds"`
	MaxAttempts       *int            `json:"max_attempts"`
	CallbackURL       string          `json:"callback_url,omitempty"`

	OutputSchema        json.RawMessage `json:"output_schema"` // takes precedence over the name
	OutputSchemaName    string          `json:"output_schema_name,omitempty"`
	OutputSchemaOptions *OutputOptions  `json:"output_schema_options"`
}

// MaxAttempts is the largest number of attempts that can be requested.
const MaxAttempts = 100

// NoAttempt is a number that no attempt has, so no worker knows its key. An end record under that key ends a run whose
// attempt has a record that NATS cannot read in its place (decision 0045).
const NoAttempt = 0

// MaxTimeout is the longest execution timeout that can be requested, in seconds (30 days).
const MaxTimeout = 30 * 24 * 3600

// ReadRequest reads a body strictly and normalizes it: Type, Mode and Parameters are always set, short forms
// are replaced.
func ReadRequest(raw []byte) (*Request, error) {
	r := &Request{}
	if err := strictjson.DecodeFilled(raw, r); err != nil {
		return r, explain(raw, err)
	}
	return r, r.normalize()
}

// explain adds an example of a request to Decode's error.
func explain(raw []byte, err error) error {
	if _, scan := strictjson.Members(raw); scan != nil && strictjson.Check(raw) == nil {
		return fault.New(fault.Invalid, "",
			`The body must be a JSON object such as {"agent_name":"…","parameters":{…}}`)
	}
	return err
}

func (r *Request) normalize() error {
	if r.Type == "" {
		r.Type = Start
		if r.SessionID != "" && r.AgentName == "" {
			r.Type = Resume
		}
	}
	if r.ExecutionMode != "" {
		if r.Mode != "" && r.Mode != r.ExecutionMode {
			return invalid("execution_mode", "mode and execution_mode differ; send one of them")
		}
		r.Mode, r.ExecutionMode = r.ExecutionMode, ""
	}
	if r.Mode == "" {
		r.Mode = AsyncPoll
	}
	if err := r.check(); err != nil {
		return err
	}
	if string(r.OutputSchema) == "null" {
		r.OutputSchema = nil
	}
	return r.replacePrompt()
}

// check checks a request whose defaults are set.
func (r *Request) check() error {
	for _, check := range []struct {
		field string
		bad   bool
		say   string
	}{
		{"type", r.Type != Start && r.Type != Resume, "type must be start_session or resume_session"},
		{"mode", r.Mode != Sync && r.Mode != AsyncPoll &&
			r.Mode != AsyncCallback, "mode must be sync, async_poll or async_callback"},
		{"session_id", r.Type == Resume &&
			r.SessionID == "", "resume_session needs session_id: which session continues?"},
		{"agent_name", r.Type == Start &&
			r.AgentName == "", "agent_name is required to start a session; GET /agents lists them"},
		{"timeout_seconds", r.TimeoutSeconds != nil &&
			(*r.TimeoutSeconds < 1 || *r.TimeoutSeconds > MaxTimeout), "timeout_seconds must be from 1 to 2592000"},
		{"wait_seconds", r.WaitSeconds != nil &&
			(*r.WaitSeconds < 0 || *r.WaitSeconds > 3600), "wait_seconds must be from 0 to 3600"},
		{"wait_seconds", r.WaitSeconds != nil && r.Mode != Sync, "wait_seconds goes with mode sync only"},
		{"max_attempts", r.MaxAttempts != nil &&
			(*r.MaxAttempts < 1 || *r.MaxAttempts > MaxAttempts), "max_attempts must be from 1 to 100"},
		{"project_dir", relative(r.ProjectDir),
			"project_dir must be an absolute path: that of the runners that may take the run"},
		{"additional_demands.project_dir", relative(r.AdditionalDemands.ProjectDir),
			"additional_demands.project_dir must be an absolute path: that of the runners that may take the run"},
		{"project_dir", malformed(r.ProjectDir, 4096),
			"project_dir must be at most 4096 characters, without control characters"},
	} {
		if check.bad {
			return invalid(check.field, check.say)
		}
	}
	if r.SessionID != "" {
		if err := CheckSessionID(r.SessionID); err != nil {
			return err
		}
	}
	if r.ParentSessionID != "" {
		if err := CheckSessionID(r.ParentSessionID); err != nil {
			return invalid("parent_session_id", strings.Replace(err.Error(), "session_id", "parent_session_id", 1))
		}
	}
	if err := r.AdditionalDemands.check(); err != nil {
		return err
	}
	if r.OutputSchemaOptions != nil {
		return r.OutputSchemaOptions.CheckSent()
	}
	return nil
}

// replacePrompt replaces the short form "prompt" by parameters.
func (r *Request) replacePrompt() error {
	if string(r.Parameters) == "null" {
		r.Parameters = nil
	}
	if r.Prompt != nil {
		p, err := strictjson.Encode(*r.Prompt)
		if err != nil {
			return err
		}
		short := append(append([]byte(`{"prompt":`), p...), '}')
		if r.Parameters != nil && !equalPrompt(r.Parameters, *r.Prompt) {
			return invalid("prompt", "prompt and parameters differ; prompt is short for parameters "+
				"{\"prompt\":…}, send one of them")
		}
		r.Parameters, r.Prompt = short, nil
	}
	if r.Parameters == nil {
		r.Parameters = json.RawMessage(`{}`)
	}
	if b := bytes.TrimSpace(r.Parameters); b[0] != '{' {
		return invalid("parameters", "parameters must be a JSON object")
	}
	return nil
}

func equalPrompt(params json.RawMessage, prompt string) bool {
	members, err := strictjson.Members(params)
	if err != nil || len(members) != 1 || members[0].Key != "prompt" {
		return false
	}
	var p *string
	return json.Unmarshal(members[0].Value, &p) == nil && p != nil && *p == prompt
}

func (d Demands) check() error {
	values := []struct{ name, v string }{
		{"hostname", d.Hostname}, {"project_dir", d.ProjectDir}, {"executor_profile", d.ExecutorProfile},
		{"executor_type", d.ExecutorType},
	}
	for _, t := range d.Tags {
		values = append(values, struct{ name, v string }{"tags", t})
		if t == "" {
			return invalid("additional_demands.tags", "additional_demands.tags: a tag is not empty")
		}
	}
	if len(d.Tags) > 32 {
		return invalid("additional_demands.tags", "additional_demands.tags: at most 32 tags")
	}
	for _, v := range values {
		if malformed(v.v, 1024) {
			return invalid("additional_demands."+v.name,
				"additional_demands."+v.name+" must be at most 1024 characters, without control characters")
		}
	}
	if !slices.Contains([]string{"", Autonomous, Procedural}, d.ExecutorType) {
		return invalid("additional_demands.executor_type",
			"additional_demands.executor_type must be autonomous or procedural")
	}
	return nil
}

func relative(dir string) bool { return dir != "" && !filepath.IsAbs(dir) }

func malformed(s string, most int) bool {
	return len(s) > most || strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}

func invalid(field, say string) error {
	return fault.New(fault.Invalid, "", say).With("field", field)
}
