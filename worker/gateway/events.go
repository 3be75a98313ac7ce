package gateway

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// ack is the response to a request that only needs a confirmation.
type ack struct {
	OK      bool `json:"ok"`
	Session any  `json:"session,omitempty"`
}

// sessionDoc is the run's session as the API of earlier executors shows it.
type sessionDoc struct {
	ID              string `json:"session_id"`
	ExecutorSession string `json:"executor_session_id,omitempty"`
	ProjectDir      string `json:"project_dir,omitempty"`
	Agent           string `json:"agent_name"`
	Status          string `json:"status"`
}

func (c call) sessionDoc(model string) sessionDoc {
	v := c.run.Invocation
	return sessionDoc{v.SessionID, model, v.ProjectDir, v.AgentName, string(run.SessionRunning)}
}

// envelopeFields are members of a request body that only identify the run.
var envelopeFields = []string{"session_id", "run_id", "timestamp"}

// members decodes the body as an object, checks that it names this run's session, and drops envelopeFields.
func (c call) members() ([]strictjson.Member, error) {
	if len(c.path) == 3 && c.path[1] != c.run.Invocation.SessionID { // /sessions/ID/…
		return nil, c.foreign("the path")
	}
	body := strictjson.TrimBOM(c.body)
	if err := strictjson.Check(body); err != nil {
		return nil, err
	}
	all, err := strictjson.Members(body)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "the body must be a JSON object")
	}
	for _, own := range []struct{ name, id string }{{"session_id", c.run.Invocation.SessionID},
		{"run_id", c.run.Invocation.RunID}} {
		if raw, ok := find(all, own.name); ok {
			if id, err := text(own.name, raw); err != nil {
				return nil, err
			} else if id != own.id {
				return nil, c.foreign(own.name)
			}
		}
	}
	return slices.DeleteFunc(all, func(m strictjson.Member) bool { return slices.Contains(envelopeFields, m.Key) }), nil
}

func (c call) foreign(field string) error {
	return fault.Newf(fault.Forbidden, "%s names another session or run; this URL is for session %s (run %s) only",
		field, c.run.Invocation.SessionID, c.run.Invocation.RunID).With("field", field)
}

func find(all []strictjson.Member, key string) (json.RawMessage, bool) {
	i := slices.IndexFunc(all, func(m strictjson.Member) bool { return m.Key == key })
	if i < 0 {
		return nil, false
	}
	return all[i].Value, true
}

// text decodes a string that must not be empty.
func text(field string, raw json.RawMessage) (s string, err error) {
	if json.Unmarshal(raw, &s) != nil || s == "" {
		return "", fault.Newf(fault.Invalid, "%s must be a non-empty string, got %.60s", field, raw).
			With("field", field)
	}
	return s, nil
}

// ignoredBindFields are members of a bind request that older executors send; the worker knows better.
var ignoredBindFields = []string{"project_dir", "hostname", "executor_profile", "executor_type"}

// bind binds the executor's own session id.
func (c call) bind() (any, error) {
	all, err := c.members()
	if err != nil {
		return nil, err
	}
	model := ""
	for _, m := range all {
		switch {
		case m.Key == "executor_session_id":
			model, err = text(m.Key, m.Value)
			if err != nil {
				return nil, err
			}
		case !slices.Contains(ignoredBindFields, m.Key):
			return nil, unknownField(m.Key, "session_id, executor_session_id, "+strings.Join(ignoredBindFields, ", "))
		}
	}
	if model == "" {
		return nil,
			fault.New(fault.Invalid,
				"", "executor_session_id is required: the executor's own session id, which a resume gets back").
				With("field", "executor_session_id")
	}
	if err := c.run.OnLine(c.ctx, executor.Line{Type: executor.LineBind, Session: model}); err != nil {
		return nil, err
	}
	return ack{true, c.sessionDoc(model)}, nil
}

