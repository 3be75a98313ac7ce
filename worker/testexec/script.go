package testexec

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ao/shared/fault"
	"ao/shared/strictjson"
)

// directive is one thing to do.
type directive struct{ name, text string }

// begins is the beginning of a directive; in an <inputs> block a line has its field's name before it.
var begins = regexp.MustCompile(`(?m)^[ \t]*(?:[A-Za-z0-9_.-]+: )?@([a-z]+)(?:[ \t]|$)`)

// split gives the scripts of a text's turns, none where it has no directives.
func split(text string) (turns []string) {
	from := -1
	for _, m := range begins.FindAllStringSubmatchIndex(text, -1) {
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

// parse reads the directives of one turn.
func parse(text string) []directive {
	all := begins.FindAllStringSubmatchIndex(text, -1)
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

// directives are what can be asked for.
var directives = map[string]func(ctx context.Context, t *turn, text string) error{
	"say":  func(_ context.Context, t *turn, text string) error { t.say(text); return nil },
	"json": func(_ context.Context, t *turn, text string) error { t.say(text); return nil },
	"data": func(_ context.Context, t *turn, text string) error {
		t.data = json.RawMessage(text)
		return isJSON("@data", text)
	},
	"tool": tool,
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
			return bad("bad_directive", "@sleep %.80q: it takes a duration such as 200ms", text)
		}
		pause(ctx, d)
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
		return fault.New(fault.Internal, cmp.Or(code, "executor_failed"), cmp.Or(message, "It was told to fail"))
	},
	"recall": func(_ context.Context, t *turn, _ string) error {
		t.say(strings.Join(t.Told[:len(t.Told)-1], "\n"))
		return nil
	},
	"child": child,
}

func names() []string { return slices.Sorted(maps.Keys(directives)) }
