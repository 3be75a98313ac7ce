package claudecode

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/strictjson"
)

// Modes of the blueprint's system prompt: appended to claude's own, or replacing it.
const (
	appendPrompt  = "append"
	replacePrompt = "replace"
)

// config is the profile's config, with the model and turn limit of the blueprint. A blueprint cannot set anything
// else: who may write agents must not loosen what a host permits.
type config struct {
	Claude         string   `json:"claude"`          // program on PATH or absolute path; default claude
	Model          string   `json:"model"`           // alias or full name; default claude's
	FallbackModel  string   `json:"fallback_model"`  // comma-separated; used while the model is overloaded
	PermissionMode string   `json:"permission_mode"` // default claude's: refuse what its settings do not allow
	MaxTurns       int      `json:"max_turns"`       // 0: no limit
	MaxRetries     *int     `json:"max_retries"`     // per API request, 0 to 15; default claude's (10)
	Tools          []string `json:"tools"`           // available built-in tools; default all, [] none
	// rules of what needs no permission: Read, Bash(git log *), mcp__name
	AllowedTools    []string `json:"allowed_tools"`
	DisallowedTools []string `json:"disallowed_tools"` // rules of what is always refused
	// allow the tools of the blueprint's MCP servers; default true
	AllowMCPTools    *bool    `json:"allow_mcp_tools"`
	SettingSources   []string `json:"setting_sources"`    // user, project, local; default all, [] none
	AddDirs          []string `json:"add_dirs"`           // more folders that tools may use
	SystemPromptMode string   `json:"system_prompt_mode"` // append (default) or replace

	system  string          // the blueprint's system prompt
	servers json.RawMessage // the blueprint's MCP servers, {} or more; nil: none
	names   []string        // names of the servers
}

var (
	permissionModes = []string{"default", "acceptEdits", "auto", "bypassPermissions", "dontAsk", "plan"}
	sources         = []string{"user", "project", "local"}
	serverName      = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	sessionID       = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
)

// readConfig decodes and checks a turn's config; the error names the field.
func readConfig(inv executor.Invocation) (config, error) {
	var c config
	if len(inv.Config) > 0 && string(inv.Config) != "null" {
		if err := strictjson.Decode(inv.Config, &c); err != nil {
			f := fault.Of(err)
			f.Message = "executor_config: " + f.Message
			return c, f
		}
	}
	c.Claude, c.SystemPromptMode = cmp.Or(c.Claude, "claude"), cmp.Or(c.SystemPromptMode, appendPrompt)
	if err := c.check(); err != nil {
		return c, err
	}
	if inv.Mode == executor.Resume && !sessionID.MatchString(inv.ExecutorSession) {
		if inv.ExecutorSession == "" {
			return c, sessionNotFound("its earlier turns bound no session")
		}
		return c, fault.Newf(fault.Invalid, "executor_session_id %.80q is not the id of a Claude Code session",
			inv.ExecutorSession).With("field", "executor_session_id")
	}
	return c, c.blueprint(inv.Blueprint)
}

func invalid(field, format string, args ...any) error {
	field = "executor_config." + field
	return fault.Newf(fault.Invalid, "%s %s", field, fmt.Sprintf(format, args...)).With("field", field)
}

// checkArgument checks a command line value. of: the valid values; nil: any.
func checkArgument(field, s string, of []string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return invalid(field, "must not be empty")
	case strings.HasPrefix(strings.TrimSpace(s), "-"):
		return invalid(field, "%.80q must not begin with '-': it could be taken for an option of claude", s)
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return invalid(field, "%.80q must not contain control characters", s)
	case len(s) > 4096:
		return invalid(field, "must be at most 4096 bytes")
	case of != nil && !slices.Contains(of, s):
		return invalid(field, "%.80q must be one of %s", s, strings.Join(of, ", "))
	}
	return nil
}

func (c config) check() error {
	for _, v := range []struct {
		field    string
		list, of []string // of: legal values; nil: any
	}{
		{"claude", []string{c.Claude}, nil},
		{"model", []string{c.Model}, nil},
		{"fallback_model", []string{c.FallbackModel}, nil},
		{"permission_mode", []string{c.PermissionMode}, permissionModes},
		{"system_prompt_mode", []string{c.SystemPromptMode}, []string{appendPrompt, replacePrompt}},
		{"tools[]", c.Tools, nil},
		{"allowed_tools[]", c.AllowedTools, nil},
		{"disallowed_tools[]", c.DisallowedTools, nil},
		{"setting_sources[]", c.SettingSources, sources},
		{"add_dirs[]", c.AddDirs, nil},
	} {
		for i, s := range v.list {
			field, isItem := strings.CutSuffix(v.field, "[]")
			if isItem {
				field = fmt.Sprintf("%s[%d]", field, i)
			}
			if s == "" && !isItem {
				continue
			}
			if err := checkArgument(field, s, v.of); err != nil {
				return err
			}
		}
	}
	switch {
	case strings.Contains(c.Claude, "/") && !strings.HasPrefix(c.Claude, "/"):
		return invalid("claude", "%.200q must be the name of a program on PATH or an absolute path", c.Claude)
	case c.MaxTurns < 0:
		return invalid("max_turns", "must be at least 1; omit it for no limit")
	case c.MaxRetries != nil && (*c.MaxRetries < 0 || *c.MaxRetries > 15):
		return invalid("max_retries", "must be from 0 to 15")
	}
	return nil
}

