// Package testexec is an executor for trying and testing autonomous agents without a model. It follows the directives
// in its prompt, the same way every time. Its sessions can be resumed on any worker.
//
// A directive starts a line with @; its text extends to the next directive. Lines before the first are ignored.
//
//	@say TEXT                     emit an assistant message; the last one is the answer
//	@json JSON                    answer with this text, valid or not
//	@data JSON                    the result is this JSON value, not text
//	@tool NAME INPUT [=> OUTPUT]  a tool call in the session's events; INPUT and OUTPUT are JSON
//	@metadata JSON                an object, such as usage and cost
//	@sleep DURATION               such as 200ms
//	@stderr TEXT                  stderr of a program, shown if the run fails
//	@exit N                       end with this exit code
//	@fail CODE MESSAGE            fail with this error
//	@child AGENT MODE PARAMETERS  start a child run through the API, as this session;
//	                              modes: sync (waits), async_poll, async_callback
//	@recall                       answer with the session's earlier prompts
//	@next                         the rest is for the session's next turn, if that has no directives itself
//
// $CHILD in a text is the result of the last sync child, as JSON. A turn that reports children, or asks for a better
// answer, is never searched for directives, so a child's text cannot give orders. It takes the script behind @next. A
// prompt without directives gets an answer that matches the output schema in its system prompt, else the prompt itself.
package testexec

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/prompt"
	"ao/shared/run"
)

// maxPrompts is how many prompts a session remembers.
const maxPrompts = 100

// Run follows the directives of the prompt.
func Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	if inv.Prompt == "" { // run by hand
		var err error
		inv.Prompt, err = prompt.Text(inv.Blueprint, inv.Mode, inv.Parameters)
		if err != nil {
			return failed(ctx, err)
		}
	}
	t := turn{inv: inv, host: host, sessionMemory: sessionMemory{V: 1}, childResult: json.RawMessage("null")}
	if err := t.load(ctx); err != nil {
		return failed(ctx, err)
	}
	script := t.nextScript()
	t.Prompts = append(t.Prompts, t.inv.Prompt)
	t.Prompts = t.Prompts[max(len(t.Prompts)-maxPrompts, 0):]
	if err := t.save(ctx); err != nil {
		return failed(ctx, err)
	}
	if script == nil {
		o := t.finish(t.makeAnswer())
		o.Result.Note = Invented
		return o
	}
	for _, d := range script {
		do, ok := directives[d.name]
		if !ok {
			return failed(ctx, directiveError("unknown_directive", "unknown directive @%s; known are @%s", d.name,
				strings.Join(slices.Sorted(maps.Keys(directives)), ", @")))
		}
		text, err := t.expand(d.text)
		if err == nil {
			err = do(ctx, &t, text)
		}
		if err != nil {
			o := failed(ctx, err)
			o.Result = t.finish(nil).Result
			return o
		}
		if ctx.Err() != nil {
			return run.Outcome{Status: run.Stopped, Result: t.finish(nil).Result}
		}
	}
	return t.finish(nil)
}

// nextScript returns the directives of this turn; nil: none.
func (t *turn) nextScript() []directive {
	text := t.inv.Prompt
	var turns []string
	if !isSystemPrompt(text) {
		turns = splitTurns(text)
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

// isSystemPrompt reports whether the system wrote the prompt, which contains text of others.
func isSystemPrompt(prompt string) bool {
	return strings.HasPrefix(prompt, "<agent-callback") || strings.HasPrefix(prompt,
		"Your previous response did not match")
}

// maxExpanded is the most bytes of child results put into one text.
const maxExpanded = 32 << 20

func (t *turn) expand(text string) (string, error) {
	if strings.Count(text, "$CHILD")*len(t.childResult) > maxExpanded {
		return "", directiveError("bad_directive",
			"$CHILD has %d bytes and occurs too often; a text may have %d MiB of it", len(t.childResult),
			maxExpanded>>20)
	}
	return strings.ReplaceAll(text, "$CHILD", string(t.childResult)), nil
}

// finish returns the outcome of a completed turn; answer, if not nil, is said last.
func (t *turn) finish(answer *string) run.Outcome {
	if answer != nil {
		t.say(*answer)
	}
	r := &run.Result{Type: run.Autonomous, Text: t.answer, Data: t.data}
	if t.data != nil {
		r.Text = nil
	}
	return run.Outcome{Status: run.Completed, Result: r}
}

// failed returns the outcome of a turn that an error ended.
func failed(ctx context.Context, err error) run.Outcome {
	if ctx.Err() != nil {
		return run.Outcome{Status: run.Stopped}
	}
	f := fault.Of(err)
	f.Kind = fault.Internal
	return run.Outcome{Status: run.Failed, Error: f}
}
