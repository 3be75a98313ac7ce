package worker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/worker/claudecode"
	"ao/worker/launch"
	"ao/worker/procedural"
	"ao/worker/process"
	"ao/worker/profile"
	"ao/worker/program"
	"ao/worker/testexec"
)

// Executor does a run. ctx ends when the run must end early; nothing of it may be left when Run returns. An
// interrupted outcome has the status run.Stopped (at ctx's deadline also failed with the code timeout), and the
// worker replaces it by the reason. Any other outcome counts as it is.
type Executor interface {
	Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome
}

// newExecutor returns the executor of a profile and the definitions of its agents. Broken agents are logged and left
// out. Programs are confined to box; most is the largest result, in bytes.
func newExecutor(p profile.Profile, box *process.Confinement, most int64, log *slog.Logger) (Executor, *definitions,
	error) {
	if err := p.Runnable(); err != nil {
		return nil, nil, err
	}
	none := fixedDefinitions(nil)
	if p.BuiltIn() {
		with, ok := builtins[p.Command]
		if !ok {
			return nil, nil, fmt.Errorf("profile %q: this worker has no built-in executor %s", p.Name, p.Command)
		}
		return with(p, box), none, nil
	}
	file := ""
	if !p.RunsCommands() {
		var err error
		file, err = p.Program()
		if err != nil {
			return nil, nil, err
		}
	}
	if p.Type == run.Autonomous {
		if p.LLM() {
			e, err := newLLMExecutor(p, file, box, most)
			return e, none, err
		}
		if p.Lifecycle == executor.Persistent {
			return persistentExecutor{programExecutor{int(most), file, box}, newPool(p, log)}, none, nil
		}
		return programExecutor{int(most), file, box}, none, nil
	}
	d, err := newDefinitions(p, log)
	if err != nil {
		return nil, nil, err
	}
	if len(d.agents) == 0 {
		log.Warn("the profile has no runnable agent", "profile", p.Name, "agents_dir", p.AgentsDir)
	}
	if !p.RunsCommands() {
		return proceduralProgram{programExecutor{int(most), file, box}, d}, d, nil
	}
	return proceduralExecutor{int(most), d, box}, d, nil
}

// executorFunc is an executor without state.
type executorFunc func(context.Context, executor.Invocation, executor.Host) run.Outcome

func (f executorFunc) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	return f(ctx, inv, host)
}

// builtins are the executors of autonomous agents inside the worker, by the command that profiles name.
var builtins = map[string]func(p profile.Profile, box *process.Confinement) Executor{
	profile.ClaudeCodeExec: func(p profile.Profile, box *process.Confinement) Executor {
		return claudeExecutor{claudecode.Executor{Confinement: box}, p}
	},
	// starts no program
	profile.TestExec: func(profile.Profile, *process.Confinement) Executor { return executorFunc(testexec.Run) },
}

// claudeExecutor runs autonomous agents with Claude Code. It may be installed later, and logged in.
type claudeExecutor struct {
	claudecode.Executor
	profile profile.Profile
}

func (c claudeExecutor) Check(string, string) *fault.Fault { return claudecode.Ready(c.profile.Config) }

func (c claudeExecutor) Files(string) []string {
	env := c.profile.BaseEnv(os.LookupEnv)
	return claudecode.Files(c.profile.Config, func(name string) string {
		i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if i < 0 {
			return ""
		}
		return env[i][len(name)+1:]
	})
}

// programExecutor runs autonomous agents with a program that speaks the executor protocol, or just prints.
type programExecutor struct {
	maxResult   int    // largest result, in bytes
	path        string // path of the program
	confinement *process.Confinement
}

func (p programExecutor) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	return program.Run(ctx, p.job(inv, host))
}

func (p programExecutor) Check(string, string) *fault.Fault {
	return program.NotStarted(process.Runnable(p.path))
}

func (p programExecutor) Files(string) []string { return []string{p.path} }

func (p programExecutor) job(inv executor.Invocation, host executor.Host) program.Job {
	return program.Job{Invocation: inv, Command: p.path, Env: host.Env, MaxResult: p.maxResult, OnEvent: host.Emit,
		Listen: host.Listen, Confinement: p.confinement, Kill: host.Kill}
}

