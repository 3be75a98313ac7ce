package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"ao/shared/agent"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/worker/external"
	"ao/worker/procedural"
	"ao/worker/profile"
)

// builtin is the executor of a profile and the agents it serves. What is broken of them is told of in the log and left out.
// most is the largest result, in bytes.
func builtin(p profile.Profile, most int64, log *slog.Logger) (Executor, []agent.Blueprint, []agent.Bad, error) {
	if err := p.Runnable(); err != nil {
		return nil, nil, nil, err
	}
	if p.Type == run.Autonomous {
		file, err := p.Program()
		return program{p, int(most), file}, nil, nil, err
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
	programs := commands{p, int(most), make(map[string]string, len(good))}
	agents := make([]agent.Blueprint, len(good))
	for i, a := range good {
		programs.of[a.Name], agents[i] = a.Program, a.Blueprint
	}
	return programs, agents, broken, nil
}

// program executes autonomous agents by a program that speaks the executor protocol, or just prints.
type program struct {
	profile profile.Profile
	most    int    // bytes of a result
	file    string // the program's
}

func (p program) Run(ctx context.Context, inv executor.Invocation, emit func(kind string, body json.RawMessage)) run.Outcome {
	return external.Run(ctx, external.Job{Invocation: inv, Command: p.file, Env: p.profile.Environ(inv, os.LookupEnv), MaxResult: p.most, Tell: emit})
}

// commands executes procedural agents inside the worker.
type commands struct {
	profile profile.Profile
	most    int               // bytes of a result
	of      map[string]string // the agents' programs by name
}

func (c commands) Run(ctx context.Context, inv executor.Invocation, emit func(kind string, body json.RawMessage)) run.Outcome {
	program, ok := c.of[inv.AgentName]
	if !ok {
		f := fault.New(fault.Internal, procedural.CodeNotFound, fmt.Sprintf("This worker has no agent %q", inv.AgentName))
		return run.Outcome{Status: run.Failed, Error: f}
	}
	return procedural.Run(ctx, procedural.Job{
		Invocation: inv, Command: program, Env: c.profile.Environ(inv, os.LookupEnv), Tell: emit,
		Timeout:   2 * run.MaxTimeout * time.Second, // ctx has the limit
		MaxResult: c.most,
	})
}
