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

// done answers who only wants to know that it is taken.
type done struct {
	OK      bool `json:"ok"`
	Session any  `json:"session,omitempty"`
}

// session is the run's session as the API of S003's system shows it.
type session struct {
	ID         string `json:"session_id"`
	Model      string `json:"executor_session_id,omitempty"`
	ProjectDir string `json:"project_dir,omitempty"`
	Agent      string `json:"agent_name"`
	Status     string `json:"status"`
}

func (c call) mine(model string) session {
	v := c.run.Invocation
	return session{v.SessionID, model, v.ProjectDir, v.AgentName, string(run.SessionRunning)}
}

// envelope are members that tell what the gateway knows itself.
var envelope = []string{"session_id", "run_id", "timestamp"}

// members reads the body as an object, checks that it speaks of this run's session, and leaves out what tells that.
func (c call) members() ([]strictjson.Member, error) {
	if len(c.path) == 3 && c.path[1] != c.run.Invocation.SessionID { // /sessions/ID/…
		return nil, c.foreign("the path")
	}
	if err := strictjson.Check(c.body); err != nil {
		return nil, err
	}
	all, err := strictjson.Members(c.body)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "The body must be a JSON object")
	}
	for _, own := range []struct{ name, id string }{{"session_id", c.run.Invocation.SessionID}, {"run_id", c.run.Invocation.RunID}} {
		if raw, ok := find(all, own.name); ok {
			if id, err := text(own.name, raw); err != nil {
				return nil, err
			} else if id != own.id {
				return nil, c.foreign(own.name)
			}
		}
	}
	return slices.DeleteFunc(all, func(m strictjson.Member) bool { return slices.Contains(envelope, m.Key) }), nil
}

func (c call) foreign(field string) error {
	return fault.Newf(fault.Forbidden, "%s names another session or run; this URL is good for %s (%s) only", field, c.run.Invocation.SessionID, c.run.Invocation.RunID).With("field", field)
}

func find(all []strictjson.Member, key string) (json.RawMessage, bool) {
	i := slices.IndexFunc(all, func(m strictjson.Member) bool { return m.Key == key })
	if i < 0 {
		return nil, false
	}
	return all[i].Value, true
}

// text reads a string that may not be empty.
func text(field string, raw json.RawMessage) (s string, err error) {
	if json.Unmarshal(raw, &s) != nil || s == "" {
		return "", fault.Newf(fault.Invalid, "%s must be a string that is not empty, got %.60s", field, raw).With("field", field)
	}
	return s, nil
}

// beside are members of a bind that older executors send and the worker knows better.
var beside = []string{"project_dir", "hostname", "executor_profile", "executor_type"}

// bind binds the model side's session.
func (c call) bind() (any, error) {
	all, err := c.members()
	if err != nil {
		return nil, err
	}
	model := ""
	for _, m := range all {
		switch {
		case m.Key == "executor_session_id":
			if model, err = text(m.Key, m.Value); err != nil {
				return nil, err
			}
		case !slices.Contains(beside, m.Key):
			return nil, unknown(m.Key, "session_id, executor_session_id, "+strings.Join(beside, ", "))
		}
	}
	if model == "" {
		return nil, fault.New(fault.Invalid, "", "executor_session_id is required: the model side's own session id, which a resume gets back").With("field", "executor_session_id")
	}
	if err := c.run.Tell(c.ctx, executor.Line{Type: executor.LineBind, Session: model}); err != nil {
		return nil, err
	}
	return done{true, c.mine(model)}, nil
}

func unknown(field, known string) error {
	if len(field) > 80 {
		field = field[:77] + "..."
	}
	return fault.Newf(fault.Invalid, "Unknown field %q; known are %s", field, known).With("field", field)
}

// idle are events of older executors that say what the orchestrator knows by itself.
var idle = []string{"session_start", "session_stop"}

// event takes an event of the session, or the run's result.
func (c call) event() (any, error) {
	all, err := c.members()
	if err != nil {
		return nil, err
	}
	raw, ok := find(all, "event_type")
	if !ok {
		return nil, fault.New(fault.Invalid, "", "event_type is required: message, pre_tool, post_tool, metadata or result").With("field", "event_type")
	}
	kind, err := text("event_type", raw)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m strictjson.Member) bool { return m.Key == "event_type" })
	if kind == executor.LineResult {
		return c.result(all)
	}
	if slices.Contains(idle, kind) {
		return done{OK: true}, nil
	}
	if err := checkEvent(kind, all); err != nil {
		return nil, err
	}
	return c.tell(kind, strictjson.Object(all))
}

// tell hands an event on.
func (c call) tell(kind string, body json.RawMessage) (any, error) {
	if len(body) > maxEvent {
		if c.run.LeftOut != nil {
			c.run.LeftOut(len(body))
		}
		return nil, fault.Newf(fault.TooLarge, "An event may have %d bytes, this one has %d; tell it in parts, or shorten it", maxEvent, len(body))
	}
	if err := c.run.Tell(c.ctx, executor.Line{Type: executor.LineEvent, EventType: kind, Body: body}); err != nil {
		return nil, err
	}
	return done{OK: true}, nil
}

