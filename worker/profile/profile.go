// Package profile is the named configurations of executors that a worker can run, read from files, and the procedural
// agents that come with them.
package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ao/shared/agent"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/worker/process"
)

// proceduralExec is the command of the built-in executor of procedural agents; it runs inside the worker.
const proceduralExec = "ao-procedural-exec"

// maxSlots is the most runs that a profile may allow at once.
const maxSlots = 10_000

// maxIdle is the longest that a process may wait for its next turn, in seconds: a week.
const maxIdle = 7 * 24 * 3600

// Profile is a named configuration of an executor, as its file <name>.json gives it.
type Profile struct {
	Name              string          `json:"-"` // the file's name without .json
	Path              string          `json:"-"` // the file
	Type              string          `json:"type"`
	Command           string          `json:"command"`
	AgentsDir         string          `json:"agents_dir"` // procedural: where its agents lie; relative to the file, absolute once read
	Config            json.RawMessage `json:"config"`
	Lifecycle         string          `json:"lifecycle"`           // oneshot, which is the default; persistent: a process stays for its session's turns
	IdleSeconds       int             `json:"idle_seconds"`        // persistent: how long a process waits for its next turn; 0: 600
	MaxSessions       int             `json:"max_sessions"`        // persistent: processes alive at once; 0: 8 for each run at once
	Env               []string        `json:"env"`                 // names of variables of the worker's that executors may see
	MaxConcurrentRuns int             `json:"max_concurrent_runs"` // 0: the worker's default
	TimeoutSeconds    int             `json:"timeout_seconds"`     // upper bound of a run's time; 0: none of its own
	ResumeAnywhere    bool            `json:"resume_anywhere"`     // autonomous: what its program binds can go on on every host
	Models            agent.Models    `json:"models"`              // autonomous: models that agents may name; nil: any
	SystemPrompts     bool            `json:"system_prompts"`      // autonomous: its program gives the blueprint's system_prompt to its model
	Limits            process.Limits  `json:"limits"`              // of each process that it starts
	Sandbox           process.Sandbox `json:"sandbox"`             // what its programs see of the machine
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Read reads the profile of a name from the folder of profiles. The error names the file and the field.
func Read(dir, name string) (Profile, error) {
	if err := agent.CheckName("profile", name); err != nil {
		return Profile{}, err
	}
	path, err := filepath.Abs(filepath.Join(dir, name+".json"))
	if err != nil {
		return Profile{}, err
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Profile{}, fmt.Errorf("profile %q: there is no file %s%s", name, path, others(dir))
	}
	if err != nil {
		return Profile{}, fmt.Errorf("profile %q: %w", name, err)
	}
	p := Profile{Name: name, Path: path}
	if err := strictjson.Decode(raw, &p); err != nil {
		return Profile{}, fmt.Errorf("profile file %s: %w", path, err)
	}
	if err := p.check(); err != nil {
		return Profile{}, fmt.Errorf("profile file %s: %w", path, err)
	}
	if p.AgentsDir != "" && !filepath.IsAbs(p.AgentsDir) {
		p.AgentsDir = filepath.Join(filepath.Dir(path), p.AgentsDir)
	}
	return p, nil
}

// Default is the profile of a worker that was told none: Claude Code, as the folder's file of that name has
// it, else as it is.
func Default(dir string) (Profile, error) {
	const name = "claude-code"
	if _, err := os.Stat(filepath.Join(dir, name+".json")); dir == "" || errors.Is(err, fs.ErrNotExist) {
		return Profile{Name: name, Type: run.Autonomous, Command: ClaudeCodeExec}, nil
	}
	return Read(dir, name)
}

// others says which profiles there are instead.
func others(dir string) string {
	var names []string
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	if len(names) == 0 {
		return "; nor is there any other profile in that folder"
	}
	return "; there are " + strings.Join(names, ", ")
}

func (p Profile) check() error {
	if err := refuse([]wrong{
		{"type", p.Type != run.Autonomous && p.Type != run.Procedural, "must be autonomous or procedural"},
		{"command", p.Command == "", "is required: the executor's program, for procedural agents " + proceduralExec},
		{"command", strings.ContainsRune(p.Command, 0), "must not hold a NUL"},
		{"agents_dir", p.Type == run.Autonomous && p.AgentsDir != "", "belongs to procedural profiles; autonomous agents lie with the coordinator"},
		{"agents_dir", p.Type == run.Procedural && p.AgentsDir == "", "is required in a procedural profile: the folder of its agents"},
		{"models", p.Type == run.Procedural && p.Models != nil, "belongs to autonomous profiles; a procedural agent has no model"},
		{"system_prompts", p.Type == run.Procedural && p.SystemPrompts, "belongs to autonomous profiles; a procedural agent has no model"},
		{"resume_anywhere", p.Type == run.Procedural && p.ResumeAnywhere, "belongs to autonomous profiles; a procedural agent has no sessions that go on"},
		{"config", len(p.Config) > 0 && p.Config[0] != '{' && string(p.Config) != "null", "must be an object"},
		{"max_concurrent_runs", p.MaxConcurrentRuns < 0 || p.MaxConcurrentRuns > maxSlots, fmt.Sprintf("must be from 1 to %d", maxSlots)},
		{"timeout_seconds", p.TimeoutSeconds < 0 || p.TimeoutSeconds > run.MaxTimeout, fmt.Sprintf("must be from 1 to %d", run.MaxTimeout)},
	}); err != nil {
		return err
	}
	for _, err := range []error{p.checkSessions(), p.Models.Check(), p.Limits.Check(), p.Sandbox.Check()} {
		if err != nil {
			return err
		}
	}
	if !p.Sandbox.HasNetwork() && p.Command == ClaudeCodeExec {
		return fault.Newf(fault.Invalid, "sandbox.network must not be false: Claude Code reaches its model over it").With("field", "sandbox.network")
	}
	for i, name := range p.Env {
		if !variable.MatchString(name) {
			return fault.Newf(fault.Invalid, "env[%d] %.80q must be the name of a variable; its value is the worker's own", i, name).With("field", "env")
		}
	}
	return nil
}

// checkSessions says what is wrong with how long a program lives.
func (p Profile) checkSessions() error {
	const only = `belongs to profiles with "lifecycle":"persistent"`
	persistent := p.Lifecycle == executor.Persistent
	return refuse([]wrong{
		{"lifecycle", !slices.Contains([]string{"", "oneshot", "persistent"}, p.Lifecycle), "must be oneshot or persistent"},
		{"lifecycle", persistent && (p.Type == run.Procedural || p.Inside()), "persistent belongs to autonomous profiles whose command is a program of your own"},
		{"idle_seconds", p.IdleSeconds < 0 || p.IdleSeconds > maxIdle, fmt.Sprintf("must be from 1 to %d", maxIdle)},
		{"max_sessions", p.MaxSessions < 0 || p.MaxSessions > maxSlots, fmt.Sprintf("must be from 1 to %d", maxSlots)},
		{"max_sessions", p.MaxSessions != 0 && p.MaxSessions < p.MaxConcurrentRuns, "must be at least max_concurrent_runs: each run has a process"},
		{"idle_seconds", !persistent && p.IdleSeconds != 0, only},
		{"max_sessions", !persistent && p.MaxSessions != 0, only},
	})
}

// wrong is what a field must be, where it is not.
type wrong struct {
	field string
	bad   bool
	say   string
}

// refuse says the first that is wrong.
func refuse(all []wrong) error {
	for _, w := range all {
		if w.bad {
			return fault.Newf(fault.Invalid, "%s %s", w.field, w.say).With("field", w.field)
		}
	}
	return nil
}

// Runnable tells whether this version of the worker can run the profile, and what to do if not.
func (p Profile) Runnable() error {
	if err := p.Confinement().Supported(); err != nil {
		f := *fault.Of(err)
		f.Message = fmt.Sprintf("profile %q: %s", p.Name, f.Message)
		return &f
	}
	switch {
	case p.Inside():
		return nil
	case p.Type == run.Autonomous:
		if _, err := p.Program(); err != nil {
			return fault.Newf(fault.Invalid, "profile %q: %v", p.Name, err).With("field", "command")
		}
	case p.Command != proceduralExec:
		return fault.Newf(fault.Invalid, "profile %q: command %q is not supported by this version; a procedural profile's is %s", p.Name, p.Command, proceduralExec).With("field", "command")
	case len(p.Config) > 2 && string(p.Config) != "null":
		if members, err := strictjson.Members(p.Config); err != nil || len(members) > 0 {
			return fault.Newf(fault.Invalid, "profile %q: %s takes no config; leave it out", p.Name, proceduralExec).With("field", "config")
		}
	}
	return nil
}

// The executors of autonomous agents that run inside the worker, by the command a profile names them with. Each is a program of
// that name, too.
const (
	ClaudeCodeExec = "ao-claude-code-exec"
	LLMExec        = "ao-llm-exec"
	TestExec       = "ao-test-exec"
)

// Inside tells whether the profile's executor runs inside the worker.
func (p Profile) Inside() bool {
	return p.Type == run.Autonomous && slices.Contains([]string{ClaudeCodeExec, LLMExec, TestExec}, p.Command)
}

// StartsPrograms tells whether a run of it may start programs: only the executor for tests does all by itself.
func (p Profile) StartsPrograms() bool { return p.Command != TestExec }

// TakesSystemPrompts tells whether the executor gives the blueprint's system_prompt to its model; one that does not is told all
// in the prompt.
func (p Profile) TakesSystemPrompts() bool { return p.Inside() || p.SystemPrompts }

// Program finds the program of an autonomous profile: relative to the profile's file, or on PATH.
func (p Profile) Program() (string, error) { return process.Find(p.Command, filepath.Dir(p.Path)) }

// Agent is a procedural agent with its program found.
type Agent struct {
	agent.File
	Program string // absolute
}

// Confinement is what the profile's programs may have and see. Agents see the folder they come from.
func (p Profile) Confinement() *process.Confinement {
	c := process.Confinement{Limits: p.Limits, Sandbox: p.Sandbox}
	if p.AgentsDir != "" {
		c.Reads = []string{p.AgentsDir}
	}
	return &c
}

// Agents loads the profile's agents; see the function Agents.
func (p Profile) Agents() (good []Agent, broken []agent.Bad, err error) {
	if p.AgentsDir == "" {
		return nil, nil, nil
	}
	good, broken, err = Agents(p.AgentsDir)
	if err != nil {
		err = fmt.Errorf("profile file %s: agents_dir: %w", p.Path, err)
	}
	return good, broken, err
}

// Agents loads the procedural agents of a folder. Those that could not be run are told of with the file and the
// reason: bad definitions, autonomous ones, commands that are missing or not executable. The error is about the
// folder itself.
func Agents(dir string) (good []Agent, broken []agent.Bad, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	programs := map[string]string{}
	files, broken, err := agent.Load(dir, run.Procedural, func(f agent.File) (err error) {
		programs[f.Path], err = find(f)
		return err
	})
	for _, f := range files {
		good = append(good, Agent{f, programs[f.Path]})
	}
	return good, broken, err
}

func find(f agent.File) (string, error) {
	if f.Type != run.Procedural {
		return "", fmt.Errorf("type %s: a runner's own agents are procedural; autonomous ones lie with the coordinator", f.Type)
	}
	return process.Find(f.Command, filepath.Dir(f.Path))
}

// inherited are the variables that every executor gets from the worker. TMPDIR is where the worker's own temporary files lie: each
// program gets a folder in there (process.Confinement).
var inherited = []string{"PATH", "HOME", "LANG", "TMPDIR", "TZ"}

// own are the variables that have a meaning of their own for each run; nobody's allow-list changes that.
var own = []string{process.MarkEnv, executor.EnvSessionID, executor.EnvRunID, executor.EnvAgentName, executor.EnvAttempt, executor.EnvAPIURL, executor.EnvMCPURL, executor.EnvTraceParent, executor.EnvTraceState}

// defaultPath is where programs are looked for if the worker itself does not know.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Inherited is the part of a run's environment that is the same for all of them, from empty: what every program needs, and what the
// profile allows. lookup is os.LookupEnv.
func (p Profile) Inherited(lookup func(string) (string, bool)) []string {
	env := make([]string, 0, len(inherited)+len(p.Env))
	for i, name := range slices.Concat(inherited, p.Env) {
		if slices.Contains(inherited, name) && i >= len(inherited) || slices.Contains(own, name) {
			continue
		}
		value, ok := lookup(name)
		if !ok && name == "PATH" {
			value, ok = defaultPath, true
		}
		if ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Environ is a run's environment: what is inherited, and what tells its programs which run it is.
func Environ(inherited []string, v executor.Invocation) []string {
	env := append(make([]string, 0, len(inherited)+len(own)), inherited...)
	return append(env,
		executor.EnvSessionID+"="+v.SessionID,
		executor.EnvRunID+"="+v.RunID,
		executor.EnvAgentName+"="+v.AgentName,
		executor.EnvAttempt+"="+strconv.Itoa(max(v.Attempt, 1)))
}
