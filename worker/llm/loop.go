package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/worker/llm/chat"
	"ao/worker/llm/tools"
)

// maxParallelCalls is how many tools of one answer run concurrently.
const maxParallelCalls = 8

// loop calls the model and its tools until an answer calls no tool.
func (c *conversation) loop(ctx context.Context) run.Outcome {
	for {
		if err := c.save(ctx); err != nil {
			return c.fail(ctx, chat.Reply{}, fault.Of(err))
		}
		if c.turns >= c.settings.MaxTurns {
			return c.fail(ctx, chat.Reply{}, fault.New(fault.Internal, codeTurns,
				fmt.Sprintf("the model called tools in each of %d answers, which is max_turns; raise it or ask for "+
					"less at once", c.turns)))
		}
		reply, f := c.askModel(ctx, c.request())
		if f != nil || ctx.Err() != nil {
			return c.fail(ctx, reply, f)
		}
		c.turns++
		if f := c.settings.incompleteFault(reply); f != nil {
			return c.fail(ctx, reply, f)
		}
		if reply.Stop == chat.StopUnknown {
			c.host.Emit(run.EventMessage, run.TextMessage("system", c.settings.redact(fmt.Sprintf("the endpoint ended "+
				"its answer for an unknown reason, %.80q: the answer may be incomplete", reply.Reason))))
		}
		fixCalls(&reply.Message)
		t := c.history.current()
		t.Messages = append(t.Messages, reply.Message)
		calls := reply.Message.Calls()
		if len(calls) == 0 {
			text := reply.Message.Text()
			return c.finish(ctx, run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous,
				Text: &text}}, "")
		}
		if err := c.save(ctx); err != nil {
			return c.fail(ctx, chat.Reply{}, fault.Of(err))
		}
		t.Messages = append(t.Messages, chat.Message{Role: chat.Tool, Blocks: c.callTools(ctx, calls)})
	}
}

func (c *conversation) request() chat.Request {
	r := chat.Request{
		Model: c.settings.Model, System: c.system, Messages: c.history.messages(), Tools: c.toolbox.Tools(),
		MaxTokens: c.settings.MaxTokens, Temperature: c.settings.Temperature,
	}
	if len(r.Tools) == 0 {
		r.Messages = withoutTools(r.Messages)
	}
	return r
}

// fail ends a run without an answer because of f, or because it was stopped (nil). It keeps a partial answer.
func (c *conversation) fail(ctx context.Context, partial chat.Reply, f *fault.Fault) run.Outcome {
	o, why := run.Outcome{Status: run.Failed, Error: f}, "the run was stopped"
	if ctx.Err() != nil {
		o = run.Outcome{Status: run.Stopped}
	} else {
		why = f.Message
	}
	t := c.history.current()
	if text := partial.Message.Text(); text != "" {
		o.Result = &run.Result{Type: run.Autonomous, Text: &text}
		t.Messages = append(t.Messages, chat.TextMessage(chat.Assistant, text+"\n\n[Cut off: "+why+"]"))
	}
	// nothing was done, and a declined prompt would be declined in every later turn
	if f != nil && f.Code == codeRefused && len(t.Messages) <= 2 {
		t.Messages = []chat.Message{chat.TextMessage(chat.User, "[A prompt was declined and dropped.]")}
	}
	if f != nil && f.Code == codeTooLong {
		t.replaceTooLong(why)
	}
	return c.finish(ctx, o, why)
}

// callID matches ids that every API accepts.
var callID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// fixCalls gives the calls of a message unique ids, as some servers give none or duplicates, and names that APIs
// accept.
func fixCalls(m *chat.Message) {
	seen := map[string]bool{}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		if b.Type != chat.Call {
			continue
		}
		b.Name = tools.ValidName(b.Name)
		if !callID.MatchString(b.ID) || seen[b.ID] {
			b.ID = fmt.Sprintf("call_%d", i)
		}
		for n := 0; seen[b.ID]; n++ {
			b.ID = fmt.Sprintf("call_%d_%d", i, n)
		}
		seen[b.ID] = true
	}
}

