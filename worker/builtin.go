package worker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"ao/shared/agent"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/worker/claudecode"
	"ao/worker/external"
	"ao/worker/llm"
	"ao/worker/procedural"
	"ao/worker/process"
	"ao/worker/profile"
	"ao/worker/testexec"
)

// Executor does a run. ctx ends when the run is to end early: nothing of it may be left when Run returns, and an
// outcome that was cut off so has the status run.Stopped (at ctx's deadline also failed with the code timeout), which
// the worker replaces by the reason; what the executor came to by itself before counts as it is.
type Executor interface {
	Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome
}

// builtin is the executor of a profile and the agents it serves. What is broken of them is told of in the log and left out.
// Its programs are confined to the box; most is the largest result, in bytes.
func builtin(p profile.Profile, box *process.Confinement, most int64, log *slog.Logger) (Executor, []agent.Blueprint, []agent.Bad, error) {
	if err := p.Runnable(); err != nil {
		return nil, nil, nil, err
	}
	if p.Inside() {
		with, ok := inside[p.Command]
		if !ok {
			return nil, nil, nil, fmt.Errorf("profile %q: this worker was built without %s", p.Name, p.Command)
		}
		if p.Command == profile.ClaudeCodeExec {
			if err := claudecode.Ready(p.Config); err != nil { // it may be installed later
				log.Warn("the runs of this profile will fail", "profile", p.Name, "err", err)
			}
		}
		return with(box), nil, nil, nil
	}
	if p.Type == run.Autonomous {
		file, err := p.Program()
		if p.Lifecycle == executor.Persistent {
			return persistent{program{int(most), file, box}, poolOf(p, log)}, nil, nil, err
		}
		return program{int(most), file, box}, nil, nil, err
	}
	good, broken, err := p.Agents()
	if err != nil {
		return nil, nil, nil, err
	}
	for _, b := range broken {
		log.Error("agent is broken and left out", "agent", b.Name, "file", b.Path, "err", b.Reason)
	}
	if len(good) == 0 {
		log.Warn("the profile has no agent that can be run", "profile", p.Name, "agents_dir", p.AgentsDir)
	}
	programs := commands{int(most), make(map[string]string, len(good)), box}
	agents := make([]agent.Blueprint, len(good))
	for i, a := range good {
		programs.of[a.Name], agents[i] = a.Program, a.Blueprint
	}
	return programs, agents, broken, nil
}

// function is an executor that needs nothing beside what Run is given.
type function func(context.Context, executor.Invocation, executor.Host) run.Outcome

func (f function) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	return f(ctx, inv, host)
}

// inside are the executors of autonomous agents that run within the worker, by the command a profile names them with.
var inside = map[string]func(box *process.Confinement) Executor{
	profile.ClaudeCodeExec: func(box *process.Confinement) Executor { return claudecode.Executor{In: box} },
	profile.LLMExec:        func(box *process.Confinement) Executor { return llm.Executor{In: box} },
	profile.TestExec:       func(*process.Confinement) Executor { return function(testexec.Run) }, // it starts nothing
}

// program executes autonomous agents by a program that speaks the executor protocol, or just prints.
type program struct {
	most int    // bytes of a result
	file string // the program's
	in   *process.Confinement
}

func (p program) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	return external.Run(ctx, p.job(inv, host))
}

func (p program) job(inv executor.Invocation, host executor.Host) external.Job {
	return external.Job{Invocation: inv, Command: p.file, Env: host.Env, MaxResult: p.most, Tell: host.Tell, Listen: host.Listen, In: p.in, Kill: host.Kill}
}

// commands executes procedural agents inside the worker.
type commands struct {
	most int               // bytes of a result
	of   map[string]string // the agents' programs by name
	in   *process.Confinement
}

func (c commands) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	program, ok := c.of[inv.AgentName]
	if !ok {
		f := fault.New(fault.Internal, procedural.CodeNotFound, fmt.Sprintf("This worker has no agent %q", inv.AgentName))
		return run.Outcome{Status: run.Failed, Error: f}
	}
	return procedural.Run(ctx, procedural.Job{
		Invocation: inv, Command: program, Env: host.Env, Tell: host.Tell, In: c.in, Kill: host.Kill,
		Timeout:   2 * run.MaxTimeout * time.Second, // ctx has the limit
		MaxResult: c.most,
	})
}

// persistent is program with processes that stay.
type persistent struct {
	program
	*external.Pool
}

func (p persistent) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	inv.APIURL, inv.MCPURL = host.URL, host.MCP
	return p.Pool.Run(ctx, p.job(inv, host))
}

// poolOf is the pool that a profile asks for.
func poolOf(p profile.Profile, log *slog.Logger) *external.Pool {
	slots := cmp.Or(p.MaxConcurrentRuns, defaultSlots())
	return external.NewPool(external.PoolConfig{
		Idle: time.Duration(p.IdleSeconds) * time.Second, Most: max(cmp.Or(p.MaxSessions, 8*slots), slots), Log: log.With("profile", p.Name),
	})
}