// llmExecutor runs autonomous agents with ao-llm-exec.
type llmExecutor struct {
	programExecutor
	sealed *process.Sealed
	grant  launch.Grant
}

func newLLMExecutor(p profile.Profile, file string, box *process.Confinement, most int64) (llmExecutor, error) {
	sealed, err := process.Seal(file)
	if err != nil {
		return llmExecutor{}, fmt.Errorf("profile %q: %w", p.Name, err)
	}
	return llmExecutor{programExecutor{int(most), file, nil}, sealed, launch.New(p.Config, box, os.LookupEnv)}, nil
}

// Check finds nothing: the program was read when the worker started.
func (e llmExecutor) Check(string, string) *fault.Fault { return nil }

func (e llmExecutor) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	j := e.job(inv, host)
	j.Sealed, j.Listen = e.sealed, nil // only ao-llm-exec itself writes its lines, on stdout
	env, err := e.grant.Env(j.Env)
	if err != nil {
		return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
	}
	j.Env = env
	return program.Run(ctx, j)
}

// proceduralExecutor runs procedural agents.
type proceduralExecutor struct {
	maxResult   int // largest result, in bytes
	definitions *definitions
	confinement *process.Confinement
}

func (c proceduralExecutor) Check(agent, hash string) *fault.Fault {
	path, ok := c.definitions.serves(agent, hash)
	if !ok {
		return nil
	}
	return procedural.NotStarted(process.Runnable(path))
}

func (c proceduralExecutor) Files(agent string) []string {
	path, _ := c.definitions.serves(agent, "")
	return []string{path}
}

func (c proceduralExecutor) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	path, ok := c.definitions.serves(inv.AgentName, inv.AgentHash)
	if !ok {
		return noSuchAgent(inv.AgentName)
	}
	return procedural.Run(ctx, procedural.Job{
		Invocation: inv, Command: path, Env: host.Env, OnEvent: host.Emit, Confinement: c.confinement, Kill: host.Kill,
		Timeout:   2 * run.MaxTimeout * time.Second, // ctx has the real limit
		MaxResult: c.maxResult,
	})
}

func noSuchAgent(name string) run.Outcome {
	return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, procedural.CodeNotFound,
		fmt.Sprintf("this worker has no agent %q", name))}
}

// proceduralProgram runs procedural agents with a program that speaks the executor protocol. The document names the
// agent's own program by its path.
type proceduralProgram struct {
	programExecutor
	definitions *definitions
}

func (p proceduralProgram) Check(agent, hash string) *fault.Fault {
	return cmp.Or(p.programExecutor.Check(agent, hash), p.commands().Check(agent, hash))
}

func (p proceduralProgram) Files(agent string) []string {
	return append(p.programExecutor.Files(agent), p.commands().Files(agent)...)
}

// commands are the programs of the agents.
func (p proceduralProgram) commands() checker { return proceduralExecutor{definitions: p.definitions} }

func (p proceduralProgram) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	path, ok := p.definitions.serves(inv.AgentName, inv.AgentHash)
	if !ok {
		return noSuchAgent(inv.AgentName)
	}
	command, err := strictjson.Encode(path)
	if err == nil {
		inv.Blueprint, err = strictjson.Edit(inv.Blueprint, []strictjson.Change{{Keys: []string{"command"},
			Value: command}})
	}
	if err != nil {
		return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
	}
	j := p.job(inv, host)
	j.Procedural = true
	return program.Run(ctx, j)
}

// persistentExecutor is a programExecutor whose processes stay between turns.
type persistentExecutor struct {
	programExecutor
	*program.Pool
}

func (p persistentExecutor) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	inv.APIURL, inv.MCPURL = host.URL, host.MCP
	return p.Pool.Run(ctx, p.job(inv, host))
}

// newPool makes the process pool that a profile asks for.
func newPool(p profile.Profile, log *slog.Logger) *program.Pool {
	slots := cmp.Or(p.MaxConcurrentRuns, defaultSlots())
	return program.NewPool(program.PoolConfig{
		IdleTimeout: time.Duration(p.IdleSeconds) * time.Second, MaxProcesses: max(cmp.Or(p.MaxSessions, 8*slots),
			slots),
		Log: log.With("profile", p.Name),
	})
}
