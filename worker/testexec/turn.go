package testexec

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// turn is one run of the executor, or one more answer within it.
type turn struct {
	inv  executor.Invocation
	host executor.Host
	memory

	answer *string
	data   json.RawMessage
	stderr strings.Builder
	child  json.RawMessage // what the last child came to
}

// memory is what a session remembers.
type memory struct {
	V    int      `json:"v"`
	Told []string `json:"told"` // its prompts
	Next []string `json:"next"` // scripts of turns to come
}

// recall reads what the session remembers.
func (t *turn) recall(ctx context.Context) error {
	if t.inv.Mode == executor.Start || t.host.LoadState == nil {
		return nil
	}
	raw, err := t.host.LoadState(ctx)
	if err != nil || len(raw) == 0 {
		return err
	}
	if err := strictjson.Decode(raw, &t.memory); err != nil {
		return fmt.Errorf("what the session remembers cannot be read: %w", err)
	}
	return nil
}

// keep writes it, and so binds the session.
func (t *turn) keep(ctx context.Context) error {
	if t.host.SaveState == nil {
		bind, err := strictjson.Encode(map[string]string{"type": executor.LineBind, "executor_session_id": t.inv.SessionID})
		if err == nil {
			t.host.Emit(executor.LineBind, bind)
		}
		return err
	}
	raw, err := strictjson.Encode(t.memory)
	if err != nil {
		return err
	}
	return t.host.SaveState(ctx, raw)
}

// say has the assistant say something.
func (t *turn) say(text string) {
	t.answer = &text
	t.host.Emit(run.EventMessage, run.TextMessage("assistant", text))
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func isJSON(what, text string) error {
	if json.Valid([]byte(text)) {
		return nil
	}
	return bad("bad_directive", "%s takes JSON, not %.80q", what, text)
}

// bad is the fault of a directive that cannot be followed.
func bad(code, format string, args ...any) error {
	return fault.New(fault.Invalid, code, fmt.Sprintf(format, args...))
}
