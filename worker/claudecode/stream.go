package claudecode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"ao/shared/executor"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/worker/process"
)

// stream handles the lines that claude prints and emits the session's events.
type stream struct {
	host      executor.Host
	config    config
	deadline  time.Time    // of the run; zero: none
	stopped   func() error // not nil once the run must end
	onStarted func()       // called when claude has started, and again with each of its turns
	kill      func()       //
	maxLine   int          // bytes of a line; the rest is cut off

	usageBefore               sessionUsage
	unusableServers           []string // MCP servers that cannot be used
	sessionID, version, model string
	calls                     map[string]toolEvent // calls without a result
	lastText                  string               // last text of the model
	result                    *resultLine
	interrupted               bool // ended by a stop
	failure                   failure
	retryTooLate              bool // claude would retry after the run's time limit
	exit                      exitWatch
	plain                     process.Text // output in another format
}

// onLine handles a line. It ignores lines without use here, such as thinking, and those of newer versions.
func (s *stream) onLine(raw []byte) {
	var head struct {
		Type    string `json:"type"`
		Subtype string `json:"subtype"`
	}
	err := json.Unmarshal(raw, &head)
	kind := head.Type + "/" + head.Subtype
	defer s.exit.onLine(kind, raw)
	if err != nil || head.Type == "" {
		if len(raw) > s.maxLine {
			s.systemMessage(fmt.Sprintf("a line of Claude Code larger than %d MiB is dropped", s.maxLine>>20))
			return
		}
		s.plain.Limit = maxOutput
		s.plain.Add(append(bytes.Clone(raw), '\n'))
		return
	}
	switch kind {
	case "system/init":
		s.onStarted()
		s.init(raw)
	case "system/api_retry":
		s.retry(raw)
	default:
		switch head.Type {
		case "assistant":
			s.assistant(raw)
		case "user":
			s.toolResults(raw)
		case "rate_limit_event":
			s.rateLimited(raw)
		case "control_response":
			s.controlResponse(raw)
		case "result":
			s.onResult(raw)
		}
	}
}

// init binds claude's session, once: each turn of a process starts with such a line.
func (s *stream) init(raw []byte) {
	var l struct {
		Session string `json:"session_id"`
		Model   string `json:"model"`
		Version string `json:"claude_code_version"`
		Servers []struct {
			Name   string `json:"name"`
			Status string `json:"status"`
		} `json:"mcp_servers"`
	}
	if json.Unmarshal(raw, &l); l.Session == "" || s.sessionID != "" {
		return
	}
	s.sessionID, s.model, s.version = l.Session, l.Model, l.Version
	if bind, err := strictjson.Encode(executor.Line{Type: executor.LineBind, Session: l.Session}); err == nil {
		s.host.Emit(executor.LineBind, bind)
	}
	for _, m := range l.Servers {
		why, bad := unusable[m.Status]
		if !bad {
			continue
		}
		s.unusableServers = append(s.unusableServers, m.Name)
		s.systemMessage(fmt.Sprintf("the MCP server %q cannot be used: %s; the run continues without it",
			cutText(m.Name, 200), why))
	}
}

// unusable are the states in which an MCP server is unusable for the model at the start of a turn.
var unusable = map[string]string{
	"failed": "Claude Code could not connect to it", "needs-auth": "it needs a login",
	"pending": "it has not answered yet", "disabled": "Claude Code's settings disable it",
}

// retry reports an API request that claude retries, and ends claude if the retry would come after the run's time limit.
func (s *stream) retry(raw []byte) {
	var l struct {
		Attempt int     `json:"attempt"`
		Most    int     `json:"max_retries"`
		Delay   float64 `json:"retry_delay_ms"`
		Status  int     `json:"error_status"`
		Error   string  `json:"error"`
	}
	json.Unmarshal(raw, &l)
	wait := time.Duration(l.Delay * float64(time.Millisecond))
	why := "cannot be reached"
	if l.Status > 0 {
		why = strings.TrimSpace(fmt.Sprintf("answered %d %s", l.Status, http.StatusText(l.Status)))
	}
	if !s.deadline.IsZero() && time.Now().Add(wait).After(s.deadline) {
		s.retryTooLate = true
		s.failure.kind, s.failure.status, s.failure.wait = l.Error, l.Status, wait
		s.failure.message = fmt.Sprintf("the API %s, and Claude Code would retry only after the run's time limit", why)
		s.kill()
		return
	}
	s.systemMessage(fmt.Sprintf("the API %s; Claude Code retries in %s (%d of %d)", why,
		wait.Round(100*time.Millisecond), l.Attempt, l.Most))
}

func (s *stream) rateLimited(raw []byte) {
	var l struct {
		Info struct {
			Status string  `json:"status"`
			Resets float64 `json:"resetsAt"` // seconds since 1970
		} `json:"rate_limit_info"`
	}
	if json.Unmarshal(raw, &l); l.Info.Status == "rejected" && l.Info.Resets > 0 {
		s.failure.resets = time.Unix(int64(l.Info.Resets), 0)
	}
}

