package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/strictjson"
	"ao/worker/launch"
	"ao/worker/llm/anthropic"
	"ao/worker/llm/chat"
	"ao/worker/llm/endpoint"
	"ao/worker/llm/openai"
	"ao/worker/process"
)

// settings are the profile's config (table in shared/docs/llm.md). Zero values mean the default.
type settings struct {
	Provider    string            `json:"provider"`
	BaseURL     string            `json:"base_url"`
	Model       string            `json:"model"`
	KeyEnv      *string           `json:"api_key_env"` // "": no key
	MaxTokens   int               `json:"max_tokens"`
	Temperature *float64          `json:"temperature"`
	MaxTurns    int               `json:"max_turns"`
	MaxRetries  *int              `json:"max_retries"`
	Headers     map[string]string `json:"headers"`
	Idle        float64           `json:"idle_timeout_seconds"`
	ToolTimeout float64           `json:"tool_timeout_seconds"`
	Connect     float64           `json:"mcp_connect_timeout_seconds"`
	MaxOutput   int               `json:"max_tool_output_bytes"`
	MaxHistory  int               `json:"max_history_bytes"`

	key string // the credential itself; nothing prints it
}

// blueprint is the part of an agent's definition that is used.
type blueprint struct {
	Model        string          `json:"model"`
	MaxTurns     int             `json:"max_turns"`
	SystemPrompt string          `json:"system_prompt"`
	MCPServers   json.RawMessage `json:"mcp_servers"`
}

const (
	openAI = "openai"
	claude = "anthropic"
)

var (
	variable   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// credentials are headers that a settings file must not contain.
var credentials = []string{"Authorization", "X-Api-Key", "Api-Key", "Cookie", "Proxy-Authorization"}

// readSettings decodes the profile's config and the agent's blueprint. lookup is os.LookupEnv, for the key.
func readSettings(inv executor.Invocation, lookup func(string) (string, bool)) (s settings, b blueprint, err error) {
	if len(inv.Config) > 0 && string(inv.Config) != "null" {
		if err := strictjson.Decode(inv.Config, &s); err != nil {
			return s, b, configError("%s", fault.Of(err).Message)
		}
	}
	if len(inv.Blueprint) > 0 && string(inv.Blueprint) != "null" {
		if err := json.Unmarshal(inv.Blueprint, &b); err != nil {
			return s, b, fault.Newf(fault.Invalid, "the agent's blueprint is unreadable: %v", err)
		}
	}
	s.Model = cmp.Or(b.Model, s.Model)
	if b.MaxTurns > 0 && (s.MaxTurns == 0 || b.MaxTurns < s.MaxTurns) { // the profile's limit is the maximum
		s.MaxTurns = b.MaxTurns
	}
	if s.Provider == "" && s.BaseURL == "" {
		return s, b, configError(`provider is required: "openai" for endpoints that speak Chat Completions (such as ` +
			`Ollama and vLLM), or "anthropic"`)
	}
	s.Provider = cmp.Or(s.Provider, openAI)
	if err := s.check(); err != nil {
		return s, b, err
	}
	s.MaxTurns = cmp.Or(s.MaxTurns, 50)
	s.Idle = cmp.Or(s.Idle, 300)
	s.ToolTimeout = cmp.Or(s.ToolTimeout, 600)
	s.Connect = cmp.Or(s.Connect, 30)
	s.MaxOutput = cmp.Or(s.MaxOutput, 64<<10)
	s.MaxHistory = cmp.Or(s.MaxHistory, 4<<20)
	if s.MaxRetries == nil {
		s.MaxRetries = new(8)
	}
	name := launch.KeyVariables[s.Provider]
	if s.KeyEnv != nil {
		name = *s.KeyEnv
	}
	s.KeyEnv = &name
	if name != "" {
		s.key, _ = lookup(name)
		s.key = strings.TrimSpace(s.key)
	}
	if strings.ContainsFunc(s.key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return s, b, configError("the variable %s does not contain a key: it has characters that a header cannot have",
			name)
	}
	return s, b, nil
}

func configError(format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, codeConfig, "the profile's config: "+fmt.Sprintf(format, args...))
}