// callTools calls an answer's tools concurrently and returns their results in order. A call without a result because
// ctx ended says so.
func (c *conversation) callTools(ctx context.Context, calls []chat.Block) []chat.Block {
	results := unknownResults(calls)
	slots := make(chan struct{}, maxParallelCalls)
	var wg sync.WaitGroup
	for i, call := range calls {
		c.calls++
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			c.host.Emit(run.EventPreTool, toolEvent{Tool: call.Name, Input: truncateInput(call.Input)}.body())
			text, failed := c.call(ctx, call)
			if ctx.Err() != nil && failed {
				text = results[i].Text
			}
			results[i].Text, results[i].Failed = text, failed
			e := toolEvent{Tool: call.Name, Input: truncateInput(call.Input), Output: &text}
			if failed {
				e.Output, e.Error = nil, &text
			}
			c.host.Emit(run.EventPostTool, e.body())
		})
	}
	wg.Wait()
	return results
}

// call calls one tool. failed: the text is an error for the model.
func (c *conversation) call(ctx context.Context, call chat.Block) (text string, failed bool) {
	switch {
	case call.BadInput != "":
		return "the arguments are not a JSON object; call the tool again with one", true
	case !slices.ContainsFunc(c.toolbox.Tools(), func(d chat.Definition) bool { return d.Name == call.Name }):
		var names []string
		for _, d := range c.toolbox.Tools() {
			names = append(names, d.Name)
		}
		return fmt.Sprintf("unknown tool %.80q; known tools: %s", call.Name, strings.Join(names, ", ")), true
	}
	return c.toolbox.Call(ctx, call.Name, call.Input)
}

// maxInputShown is the largest tool input in an event, in bytes.
const maxInputShown = 64 << 10

func truncateInput(input json.RawMessage) json.RawMessage {
	if len(input) <= maxInputShown {
		return input
	}
	raw, err := strictjson.Encode(map[string]string{"cut": fmt.Sprintf("%s… (%d bytes)",
		strings.ToValidUTF8(string(input[:maxInputShown/8]), ""), len(input))})
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return raw
}

// toolEvent is the body of pre_tool and post_tool.
type toolEvent struct {
	Tool   string          `json:"tool_name"`
	Input  json.RawMessage `json:"tool_input"`
	Output *string         `json:"tool_output,omitempty"`
	Error  *string         `json:"error,omitempty"`
}

func (e toolEvent) body() json.RawMessage {
	raw, err := strictjson.Encode(e)
	if err != nil { // never: the input was decoded from JSON
		return json.RawMessage(`{}`)
	}
	return raw
}

// Run runs one turn of the session.
func (e Executor) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	s, agent, err := readSettings(inv, os.LookupEnv)
	if err != nil {
		return failed(err)
	}
	if ctx.Err() != nil {
		return run.Outcome{Status: run.Stopped}
	}
	c := &conversation{settings: s, host: host}
	c.history, err = c.load(ctx, inv)
	if err != nil {
		return c.endBefore(ctx, failed(err))
	}
	servers, err := tools.Read(agent.MCPServers)
	if err != nil {
		return failed(err)
	}
	box, unusable := tools.Open(ctx, servers, tools.Config{
		Env: s.environment(host.Env, e.OwnVariables), Dir: inv.ProjectDir, Confinement: e.Confinement, Kill: host.Kill,
		Connect: seconds(s.Connect), Timeout: seconds(s.ToolTimeout), MaxOutput: s.MaxOutput,
	})
	defer box.Close()
	if ctx.Err() != nil {
		return run.Outcome{Status: run.Stopped}
	}
	for _, u := range unusable {
		host.Emit(run.EventMessage, run.TextMessage("system", u.Reason+"; the run continues without it"))
		c.unusableServers = append(c.unusableServers, u.Server)
	}
	var closeModel func()
	c.model, closeModel = s.newModel()
	defer closeModel()
	c.toolbox, c.system = box, agent.SystemPrompt

	c.history.startTurn(inv.RunID, inv.Attempt, promptOf(inv))
	o := c.loop(ctx)
	c.emitMetadata()
	return o
}
