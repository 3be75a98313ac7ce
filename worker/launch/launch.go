// Package launch starts ao-llm-exec, an executor that is a program of its own and still part of the worker. It gets
// what no program of a run gets: the model's key, the worker's proxies, and how the programs that it starts are
// confined. The worker starts it sealed (process.Seal), so nobody else reads that in its environment.
package launch

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"ao/shared/strictjson"
	"ao/worker/process"
)

// env is the variable that carries a Grant.
const env = "AGENT_ORCHESTRATOR_GRANT"

// Grant is what the program gets besides a run's environment.
type Grant struct {
	Variables map[string]string `json:"variables"` // of the worker, for the program alone
	Limits    process.Limits    `json:"limits"`    // of the programs that it starts
	Sandbox   *process.Sandbox  `json:"sandbox,omitempty"`
	Secrets   []string          `json:"secrets"` // files that their sandbox hides
	Hide      []string          `json:"hide"`    // files and folders that they cannot read (process.Hide)
}

// network are the variables of the worker that programs use to reach their model.
var network = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR"}

// New returns the grant for a profile's config. box confines the programs that ao-llm-exec starts.
func New(config json.RawMessage, box *process.Confinement, lookup func(string) (string, bool)) Grant {
	g := Grant{Variables: map[string]string{}, Limits: box.Limits, Secrets: box.SecretFiles,
		Hide: process.HiddenPaths()}
	if box.Sandbox.Kind != "" {
		g.Sandbox = &box.Sandbox
	}
	for _, name := range append(slices.Clone(network), keyVariable(config)) {
		if value, ok := lookup(name); ok && name != "" {
			g.Variables[name] = value
		}
	}
	return g
}

// KeyVariables are the default variables of a provider's key.
var KeyVariables = map[string]string{"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}

// keyVariable returns the name of the variable that holds the model's key. ao-llm-exec refuses an invalid config.
func keyVariable(config json.RawMessage) string {
	var c struct {
		Provider string  `json:"provider"`
		KeyEnv   *string `json:"api_key_env"`
	}
	_ = json.Unmarshal(config, &c)
	switch {
	case c.KeyEnv != nil:
		return *c.KeyEnv
	case c.Provider == "":
		return KeyVariables["openai"]
	}
	return KeyVariables[c.Provider]
}

// Env returns a program's environment with the grant. A variable that the run's programs have anyway is not granted.
func (g Grant) Env(base []string) ([]string, error) {
	own := map[string]string{}
	for name, value := range g.Variables {
		if !slices.ContainsFunc(base, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			own[name] = value
		}
	}
	g.Variables = own
	raw, err := strictjson.Encode(g)
	return append(slices.Clip(base), env+"="+string(raw)), err
}

// Accept applies the grant in the program: it sets the variables, and hides files from what the program starts. It
// returns the confinement of that, and the names of the variables, which that must not get. Without a grant both are
// nil: somebody else started the program.
func Accept() (box *process.Confinement, own []string, err error) {
	raw, ok := os.LookupEnv(env)
	if !ok {
		return nil, nil, nil
	}
	var g Grant
	if err := json.Unmarshal([]byte(raw), &g); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", env, err)
	}
	os.Unsetenv(env)
	for name, value := range g.Variables {
		os.Setenv(name, value)
		own = append(own, name)
	}
	box = &process.Confinement{Limits: g.Limits, SecretFiles: g.Secrets}
	if g.Sandbox != nil {
		box.Sandbox = *g.Sandbox
	}
	return box, own, process.Hide(g.Hide)
}