// result takes the run's result; a later one replaces it.
func (c call) result(all []strictjson.Member) (any, error) {
	for i, m := range all {
		if m.Key == "type" {
			all = slices.Delete(all, i, i+1)
			break
		}
	}
	l, _, err := executor.ReadLine(strictjson.Object(append([]strictjson.Member{{Key: "type", Value: json.RawMessage(`"result"`)}}, all...)))
	if err != nil {
		return nil, err
	}
	if err := c.run.Tell(c.ctx, l); err != nil {
		return nil, err
	}
	return done{OK: true}, nil
}

// checkEvent tells what is wrong with an event.
func checkEvent(kind string, all []strictjson.Member) error {
	need := func(field, what string, ok func(json.RawMessage) bool) error {
		if raw, there := find(all, field); !there || !ok(raw) {
			return fault.Newf(fault.Invalid, "%s of a %s must be %s", field, kind, what).With("field", field)
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
		return need("content", `a list of blocks such as {"type":"text","text":"…"}`, blocks)
	case run.EventPreTool, run.EventPostTool:
		return need("tool_name", "a string that is not empty", func(raw json.RawMessage) bool { _, err := text("", raw); return err == nil })
	case run.EventMetadata:
		if len(all) != 1 {
			return fault.New(fault.Invalid, "", "metadata is all that an event of type metadata has").With("field", "metadata")
		}
		raw, _ := find(all, "metadata")
		_, err := checkMetadata(raw)
		return err
	}
	return fault.Newf(fault.Invalid, "event_type %.60q is not known; known are message, pre_tool, post_tool, metadata and result", kind).With("field", "event_type")
}

// blocks tells whether raw is a list of objects that each have a type, and of type text a text.
func blocks(raw json.RawMessage) bool {
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

// The limits of metadata.
const (
	maxKeys  = 64
	maxValue = 4 << 10 // bytes
)

var key = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// checkMetadata tells what is wrong with the metadata of a run: an object with not too many keys, nor values too large.
func checkMetadata(raw json.RawMessage) ([]strictjson.Member, error) {
	all, err := strictjson.Members(raw)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "metadata must be an object").With("field", "metadata")
	}
	if len(all) > maxKeys {
		return nil, fault.Newf(fault.Invalid, "metadata may have %d keys, not %d", maxKeys, len(all)).With("field", "metadata")
	}
	for _, m := range all {
		switch {
		case !key.MatchString(m.Key):
			return nil, fault.Newf(fault.Invalid, "metadata: the key %.80q must be 1 to 64 letters, digits, '_', '-' or '.', and begin with a letter", m.Key).With("field", "metadata")
		case len(m.Value) > maxValue:
			return nil, fault.Newf(fault.TooLarge, "metadata.%s may have %d bytes, not %d", m.Key, maxValue, len(m.Value)).With("field", "metadata."+m.Key)
		}
	}
	return all, nil
}

// metadata tells facts about the run: usage, cost, and what else its readers may want to know. It takes {"metadata":{…}}, or the keys
// themselves, and as older executors send it executor_session_id, which binds, and last_resumed_at, which says nothing new.
func (c call) metadata() (any, error) {
	all, err := c.members()
	if err != nil {
		return nil, err
	}
	model := ""
	if raw, ok := find(all, "executor_session_id"); ok {
		if model, err = text("executor_session_id", raw); err != nil {
			return nil, err
		}
	}
	all = slices.DeleteFunc(all, func(m strictjson.Member) bool { return m.Key == "executor_session_id" || m.Key == "last_resumed_at" })
	if raw, ok := find(all, "metadata"); ok && len(all) == 1 {
		if all, err = checkMetadata(raw); err != nil {
			return nil, err
		}
	} else if all, err = checkMetadata(strictjson.Object(all)); err != nil {
		return nil, err
	}
	if model != "" {
		if err := c.run.Tell(c.ctx, executor.Line{Type: executor.LineBind, Session: model}); err != nil {
			return nil, err
		}
	}
	if len(all) > 0 {
		if _, err := c.tell(run.EventMetadata, strictjson.Object([]strictjson.Member{{Key: "metadata", Value: strictjson.Object(all)}})); err != nil {
			return nil, err
		}
	}
	return done{true, c.mine(model)}, nil
}

// session shows the run's own session, as executors of S003's system ask for it before they resume.
func (c call) session() (any, error) {
	if c.path[1] != c.run.Invocation.SessionID {
		return nil, c.foreign("the path")
	}
	return struct {
		Session session `json:"session"`
	}{c.mine(c.run.Invocation.ExecutorSession)}, nil
}

// state gives what the session's earlier run kept: its bytes, or 204 where that is nothing.
func (c call) state() (any, error) {
	if c.run.State == nil {
		return nil, errNoState
	}
	if !c.hold(c.g.MaxState) {
		return nil, errFull
	}
	defer c.hold(-c.g.MaxState)
	state, err := c.run.State(c.ctx)
	if err != nil {
		return nil, err
	}
	c.hurry()
	if state == nil {
		c.w.WriteHeader(http.StatusNoContent)
		return nil, nil
	}
	send(c.w, http.StatusOK, "application/octet-stream", state)
	return nil, nil
}

// keep keeps the body for the session's next run.
func (c call) keep() (any, error) {
	if c.run.Keep == nil {
		return nil, errNoState
	}
	if len(c.body) == 0 {
		return nil, fault.New(fault.Invalid, "", "The body is empty; send what is to be kept")
	}
	if err := c.run.Keep(c.ctx, c.body); err != nil {
		return nil, err
	}
	return done{OK: true}, nil
}

var errNoState = fault.New(fault.Conflict, "", "Runs of procedural agents keep nothing: they are not resumed")
