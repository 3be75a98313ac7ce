// Package profile reads profiles, the named executor configurations of a worker, and the procedural agents that
// belong to them.
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
	"ao/shared/config"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/worker/process"
)

// proceduralExec is the command of the built-in executor of procedural agents.
const proceduralExec = "ao-procedural-exec"

// maxRuns is the most concurrent runs that a profile may allow.
const maxRuns = 10_000

// maxIdle is the longest idle_seconds: a week.
const maxIdle = 7 * 24 * 3600

// Profile is a named executor configuration, read from the file <name>.json.
type Profile struct {
	Name    string `json:"-"` // the file's name without .json
	Path    string `json:"-"` // the file
	Type    string `json:"type"`
	Command string `json:"command"`
	// procedural: folder of its agents; relative to the file or a folder of the worker, absolute once read
	AgentsDir string          `json:"agents_dir"`
	Config    json.RawMessage `json:"config"`
	// oneshot (default), or persistent: a process stays for its session's turns
	Lifecycle string `json:"lifecycle"`
	// persistent: how long a process waits for its next turn; 0: 600
	IdleSeconds int `json:"idle_seconds"`
	// persistent: live processes; 0: 8 per concurrent run
	MaxSessions       int          `json:"max_sessions"`
	Env               []string     `json:"env"`                 // names of the worker's variables that executors get
	MaxConcurrentRuns int          `json:"max_concurrent_runs"` // 0: the worker's default
	TimeoutSeconds    int          `json:"timeout_seconds"`     // upper bound of a run's time limit; 0: none
	ResumeAnywhere    bool         `json:"resume_anywhere"`     // autonomous: sessions can be resumed on every host
	Models            agent.Models `json:"models"`              // autonomous: models that agents may name; nil: any
	// autonomous: its program passes system_prompt to its model
	SystemPrompts bool            `json:"system_prompts"`
	Limits        process.Limits  `json:"limits"`  // limits of each process
	Sandbox       process.Sandbox `json:"sandbox"` // what its programs see of the machine
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Read reads a profile from the folder of profiles. The error names the file and the field.
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
		return Profile{}, fmt.Errorf("profile %q: %s does not exist%s", name, path, otherProfiles(dir))
	}
	if err != nil {
		return Profile{}, fmt.Errorf("profile %q: %w", name, err)
	}
	p := Profile{Name: name, Path: path}
	if err := strictjson.Decode(strictjson.TrimBOM(raw), &p); err != nil {
		return Profile{}, fmt.Errorf("profile file %s: %w", path, err)
	}
	if err := p.check(); err != nil {
		return Profile{}, fmt.Errorf("profile file %s: %w", path, err)
	}
	p.AgentsDir = p.agentsDir()
	return p, nil
}

// Default returns the profile of a worker that names none: claude-code, from the folder's file of that name if there
// is one.
func Default(dir string) (Profile, error) {
	const name = "claude-code"
	if _, err := os.Stat(filepath.Join(dir, name+".json")); dir == "" || errors.Is(err, fs.ErrNotExist) {
		return Profile{Name: name, Type: run.Autonomous, Command: ClaudeCodeExec}, nil
	}
	return Read(dir, name)
}

// otherProfiles lists the profiles of the folder, for an error.
func otherProfiles(dir string) string {
	var names []string
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	if len(names) == 0 {
		return "; the folder has no profiles"
	}
	return "; the folder has the profiles " + strings.Join(names, ", ")
}

