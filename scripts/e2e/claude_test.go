package e2e

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ao/worker/claudecode/standin"
)

// claudeTimeout allows for the start of the real claude, which takes seconds, many on a busy machine.
const claudeTimeout = 4 * time.Minute

// startTool is claude's name for the MCP tool that starts an agent.
const startTool = "mcp__orchestrator__start_agent_session"

// answerFunc answers the last message as an agent's model.
type answerFunc func(last string, r standin.Request) standin.Answer

// claudeStack is a stack whose agents run in the real claude program, with scripted models.
type claudeStack struct {
	*stack
	worker *program
	api    *standin.API
	key    string // of the Messages API
	tmp    string // of the worker and its programs
}

// newClaudeStack starts one with an agent for each scripted model. Every agent has the orchestrator's MCP server.
func newClaudeStack(t *testing.T, claude string, thoughts map[string]answerFunc, more map[string]string) *claudeStack {
	t.Helper()
	if rolling {
		t.Skip("the models of these stories take an error for an answer, and do not call again when NATS has no leader")
	}
	c := &claudeStack{stack: up(t), key: "sk-ant-" + rand.Text()}
	c.api = standin.NewFunc(t, func(r standin.Request) standin.Answer {
		for name, do := range thoughts {
			if !strings.Contains(string(r.System), "You are the "+name+" of a story.") {
				continue
			}
			if a := do(r.Last(), r); a != nil {
				return a
			}
			t.Errorf("the %s does not know what to say to %.3000s", name, r.Last())
			return standin.Error(400, "invalid_request_error", "not in the story")
		}
		t.Errorf("who is asked? %.3000s", r.System)
		return standin.Error(400, "invalid_request_error", "not in the story")
	})
	home := filepath.Join(c.dir, "home")
	c.tmp = filepath.Join(c.dir, "tmp")
	for _, dir := range []string{home, c.tmp} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// The real program, after recording process, gateway and arguments.
	c.write("claude", fmt.Sprintf("#!/bin/sh\necho \"$$ $AGENT_ORCHESTRATOR_AGENT_NAME $AGENT_ORCHESTRATOR_API_URL "+
		"$*\" >>'%s/calls'\nexec '%s' \"$@\"\n", c.dir, claude))
	c.write("profiles/mind.json",
		fmt.Sprintf(`{"type":"autonomous","command":"ao-claude-code-exec","max_concurrent_runs":8,`+
			`"config":{"claude":%q,"allowed_tools":["Bash"]},
		"env":["ANTHROPIC_API_KEY","ANTHROPIC_BASE_URL","CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",`+
			`"ENABLE_TOOL_SEARCH"]}`, filepath.Join(c.dir, "claude")))
	c.worker = c.runner("minds", "AO_PROFILES=mind", "HOME="+home, "TMPDIR="+c.tmp, "ANTHROPIC_API_KEY="+
		c.key, "ANTHROPIC_BASE_URL="+c.api.URL, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"ENABLE_TOOL_SEARCH=false")
	c.online("minds")
	for name := range thoughts {
		c.has(c.post("/agents", fmt.Sprintf(`{"name":%q,"system_prompt":"You are the %s of a story.",`+
			`"mcp_servers":{"orchestrator":{"type":"http","url":"${AGENT_ORCHESTRATOR_MCP_URL}"}}%s}`, name, name,
			more[name])), 201)
	}
	return c
}

// ended waits until a run has ended and returns it.
func (c *claudeStack) ended(id string) (r reply) {
	c.t.Helper()
	c.within(claudeTimeout, "run "+id+" has ended", func() bool {
		r = c.get("/runs/" + id)
		return r.at("completed_at") != ""
	})
	return r
}

// processes returns the recorded claude processes of an agent.
func (c *claudeStack) processes(agent string) (all [][]string) {
	raw, err := os.ReadFile(filepath.Join(c.dir, "calls"))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	for _, l := range strings.Split(string(raw), "\n") {
		if f := strings.Fields(l); len(f) > 3 && (agent == "" || f[1] == agent) {
			all = append(all, f)
		}
	}
	return all
}

