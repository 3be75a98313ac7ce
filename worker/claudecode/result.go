package claudecode

import (
	"encoding/json"
	"strings"
)

type resultLine struct {
	Subtype  string          `json:"subtype"`
	Failed   bool            `json:"is_error"`
	Text     *string         `json:"result"`
	Errors   []string        `json:"errors"`
	Status   int             `json:"api_error_status"`
	Turns    json.RawMessage `json:"num_turns"`
	Duration json.RawMessage `json:"duration_ms"`
	API      json.RawMessage `json:"duration_api_ms"`
	Cost     json.RawMessage `json:"total_cost_usd"`
	Usage    json.RawMessage `json:"usage"`
	ByModel  json.RawMessage `json:"modelUsage"`
	Denials  json.RawMessage `json:"permission_denials"`
	Reason   string          `json:"terminal_reason"`
	Deferred struct {
		Tool string `json:"name"`
	} `json:"deferred_tool_use"`
}

func (l *resultLine) blank() bool { return l.Text == nil || strings.TrimSpace(*l.Text) == "" }

// succeeded reports whether the turn has an answer; nil: no.
func (l *resultLine) succeeded() bool {
	return l != nil && !l.Failed && l.Subtype == "success" && !l.unanswered()
}

// unanswered reports whether the turn ended before the model had answered. Claude calls that a success, too: with its
// own text if a hook refused the prompt, else without any.
func (l *resultLine) unanswered() bool {
	return string(l.Turns) == "0" || l.blank() && l.Reason != "" && l.Reason != "completed"
}

// whyUnanswered returns the message of a turn that ended without any text.
func (l *resultLine) whyUnanswered() string {
	const settings = ", or leave its settings out with setting_sources in the profile's config"
	said := "Claude Code ended the turn without an answer"
	if l.Reason != "" {
		said += " (" + cutText(l.Reason, 200) + ")"
	}
	switch l.Reason {
	case "tool_deferred":
		return said + ": a hook deferred the tool " + cutText(l.Deferred.Tool, 200) +
			", which nobody can resume here. Let the hook allow or deny it" + settings
	case "hook_stopped":
		return said + ": a hook stopped it. Change the hook" + settings
	}
	return said
}
