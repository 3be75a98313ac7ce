// Package llm is the executor ao-llm-exec. It has a conversation with a model, with the tools of the agent's MCP
// servers. The model's endpoint speaks OpenAI's Chat Completions or Anthropic's Messages API.
//
// A run is one turn of the session: the prompt, then the model's answers and its tools' results, until an answer
// calls no tool. The conversation is kept with the session (executor.Host), so the next turn may run on any worker.
//
//	when                              what is kept
//	before the model is called        everything: the prompt and the tools' results so far
//	before its tools are called       the calls, so that nobody assumes they were not made
//	at the end of the run             the answer; for a failed or stopped run its partial answer and the reason
//
// A kept conversation is always valid for the APIs: every call has a result, every turn an answer.
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

// saveTimeout is how long a stopped run may take to keep its conversation.
const saveTimeout = 3 * time.Second

// Executor runs conversations with models. The programs it starts are MCP servers.
type Executor struct {
	Confinement  *process.Confinement // of the MCP servers; nil: not confined
	OwnVariables []string             // names of variables that MCP servers do not get
}

// conversation is the state of a run.
type conversation struct {
	settings settings
	host     executor.Host
	model    chat.Model
	toolbox  *tools.Toolbox
	system   string
	history  history

	usage           chat.Usage
	answeredBy      string // model name in the endpoint's answers
	turns           int    // answers of the model
	calls           int    // tool calls
	retries         int
	unusableServers []string // MCP servers that cannot be used
}

// load returns the conversation that the run continues.
func (c *conversation) load(ctx context.Context, inv executor.Invocation) (history, error) {
	fresh := history{V: version}
	if inv.Mode == executor.Start {
		if c.host.SaveState == nil {
			c.host.Emit(run.EventMessage, run.TextMessage("system",
				"this conversation is not kept, because there is no gateway: it cannot be resumed"))
		}
		return fresh, nil // an earlier attempt's work is done again
	}
	if c.host.LoadState == nil {
		return fresh, fault.New(fault.Internal, codeHistory,
			"the session cannot be resumed here: the orchestrator keeps its conversation, and there is no gateway to "+
				"it; start a new session")
	}
	raw, err := c.host.LoadState(ctx)
	switch {
	case err != nil:
		return fresh, fault.Wrap(fault.Internal, codeHistory,
			"the session's conversation cannot be read; resume it later", err)
	case len(raw) == 0:
		return fresh, fault.New(fault.Internal, codeHistory,
			"the session's conversation is deleted; start a new session")
	}
	return load(raw)
}

// promptOf returns the rendered prompt, or the parameter prompt of a hand-written invocation.
func promptOf(inv executor.Invocation) string {
	var p struct {
		Prompt string `json:"prompt"`
	}
	if inv.Prompt == "" && json.Unmarshal(inv.Parameters, &p) == nil && p.Prompt != "" {
		return p.Prompt
	}
	return cmp.Or(inv.Prompt, string(inv.Parameters))
}

func (c *conversation) save(ctx context.Context) error {
	raw, dropped, err := c.history.encode(c.settings.MaxHistory)
	if err != nil {
		return err
	}
	if dropped > 0 {
		c.host.Emit(run.EventMessage, run.TextMessage("system",
			fmt.Sprintf("the conversation is longer than %d bytes: its first %d turns are dropped",
				c.settings.MaxHistory, c.history.Dropped)))
	}
	if c.host.SaveState == nil {
		return nil
	}
	if err := c.host.SaveState(ctx, raw); err != nil {
		return fault.Wrap(fault.Internal, codeHistory,
			"the session's conversation cannot be kept, so it could not be resumed: "+fault.Of(err).Message, err)
	}
	return nil
}

// finish keeps the end of the turn, repaired if necessary, and returns the outcome.
func (c *conversation) finish(ctx context.Context, o run.Outcome, why string) run.Outcome {
	t := c.history.current()
	if o.Status == run.Completed {
		t.dropProviderBlocks()
	} else {
		t.repair(why)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	err := c.save(ctx)
	if f := fault.Of(err); err != nil && f.Code == codeTooLong {
		t.replaceTooLong(why)
		err = c.save(ctx)
		if o.Status == run.Completed { // there is an answer, but the session would not include it
			err = f
		}
	}
	if err != nil && o.Status == run.Completed {
		return run.Outcome{Status: run.Failed, Error: fault.Of(err), Result: o.Result}
	}
	return o
}

// endBefore returns the outcome of a run that ended before its turn started: stopped if ctx has ended.
func (c *conversation) endBefore(ctx context.Context, o run.Outcome) run.Outcome {
	if ctx.Err() != nil {
		return run.Outcome{Status: run.Stopped}
	}
	return o
}

// emitMetadata emits the run's usage.
func (c *conversation) emitMetadata() {
	facts := map[string]any{
		"executor": "ao-llm-exec", "provider": c.settings.Provider, "model": cmp.Or(c.answeredBy, c.settings.Model),
		"usage": c.usage,
		"turns": c.turns, "tool_calls": c.calls, "retries": c.retries,
	}
	if len(c.unusableServers) > 0 {
		facts["mcp_servers_unreachable"] = c.unusableServers
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
