package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ao/shared/strictjson"
)

// The kinds of session events.
const (
	EventStart     = "run_start"
	EventMessage   = "message"
	EventPreTool   = "pre_tool"
	EventPostTool  = "post_tool"
	EventMetadata  = "metadata" // facts about the run, such as usage and cost
	EventResult    = "result"
	EventCompleted = "run_completed"
	EventFailed    = "run_failed"
	EventStopped   = "run_stopped"
)

// ReportedKinds are the kinds that executors report and workers write. The others are derived from the records of RUNS.
var ReportedKinds = []string{EventMessage, EventPreTool, EventPostTool, EventMetadata}

// Event is an event for a session's readers. As JSON, the body's members follow the four fixed ones.
type Event struct {
	Type      string
	SessionID string
	RunID     string
	At        time.Time
	Body      json.RawMessage // an object, or nothing
}

// Message is the body of a message event.
type Message struct {
	Role    string `json:"role"` // assistant, user, system
	Content []Text `json:"content"`

	Rejection *Rejection `json:"rejection,omitempty"` // in a system message about a rejected answer
}

// Text is a block of a message.
type Text struct {
	Type string `json:"type"` // text
	Text string `json:"text"`
}

func textMessage(role, s string) Message {
	return Message{Role: role, Content: []Text{{Type: "text", Text: s}}}
}

// TextMessage returns the body of a message with one text.
func TextMessage(role, s string) json.RawMessage {
	raw, err := strictjson.Encode(textMessage(role, s))
	if err != nil { // strings can always be encoded
		panic(err)
	}
	return raw
}

type eventHead struct {
	Type      string    `json:"event_type"`
	SessionID string    `json:"session_id"`
	RunID     string    `json:"run_id"`
	At        time.Time `json:"timestamp"`
}

// MarshalJSON writes the event as one flat object.
func (e Event) MarshalJSON() ([]byte, error) {
	head, err := strictjson.Encode(eventHead{e.Type, e.SessionID, e.RunID, e.At})
	if err != nil {
		return nil, err
	}
	body := bytes.TrimSpace(e.Body)
	if len(body) < 2 || body[0] != '{' {
		if len(body) == 0 {
			return head, nil
		}
		return nil, fmt.Errorf("event %s: its body must be an object", e.Type)
	}
	if inner := bytes.TrimSpace(body[1 : len(body)-1]); len(inner) > 0 {
		head = append(head[:len(head)-1], ',')
		head = append(head, inner...)
		head = append(head, '}')
	}
	return head, nil
}

// UnmarshalJSON reads the head; Body gets all other members. Only the first of each member of the head counts.
func (e *Event) UnmarshalJSON(raw []byte) error {
	members, err := strictjson.Members(raw)
	if err != nil {
		return errors.New("an event is an object")
	}
	*e = Event{}
	head := map[string]any{"event_type": &e.Type, "session_id": &e.SessionID, "run_id": &e.RunID, "timestamp": &e.At}
	body := members[:0]
	for _, m := range members {
		into, ok := head[m.Key]
		switch {
		case !ok:
			body = append(body, m)
		case into != nil:
			if err := json.Unmarshal(m.Value, into); err != nil {
				return fmt.Errorf("%s: %w", m.Key, err)
			}
			head[m.Key] = nil
		}
	}
	if len(body) > 0 {
		e.Body = strictjson.Object(body)
	}
	return nil
}