// blueprint applies the agent's system prompt, MCP servers, model, and turn limit if that is lower than the
// profile's. The model was checked against the profile before.
func (c *config) blueprint(raw json.RawMessage) error {
	var b struct {
		SystemPrompt string          `json:"system_prompt"`
		MCPServers   json.RawMessage `json:"mcp_servers"`
		Model        string          `json:"model"`
		MaxTurns     int             `json:"max_turns"`
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &b); err != nil {
			return fault.Wrap(fault.Invalid,
				"", "agent_blueprint is invalid: system_prompt and model must be strings, max_turns a number", err).
				With("field", "agent_blueprint")
		}
	}
	c.system = b.SystemPrompt
	if strings.HasPrefix(b.Model, "-") || strings.ContainsFunc(b.Model, func(r rune) bool {
		return r < ' ' || r == 0x7f
	}) {
		return fault.Newf(fault.Invalid, "agent_blueprint.model %.80q is not the name of a model", b.Model).
			With("field", "agent_blueprint.model")
	}
	c.Model = cmp.Or(b.Model, c.Model)
	if b.MaxTurns > 0 && (c.MaxTurns == 0 || b.MaxTurns < c.MaxTurns) {
		c.MaxTurns = b.MaxTurns
	}
	if len(b.MCPServers) == 0 || string(b.MCPServers) == "null" {
		return nil
	}
	all, err := strictjson.Members(b.MCPServers)
	if err != nil {
		return fault.New(fault.Invalid, "", "mcp_servers must be an object, one member per server").
			With("field", "mcp_servers")
	}
	for i, m := range all {
		all[i].Value, err = checkServer(m)
		if err != nil {
			return err
		}
		c.names = append(c.names, m.Key)
	}
	if len(all) > 0 {
		c.servers = strictjson.Object(all)
	}
	return nil
}

// checkServer checks an MCP server and returns its definition with a type: stdio if it has a command, http if it has
// a url.
func checkServer(m strictjson.Member) (json.RawMessage, error) {
	field := "mcp_servers." + m.Key
	refuse := func(say string) error { return fault.Newf(fault.Invalid, "%.100s %s", field, say).With("field", field) }
	if !serverName.MatchString(m.Key) {
		return nil, refuse("must have a name of 1 to 64 letters, digits, '_' or '-'")
	}
	var s struct {
		Type    string            `json:"type"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Env     map[string]string `json:"env"`
	}
	if err := json.Unmarshal(m.Value, &s); err != nil {
		return nil,
			refuse(`must be an object like {"url":"http://127.0.0.1:9000/mcp","headers":{}} or {"command":"program",` +
				`"args":[],"env":{}}`)
	}
	kind := s.Type
	if kind == "" {
		kind = "stdio"
		if s.URL != "" {
			kind = "http"
		}
	}
	switch {
	case !slices.Contains([]string{"http", "sse", "stdio"}, kind):
		return nil, refuse(fmt.Sprintf("has the type %.40q; it must be http, sse or stdio", kind))
	case kind == "stdio" && s.Command == "":
		return nil, refuse("needs a command (stdio) or a url (http, sse)")
	case kind != "stdio" && s.URL == "":
		return nil, refuse("needs a url")
	case s.URL != "" && s.Command != "":
		return nil, refuse("has both a url and a command; use one")
	}
	if s.Type != "" {
		return m.Value, nil
	}
	members, err := strictjson.Members(m.Value)
	if err != nil {
		return nil, refuse("must be an object")
	}
	name, _ := strictjson.Encode(kind)
	members = slices.DeleteFunc(members, func(m strictjson.Member) bool { return m.Key == "type" })
	return strictjson.Object(append([]strictjson.Member{{Key: "type", Value: name}}, members...)), nil
}

// args returns claude's arguments. Each value is part of the argument that names its option.
func (c config) args(inv executor.Invocation) []string {
	args := []string{"--print", "--input-format=stream-json", "--output-format=stream-json", "--verbose",
		"--strict-mcp-config"}
	set := func(flag, value string) {
		if value != "" {
			args = append(args, flag+"="+value)
		}
	}
	if inv.Mode == executor.Resume {
		set("--resume", inv.ExecutorSession)
	}
	set("--model", c.Model)
	set("--fallback-model", c.FallbackModel)
	set("--permission-mode", c.PermissionMode)
	if c.MaxTurns > 0 {
		set("--max-turns", fmt.Sprint(c.MaxTurns))
	}
	list := func(flag string, values []string) { // an empty list means none, not all
		if values != nil {
			args = append(args, flag+"="+strings.Join(values, ","))
		}
	}
	list("--tools", c.Tools)
	for _, rule := range c.AllowedTools {
		set("--allowed-tools", rule)
	}
	if c.AllowMCPTools == nil || *c.AllowMCPTools {
		for _, name := range c.names {
			set("--allowed-tools", "mcp__"+name)
		}
	}
	for _, rule := range c.DisallowedTools {
		set("--disallowed-tools", rule)
	}
	list("--setting-sources", c.SettingSources)
	for _, dir := range c.AddDirs {
		set("--add-dir", dir)
	}
	return args
}

// environment returns variables for claude that the run's environment may override.
func (c config) environment() []string {
	env := []string{"DISABLE_AUTOUPDATER=1"}
	if len(c.names) > 0 { // wait for the servers, otherwise the model would not know their tools
		env = append(env, "MCP_CONNECTION_NONBLOCKING=0", "MCP_CONNECT_TIMEOUT_MS=30000")
	}
	if c.MaxRetries != nil {
		env = append(env, fmt.Sprintf("CLAUDE_CODE_MAX_RETRIES=%d", *c.MaxRetries))
	}
	return env
}

func sessionNotFound(why string) *fault.Fault {
	return fault.New(fault.Internal, codeSessionGone,
		"Claude Code does not have this session's conversation on this host: "+why+
			". Resume the session on the host, in the working directory and with the Claude folder (HOME, "+
			"CLAUDE_CONFIG_DIR) it started in, or start a new session")
}
