package agent

import (
	"fmt"
	"slices"
	"strings"

	"ao/shared/fault"
)

// CodeModel is the error code of a run whose agent names a model that no profile allows.
const CodeModel = "model_not_allowed"

// maxTurns is the largest max_turns of an agent.
const maxTurns = 10_000

// Models are the models that agents may name, as patterns in which * matches any text. nil: any model; empty: none.
type Models []string

// Allow reports whether an agent may name the model; an empty one is always allowed.
func (m Models) Allow(model string) bool {
	return m == nil || model == "" ||
		slices.ContainsFunc(m, func(pattern string) bool { return matches(pattern, model) })
}

// Refused returns the fault for an agent that names another model. where names the rule's owner.
func (m Models) Refused(model, where string) *fault.Fault {
	say := "there may be none"
	if len(m) > 0 {
		say = "there may be " + strings.Join(m[:min(len(m), 20)], ", ")
	}
	return fault.New(fault.Invalid, CodeModel, fmt.Sprintf("The agent's model %.200q is not allowed by %s (models of "+
		"the profile): %s. Change the agent's model, or leave it out", model, where, say)).
		With("model", model).With("models", []string(m))
}

// Check refuses a pattern that can match nothing.
func (m Models) Check() error {
	for i, pattern := range m {
		if strings.TrimSpace(pattern) == "" || len(pattern) > 200 {
			return fault.Newf(fault.Invalid,
				"models[%d] %.80q must be a model's name, in which * may stand for any text, of at most 200 bytes", i,
				pattern).With("field", "models")
		}
	}
	if len(m) > 100 {
		return fault.New(fault.Invalid, "", "models: at most 100").With("field", "models")
	}
	return nil
}

// matches reports whether s matches a pattern in which * matches any text.
func matches(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, parts[0])
	for _, part := range parts[1:last] {
		if !ok {
			return false
		}
		_, s, ok = strings.Cut(s, part)
	}
	return ok && strings.HasSuffix(s, parts[last])
}

// badModel reports whether an executor could take the text for something other than a model's name.
func badModel(model string) bool {
	return len(model) > 200 || strings.TrimSpace(model) != model || strings.HasPrefix(model, "-") ||
		strings.ContainsFunc(model, func(r rune) bool { return r < ' ' || r == 0x7f })
}