// runsOf returns a session's runs, oldest first.
func (c *claudeStack) runsOf(session string) (all []reply) {
	c.t.Helper()
	var page struct {
		Runs []struct {
			ID string `json:"run_id"`
		} `json:"runs"`
	}
	if r := c.get("/runs?limit=1000&session_id=" + session); json.Unmarshal([]byte(r.text), &page) != nil {
		c.t.Fatal(r.text)
	}
	for _, r := range page.Runs {
		all = append(all, c.get("/runs/"+r.ID))
	}
	slices.SortFunc(all, func(a, b reply) int { return strings.Compare(a.at("run_id"), b.at("run_id")) })
	return all
}

// waitSettled waits until these sessions have no open runs and no pending callbacks; children come before their
// parents.
func (c *claudeStack) waitSettled(sessions ...string) {
	c.t.Helper()
	c.within(claudeTimeout, "all is over", func() bool {
		for _, session := range sessions {
			if slices.ContainsFunc(c.runsOf(session), func(r reply) bool {
				return r.at("completed_at") == "" || r.at("mode") == "async_callback" &&
					r.at("callback.status") != "delivered"
			}) {
				return false
			}
		}
		return true
	})
}

// checkCallbackOnce checks that each ended run of a child was delivered to its parent exactly once.
func (c *claudeStack) checkCallbackOnce(child, parent string) {
	c.t.Helper()
	turns := map[string]string{}
	var all strings.Builder
	for _, r := range c.runsOf(parent) {
		turns[r.at("run_id")] = r.at("parameters.prompt")
		all.WriteString(r.at("parameters.prompt") + "\n")
	}
	mine := c.runsOf(child)
	for _, r := range mine {
		if turn := turns[r.at("callback.callback_run_id")]; r.at("callback.status") != "delivered" ||
			!strings.Contains(turn, child) {
			c.t.Errorf("%s; it was reported in the turn %q", r.text, turn)
		}
	}
	if n := strings.Count(all.String(), `<agent-callback session="`+child+`"`) +
		strings.Count(all.String(), "### Child: "+child); n != len(mine) {
		c.t.Errorf("%d runs of %s were reported %d times:\n%s", len(mine), child, n, all.String())
	}
}

