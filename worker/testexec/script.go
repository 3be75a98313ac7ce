package testexec

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/strictjson"
)

type directive struct{ name, text string }

// directiveStart matches the start of a directive; in an <inputs> block its field's name precedes it.
var directiveStart = regexp.MustCompile(`(?m)^[ \t]*(?:[A-Za-z0-9_.-]+: )?@([a-z]+)(?:[ \t]|$)`)

// splitTurns returns the scripts of a text's turns; none if it has no directives.
func splitTurns(text string) (turns []string) {
	from := -1
	for _, m := range directiveStart.FindAllStringSubmatchIndex(text, -1) {
		switch {
		case from < 0:
			from = m[0]
		case text[m[2]:m[3]] == "next":
			turns = append(turns, text[from:m[0]])
			from = m[1]
		}
	}
	if from < 0 {
		return nil
	}
	return append(turns, strings.TrimSuffix(strings.TrimSpace(text[from:]), "</inputs>"))
}

func parse(text string) []directive {
	text, _, _ = strings.Cut(text, requiredFormat) // a caller's output schema, which follows its prompt
	all := directiveStart.FindAllStringSubmatchIndex(text, -1)
	script := make([]directive, len(all))
	for i, m := range all {
		end := len(text)
		if i+1 < len(all) {
			end = all[i+1][0]
		}
		script[i] = directive{text[m[2]:m[3]], strings.TrimSpace(text[m[1]:end])}
	}
	return script
}

var directives = map[string]func(ctx context.Context, t *turn, text string) error{
	"say":  func(_ context.Context, t *turn, text string) error { t.say(text); return nil },
	"json": func(_ context.Context, t *turn, text string) error { t.say(text); return nil },
	"data": func(_ context.Context, t *turn, text string) error {
		t.data = json.RawMessage(text)
		return isJSON("@data", text)
	},
	"tool": showToolCall,
	"metadata": func(_ context.Context, t *turn, text string) error {
		body, err := strictjson.Encode(map[string]json.RawMessage{"metadata": json.RawMessage(text)})
		if err != nil {
			return isJSON("@metadata", text)
		}
		t.host.Emit("metadata", body)
		return nil
	},
	"sleep": func(ctx context.Context, _ *turn, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return directiveError("bad_directive", "@sleep needs a duration such as 200ms, got %.80q", text)
		}
		clock.Sleep(ctx, d)
		return nil
	},
	"stderr": func(_ context.Context, t *turn, text string) error {
		t.stderr.WriteString(text + "\n")
		return nil
	},
	"exit": func(_ context.Context, t *turn, text string) error {
		code, err := strconv.Atoi(text)
		if err != nil || code == 0 {
			return err
		}
		why := cmp.Or(strings.TrimSpace(t.stderr.String()), fmt.Sprintf("Process exited with code %d", code))
		return fault.New(fault.Internal, "executor_failed", why).With("exit_code", code)
	},
	"fail": func(_ context.Context, _ *turn, text string) error {
		code, message, _ := strings.Cut(text, " ")
		return fault.New(fault.Internal, cmp.Or(code, "executor_failed"), cmp.Or(message, "failed as told"))
	},
	"recall": func(_ context.Context, t *turn, _ string) error {
		t.say(strings.Join(t.Prompts[:len(t.Prompts)-1], "\n"))
		return nil
	},
	"child": startChild,
}
