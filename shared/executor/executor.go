// Package executor is the protocol between workers and executor programs, version 2.2: one JSON document on
// stdin, JSON lines on stdout, an exit code. Main is for writing such a program in Go, Serve for one that stays
// for the further turns of its session (lifecycle persistent, turn.go).
//
//	{"type":"event","event_type":"message","role":"assistant","content":[{"type":"text","text":"…"}]}
//	{"type":"bind","executor_session_id":"…"}
//	{"type":"result","result_type":"procedural","result_text":null,"result_data":{…},"exit_code":0}
//
// A result may have "error" {"error":CODE,"message":…}: then the run failed with it, and keeps the result. The
// last result counts. The result of a program without such lines is everything that it wrote.
package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// Version is the version of the invocation.
const Version = "2.2"

// The modes of an invocation.
const (
	Start  = "start"
	Resume = "resume"
)

// The environment variables of an executor and its child processes.
const (
	EnvSessionID = "AGENT_SESSION_ID"
	EnvRunID     = "AGENT_ORCHESTRATOR_RUN_ID"
	EnvAgentName = "AGENT_ORCHESTRATOR_AGENT_NAME"
	EnvAttempt   = "AGENT_ORCHESTRATOR_ATTEMPT"
	EnvAPIURL    = "AGENT_ORCHESTRATOR_API_URL" // gateway of this run; its path contains the run's token
	EnvMCPURL    = "AGENT_ORCHESTRATOR_MCP_URL" // the orchestrator's MCP server, as this session

	// The trace context of the run (W3C), if it has one: the program's own spans go below it.
	EnvTraceParent = "TRACEPARENT"
	EnvTraceState  = "TRACESTATE"
)

// Invocation is an executor's task.
type Invocation struct {
	SchemaVersion string          `json:"schema_version"`
	Mode          string          `json:"mode"` // start or resume
	SessionID     string          `json:"session_id"`
	RunID         string          `json:"run_id"`
	Parameters    json.RawMessage `json:"parameters"`  // as the caller sent them
	ProjectDir    string          `json:"project_dir"` // also the working directory
	AgentName     string          `json:"agent_name"`
	Blueprint     json.RawMessage `json:"agent_blueprint"`
	Config        json.RawMessage `json:"executor_config"`
	// bound in an earlier run of the session
	ExecutorSession string `json:"executor_session_id,omitempty"`
	// autonomous: the text for the model, made of the parameters
	Prompt    string `json:"prompt,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`   // from 1
	Lifecycle string `json:"lifecycle,omitempty"` // Persistent: further turns follow on stdin

	APIURL string `json:"-"` // in Go programs: the run's gateway, from the environment or the turn
	MCPURL string `json:"-"` // the same for the orchestrator's MCP server

	TraceParent string `json:"-"` // the same for the run's trace context; empty: none
	TraceState  string `json:"-"`

	// in workers: the session's run that was claimed before this one
	PreviousRunID string `json:"-"`
	// in workers: the hash of the definition that the run was checked against; empty: its agent is no runner's
	AgentHash string `json:"-"`
}

// ReadInvocation reads an invocation strictly. The error names an unknown or missing field.
func ReadInvocation(raw []byte) (Invocation, error) {
	var v Invocation
	if err := strictjson.Decode(strictjson.TrimBOM(raw), &v); err != nil {
		return v, err
	}
	return v, v.Check()
}

// Check checks that the invocation is complete.
func (v Invocation) Check() error {
	for _, c := range []struct {
		field string
		bad   bool
		want  string
	}{
		{"schema_version", v.SchemaVersion != Version, `must be "` + Version + `"`},
		{"mode", v.Mode != Start && v.Mode != Resume, `must be "start" or "resume"`},
		{"session_id", v.SessionID == "", "is required"},
		{"agent_name", v.AgentName == "", "is required"},
		{"parameters", !object(v.Parameters, false), "must be an object"},
		{"agent_blueprint", !object(v.Blueprint, true), "must be an object or null"},
		{"executor_config", !object(v.Config, true), "must be an object or null"},
		{"attempt", v.Attempt < 0, "must be a positive number"},
		{"lifecycle", v.Lifecycle != "" && v.Lifecycle != Oneshot && v.Lifecycle != Persistent,
			`must be "oneshot" or "persistent"`},
	} {
		if c.bad {
			return fault.Newf(fault.Invalid, "%s %s", c.field, c.want).With("field", c.field)
		}
	}
	return nil
}

func object(raw json.RawMessage, optional bool) bool {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return optional
	}
	return raw[0] == '{'
}

// Encode writes the document for the program's stdin, on one line. Parameters, blueprint and configuration keep
// every digit and the order of keys.
func (v Invocation) Encode() ([]byte, error) {
	for _, raw := range []*json.RawMessage{&v.Parameters, &v.Blueprint, &v.Config} {
		if len(*raw) == 0 {
			*raw = json.RawMessage("{}")
		}
	}
	return encode(v)
}

func encode(v any) ([]byte, error) {
	raw, err := strictjson.Encode(v)
	return append(raw, '\n'), err
}

// The types of lines.
const (
	LineEvent  = "event"
	LineBind   = "bind"
	LineResult = "result"
)

