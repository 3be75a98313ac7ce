// Package executor is the contract with executor programs, version 2.2: one JSON document on
// stdin, JSON lines on stdout, an exit code. Main is for writing such a program in Go, Serve for one that stays for the
// further turns of its session (lifecycle persistent, turn.go).
//
//	{"type":"event","event_type":"message","role":"assistant","content":[{"type":"text","text":"…"}]}
//	{"type":"bind","executor_session_id":"…"}
//	{"type":"result","result_type":"procedural","result_text":null,"result_data":{…},"exit_code":0}
//
// A result may carry "error" {"error":CODE,"message":…}: then the run failed with it, and keeps the result. The last
// result counts. A program that writes none of these lines has all that it wrote as its result.
package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// The environment variables that an executor and all below it find.
const (
	EnvSessionID = "AGENT_SESSION_ID"
	EnvRunID     = "AGENT_ORCHESTRATOR_RUN_ID"
	EnvAgentName = "AGENT_ORCHESTRATOR_AGENT_NAME"
	EnvAttempt   = "AGENT_ORCHESTRATOR_ATTEMPT"
	EnvAPIURL    = "AGENT_ORCHESTRATOR_API_URL" // the gateway of this run; its path holds the run's token
	EnvMCPURL    = "AGENT_ORCHESTRATOR_MCP_URL" // the orchestrator's MCP server, as this session

	// Whose trace the run is a part of (W3C Trace Context), where it is one's: what the program tells OpenTelemetry
	// goes below it.
	EnvTraceParent = "TRACEPARENT"
	EnvTraceState  = "TRACESTATE"
)

// Invocation is what an executor is to do.
type Invocation struct {
	SchemaVersion string          `json:"schema_version"`
	Mode          string          `json:"mode"` // start or resume
	SessionID     string          `json:"session_id"`
	RunID         string          `json:"run_id"`
	Parameters    json.RawMessage `json:"parameters"`  // as the caller sent them
	ProjectDir    string          `json:"project_dir"` // the working directory, too
	AgentName     string          `json:"agent_name"`
	Blueprint     json.RawMessage `json:"agent_blueprint"`
	Config        json.RawMessage `json:"executor_config"`
	// what bind reported in an earlier run of the session
	ExecutorSession string `json:"executor_session_id,omitempty"`
	// autonomous: what the model is to be told, made of the parameters
	Prompt    string `json:"prompt,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`   // from 1
	Lifecycle string `json:"lifecycle,omitempty"` // Persistent: further turns follow on stdin; else nothing does

	APIURL string `json:"-"` // in Go programs: the gateway of this run; it comes in the environment, or with the turn
	MCPURL string `json:"-"` // likewise: the orchestrator's MCP server

	TraceParent string `json:"-"` // likewise: whose trace the run is a part of; empty: nobody's
	TraceState  string `json:"-"`

	// in workers: the run of the session that was begun before this one; they keep processes by it
	PreviousRunID string `json:"-"`
}

// ReadInvocation reads an invocation strictly: an unknown or missing field is named in the error.
func ReadInvocation(raw []byte) (Invocation, error) {
	var v Invocation
	if err := strictjson.Decode(raw, &v); err != nil {
		return v, err
	}
	return v, v.Check()
}

// Check tells whether the invocation is whole.
func (v Invocation) Check() error {
	for _, c := range []struct {
		field string
		bad   bool
		want  string
	}{
		{"schema_version", v.SchemaVersion != Version, `must be "` + Version + `"`},
		{"mode", v.Mode != Start && v.Mode != Resume, `must be "start" or "resume"`},
		{"session_id", v.SessionID == "", "is required"},
		{"run_id", v.RunID == "", "is required"},
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

// Encode writes the document for the program's stdin, on one line; parameters, blueprint and configuration stay as they
// are, every digit and the order of keys.
func (v Invocation) Encode() ([]byte, error) {
	for _, raw := range []*json.RawMessage{&v.Parameters, &v.Blueprint, &v.Config} {
		if len(*raw) == 0 {
			*raw = json.RawMessage("{}")
		}
	}
	return encode(v)
}

// encode is json.Marshal that leaves <, > and & as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err // it ends with a line feed
}

// The types of lines.
const (
	LineEvent  = "event"
	LineBind   = "bind"
	LineResult = "result"
)

// Line is what an executor tells, one JSON object on one line of its stdout. Type says which of the others is set.
type Line struct {
	Type      string
	EventType string          // event: message, pre_tool, post_tool
	Body      json.RawMessage // event: its other members, an object
	Session   string          // bind: the model side's own session id
	RunID     string          // turn_complete, turn_failed: whose answer it is; empty: that of the run under way
	Result    *run.Result     // result; turn_complete and turn_failed where they have one
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

// join puts the members of two objects into one.
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

// ReadLine reads what an executor wrote on one line. ok is false where the line is not of the protocol: no object,
// or one whose "type" is none of these; then it is the program's own output. The error tells what is wrong with
// a line of the protocol, by field.
func ReadLine(raw []byte) (l Line, ok bool, err error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return l, false, nil
	}
	if !utf8.Valid(raw) { // a stray byte does not cost the work that was done
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
		if err := strictjson.Decode(raw, &b); err != nil {
			return l, true, err
		}
		l.Session = b.Session
		if l.Session == "" {
			err = fault.New(fault.Invalid, "", "executor_session_id is required in a bind line").With("field",
				"executor_session_id")
		}
		return l, true, err
	case LineResult:
		var r resultLine
		if err := strictjson.Decode(raw, &r); err != nil {
			return l, true, err
		}
		if r.Text != nil && len(r.Data) > 0 && string(r.Data) != "null" {
			return l, true, fault.New(fault.Invalid, "",
				"result_text and result_data exclude each other; send one").With("field", "result_data")
		}
		l.Result, l.Error = &r.Result, r.Error
		return l, true, nil
	case LineEvent:
		return readEvent(l, raw)
	case LineTurnComplete, LineTurnFailed:
		return readAnswer(l, raw)
	}
	return l, false, nil
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
	body := []byte{'{'}
	for _, m := range members {
		switch m.Key {
		case "type":
		case "event_type":
			if json.Unmarshal(m.Value, &l.EventType) != nil {
				return l, true, fault.New(fault.Invalid, "", "event_type must be a string").With("field", m.Key)
			}
		default:
			if len(body) > 1 {
				body = append(body, ',')
			}
			key, _ := json.Marshal(m.Key)
			body = append(append(append(body, key...), ':'), m.Value...)
		}
	}
	l.Body = append(body, '}')
	if l.EventType == "" {
		return l, true, fault.New(fault.Invalid, "", "event_type is required in an event line").With("field",
			"event_type")
	}
	return l, true, nil
}
