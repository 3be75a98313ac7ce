package executor

import (
	"bytes"
	"encoding/json"
	"slices"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// The lifecycles of a program. A oneshot program does one run and ends. A persistent one stays for the further
// turns of its session. The document is the first line on its stdin, and one line follows for each turn:
//
//	{"type":"turn","mode":"resume","run_id":"run_…","attempt":1,"parameters":{…},"prompt":"…"}
//	{"type":"shutdown"}
//
// It ends each turn, the first included, with one of these lines, and exits at shutdown or at the end of its stdin:
//
//	{"type":"turn_complete","run_id":"run_…","result":…}
//	{"type":"turn_failed","run_id":"run_…","error":{"error":CODE,"message":…}}
//
// result is a result document (an object with result_text or result_data), or the result itself: a string is
// result_text, any other value result_data. Without one, the turn's last result line counts, else its own text.
// run_id is optional; if present it must be the turn's.
const (
	Oneshot    = "oneshot"
	Persistent = "persistent"
)

// The types of the lines to and from a persistent program.
const (
	LineTurn         = "turn"
	LineShutdown     = "shutdown"
	LineTurnComplete = "turn_complete"
	LineTurnFailed   = "turn_failed"
)

// Turn is a line on a persistent program's stdin. Missing members keep their values.
type Turn struct {
	Type            string          `json:"type"` // turn or shutdown; a shutdown has no other members
	Mode            string          `json:"mode,omitempty"`
	RunID           string          `json:"run_id,omitempty"`
	Attempt         int             `json:"attempt,omitempty"`
	Parameters      json.RawMessage `json:"parameters,omitempty"`
	Prompt          string          `json:"prompt,omitempty"`
	ExecutorSession string          `json:"executor_session_id,omitempty"`
	Blueprint       json.RawMessage `json:"agent_blueprint,omitempty"` // if it has changed
	APIURL          string          `json:"api_url,omitempty"`         // the run's gateway
	MCPURL          string          `json:"mcp_url,omitempty"`
	// the run's trace context; the environment has the first run's
	TraceParent string `json:"traceparent,omitempty"`
	TraceState  string `json:"tracestate,omitempty"`
}

// TurnOf returns the line for a further turn. blueprint says whether the agent has changed since the last one.
func TurnOf(v Invocation, blueprint bool) Turn {
	t := Turn{LineTurn, v.Mode, v.RunID, v.Attempt, v.Parameters, v.Prompt, v.ExecutorSession, nil, v.APIURL, v.MCPURL,
		v.TraceParent, v.TraceState}
	if len(t.Parameters) == 0 {
		t.Parameters = json.RawMessage("{}")
	}
	if blueprint {
		t.Blueprint = v.Blueprint
	}
	return t
}

// Encode writes the line with its line feed.
func (t Turn) Encode() ([]byte, error) { return encode(t) }

// ReadTurn reads a line after the document. Unknown members are ignored: later versions may have more.
func ReadTurn(raw []byte) (Turn, error) {
	var t Turn
	if err := json.Unmarshal(strictjson.TrimBOM(raw), &t); err != nil {
		return t, fault.Newf(fault.Invalid, "the line is not a turn: %v", err)
	}
	switch {
	case t.Type == LineShutdown:
	case t.Type != LineTurn:
		return t, fault.Newf(fault.Invalid, `type must be "turn" or "shutdown", got %.40q`, t.Type).With("field",
			"type")
	case t.RunID == "":
		return t, fault.New(fault.Invalid, "", "run_id is required").With("field", "run_id")
	case !object(t.Parameters, false):
		return t, fault.New(fault.Invalid, "", "parameters must be an object").With("field", "parameters")
	}
	return t, nil
}

// Next returns the invocation of a further turn.
func (v Invocation) Next(t Turn) Invocation {
	v.Mode, v.RunID, v.Attempt, v.Parameters, v.Prompt, v.APIURL, v.MCPURL = t.Mode, t.RunID, t.Attempt, t.Parameters,
		t.Prompt, t.APIURL, t.MCPURL
	v.TraceParent, v.TraceState = t.TraceParent, t.TraceState
	if t.ExecutorSession != "" {
		v.ExecutorSession = t.ExecutorSession
	}
	if object(t.Blueprint, false) {
		v.Blueprint = t.Blueprint
	}
	return v
}

type answerLine struct {
	Type   string       `json:"type"`
	RunID  string       `json:"run_id,omitempty"`
	Result *run.Result  `json:"result,omitempty"`
	Error  *fault.Fault `json:"error,omitempty"`
}

// readAnswer reads the line that ends a turn.
func readAnswer(l Line, raw []byte) (Line, bool, error) {
	var a struct {
		Type   string          `json:"type"`
		RunID  string          `json:"run_id"`
		Result json.RawMessage `json:"result"`
		Error  *fault.Fault    `json:"error"`
	}
	if err := strictjson.DecodeAny(raw, &a); err != nil {
		return l, true, err
	}
	l.RunID, l.Error = a.RunID, a.Error
	switch {
	case l.Type == LineTurnFailed && a.Error == nil:
		return l, true, fault.New(fault.Invalid, "",
			`error is required in a turn_failed line: {"error":CODE,"message":TEXT}`).With("field", "error")
	case l.Type == LineTurnComplete && a.Error != nil:
		return l, true, fault.New(fault.Invalid, "", "a turn_complete line has no error; send turn_failed").With(
			"field", "error")
	}
	var err error
	l.Result, err = readResult(a.Result)
	return l, true, err
}

// readResult reads the result of a turn_complete line, nil if it has none.
func readResult(raw json.RawMessage) (*run.Result, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case raw[0] == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return &run.Result{Type: run.Autonomous, Text: &text}, err
	case raw[0] == '{' && isDocument(raw):
		var r run.Result
		if err := strictjson.DecodeAny(raw, &r); err != nil {
			return nil, err
		}
		if r.Text != nil && len(r.Data) > 0 && string(r.Data) != "null" {
			return nil, fault.New(fault.Invalid, "", "result_text and result_data exclude each other; send one").With(
				"field", "result_data")
		}
		return &r, nil
	}
	return &run.Result{Type: run.Autonomous, Data: raw}, nil
}

// isDocument distinguishes a result document from a result that is an object.
func isDocument(raw json.RawMessage) bool {
	members, err := strictjson.Members(raw)
	return err == nil && slices.ContainsFunc(members, func(m strictjson.Member) bool {
		return m.Key == "result_text" || m.Key == "result_data"
	})
}