// checkSecrets searches for keys and tokens everywhere they could leak.
func (c *claudeStack) checkSecrets() {
	c.t.Helper()
	texts := map[string]string{"the coordinator's log": c.coordinator.log.String(),
		"the worker's log": c.worker.log.String()}
	var sessions struct {
		Sessions []struct {
			ID string `json:"session_id"`
		} `json:"sessions"`
	}
	if r := c.get("/sessions?limit=1000"); json.Unmarshal([]byte(r.text), &sessions) != nil ||
		len(sessions.Sessions) == 0 {
		c.t.Fatal(r.text)
	}
	for _, s := range sessions.Sessions {
		for _, path := range []string{"/sessions/" + s.ID, "/sessions/" + s.ID + "/events?limit=1000", "/sessions/" +
			s.ID + "/result"} {
			texts[path] = c.get(path).text
		}
		for _, r := range c.runsOf(s.ID) {
			path := "/runs/" + r.at("run_id") + "/result"
			texts[path] = r.text + c.get(path).text
		}
	}
	secrets := []string{c.key, "aos_"}
	for _, p := range c.processes("") {
		u, err := url.Parse(p[2])
		if err != nil || len(u.Path) < 20 {
			c.t.Fatalf("a gateway's URL %q: %v", p[2], err)
		}
		secrets = append(secrets, strings.TrimPrefix(u.Path, "/"))
	}
	for where, text := range texts {
		for _, secret := range secrets {
			if i := strings.Index(text, secret); i >= 0 {
				c.t.Errorf("%s holds %.8s…: %s", where, secret, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}
	if left, _ := os.ReadDir(c.tmp); slices.ContainsFunc(left, func(e os.DirEntry) bool {
		return strings.HasPrefix(e.Name(), "ao-claude-mcp-")
	}) {
		c.t.Errorf("left in the worker's TMPDIR: %v", left)
	}
}

// found matches text that only the scanner knows.
var found = regexp.MustCompile(`leak-[A-Z0-9]+`)

// TestThreeLevelsOfAgents with the real claude program: each agent starts the next one over MCP and ends its turn.
// The scanner's second answer comes back by callbacks.
func TestThreeLevelsOfClaudes(t *testing.T) {
	t.Parallel()
	leak := "leak-" + rand.Text()
	above := func(child, prompt string) answerFunc {
		return func(last string, r standin.Request) standin.Answer {
			switch {
			case strings.Contains(last, "<agent-callback") && found.MatchString(last):
				return standin.Text("It comes down to " + found.FindString(last))
			case strings.Contains(last, "<agent-callback"):
				return standin.Text("Not yet")
			case strings.Contains(last, `"next":"The run continues by itself.`):
				return standin.Text("I wait for the " + child)
			case strings.Contains(last, "Find leaks") && r.Has(startTool):
				return standin.ToolCall(startTool, map[string]any{"agent_name": child, "prompt": prompt,
					"mode": "async_callback"})
			}
			return nil
		}
	}
	c := newClaudeStack(t, standin.Claude(t), map[string]answerFunc{
		"orchestrator": above("researcher", "Find leaks in the code"),
		"researcher":   above("scanner", "Scan it"),
		"scanner": func(last string, r standin.Request) standin.Answer {
			switch {
			case strings.Contains(last, "'issues' is a required property"): // asked again
				if all := string(r.Messages); !strings.Contains(all, "Scan it") ||
					!strings.Contains(all, `{\"found\":1}`) {
					t.Errorf("the scanner does not remember its first answer: %.3000s", all)
				}
				return standin.Text("Now then:\n```json\n{\"issues\":[\"" + leak + "\"],\"summary\":\"one leak\"}\n```")
			case strings.Contains(last, "Scan it") && strings.Contains(string(r.System), "Required Output Format"):
				return standin.Text(`{"found":1}`)
			}
			return nil
		},
	}, map[string]string{"scanner": `,"output_schema":` + findings})

	first := c.ended(c.run(`{"agent_name":"orchestrator","prompt":"Find leaks"}`))
	if first.at("status") != "completed" {
		t.Fatalf("the orchestrator: %s", first.text)
	}
	top := first.at("session_id")
	c.within(claudeTimeout, "the scanner's result has come to the top", func() bool {
		return strings.Contains(c.get("/sessions/"+top+"/result").at("result_text"), leak)
	})
	if got := c.get("/sessions/" + top + "/result").at("result_text"); got != "It comes down to "+leak {
		t.Errorf("the last turn's answer: %q", got)
	}
	middle := c.get("/sessions?parent_session_id=" + top).at("sessions.0.session_id")
	low := c.get("/sessions?parent_session_id=" + middle).at("sessions.0.session_id")
	c.waitSettled(low, middle, top)

	scan := c.runsOf(low)
	if len(scan) != 1 {
		t.Fatalf("%d runs of the scanner: %v", len(scan), scan)
	}
	c.has(c.get("/runs/"+scan[0].at("run_id")+"/result"), 200, `"result_text":null`, `"result_data":{"issues":["`+leak+
		`"],"summary":"one leak"}`, `"valid":true`, `"schema_source":"blueprint"`, `"retry_count":1`)
	if p := c.processes("scanner"); len(p) != 2 || strings.Contains(strings.Join(p[0], " "), "--resume=") ||
		!strings.Contains(strings.Join(p[1], " "), " --resume=") {
		t.Errorf("the scanner's processes: %q", p)
	}
	c.checkCallbackOnce(low, middle)
	c.checkCallbackOnce(middle, top)
	for parent, child := range map[string]string{top: middle, middle: low} {
		events := c.messages(parent)
		c.contains(events, `"event_type":"pre_tool"`, `"event_type":"post_tool"`, `"tool_name":"`+startTool+
			`"`, `"tool_output":"{\"run_id\":\"`, child)
	}
	for _, session := range []string{top, middle, low} {
		c.contains(c.messages(session), `"metadata":{"model":`, `"total_cost_usd":`, `"output_tokens":`, `"num_turns":`)
	}
	c.checkLedger()
	c.checkSecrets()
}

// A child that is waited for is a tool call with a result. A call that violates the child's parameters_schema returns
// the API's error, and the model corrects it. The next turn, on another worker process, reports its own cost.
func TestClaudeCorrectsItsCall(t *testing.T) {
	t.Parallel()
	standin.Each(t, testCorrectedCall)
}

func testCorrectedCall(t *testing.T, claude string) {
	const schema = `{"type":"object","required":["url","depth"],"properties":{"url":{"type":"string","format":"uri"},` +
		`"depth":{"type":"integer","minimum":1}},"additionalProperties":false}`
	const bad, good = `{"url":"not-a-url","depth":0,"zz":1}`, `{"depth":2,"url":"http://example.com/?a=1&b=2"}`
	call := func(parameters string) standin.Answer {
		return standin.ToolCall(startTool,
			map[string]any{"agent_name": "crawler", "parameters": json.RawMessage(parameters), "mode": "sync",
				"wait_seconds": 600})
	}
	c := newClaudeStack(t, claude, map[string]answerFunc{
		"orchestrator": func(last string, r standin.Request) standin.Answer {
			switch {
			case strings.Contains(last, "And now?"):
				return standin.Text("Nothing more")
			case strings.Contains(last, `"status":"completed"`):
				return standin.Text("The crawler says: " + reply{text: last}.at("result.result_text"))
			case strings.Contains(last, `"parameter_validation_failed"`) && strings.Contains(last, `"$.zz"`):
				return call(good)
			case strings.Contains(last, "Crawl") && r.Has(startTool):
				return call(bad)
			}
			return nil
		},
		"crawler": func(last string, _ standin.Request) standin.Answer {
			if strings.Contains(last, "<inputs>\ndepth: 2\nurl: http://example.com/?a=1&b=2\n</inputs>") {
				return standin.Text("three pages")
			}
			return nil
		},
	}, map[string]string{"crawler": `,"parameters_schema":` + schema})

	top := c.ended(c.run(`{"agent_name":"orchestrator","prompt":"Crawl"}`))
	session := top.at("session_id")
	c.has(c.get("/runs/"+top.at("run_id")+"/result"), 200, `"result_text":"The crawler says: three pages"`)
	if n := c.runs("agent_name=crawler"); n != 1 {
		t.Errorf("%d runs of the crawler", n)
	}
	whole := strings.TrimSuffix(c.post("/runs", `{"agent_name":"crawler","parameters":`+bad+`}`).text, "\n")
	c.contains(whole, `{"error":"parameter_validation_failed"`, `"path":"$.url"`, `"path":"$.depth"`, `"path":"$.zz"`,
		`"parameters_schema":`+schema)
	var page struct{ Events []json.RawMessage }
	if r := c.get("/sessions/" + session + "/events?limit=1000"); json.Unmarshal([]byte(r.text), &page) != nil {
		t.Fatal(r.text)
	}
	var errs, outputs []string
	for _, raw := range page.Events {
		if e := (reply{text: string(raw)}); e.at("event_type") == "post_tool" && e.at("tool_name") == startTool {
			errs, outputs = append(errs, e.at("error")), append(outputs, e.at("tool_output"))
		}
	}
	if len(errs) != 2 || !strings.Contains(errs[0], whole) || errs[1] != "" {
		t.Errorf("errors of the tool: %q\nwant the first one to hold %s", errs, whole)
	}
	if len(outputs) != 2 || (reply{text: outputs[1]}).at("result.result_text") != "three pages" {
		t.Errorf("outputs of the tool: %q", outputs)
	}
	child := c.get("/sessions?parent_session_id=" + session).at("sessions.0.session_id")
	if runs := c.runsOf(session); len(runs) != 1 || child == "" {
		t.Errorf("the child %q, which was waited for, is reported again: %v", child, runs)
	}

	c.worker.kill()
	c.worker.start()
	next := c.ended(c.run(`{"session_id":"` + session + `","prompt":"And now?"}`))
	c.has(c.get("/runs/"+next.at("run_id")+"/result"), 200, `"result_text":"Nothing more"`)
	cost := map[string]float64{}
	if r := c.get("/sessions/" + session + "/events?limit=1000"); json.Unmarshal([]byte(r.text), &page) != nil {
		t.Fatal(r.text)
	}
	for _, raw := range page.Events {
		if e := (reply{text: string(raw)}); e.at("event_type") == "metadata" {
			cost[e.at("run_id")], _ = strconv.ParseFloat(e.at("metadata.total_cost_usd"), 64)
		}
	}
	if one := cost[next.at("run_id")]; one <= 0 || math.Abs(cost[top.at("run_id")]-3*one) > 1e-9 {
		t.Errorf("a turn that asked the model three times and one that asked it once cost %v", cost)
	}
	c.checkLedger()
	c.checkSecrets()
}

// A stop ends claude and all its processes, even while it waits for a child, which continues until it is stopped too.
func TestAStoppedClaudeLeavesNothing(t *testing.T) {
	t.Parallel()
	c := newClaudeStack(t, standin.Claude(t), map[string]answerFunc{
		"orchestrator": func(last string, r standin.Request) standin.Answer {
			if strings.Contains(last, "Begin") && r.Has(startTool) {
				return standin.ToolCall(startTool, map[string]any{"agent_name": "sleeper", "prompt": "Sleep",
					"wait_seconds": 600})
			}
			return nil
		},
		"sleeper": func(last string, _ standin.Request) standin.Answer {
			if strings.Contains(last, "Sleep") {
				return standin.ToolCall("Bash",
					map[string]any{"command": "true; sleep 1000 & echo $! $$ >pids.new; mv pids.new pids; wait; true"})
			}
			return nil
		},
	}, nil)
	pids := func(agent string) (all []string) {
		for _, p := range c.processes(agent) {
			all = append(all, p[0])
		}
		return all
	}
	run := c.run(`{"agent_name":"orchestrator","prompt":"Begin"}`)
	c.within(claudeTimeout, "the sleeper sleeps", func() bool { return len(c.lines("pids")) == 2 })
	child := c.get("/runs?agent_name=sleeper").at("runs.0.run_id")

	c.has(c.post("/runs/"+run+"/stop", ""), 200)
	if r := c.ended(run); r.at("status") != "stopped" {
		t.Errorf("the orchestrator: %s", r.text)
	}
	c.exited(pids("orchestrator"))
	for _, pid := range append(pids("sleeper"), c.lines("pids")...) {
		if _, err := os.Stat("/proc/" + pid); err != nil {
			t.Errorf("the stop of the caller ended a process of the sleeper: %v", err)
		}
	}
	if r := c.get("/runs/" + child); r.at("status") != "running" {
		t.Errorf("the stop of the caller ended the sleeper: %s", r.text)
	}

	c.has(c.post("/sessions/"+c.get("/runs/"+child).at("session_id")+"/stop", ""), 200)
	if r := c.ended(child); r.at("status") != "stopped" {
		t.Errorf("the sleeper: %s", r.text)
	}
	c.exited(append(pids("sleeper"), c.lines("pids")...))
	c.checkLedger()
	c.checkSecrets()
}
