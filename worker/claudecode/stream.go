package claudecode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ao/shared/executor"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/worker/process"
)

// stream takes what claude prints, line by line, and tells the session of it.
type stream struct {
	host     executor.Host
	config   config
	deadline time.Time    // of the run; zero: none
	stopped  func() error // not nil once the run is to end
	begun    func()       // called when claude has read all it was started with, again with each of its turns
	giveUp   func()       // ends claude
	longest  int          // bytes of a line; the rest is cut

	before  counted
	without []string // MCP servers that cannot be used
	bound   string
	version string
	model   string
	calls   map[string]call // under way
	last    string          // what the model said last
	end     *resultLine
	cut     bool // a stop made it end
	trouble trouble
	gaveUp  bool         // claude would wait beyond the run's end
	own     process.Text // what is not of its format
}

type call struct {
	name  string
	input json.RawMessage
}

// line takes a line. What is of no use here (thinking, other facts of its own) is left out, and so is what newer versions add.
func (s *stream) line(raw []byte) {
	var head struct {
		Type    string `json:"type"`
		Subtype string `json:"subtype"`
	}
	if json.Unmarshal(raw, &head) != nil || head.Type == "" {
		if len(raw) > s.longest {
			s.say(fmt.Sprintf("A line of Claude Code's was larger than %d MiB and is left out", s.longest>>20))
			return
		}
		s.own.Limit = maxKept
		s.own.Add(append(bytes.Clone(raw), '\n'))
		return
	}
	switch head.Type + "/" + head.Subtype {
	case "system/init":
		s.begun()
		s.init(raw)
	case "system/api_retry":
		s.retry(raw)
	default:
		switch head.Type {
		case "assistant":
			s.assistant(raw)
		case "user":
			s.results(raw)
		case "rate_limit_event":
			s.limited(raw)
		case "control_response":
			s.answered(raw)
		case "result":
			s.ended(raw)
		}
	}
}

// init binds claude's session, once: each of a process's turns begins with such a line.
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
	if json.Unmarshal(raw, &l); l.Session == "" || s.bound != "" {
		return
	}
	s.bound, s.model, s.version = l.Session, l.Model, l.Version
	if bind, err := strictjson.Encode(executor.Line{Type: executor.LineBind, Session: l.Session}); err == nil {
		s.host.Emit(executor.LineBind, bind)
	}
	for _, m := range l.Servers {
		why, bad := unusable[m.Status]
		if !bad {
			continue
		}
		s.without = append(s.without, m.Name)
		s.say(fmt.Sprintf("The MCP server %q cannot be used: %s. The run goes on without it", cutText(m.Name, 200), why))
	}
}

// unusable are the states of an MCP server, when the turn begins, in which it is of no use to the model.
var unusable = map[string]string{
	"failed": "Claude Code could not connect to it", "needs-auth": "it wants a login", "pending": "it has not answered yet", "disabled": "Claude Code's settings disable it",
}

// retry tells of a request that the API refused and claude makes again, and ends a wait that the run would not outlive.
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
		s.gaveUp = true
		s.trouble.kind, s.trouble.status, s.trouble.wait = l.Error, l.Status, wait
		s.trouble.said = fmt.Sprintf("The API %s, and Claude Code would try again only after the run's time limit", why)
		s.giveUp()
		return
	}
	s.say(fmt.Sprintf("The API %s; Claude Code tries again in %s (%d of %d)", why, wait.Round(100*time.Millisecond), l.Attempt, l.Most))
}

func (s *stream) limited(raw []byte) {
	var l struct {
		Info struct {
			Status string  `json:"status"`
			Resets float64 `json:"resetsAt"` // seconds since 1970
		} `json:"rate_limit_info"`
	}
	if json.Unmarshal(raw, &l); l.Info.Status == "rejected" && l.Info.Resets > 0 {
		s.trouble.resets = time.Unix(int64(l.Info.Resets), 0)
	}
}