// assistant emits the model's text and tool calls. Of a subagent only the tool calls are emitted.
func (s *stream) assistant(raw []byte) {
	var l struct {
		Parent  *string `json:"parent_tool_use_id"`
		Error   string  `json:"error"` // set: the text is claude's own error message
		Message struct {
			Model   string          `json:"model"`
			Content json.RawMessage `json:"content"`
		} `json:"message"`
	}
	json.Unmarshal(raw, &l)
	var blocks []struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	json.Unmarshal(l.Message.Content, &blocks)
	if l.Error != "" {
		s.failure.kind = l.Error
	} else if l.Parent == nil && l.Message.Model != "" && l.Message.Model != "<synthetic>" {
		s.model = l.Message.Model
	}
	for _, b := range blocks {
		switch {
		case b.Type == "text" && l.Error != "":
			s.failure.message = b.Text
		case b.Type == "text" && l.Parent == nil && strings.TrimSpace(b.Text) != "":
			s.lastText = b.Text
			s.host.Emit(run.EventMessage, run.TextMessage("assistant", cutText(b.Text, maxText)))
		case b.Type == "tool_use" && b.Name != "":
			e := toolEvent{Tool: b.Name, Input: cutInput(b.Input, maxToolInput)}
			if s.calls == nil {
				s.calls = map[string]toolEvent{}
			}
			s.calls[b.ID] = e
			s.emit(run.EventPreTool, e)
		}
	}
}

// toolEvent is the body of pre_tool and post_tool.
type toolEvent struct {
	Tool   string          `json:"tool_name"`
	Input  json.RawMessage `json:"tool_input"`
	Output *string         `json:"tool_output,omitempty"`
	Error  *string         `json:"error,omitempty"`
}

// toolResults emits the results of tools.
func (s *stream) toolResults(raw []byte) {
	var l struct {
		Message struct {
			Content json.RawMessage `json:"content"`
		} `json:"message"`
	}
	json.Unmarshal(raw, &l)
	var blocks []struct {
		Type    string          `json:"type"`
		ID      string          `json:"tool_use_id"`
		Content json.RawMessage `json:"content"`
		Failed  bool            `json:"is_error"`
	}
	json.Unmarshal(l.Message.Content, &blocks)
	for _, b := range blocks {
		e, known := s.calls[b.ID]
		if b.Type != "tool_result" || !known {
			continue
		}
		delete(s.calls, b.ID)
		text := cutText(toolResultText(b.Content), maxText)
		if b.Failed {
			e.Error = &text
		} else {
			e.Output = &text
		}
		s.emit(run.EventPostTool, e)
	}
}

// onResult handles claude's result line. If background work continued, there are several; the last one counts.
func (s *stream) onResult(raw []byte) {
	var l resultLine
	if json.Unmarshal(raw, &l); l.Subtype == "" || s.exit.expired.Load() {
		return
	}
	s.exit.waiting = true
	s.result, s.interrupted = &l, s.stopped() != nil
	l = l.subtract(s.usageBefore)
	refused, more := denials(l.Denials)
	var moreDenials any
	if more > 0 {
		moreDenials = more
	}
	var facts []strictjson.Member
	for _, f := range []struct {
		key   string
		value any
	}{
		{"model", s.model}, {"num_turns", l.Turns}, {"duration_ms", l.Duration}, {"duration_api_ms", l.API},
		{"total_cost_usd", l.Cost},
		{"usage", l.Usage}, {"model_usage", l.ByModel}, {"permission_denials", refused},
		{"permission_denials_left_out", moreDenials},
		{"mcp_servers_unreachable", s.unusableServers},
		{"claude_code_version", s.version},
	} {
		raw, err := strictjson.Encode(f.value)
		if err == nil && string(raw) != "null" && string(raw) != `""` && len(raw) < 64<<10 {
			facts = append(facts, strictjson.Member{Key: f.key, Value: raw})
		}
	}
	s.host.Emit(run.EventMetadata, strictjson.Object([]strictjson.Member{{Key: "metadata",
		Value: strictjson.Object(facts)}}))
}

// outcome returns the outcome of the turn, once claude has ended.
func (s *stream) outcome(ctx context.Context, inv executor.Invocation, exit process.Exit) run.Outcome {
	s.exit.stop()
	if s.exit.expired.Load() {
		s.systemMessage("Claude Code did not exit after its result and was ended")
	}
	exit.Stdout = s.plain.Bytes()
	result := &run.Result{Type: run.Autonomous}
	if s.lastText != "" {
		result.Text = &s.lastText
	}
	switch {
	case s.result.succeeded():
		if s.lastText == "" || !s.result.blank() {
			result.Text = s.result.Text
		}
		return run.Outcome{Status: run.Completed, Result: result}
	case s.retryTooLate:
	case s.result == nil && ctx.Err() != nil, s.interrupted:
		if s.lastText == "" {
			result = nil
		}
		return run.Outcome{Status: run.Stopped, Error: exit.KeepStderr(nil), Result: result}
	case s.result != nil:
		s.failure.fromResult(s.result)
	}
	return run.Outcome{Status: run.Failed, Error: s.failure.fault(s.config, inv.ExecutorSession, exit), Result: result}
}

func (s *stream) emit(kind string, body any) {
	raw, err := strictjson.Encode(body)
	if err != nil { // never: inputs were decoded from JSON
		return
	}
	s.host.Emit(kind, raw)
}

func (s *stream) systemMessage(text string) {
	s.host.Emit(run.EventMessage, run.TextMessage("system", text))
}

// controlResponse handles the answer to a request sent over stdin.
func (s *stream) controlResponse(raw []byte) {
	var l struct {
		Response struct {
			ID       string `json:"request_id"`
			Response struct {
				Session sessionUsage `json:"session"`
			} `json:"response"`
		} `json:"response"`
	}
	if json.Unmarshal(raw, &l) == nil && l.Response.ID == usageRequestID {
		s.usageBefore = l.Response.Response.Session
	}
}
