// Package llm is the executor ao-llm-exec: a conversation with a model behind any endpoint that speaks OpenAI's Chat
// Completions or Anthropic's Messages, with the tools of the agent's MCP servers.
//
// A run is one turn of the session: the prompt, then the model's answers and what its tools gave, until an answer calls no
// tool. The conversation is kept with the session (executor.Host.Keep), so that its next turn may run on any worker:
//
//	when                              what is kept
//	before the model is asked         all there is: the prompt, the tools' results so far
//	before its tools are called       the calls, so that nobody takes for undone what may have been done
//	at the end of the run             the answer; or, where it failed or was stopped, what there is of it and why
//
// What is kept is always a conversation that the APIs accept again: every call has its result, every turn its answer.
package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/worker/llm/chat"
	"ao/worker/llm/tools"
	"ao/worker/process"
)

// lastWords is how long a run that was stopped may take to keep what there is.
const lastWords = 3 * time.Second

// Executor talks to models. The programs that it starts are MCP servers.
type Executor struct {
	In *process.Confinement // what the programs may have and see; nil: all that this process may
}

// conversation is a run under way.
type conversation struct {
	settings settings
	host     executor.Host
	model    chat.Model
	box      *tools.Box
	system   string
	history  history

	usage      chat.Usage
	answeredBy string // the model, as the endpoint names it
	turns      int    // answers of the model
	calls      int    // of tools
	retries    int
	without    []string // MCP servers that cannot be used
}

// recall gives the conversation that the run goes on with.
func (c *conversation) recall(ctx context.Context, inv executor.Invocation) (history, error) {
	fresh := history{V: version}
	if inv.Mode == executor.Start {
		if c.host.SaveState == nil {
			c.host.Emit(run.EventMessage, run.TextMessage("system", "This conversation is kept nowhere, as there is no gateway: it cannot be resumed"))
		}
		return fresh, nil // what an earlier attempt left is done again
	}
	if c.host.LoadState == nil {
		return fresh, fault.New(fault.Internal, codeHistory, "The session cannot be resumed here: its conversation is kept by the orchestrator, and there is no gateway to it; start a new session")
	}
	raw, err := c.host.LoadState(ctx)
	switch {
	case err != nil:
		return fresh, fault.Wrap(fault.Internal, codeHistory, "The session's conversation cannot be read; resume it again later", err)
	case len(raw) == 0:
		return fresh, fault.New(fault.Internal, codeHistory, "The session's conversation is not there any more; start a new session")
	}
	return load(raw)
}

// asked is what the model is told: the rendered prompt, or what a hand-written invocation has in its place.
func asked(inv executor.Invocation) string {
	var p struct {
		Prompt string `json:"prompt"`
	}
	if inv.Prompt == "" && json.Unmarshal(inv.Parameters, &p) == nil && p.Prompt != "" {
		return p.Prompt
	}
	return cmp.Or(inv.Prompt, string(inv.Parameters))
}

// keep keeps the conversation as it is.
func (c *conversation) keep(ctx context.Context) error {
	raw, dropped, err := c.history.encode(c.settings.MaxHistory)
	if err != nil {
		return err
	}
	if dropped > 0 {
		c.host.Emit(run.EventMessage, run.TextMessage("system", fmt.Sprintf("The conversation has become longer than %d bytes: its first %d turns are left out from now on", c.settings.MaxHistory, c.history.Dropped)))
	}
	if c.host.SaveState == nil {
		return nil
	}
	if err := c.host.SaveState(ctx, raw); err != nil {
		return fault.Wrap(fault.Internal, codeHistory, "The session's conversation could not be kept, so it could not be resumed: "+fault.Of(err).Message, err)
	}
	return nil
}

// finish keeps the turn's end, whole or mended, and gives the outcome.
func (c *conversation) finish(ctx context.Context, o run.Outcome, why string) run.Outcome {
	t := c.history.now()
	if o.Status == run.Completed {
		t.settle()
	} else {
		t.mend(why)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	err := c.keep(ctx)
	if f := fault.Of(err); err != nil && f.Code == codeTooLong {
		t.shorten(why)
		err = c.keep(ctx)
		if o.Status == run.Completed { // the answer is there, but the session would not know of it
			err = f
		}
	}
	if err != nil && o.Status == run.Completed {
		return run.Outcome{Status: run.Failed, Error: fault.Of(err), Result: o.Result}
	}
	return o
}

// over is the outcome of a run that ended before its turn began: stopped, where that is why.
func (c *conversation) over(ctx context.Context, o run.Outcome) run.Outcome {
	if ctx.Err() != nil {
		return run.Outcome{Status: run.Stopped}
	}
	return o
}

// report tells what the run cost.
func (c *conversation) report() {
	facts := map[string]any{
		"executor": "ao-llm-exec", "provider": c.settings.Provider, "model": cmp.Or(c.answeredBy, c.settings.Model), "usage": c.usage,
		"turns": c.turns, "tool_calls": c.calls, "retries": c.retries,
	}
	if len(c.without) > 0 {
		facts["mcp_servers_unreachable"] = c.without
	}
	body, err := strictjson.Encode(map[string]any{"metadata": facts})
	if err == nil {
		c.host.Emit(run.EventMetadata, body)
	}
}

func failed(err error) run.Outcome {
	f := fault.Of(err)
	f.Kind = fault.Internal
	return run.Outcome{Status: run.Failed, Error: f}
}