func unknownField(field, known string) error {
	if len(field) > 80 {
		field = field[:77] + "..."
	}
	return fault.Newf(fault.Invalid, "unknown field %q; known fields: %s", field, known).With("field", field)
}

// ignoredEvents are events of older executors that the orchestrator derives itself.
var ignoredEvents = []string{"session_start", "session_stop"}

// event accepts an event of the session, or the run's result.
func (c call) event() (any, error) {
	all, err := c.members()
	if err != nil {
		return nil, err
	}
	raw, ok := find(all, "event_type")
	if !ok {
		return nil,
			fault.New(fault.Invalid, "", "event_type is required: message, pre_tool, post_tool, metadata or result").
				With("field", "event_type")
	}
	kind, err := text("event_type", raw)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m strictjson.Member) bool { return m.Key == "event_type" })
	if kind == executor.LineResult {
		return c.result(all)
	}
	if slices.Contains(ignoredEvents, kind) {
		return ack{OK: true}, nil
	}
	if err := checkEvent(kind, all); err != nil {
		return nil, err
	}
	return c.emit(kind, strictjson.Object(all))
}

func (c call) emit(kind string, body json.RawMessage) (any, error) {
	if len(body) > maxEvent {
		if c.run.OnOversized != nil {
			c.run.OnOversized(len(body))
		}
		return nil, fault.Newf(fault.TooLarge, "the event has more than %d bytes (it has %d); split or shorten it",
			maxEvent, len(body))
	}
	if err := c.run.OnLine(c.ctx, executor.Line{Type: executor.LineEvent, EventType: kind, Body: body}); err != nil {
		return nil, err
	}
	return ack{OK: true}, nil
}

// result accepts the run's result; a later one replaces it.
func (c call) result(all []strictjson.Member) (any, error) {
	all = slices.DeleteFunc(all, func(m strictjson.Member) bool { return m.Key == "type" })
	l, err := executor.ReadResult(strictjson.Object(append([]strictjson.Member{{Key: "type",
		Value: json.RawMessage(`"result"`)}}, all...)))
	if err != nil {
		return nil, err
	}
	if err := c.run.OnLine(c.ctx, l); err != nil {
		return nil, err
	}
	return ack{OK: true}, nil
}

func checkEvent(kind string, all []strictjson.Member) error {
	need := func(field, what string, ok func(json.RawMessage) bool) error {
		if raw, there := find(all, field); !there || !ok(raw) {
			return fault.Newf(fault.Invalid, "%s of a %s event must be %s", field, kind, what).With("field", field)
		}
		return nil
	}
	switch kind {
	case run.EventMessage:
		if err := need("role", "assistant, user or system", func(raw json.RawMessage) bool {
			return slices.Contains([]string{`"assistant"`, `"user"`, `"system"`}, string(raw))
		}); err != nil {
			return err
		}
		return need("content", `a list of blocks such as {"type":"text","text":"…"}`, validBlocks)
	case run.EventPreTool, run.EventPostTool:
		return need("tool_name", "a non-empty string", func(raw json.RawMessage) bool {
			_, err := text("", raw)
			return err == nil
		})
	case run.EventMetadata:
		if len(all) != 1 {
			return fault.New(fault.Invalid, "", "an event of type metadata has the one member metadata").
				With("field", "metadata")
		}
		raw, _ := find(all, "metadata")
		_, err := checkMetadata(raw)
		return err
	}
	return fault.Newf(fault.Invalid,
		"unknown event_type %.60q; known are message, pre_tool, post_tool, metadata and result", kind).
		With("field", "event_type")
}

// validBlocks reports whether raw is a list of objects with a type, and with a text where the type is text.
func validBlocks(raw json.RawMessage) bool {
	var list []struct {
		Type *string
		Text *string
	}
	if string(raw) == "null" || json.Unmarshal(raw, &list) != nil {
		return false
	}
	for _, b := range list {
		if b.Type == nil || *b.Type == "text" && b.Text == nil {
			return false
		}
	}
	return true
}

// Limits of metadata.
const (
	maxKeys  = 64
	maxValue = 4 << 10 // bytes
)

var metadataKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// checkMetadata checks the metadata of a run: an object, not too many keys, no value too large.
func checkMetadata(raw json.RawMessage) ([]strictjson.Member, error) {
	all, err := strictjson.Members(raw)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "metadata must be an object").With("field", "metadata")
	}
	if len(all) > maxKeys {
		return nil, fault.Newf(fault.Invalid, "metadata may have at most %d keys, got %d", maxKeys, len(all)).
			With("field", "metadata")
	}
	for _, m := range all {
		switch {
		case !metadataKey.MatchString(m.Key):
			return nil,
				fault.Newf(fault.Invalid,
					"metadata: key %.80q must be 1 to 64 letters, digits, '_', '-' or '.', and begin with a letter",
					m.Key).With("field", "metadata")
		case len(m.Value) > maxValue:
			return nil, fault.Newf(fault.TooLarge, "metadata.%s may have at most %d bytes, got %d", m.Key, maxValue,
				len(m.Value)).With("field", "metadata."+m.Key)
		}
	}
	return all, nil
}

// metadata accepts facts about the run, such as usage and cost. The body is {"metadata":{…}} or the keys themselves.
// Older executors also send executor_session_id, which binds, and last_resumed_at, which is ignored.
func (c call) metadata() (any, error) {
	all, err := c.members()
	if err != nil {
		return nil, err
	}
	model := ""
	if raw, ok := find(all, "executor_session_id"); ok {
		model, err = text("executor_session_id", raw)
		if err != nil {
			return nil, err
		}
	}
	all = slices.DeleteFunc(all, func(m strictjson.Member) bool {
		return m.Key == "executor_session_id" || m.Key == "last_resumed_at"
	})
	if raw, ok := find(all, "metadata"); ok && len(all) == 1 {
		all, err = checkMetadata(raw)
	} else {
		all, err = checkMetadata(strictjson.Object(all))
	}
	if err != nil {
		return nil, err
	}
	if model != "" {
		if err := c.run.OnLine(c.ctx, executor.Line{Type: executor.LineBind, Session: model}); err != nil {
			return nil, err
		}
	}
	if len(all) > 0 {
		if _, err := c.emit(run.EventMetadata, strictjson.Object([]strictjson.Member{{Key: "metadata",
			Value: strictjson.Object(all)}})); err != nil {
			return nil, err
		}
	}
	return ack{true, c.sessionDoc(model)}, nil
}

// session returns the run's own session; earlier executors ask for it before they resume.
func (c call) session() (any, error) {
	if c.path[1] != c.run.Invocation.SessionID {
		return nil, c.foreign("the path")
	}
	return struct {
		Session sessionDoc `json:"session"`
	}{c.sessionDoc(c.run.Invocation.ExecutorSession)}, nil
}

// state returns the kept state of the session, or 204 where there is none.
func (c call) state() (any, error) {
	if c.run.State == nil {
		return nil, errNoState
	}
	if !c.reserve(c.gateway.MaxState) {
		return nil, errTooManyLarge
	}
	defer c.reserve(-c.gateway.MaxState)
	state, err := c.run.State(c.ctx)
	if err != nil {
		return nil, err
	}
	c.setWriteDeadline()
	if state == nil {
		c.w.WriteHeader(http.StatusNoContent)
		return nil, nil
	}
	write(c.w, http.StatusOK, "application/octet-stream", state)
	return nil, nil
}

// keep keeps the body for the session's next run.
func (c call) keep() (any, error) {
	if c.run.Keep == nil {
		return nil, errNoState
	}
	if len(c.body) == 0 {
		return nil, fault.New(fault.Invalid, "", "the body is empty; send the state to keep")
	}
	if err := c.run.Keep(c.ctx, c.body); err != nil {
		return nil, err
	}
	return ack{OK: true}, nil
}

var errNoState = fault.New(fault.Conflict, "", "runs of procedural agents keep no state: they are never resumed")