func (p Profile) check() error {
	if err := firstViolation([]rule{
		{"type", p.Type != run.Autonomous && p.Type != run.Procedural, "must be autonomous or procedural"},
		{"command", p.Command == "", "is required: the executor's program; for procedural agents " + proceduralExec},
		{"command", strings.ContainsRune(p.Command, 0), "must not contain a NUL"},
		{"agents_dir", p.Type == run.Autonomous && p.AgentsDir != "",
			"belongs to procedural profiles; the coordinator has the autonomous agents"},
		{"agents_dir", p.Type == run.Procedural && p.AgentsDir == "",
			"is required in a procedural profile: the folder of its agents"},
		{"models", p.Type == run.Procedural && p.Models != nil,
			"belongs to autonomous profiles; a procedural agent has no model"},
		{"system_prompts", p.Type == run.Procedural && p.SystemPrompts,
			"belongs to autonomous profiles; a procedural agent has no model"},
		{"resume_anywhere", p.Type == run.Procedural && p.ResumeAnywhere,
			"belongs to autonomous profiles; procedural runs are not resumed"},
		{"config", len(p.Config) > 0 && p.Config[0] != '{' && string(p.Config) != "null", "must be an object"},
		{"max_concurrent_runs", p.MaxConcurrentRuns < 0 || p.MaxConcurrentRuns > maxRuns,
			fmt.Sprintf("must be from 1 to %d", maxRuns)},
		{"timeout_seconds", p.TimeoutSeconds < 0 || p.TimeoutSeconds > run.MaxTimeout,
			fmt.Sprintf("must be from 1 to %d", run.MaxTimeout)},
	}); err != nil {
		return err
	}
	for _, err := range []error{p.checkSessions(), p.Models.Check(), p.Limits.Check(), p.Sandbox.Check()} {
		if err != nil {
			return err
		}
	}
	if !p.Sandbox.HasNetwork() && p.Command == ClaudeCodeExec {
		return fault.Newf(fault.Invalid, "sandbox.network must not be false: Claude Code needs it to reach its model").
			With("field", "sandbox.network")
	}
	for i, name := range p.Env {
		if !variableName.MatchString(name) {
			return fault.Newf(fault.Invalid, "env[%d] %.80q must be the name of a variable; the worker has its value",
				i, name).With("field", "env")
		}
	}
	return nil
}

// checkSessions checks the settings of persistent programs.
func (p Profile) checkSessions() error {
	const only = `belongs to profiles with "lifecycle":"persistent"`
	persistent := p.Lifecycle == executor.Persistent
	return firstViolation([]rule{
		{"lifecycle", !slices.Contains([]string{"", "oneshot", "persistent"}, p.Lifecycle),
			"must be oneshot or persistent"},
		{"lifecycle", persistent && (p.Type == run.Procedural || p.OwnExecutor()),
			"persistent belongs to autonomous profiles whose command is a program of your own"},
		{"idle_seconds", p.IdleSeconds < 0 || p.IdleSeconds > maxIdle, fmt.Sprintf("must be from 1 to %d", maxIdle)},
		{"max_sessions", p.MaxSessions < 0 || p.MaxSessions > maxRuns, fmt.Sprintf("must be from 1 to %d", maxRuns)},
		{"max_sessions", p.MaxSessions != 0 && p.MaxSessions < p.MaxConcurrentRuns,
			"must be at least max_concurrent_runs: each run has a process"},
		{"idle_seconds", !persistent && p.IdleSeconds != 0, only},
		{"max_sessions", !persistent && p.MaxSessions != 0, only},
	})
}

type rule struct {
	field    string
	violated bool
	message  string
}

func firstViolation(all []rule) error {
	for _, w := range all {
		if w.violated {
			return fault.Newf(fault.Invalid, "%s %s", w.field, w.message).With("field", w.field)
		}
	}
	return nil
}

// Runnable reports why this worker cannot run the profile, and what to do.
func (p Profile) Runnable() error {
	if err := p.Confinement().Supported(); err != nil {
		f := *fault.Of(err)
		f.Message = fmt.Sprintf("profile %q: %s", p.Name, f.Message)
		return &f
	}
	switch {
	case p.BuiltIn():
		return nil
	case !p.RunsCommands():
		_, err := p.Program()
		if err != nil && p.LLM() {
			return fault.Newf(fault.Invalid, "profile %q: %v, nor beside the worker. %s is a program of its own: "+
				"build it with 'go build -o bin/ ./worker/llm/cmd/ao-llm-exec', or use the image worker-llm "+
				"('docker compose --profile llm up --build')", p.Name, err, LLMExec).With("field", "command")
		}
		if err != nil {
			return fault.Newf(fault.Invalid, "profile %q: %v, nor in a folder of the worker", p.Name, err).
				With("field", "command")
		}
	case len(p.Config) > 2 && string(p.Config) != "null":
		if members, err := strictjson.Members(p.Config); err != nil || len(members) > 0 {
			return fault.Newf(fault.Invalid, "profile %q: %s takes no config; remove it", p.Name, proceduralExec).
				With("field", "config")
		}
	}
	return nil
}

// Commands of AO's own executors of autonomous agents. LLMExec is a program; the others are built into the worker, and
// programs of that name as well.
const (
	ClaudeCodeExec = "ao-claude-code-exec"
	LLMExec        = "ao-llm-exec"
	TestExec       = "ao-test-exec"
)

// BuiltIn reports whether the profile's executor is built into the worker.
func (p Profile) BuiltIn() bool {
	return p.Type == run.Autonomous && slices.Contains([]string{ClaudeCodeExec, TestExec}, p.Command)
}

