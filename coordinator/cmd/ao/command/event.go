package command

import (
	"encoding/json"
	"fmt"
	"strings"

	"ao/coordinator/cmd/ao/screen"
	"ao/shared/run"
)

const eventWidth = 160 // characters of a tool's input or output that are shown

// body is what of an event's members a person reads.
type body struct {
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

// words are the texts of a message.
func (b body) words() string {
	var texts []string
	for _, t := range b.Content {
		texts = append(texts, strings.TrimRight(t.Text, "\r\n"))
	}
	return strings.Join(texts, "\n")
}

// told is an event in words; nothing where it says nothing to a person.
func told(e run.Event) string {
	var b body
	if e.Body != nil && json.Unmarshal(e.Body, &b) != nil {
		return e.Type + " " + screen.Cut(string(e.Body), eventWidth)
	}
	switch e.Type {
	case run.EventStart:
		return strings.TrimSuffix(screen.Line("started on "+b.Runner), " on ")
	case run.EventMessage:
		return screen.Text(b.Role + ": " + b.words())
	case run.EventPreTool:
		return screen.Line("tool "+b.Tool) + " " + screen.Cut(string(b.Input), eventWidth)
	case run.EventPostTool:
		if s := plain(b.Error); s != "" {
			return screen.Line("tool "+b.Tool) + " failed: " + screen.Cut(s, eventWidth)
		}
		return screen.Line("tool "+b.Tool) + " done: " + screen.Cut(plain(b.Output), eventWidth)
	case run.EventResult:
		text := string(b.Data)
		if b.Text != nil {
			text = *b.Text
		}
		return "result: " + screen.Cut(text, eventWidth)
	case run.EventCompleted:
		return "completed"
	case run.EventStopped:
		return "stopped"
	case run.EventFailed:
		return "failed: " + failure(b)
	}
	return screen.Line(e.Type) + " " + screen.Cut(string(e.Body), eventWidth)
}

// failure finds the sentence in a run_failed: the error is an object with a message, or a code beside a message.
func failure(b body) string {
	var inner struct {
		Message string `json:"message"`
	}
	switch {
	case json.Unmarshal(b.Error, &inner) == nil && inner.Message != "":
		return screen.Cut(inner.Message, eventWidth)
	case b.Message != "":
		return screen.Cut(b.Message, eventWidth)
	}
	return screen.Cut(plain(b.Error), eventWidth)
}

// stamped puts a time before what happened; further lines stand under the first.
func stamped(e run.Event, what string) string {
	const indent = "\n          "
	return fmt.Sprintf("%s  %s", e.At.Local().Format("15:04:05"), strings.ReplaceAll(strings.TrimRight(what, "\n"), "\n", indent))
}

// final tells whether the event is the end of its run.
func final(e run.Event) bool {
	return e.Type == run.EventCompleted || e.Type == run.EventFailed || e.Type == run.EventStopped
}

// readEvent reads an event of a list or a live message.
func readEvent(raw []byte) (run.Event, bool) {
	var e run.Event
	return e, json.Unmarshal(raw, &e) == nil && e.Type != ""
}
