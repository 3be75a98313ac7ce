package testexec

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// Invented is the note of each result that no directive says.
const Invented = "this answer is invented: the executor test has no model"

// turn is one call of the executor: a run, or a retry within it.
type turn struct {
	inv  executor.Invocation
	host executor.Host
	sessionMemory

	answer      *string
	data        json.RawMessage
	stderr      strings.Builder
	childResult json.RawMessage // result of the last child
}

type sessionMemory struct {
	V       int      `json:"v"`
	Prompts []string `json:"told"` // its prompts
	Next    []string `json:"next"` // scripts of the next turns
}

// load reads what the session remembers.
func (t *turn) load(ctx context.Context) error {
	if t.inv.Mode == executor.Start || t.host.LoadState == nil {
		return nil
	}
	raw, err := t.host.LoadState(ctx)
	if err != nil || len(raw) == 0 {
		return err
	}
	if err := strictjson.Decode(raw, &t.sessionMemory); err != nil {
		return fmt.Errorf("the session's memory is unreadable: %w", err)
	}
	return nil
}

// save saves what the session remembers, which binds the session.
func (t *turn) save(ctx context.Context) error {
	if t.host.SaveState == nil {
		bind, err := strictjson.Encode(map[string]string{"type": executor.LineBind,
			"executor_session_id": t.inv.SessionID})
		if err == nil {
			t.host.Emit(executor.LineBind, bind)
		}
		return err
	}
	raw, err := strictjson.Encode(t.sessionMemory)
	if err != nil {
		return err
	}
	return t.host.SaveState(ctx, raw)
}

// say emits an assistant message, which becomes the answer.
func (t *turn) say(text string) {
	t.answer = &text
	t.host.Emit(run.EventMessage, run.TextMessage("assistant", text))
}

func isJSON(what, text string) error {
	if json.Valid([]byte(text)) {
		return nil
	}
	return directiveError("bad_directive", "%s needs JSON, got %.80q", what, text)
}

func directiveError(code, format string, args ...any) error {
	return fault.New(fault.Invalid, code, fmt.Sprintf(format, args...))
}