// Line is a line of an executor's stdout, one JSON object. Type says which of the other fields are set.
type Line struct {
	Type      string
	EventType string          // event: message, pre_tool, post_tool
	Body      json.RawMessage // event: its other members, an object
	Session   string          // bind: the executor's own session id
	RunID     string          // turn_complete, turn_failed: the turn's run; empty: the current one
	Result    *run.Result     // result; turn_complete and turn_failed may have one
	Error     *fault.Fault    // result, turn_failed: the run failed with it
}

type bindLine struct {
	Type    string `json:"type"`
	Session string `json:"executor_session_id"`
}

type resultLine struct {
	Line string `json:"type"` // not Type: that would hide the result's own
	run.Result
	Error *fault.Fault `json:"error,omitempty"`
}

// MarshalJSON writes the line's flat object.
func (l Line) MarshalJSON() ([]byte, error) {
	switch l.Type {
	case LineBind:
		return encode(bindLine{l.Type, l.Session})
	case LineResult:
		if l.Result == nil {
			return nil, errors.New("a result line without a result")
		}
		return encode(resultLine{l.Type, *l.Result, l.Error})
	case LineEvent:
		head, err := encode(struct {
			Type      string `json:"type"`
			EventType string `json:"event_type"`
		}{l.Type, l.EventType})
		if err != nil {
			return nil, err
		}
		return join(head, l.Body)
	case LineTurnComplete, LineTurnFailed:
		return encode(answerLine{l.Type, l.RunID, l.Result, l.Error})
	}
	return nil, fmt.Errorf("a line of type %q: it is event, bind, result, turn_complete or turn_failed", l.Type)
}

// join merges the members of two objects.
func join(head, body []byte) ([]byte, error) {
	head, body = bytes.TrimSpace(head), bytes.TrimSpace(body)
	if len(body) == 0 {
		return head, nil
	}
	if body[0] != '{' {
		return nil, errors.New("an event's body must be an object")
	}
	inner := bytes.TrimSpace(body[1 : len(body)-1])
	if len(inner) == 0 {
		return head, nil
	}
	return append(append(append(head[:len(head)-1:len(head)-1], ','), inner...), '}'), nil
}

// ReadLine reads a line of an executor's stdout. ok is false if it is not a line of the protocol: no object, another
// "type", or a result with none of our members. Then it is the program's own output. The error names the field that
// is wrong.
func ReadLine(raw []byte) (l Line, ok bool, err error) {
	raw = bytes.TrimSpace(strictjson.TrimBOM(raw))
	if len(raw) == 0 || raw[0] != '{' {
		return l, false, nil
	}
	if !utf8.Valid(raw) { // a stray byte must not lose the work that was done
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	var head struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &head) != nil {
		return l, false, nil
	}
	l.Type = head.Type
	switch l.Type {
	case LineBind:
		var b bindLine
		if err := strictjson.DecodeAny(raw, &b); err != nil {
			return l, true, err
		}
		l.Session = b.Session
		if l.Session == "" {
			err = fault.New(fault.Invalid, "", "executor_session_id is required in a bind line").With("field",
				"executor_session_id")
		}
		return l, true, err
	case LineResult:
		if foreignResult(raw) {
			return l, false, nil
		}
		l, err = ReadResult(raw)
		return l, true, err
	case LineEvent:
		return readEvent(l, raw)
	case LineTurnComplete, LineTurnFailed:
		return readAnswer(l, raw)
	}
	return l, false, nil
}

// ReadResult reads a result line, as ReadLine does. What has none of our members is refused as well.
func ReadResult(raw []byte) (Line, error) {
	l := Line{Type: LineResult}
	var r resultLine
	if err := strictjson.DecodeAny(raw, &r); err != nil {
		return l, err
	}
	if r.Text != nil && len(r.Data) > 0 && string(r.Data) != "null" {
		return l, fault.New(fault.Invalid, "", "result_text and result_data exclude each other; send one").
			With("field", "result_data")
	}
	l.Result, l.Error = &r.Result, r.Error
	return l, nil
}

// foreignResult reports whether a line of type result is another program's: none of its members is ours, or only an
// error without a code. `claude -p --output-format json` and `gemini --output-format stream-json` print such lines.
func foreignResult(raw []byte) bool {
	var r struct {
		Error struct {
			Code *string `json:"error"`
		} `json:"error"`
	}
	if json.Unmarshal(raw, &r) == nil && r.Error.Code != nil {
		return false
	}
	members, _ := strictjson.Members(raw) // it is an object
	foreign := false
	for _, m := range members {
		switch {
		case strings.HasPrefix(m.Key, "result_") || m.Key == "exit_code":
			return false
		case m.Key != "type" && m.Key != "error":
			foreign = true
		}
	}
	return foreign
}

// readEvent splits an event line into its type and its body.
func readEvent(l Line, raw []byte) (Line, bool, error) {
	if err := strictjson.Check(raw); err != nil {
		return l, true, err
	}
	members, err := strictjson.Members(raw)
	if err != nil {
		return l, true, err
	}
	for _, m := range members {
		if m.Key == "event_type" && json.Unmarshal(m.Value, &l.EventType) != nil {
			return l, true, fault.New(fault.Invalid, "", "event_type must be a string").With("field", m.Key)
		}
	}
	l.Body = strictjson.Object(slices.DeleteFunc(members, func(m strictjson.Member) bool {
		return m.Key == "type" || m.Key == "event_type"
	}))
	if l.EventType == "" {
		return l, true, fault.New(fault.Invalid, "", "event_type is required in an event line").With("field",
			"event_type")
	}
	return l, true, nil
}