// assistant tells what the model says and which tools it calls. A subagent's words are its caller's affair, its tools are told.
func (s *stream) assistant(raw []byte) {
	var l struct {
		Parent  *string `json:"parent_tool_use_id"`
		Error   string  `json:"error"` // then the text is claude's own, and tells of it
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
		s.trouble.kind = l.Error
	} else if l.Parent == nil && l.Message.Model != "" && l.Message.Model != "<synthetic>" {
		s.model = l.Message.Model
	}
	for _, b := range blocks {
		switch {
		case b.Type == "text" && l.Error != "":
			s.trouble.said = b.Text
		case b.Type == "text" && l.Parent == nil && strings.TrimSpace(b.Text) != "":
			s.last = b.Text
			s.host.Emit(run.EventMessage, run.TextMessage("assistant", cutText(b.Text, maxText)))
		case b.Type == "tool_use" && b.Name != "":
			c := call{b.Name, cutInput(b.Input, maxInput)}
			if s.calls == nil {
				s.calls = map[string]call{}
			}
			s.calls[b.ID] = c
			s.tell(run.EventPreTool, toolEvent{Tool: c.name, Input: c.input})
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

// results tells what tools gave back.
func (s *stream) results(raw []byte) {
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
		c, known := s.calls[b.ID]
		if b.Type != "tool_result" || !known {
			continue
		}
		delete(s.calls, b.ID)
		e := toolEvent{Tool: c.name, Input: c.input}
		text := cutText(plain(b.Content), maxText)
		if b.Failed {
			e.Error = &text
		} else {
			e.Output = &text
		}
		s.tell(run.EventPostTool, e)
	}
}

// ended takes claude's last word; of several, which are there when work in the background went on, the last counts.
func (s *stream) ended(raw []byte) {
	var l resultLine
	if json.Unmarshal(raw, &l); l.Subtype == "" {
		return
	}
	s.end, s.cut = &l, s.stopped() != nil
	l = l.without(s.before)
	refused, more := denials(l.Denials)
	facts := []strictjson.Member{}
	for _, f := range []struct {
		key   string
		value json.RawMessage
	}{
		{"model", text(s.model)}, {"num_turns", l.Turns}, {"duration_ms", l.Duration}, {"duration_api_ms", l.API}, {"total_cost_usd", l.Cost},
		{"usage", l.Usage}, {"model_usage", l.ByModel}, {"permission_denials", refused}, {"permission_denials_left_out", count(more)},
		{"mcp_servers_unreachable", list(s.without)},
		{"claude_code_version", text(s.version)},
	} {
		if len(f.value) > 0 && string(f.value) != "null" && len(f.value) < 64<<10 {
			facts = append(facts, strictjson.Member{Key: f.key, Value: f.value})
		}
	}
	s.host.Emit(run.EventMetadata, strictjson.Object([]strictjson.Member{{Key: "metadata", Value: strictjson.Object(facts)}}))
}

func count(n int) json.RawMessage {
	if n == 0 {
		return nil
	}
	return json.RawMessage(strconv.Itoa(n))
}

func list(all []string) json.RawMessage {
	if len(all) == 0 {
		return nil
	}
	raw, _ := strictjson.Encode(all)
	return raw
}

func text(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	raw, _ := strictjson.Encode(s)
	return raw
}

// outcome is how the turn went, once claude has ended.
func (s *stream) outcome(ctx context.Context, inv executor.Invocation, exit process.Exit) run.Outcome {
	exit.Stdout = s.own.Bytes()
	result := &run.Result{Type: run.Autonomous}
	if s.last != "" {
		result.Text = &s.last
	}
	switch {
	case s.end != nil && !s.end.Failed && s.end.Subtype == "success":
		if s.end.Text != nil {
			result.Text = s.end.Text
		}
		return run.Outcome{Status: run.Completed, Result: result}
	case s.gaveUp:
	case s.end == nil && ctx.Err() != nil, s.cut:
		if s.last == "" {
			result = nil
		}
		return run.Outcome{Status: run.Stopped, Result: result}
	case s.end != nil:
		s.trouble.note(s.end)
	}
	return run.Outcome{Status: run.Failed, Error: s.trouble.fault(s.config, inv.ExecutorSession, exit), Result: result}
}

func (s *stream) tell(kind string, body any) {
	raw, err := strictjson.Encode(body)
	if err != nil { // inputs were read as JSON
		return
	}
	s.host.Emit(kind, raw)
}

func (s *stream) say(text string) { s.host.Emit(run.EventMessage, run.TextMessage("system", text)) }

// answered takes an answer to what was asked over stdin.
func (s *stream) answered(raw []byte) {
	var l struct {
		Response struct {
			ID       string `json:"request_id"`
			Response struct {
				Session counted `json:"session"`
			} `json:"response"`
		} `json:"response"`
	}
	if json.Unmarshal(raw, &l) == nil && l.Response.ID == usageID {
		s.before = l.Response.Response.Session
	}
}