// RunsCommands reports whether the worker itself runs the commands of the profile's procedural agents.
func (p Profile) RunsCommands() bool { return p.Type == run.Procedural && p.Command == proceduralExec }

// OwnExecutor reports whether the profile's executor is AO's own. It is not confined, and only what it starts is.
func (p Profile) OwnExecutor() bool { return p.BuiltIn() || p.LLM() }

// LLM reports whether the profile's executor is ao-llm-exec.
func (p Profile) LLM() bool { return p.Type == run.Autonomous && p.Command == LLMExec }

// StartsPrograms reports whether its runs may start programs; the test executor does not.
func (p Profile) StartsPrograms() bool { return !p.BuiltIn() || p.Command != TestExec }

// TakesSystemPrompts reports whether the executor passes system_prompt to its model; otherwise it goes into the prompt.
func (p Profile) TakesSystemPrompts() bool { return p.OwnExecutor() || p.SystemPrompts }

// Program returns the path of the profile's executor: relative to the profile's file, or on PATH. If it is in neither,
// it may be beside the worker, and a path also relative to where the worker was started.
func (p Profile) Program() (string, error) {
	folders := config.Folders(p.Command, filepath.Dir(p.Path))
	path, err := process.Find(p.Command, folders[0])
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	for _, dir := range folders[1:] {
		if other, missing := process.Find(p.Command, dir); missing == nil {
			return other, nil
		}
	}
	return path, err
}

// agentsDir returns the absolute path of agents_dir, which is looked for as Program is.
func (p Profile) agentsDir() string {
	if p.AgentsDir == "" {
		return ""
	}
	return config.Locate(p.AgentsDir, filepath.Dir(p.Path))
}

// Agent is a procedural agent with the path of its program.
type Agent struct {
	agent.File
	Program string // absolute
}

// Confinement returns the confinement of the profile's programs. They can read the folder of their agents.
func (p Profile) Confinement() *process.Confinement {
	c := process.Confinement{Limits: p.Limits, Sandbox: p.Sandbox}
	if p.AgentsDir != "" {
		c.Reads = []string{p.AgentsDir}
	}
	return &c
}

// Agents loads the procedural agents of a folder. broken are those that cannot run, with file and reason: bad
// definitions, autonomous agents, missing or non-executable commands. The error is about the folder itself.
func Agents(dir string) (good []Agent, broken []agent.BrokenFile, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	programs := map[string]string{}
	files, broken, err := agent.Load(dir, run.Procedural, func(f agent.File) (err error) {
		programs[f.Path], err = findProgram(f)
		return err
	})
	for _, f := range files {
		good = append(good, Agent{f, programs[f.Path]})
	}
	return good, broken, err
}

func findProgram(f agent.File) (string, error) {
	if f.Type != run.Procedural {
		return "",
			fmt.Errorf("type %s: a runner's own agents are procedural; the coordinator has the autonomous agents",
				f.Type)
	}
	return process.Find(f.Command, filepath.Dir(f.Path))
}

// inherited are the variables that every executor inherits from the worker. Each program gets its own folder below
// TMPDIR (process.Confinement).
var inherited = []string{"PATH", "HOME", "LANG", "TMPDIR", "TZ"}

// runVariables are set per run; a profile's env cannot override them.
var runVariables = []string{process.MarkEnv, executor.EnvSessionID, executor.EnvRunID, executor.EnvAgentName,
	executor.EnvAttempt, executor.EnvAPIURL, executor.EnvMCPURL, executor.EnvTraceParent, executor.EnvTraceState}

// defaultPath is the PATH of programs if the worker has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// BaseEnv returns the part of the environment that all runs share: what every program needs and what the profile
// allows. lookup is os.LookupEnv.
func (p Profile) BaseEnv(lookup func(string) (string, bool)) []string {
	env := make([]string, 0, len(inherited)+len(p.Env))
	for i, name := range slices.Concat(inherited, p.Env) {
		if slices.Contains(inherited, name) && i >= len(inherited) || slices.Contains(runVariables, name) {
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

// RunEnv returns a run's environment: the inherited one and the variables that identify the run.
func RunEnv(inherited []string, v executor.Invocation) []string {
	env := append(make([]string, 0, len(inherited)+len(runVariables)), inherited...)
	return append(env, executor.EnvSessionID+"="+v.SessionID, executor.EnvRunID+"="+v.RunID,
		executor.EnvAgentName+"="+v.AgentName, executor.EnvAttempt+"="+strconv.Itoa(max(v.Attempt, 1)))
}
