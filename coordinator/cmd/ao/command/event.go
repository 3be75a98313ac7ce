package command

import (
	"encoding/json"
	"fmt"
	"strings"

	"ao/coordinator/cmd/ao/screen"
	"ao/shared/run"
)

const eventWidth = 160 // maximum characters shown of a tool's input or output

// eventBody is the part of an event that is shown.
type eventBody struct {
	Role     string          `json:"role"`
	Content  []run.Text      `json:"content"`
	Tool     string          `json:"tool_name"`
	Input    json.RawMessage `json:"tool_input"`
	Output   json.RawMessage `json:"tool_output"`
	Error    json.RawMessage `json:"error"`
	Message  string          `json:"message"`
	Runner   string          `json:"runner_id"`
	Text     *string         `json:"result_text"`
	Data     json.RawMessage `json:"result_data"`
	ExitCode *int            `json:"exit_code"`
}

// text returns the texts of a message.
func (b eventBody) text() string {
	var texts []string
	for _, t := range b.Content {
		texts = append(texts, strings.TrimRight(t.Text, "\r\n"))
	}
	return strings.Join(texts, "\n")
}

// describeEvent formats an event for people.
func describeEvent(e run.Event) string {
	var b eventBody
	if e.Body != nil && json.Unmarshal(e.Body, &b) != nil {
		return e.Type + " " + screen.Truncate(string(e.Body), eventWidth)
	}
	switch e.Type {
	case run.EventStart:
		return strings.TrimSuffix(screen.Line("started on "+b.Runner), " on ")
	case run.EventMessage:
		return screen.Text(b.Role + ": " + b.text())
	case run.EventPreTool:
		return screen.Line("tool "+b.Tool) + " " + screen.Truncate(string(b.Input), eventWidth)
	case run.EventPostTool:
		if s := plainValue(b.Error); s != "" {
			return screen.Line("tool "+b.Tool) + " failed: " + screen.Truncate(s, eventWidth)
		}
		return screen.Line("tool "+b.Tool) + " done: " + screen.Truncate(plainValue(b.Output), eventWidth)
	case run.EventResult:
		text := string(b.Data)
		if b.Text != nil {
			text = *b.Text
		}
		return "result: " + screen.Truncate(text, eventWidth)
	case run.EventCompleted:
		return "completed"
	case run.EventStopped:
		return "stopped"
	case run.EventFailed:
		return "failed: " + failureMessage(b)
	}
	return screen.Line(e.Type) + " " + screen.Truncate(string(e.Body), eventWidth)
}

// failureMessage returns the message of a run_failed event: the error is an object with a message, or a code with the
// message beside it.
func failureMessage(b eventBody) string {
	var inner struct {
		Message string `json:"message"`
	}
	switch {
	case json.Unmarshal(b.Error, &inner) == nil && inner.Message != "":
		return screen.Truncate(inner.Message, eventWidth)
	case b.Message != "":
		return screen.Truncate(b.Message, eventWidth)
	}
	return screen.Truncate(plainValue(b.Error), eventWidth)
}

// timestamped prefixes a text with the event's time and indents its further lines.
func timestamped(e run.Event, what string) string {
	const indent = "\n          "
	return fmt.Sprintf("%s  %s", e.At.Local().Format("15:04:05"), strings.ReplaceAll(strings.TrimRight(what, "\n"),
		"\n", indent))
}

// endsRun reports whether the event ends its run.
func endsRun(e run.Event) bool {
	return e.Type == run.EventCompleted || e.Type == run.EventFailed || e.Type == run.EventStopped
}

// readEvent parses an event of a list or a stream.
func readEvent(raw []byte) (run.Event, bool) {
	var e run.Event
	return e, json.Unmarshal(raw, &e) == nil && e.Type != ""
}
