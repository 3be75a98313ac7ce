package llm

import (
	"context"
	"encoding/json"
	"fmt"
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

// atOnce is how many tools of one answer run at the same time.
const atOnce = 8

// talk asks the model and does what it asks for, until it asks for nothing more.
func (c *conversation) talk(ctx context.Context) run.Outcome {
	for {
		if err := c.keep(ctx); err != nil {
			return c.fail(ctx, chat.Reply{}, fault.Of(err))
		}
		if c.turns >= c.settings.MaxTurns {
			return c.fail(ctx, chat.Reply{}, fault.New(fault.Internal, codeTurns,
				fmt.Sprintf("The model called tools in each of %d answers, which is max_turns; raise it, or ask for less at once", c.turns)))
		}
		reply, f := c.ask(ctx, c.request())
		if f != nil || ctx.Err() != nil {
			return c.fail(ctx, reply, f)
		}
		c.turns++
		if f := c.settings.stopped(reply); f != nil {
			return c.fail(ctx, reply, f)
		}
		name(&reply.Message)
		t := c.history.now()
		t.Messages = append(t.Messages, reply.Message)
		calls := reply.Message.Calls()
		if len(calls) == 0 {
			text := reply.Message.Text()
			return c.finish(ctx, run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Text: &text}}, "")
		}
		if err := c.keep(ctx); err != nil {
			return c.fail(ctx, chat.Reply{}, fault.Of(err))
		}
		t.Messages = append(t.Messages, chat.Message{Role: chat.Tool, Blocks: c.answer(ctx, calls)})
	}
}

func (c *conversation) request() chat.Request {
	r := chat.Request{
		Model: c.settings.Model, System: c.system, Messages: c.history.messages(), Tools: c.box.Tools(),
		MaxTokens: c.settings.MaxTokens, Temperature: c.settings.Temperature,
	}
	if len(r.Tools) == 0 {
		r.Messages = plain(r.Messages)
	}
	return r
}

// fail ends a run without an answer: f says why, nil where it was stopped. What there is of an answer is kept.
func (c *conversation) fail(ctx context.Context, partial chat.Reply, f *fault.Fault) run.Outcome {
	o, why := run.Outcome{Status: run.Failed, Error: f}, "the run was stopped"
	if ctx.Err() != nil {
		o = run.Outcome{Status: run.Stopped}
	} else {
		why = f.Message
	}
	t := c.history.now()
	if text := partial.Message.Text(); text != "" {
		o.Result = &run.Result{Type: run.Autonomous, Text: &text}
		t.Messages = append(t.Messages, chat.Say(chat.Assistant, text+"\n\n[Cut off: "+why+"]"))
	}
	if f != nil && f.Code == codeRefused && len(t.Messages) <= 2 { // nothing was done, and what was declined once is declined with all that follows
		t.Messages = []chat.Message{chat.Say(chat.User, "[A prompt was declined and is left out.]")}
	}
	if f != nil && f.Code == codeTooLong {
		t.shorten(why)
	}
	return c.finish(ctx, o, why)
}

// callID is what every API takes.
var callID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// name sees to it that the calls of a message can be told apart, some servers give no ids or the same twice, and that their names
// are such as APIs take back.
func name(m *chat.Message) {
	seen := map[string]bool{}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		if b.Type != chat.Call {
			continue
		}
		b.Name = tools.Legal(b.Name)
		if !callID.MatchString(b.ID) || seen[b.ID] {
			b.ID = fmt.Sprintf("call_%d", i)
		}
		for n := 0; seen[b.ID]; n++ {
			b.ID = fmt.Sprintf("call_%d_%d", i, n)
		}
		seen[b.ID] = true
	}
}

// answer calls the tools that an answer asks for, several at once, and gives their results in the order of the calls. What ctx's
// end leaves without a result says so.
func (c *conversation) answer(ctx context.Context, calls []chat.Block) []chat.Block {
	results := unanswered(calls)
	slots := make(chan struct{}, atOnce)
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
			c.host.Emit(run.EventPreTool, toolEvent{Tool: call.Name, Input: shown(call.Input)}.body())
			text, failed := c.call(ctx, call)
			if ctx.Err() != nil && failed {
				text = results[i].Text
			}
			results[i].Text, results[i].Failed = text, failed
			e := toolEvent{Tool: call.Name, Input: shown(call.Input), Output: &text}
			if failed {
				e.Output, e.Error = nil, &text
			}
			c.host.Emit(run.EventPostTool, e.body())
		})
	}
	wg.Wait()
	return results
}

// call calls one tool. failed: the text is an error, for the model to mend.
func (c *conversation) call(ctx context.Context, call chat.Block) (text string, failed bool) {
	switch {
	case call.Unread != "":
		return "The arguments are not a JSON object; call the tool again with one", true
	case !slices.ContainsFunc(c.box.Tools(), func(d chat.Definition) bool { return d.Name == call.Name }):
		var names []string
		for _, d := range c.box.Tools() {
			names = append(names, d.Name)
		}
		return fmt.Sprintf("There is no tool %.80q; there are: %s", call.Name, strings.Join(names, ", ")), true
	}
	return c.box.Call(ctx, call.Name, call.Input)
}

// maxShown is the largest input of a tool that an event shows, in bytes.
const maxShown = 64 << 10

// shown is an input as an event shows it.
func shown(input json.RawMessage) json.RawMessage {
	if len(input) <= maxShown {
		return input
	}
	raw, err := strictjson.Encode(map[string]string{"cut": fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(string(input[:maxShown/8]), ""), len(input))})
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
	if err != nil { // an input is JSON, or the call would not have been read
		return json.RawMessage(`{}`)
	}
	return raw
}

// Run does one turn of the session.
func (e Executor) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	s, agent, err := read(inv, osLookup)
	if err != nil {
		return failed(err)
	}
	if ctx.Err() != nil {
		return run.Outcome{Status: run.Stopped}
	}
	c := &conversation{settings: s, host: host}
	if c.history, err = c.recall(ctx, inv); err != nil {
		return c.over(ctx, failed(err))
	}
	servers, err := tools.Read(agent.MCPServers)
	if err != nil {
		return failed(err)
	}
	box, unusable := tools.Open(ctx, servers, tools.Config{
		Env: s.environ(host.Env), Dir: inv.ProjectDir, In: e.In, Kill: host.Kill, Connect: seconds(s.Connect), Timeout: seconds(s.ToolTimeout), MaxOutput: s.MaxOutput,
	})
	defer box.Close()
	if ctx.Err() != nil {
		return run.Outcome{Status: run.Stopped}
	}
	for _, u := range unusable {
		host.Emit(run.EventMessage, run.TextMessage("system", u.Why+". The run goes on without it"))
		c.without = append(c.without, u.Server)
	}
	var closeModel func()
	c.model, closeModel = s.endpoint()
	defer closeModel()
	c.box, c.system = box, agent.SystemPrompt

	c.history.begin(inv.RunID, inv.Attempt, asked(inv))
	o := c.talk(ctx)
	c.report()
	return o
}