func (s settings) check() error {
	for _, c := range []struct {
		bad bool
		say string
	}{
		{s.Provider != openAI && s.Provider != claude,
			fmt.Sprintf(`provider must be "openai" or "anthropic", not %.40q`, s.Provider)},
		{s.Model == "", "model is required, here or as the agent's model"},
		{s.KeyEnv != nil && *s.KeyEnv != "" && !variable.MatchString(*s.KeyEnv),
			"api_key_env must be the name of an environment variable of the worker; the key itself must not be in a " +
				"file"},
		{s.MaxTokens < 0, "max_tokens must be a positive number"},
		{s.Temperature != nil && (*s.Temperature < 0 || *s.Temperature > 2), "temperature must be from 0 to 2"},
		{s.MaxTurns < 0 || s.MaxTurns > 10_000, "max_turns must be from 1 to 10000"},
		{s.MaxRetries != nil && (*s.MaxRetries < 0 || *s.MaxRetries > 1000), "max_retries must be from 0 to 1000"},
		{s.Idle < 0 || s.Idle > 86400, "idle_timeout_seconds must be at most 86400"},
		{s.ToolTimeout < 0 || s.ToolTimeout > 7*86400, "tool_timeout_seconds must be at most 604800"},
		{s.Connect < 0 || s.Connect > 3600, "mcp_connect_timeout_seconds must be at most 3600"},
		{s.MaxOutput < 0 || s.MaxOutput > 0 && s.MaxOutput < 256 || s.MaxOutput > 1<<20,
			"max_tool_output_bytes must be from 256 to 1048576"},
		{s.MaxHistory < 0 || s.MaxHistory > 0 && s.MaxHistory < 1024 || s.MaxHistory > maxHistory,
			fmt.Sprintf("max_history_bytes must be from 1024 to %d", maxHistory)},
	} {
		if c.bad {
			return configError("%s", c.say)
		}
	}
	if err := s.checkURL(); err != nil {
		return err
	}
	return s.checkHeaders()
}

func (s settings) checkURL() error {
	if s.BaseURL == "" {
		return nil
	}
	switch u, err := url.Parse(s.BaseURL); {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return configError("base_url must be an http or https address")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return configError("base_url must not contain a user, query or fragment; a key goes into the variable that " +
			"api_key_env names")
	}
	return nil
}

func (s settings) checkHeaders() error {
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		switch {
		case slices.Contains(credentials, http.CanonicalHeaderKey(name)):
			return configError("headers must not contain %s; a key goes into the variable that api_key_env names", name)
		case !headerName.MatchString(name) || strings.ContainsAny(s.Headers[name], "\r\n\x00"):
			return configError("headers: %.60q cannot be sent", name)
		}
	}
	return nil
}

// address returns the endpoint's URL; it contains no secret.
func (s settings) address() string {
	if s.Provider == claude {
		return cmp.Or(s.BaseURL, anthropic.BaseURL)
	}
	return cmp.Or(s.BaseURL, openai.BaseURL)
}

// newModel returns the model and a function that closes its connections.
func (s settings) newModel() (chat.Model, func()) {
	client := endpoint.NewClient(seconds(s.Idle))
	if s.Provider == claude {
		return anthropic.New(anthropic.Config{BaseURL: s.BaseURL, Key: s.key, Headers: s.Headers, Client: client}),
			client.Close
	}
	return openai.New(openai.Config{BaseURL: s.BaseURL, Key: s.key, Headers: s.Headers, Client: client}), client.Close
}

func (s settings) redact(text string) string {
	if len(s.key) < 4 {
		return text
	}
	return strings.ReplaceAll(text, s.key, "[key]")
}

// environment returns the environment of MCP servers. It lacks the key, whatever the profile allows, and this program's
// own variables. It also lacks this program's mark: each server gets its own.
func (s settings) environment(env, own []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == process.MarkEnv || name == *s.KeyEnv || slices.Contains(own, name)
	})
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
