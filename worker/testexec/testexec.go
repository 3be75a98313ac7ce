// Package testexec is the executor for trying and testing autonomous agents without any model: it does what the directives in
// its prompt say, the same thing every time. A session remembers, on whatever worker it goes on.
//
// A directive begins a line with @; its text goes on until the next one. Lines before the first are prose.
//
//	@say TEXT                     the assistant says so; what was said last is the answer
//	@json JSON                    answer with this text, whether it fits a schema or not
//	@data JSON                    the result is this JSON value, not text
//	@tool NAME INPUT [=> OUTPUT]  a tool call in the session's events; INPUT and OUTPUT are JSON
//	@metadata JSON                an object, such as usage and cost
//	@sleep DURATION               such as 200ms
//	@stderr TEXT                  as a program's stderr: told where the run fails
//	@exit N                       end with this exit code
//	@fail CODE MESSAGE            fail with this error
//	@child AGENT MODE PARAMETERS  start a child run, through the API, as this session: sync (waits), async_poll, async_callback
//	@recall                       answer with what the session was told before
//	@next                         what follows is for the session's next turn, should that have no directives itself
//
// $CHILD in a text is what the last child of mode sync came to, as JSON. A turn that reports children, or asks for a better
// answer, is never read for directives: what a child says moves nobody. It takes what stands behind @next. A prompt without
// directives gets an answer that matches the output schema its system prompt asks for, made up from that, or else is repeated.
package testexec

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/prompt"
	"ao/shared/run"
)

// maxTold is how many prompts a session remembers.
const maxTold = 100

// Run does what the prompt says.
func Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	if inv.Prompt == "" { // by hand
		var err error
		if inv.Prompt, err = prompt.Text(inv.Blueprint, inv.Mode, inv.Parameters); err != nil {
			return failed(ctx, err)
		}
	}
	t := turn{inv: inv, host: host, memory: memory{V: 1}, child: json.RawMessage("null")}
	if err := t.recall(ctx); err != nil {
		return failed(ctx, err)
	}
	script := t.script()
	t.Told = append(t.Told, t.inv.Prompt)
	t.Told = t.Told[max(len(t.Told)-maxTold, 0):]
	if err := t.keep(ctx); err != nil {
		return failed(ctx, err)
	}
	if script == nil {
		return t.end(t.improvise())
	}
	for _, d := range script {
		do, ok := directives[d.name]
		if !ok {
			return failed(ctx, bad("unknown_directive", "there is no directive @%s; there are @%s", d.name, strings.Join(names(), ", @")))
		}
		text, err := t.filled(d.text)
		if err == nil {
			err = do(ctx, &t, text)
		}
		if err != nil {
			o := failed(ctx, err)
			o.Result = t.end(nil).Result
			return o
		}
		if ctx.Err() != nil {
			return run.Outcome{Status: run.Stopped, Result: t.end(nil).Result}
		}
	}
	return t.end(nil)
}

// script is what is to be done in this turn, nil: nothing is said of that.
func (t *turn) script() []directive {
	text := t.inv.Prompt
	var turns []string
	if !reaction(text) {
		turns = split(text)
	}
	if len(turns) == 0 {
		turns = t.Next
	}
	if len(turns) == 0 {
		return nil
	}
	t.Next = slices.Clone(turns[1:])
	return parse(turns[0])
}

// reaction tells whether the system wrote the prompt: it holds what others said.
func reaction(prompt string) bool {
	return strings.HasPrefix(prompt, "<agent-callback") || strings.HasPrefix(prompt, "Your previous response did not match")
}

// maxFilled is how much of what a child came to is put into one text, in bytes.
const maxFilled = 32 << 20

// filled puts what the last child came to into a text.
func (t *turn) filled(text string) (string, error) {
	if strings.Count(text, "$CHILD")*len(t.child) > maxFilled {
		return "", bad("bad_directive", "$CHILD has %d bytes and is there too often; texts may have %d MiB of it", len(t.child), maxFilled>>20)
	}
	return strings.ReplaceAll(text, "$CHILD", string(t.child)), nil
}

// end is the outcome of a turn that came to its end; answer, where given, is what it says at last.
func (t *turn) end(answer *string) run.Outcome {
	if answer != nil {
		t.say(*answer)
	}
	r := &run.Result{Type: run.Autonomous, Text: t.answer, Data: t.data}
	if t.data != nil {
		r.Text = nil
	}
	return run.Outcome{Status: run.Completed, Result: r}
}

// failed is the outcome of a turn that an error ended.
func failed(ctx context.Context, err error) run.Outcome {
	if ctx.Err() != nil {
		return run.Outcome{Status: run.Stopped}
	}
	f := fault.Of(err)
	f.Kind = fault.Internal
	return run.Outcome{Status: run.Failed, Error: f}
}
