package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/shared/run"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// client is a client of the official SDK.
type client struct {
	t        testing.TB
	mcp      *mcp.ClientSession
	mu       sync.Mutex
	messages []string // progress
}

// withHeaders sends headers, each "Name: value", with every request.
type withHeaders []string

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for _, one := range h {
		name, value, _ := strings.Cut(one, ": ")
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// versions are protocols that clients speak: the newest without sessions, and those of clients of today.
var versions = []string{"2026-07-28", "2025-11-25", "2025-06-18"}

// speak connects a client.
func (s *stack) speak(version string, headers ...string) *client {
	s.t.Helper()
	c := &client{t: s.t}
	sdk := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.messages = append(c.messages, r.Params.Message)
		},
	})
	var err error
	c.mcp, err = sdk.Connect(s.t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp",
		HTTPClient: &http.Client{Transport: withHeaders(headers)}}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.mcp.Close() })
	if got := c.mcp.InitializeResult().ProtocolVersion; got != version {
		s.t.Fatalf("speaks %s, want %s", got, version)
	}
	return c
}

// call calls a tool and gives its document; an error's too.
func (c *client) call(name, args string) (doc string, isError bool) {
	c.t.Helper()
	return c.callWith(c.t.Context(), name, args, nil)
}

func (c *client) callWith(ctx context.Context, name, args string, token any) (doc string, isError bool) {
	c.t.Helper()
	params := &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(args)}
	if token != nil {
		params.SetProgressToken(token)
	}
	res, err := c.mcp.CallTool(ctx, params)
	if err != nil {
		c.t.Fatalf("%s %s: %v", name, args, err)
	}
	if len(res.Content) != 1 {
		c.t.Fatalf("%s: %d pieces of content", name, len(res.Content))
	}
	text := res.Content[0].(*mcp.TextContent).Text
	if !json.Valid([]byte(text)) || (res.StructuredContent == nil) != res.IsError {
		c.t.Errorf("%s: text %s, data %v", name, text, res.StructuredContent)
	}
	return text, res.IsError
}

// good calls a tool that must succeed, and reads its document.
func good[T any](c *client, name, args string) T {
	c.t.Helper()
	doc, isError := c.call(name, args)
	if isError {
		c.t.Fatalf("%s %s is refused: %s", name, args, doc)
	}
	var v T
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		c.t.Fatalf("%s: %v: %s", name, err, doc)
	}
	return v
}

// refused calls a tool that must be refused, with these words.
func (c *client) refused(name, args string, words ...string) {
	c.t.Helper()
	doc, isError := c.call(name, args)
	if !isError {
		c.t.Errorf("%s %s is not refused: %s", name, args, doc)
	}
	for _, w := range words {
		if !strings.Contains(doc, w) {
			c.t.Errorf("%s %s: no %q in %s", name, args, w, doc)
		}
	}
}

// child is what the tools return of a run.
type child struct {
	RunID     string         `json:"run_id"`
	SessionID string         `json:"session_id"`
	Status    string         `json:"status"`
	Result    *run.Result    `json:"result"`
	Error     map[string]any `json:"error"`
	Next      string         `json:"next"`
	Parent    string         `json:"parent_session_id"`
	Last      *struct {
		RunID string `json:"run_id"`
	} `json:"last_run"`
}

// TestMCPTools calls every tool as each kind of client does.
func TestMCPTools(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := think(s)
	s.post("/agents", strings.Replace(crawler, `"name"`, `"output_schema":{"type":"object"},"name"`, 1)).want(201)
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			c := s.speak(version)
			c.t = t
			tools, err := c.mcp.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range tools.Tools {
				names = append(names, tool.Name)
				if tool.Description == "" || tool.Annotations == nil ||
					tool.InputSchema.(map[string]any)["additionalProperties"] != false {
					t.Errorf("%s: %+v", tool.Name, tool)
				}
			}
			if got := strings.Join(names, " "); got != "get_agent_session_result get_agent_session_status "+
				"list_agent_blueprints list_agent_sessions list_output_schemas register_output_schema "+
				"resume_agent_session start_agent_session stop_agent_session" {
				t.Errorf("tools: %s", got)
			}

			agents := good[struct {
				Agents []struct {
					Name   string          `json:"name"`
					Takes  string          `json:"start_with"`
					Schema json.RawMessage `json:"parameters_schema"`
					Output json.RawMessage `json:"output_schema"`
				}
			}](c, "list_agent_blueprints", `{}`).Agents
			if len(agents) != 2 || agents[0].Name != "mind" || agents[0].Takes != "prompt" ||
				string(agents[0].Schema) != "null" ||
				agents[1].Takes != "parameters" || !strings.Contains(string(agents[1].Schema), `"required":["url"]`) ||
				string(agents[1].Output) != `{"type":"object"}` {
				t.Errorf("agents: %+v", agents)
			}

			first := good[child](c, "start_agent_session", `{"agent_name":"mind","prompt":"hello"}`)
			if first.Status != "completed" || first.Result == nil || *first.Result.Text != "hello" || first.Next != "" {
				t.Errorf("started: %+v", first)
			}
			second := good[child](c, "resume_agent_session", `{"session_id":"`+
				first.SessionID+`","prompt":"and again","mode":null}`)
			if second.SessionID != first.SessionID || second.RunID == first.RunID ||
				*second.Result.Text != "and again" {
				t.Errorf("resumed: %+v", second)
			}
			if st := good[child](c, "get_agent_session_status", `{"session_id":"`+
				first.SessionID+`"}`); st.Status != "finished" || st.Last == nil || st.Last.RunID != second.RunID {
				t.Errorf("status: %+v", st)
			}
			if res := good[child](c, "get_agent_session_result", `{"session_id":"`+
				first.SessionID+`"}`); res.RunID != second.RunID || *res.Result.Text != "and again" {
				t.Errorf("result: %+v", res)
			}
			busy := good[child](c, "start_agent_session", `{"agent_name":"mind","prompt":"hold","mode":"async_poll"}`)
			m.token(busy.RunID) // it has started
			c.refused("get_agent_session_result", `{"session_id":"`+busy.SessionID+`"}`, `"error":"run_not_ended"`,
				`"next":"The run continues`)
			if stopped := good[child](c, "stop_agent_session", `{"session_id":"`+
				busy.SessionID+`"}`); stopped.SessionID != busy.SessionID {
				t.Errorf("stopped: %+v", stopped)
			}
			c.refused("get_agent_session_result", `{"session_id":"`+busy.SessionID+`","wait_seconds":20}`,
				`"status":"stopped"`)
			list := good[struct {
				Sessions []child `json:"sessions"`
			}](c, "list_agent_sessions", `{"agent_name":"mind","limit":2}`).Sessions
			if len(list) != 2 || list[0].SessionID != busy.SessionID || list[1].SessionID != first.SessionID {
				t.Errorf("sessions: %+v", list)
			}

			name := "words-" + version
			if made := good[struct{ Name string }](c, "register_output_schema", `{"name":"`+
				name+`","schema":{"type":"array","items":{"type":"string"}}}`); made.Name != name {
				t.Errorf("registered: %+v", made)
			}
			schemas := good[struct{ Schemas []struct{ Name string } }](c, "list_output_schemas", `{}`).Schemas
			if !slices.ContainsFunc(schemas, func(x struct{ Name string }) bool { return x.Name == name }) {
				t.Errorf("schemas: %+v", schemas)
			}
		})
	}
}

// TestMCPErrorsAreThoseOfTheAPI: the error of a tool is the API's own, so that a model can correct its call.
func TestMCPErrorsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	s := start(t)
	think(s)
	s.post("/agents", crawler).want(201)
	c := s.speak(versions[1])
	for _, args := range []string{
		`"agent_name":"web-crawler","parameters":{"url":"not-a-url","depth":0,"zz":1}`,
		`"agent_name":"nobody","prompt":"x"`,
		`"agent_name":"mind","prompt":"x","output_schema":{"type":"object","properties":[]}`,
		`"agent_name":"mind","prompt":"x","output_schema_name":"none-such"`,
		`"agent_name":"mind","prompt":"x","project_dir":"here"`,
		`"agent_name":"mind","prompt":"x","timeout_seconds":0`,
		`"agent_name":"mind","prompt":"x","additional_demands":{"host":"x"}`,
	} {
		if doc, isError := c.call("start_agent_session", `{`+args+`}`); !isError ||
			doc != s.post("/runs", `{`+args+`}`).body {
			t.Errorf("%s\n got %s\nwant %s", args, doc, s.post("/runs", `{`+args+`}`).body)
		}
	}
	for _, tt := range []struct{ tool, args, want string }{
		{"start_agent_session", `{}`, `{"error":"invalid_request","message":"agent_name is required; ` +
			`list_agent_blueprints lists them","field":"agent_name"}`},
		{"start_agent_session", `{"agent_name":"mind","promt":"x"}`, `"field":"promt"`},
		{"start_agent_session", `{"agent_name":"mind","prompt":"x","wait_seconds":601}`, `"field":"wait_seconds"`},
		{"start_agent_session", `{"agent_name":"mind","prompt":"x","mode":"async_poll","wait_seconds":1}`,
			`wait_seconds goes with mode sync only`},
		{"start_agent_session", `{"agent_name":"mind","prompt":"x","mode":"soon"}`,
			`mode must be sync, async_poll or async_callback`},
		{"start_agent_session", `{"agent_name":"mind","prompt":"x","mode":"async_callback"}`,
			`send the header X-Agent-Session-Id with its id`},
		{"start_agent_session", `{"agent_name":"mind","prompt":"x","parent_session_id":"ses_x"}`,
			`"field":"parent_session_id"`},
		{"start_agent_session", `{"agent_name":"mind","parameters":"{}"}`, `parameters`},
		{"resume_agent_session", `{"prompt":"x"}`, `"field":"session_id"`},
		{"resume_agent_session", `{"session_id":"ses_none","prompt":"x"}`, `There is no session ses_none`},
		{"resume_agent_session", `{"session_id":"ses_none","parameters":{}}`, `"field":"parameters"`},
		{"get_agent_session_status", `{"session_id":"run_1"}`, `"field":"session_id"`},
		{"get_agent_session_result", `{}`, `session_id is required`},
		{"get_agent_session_result", `{"session_id":"ses_none","wait_seconds":1}`, `There is no session ses_none`},
		{"stop_agent_session", `{"session_id":"ses_none"}`, `There is no session ses_none`},
		{"list_agent_sessions", `{"status":"sleeping"}`, `sleeping`},
		{"list_agent_sessions", `{"limit":1000}`, `"field":"limit"`},
		{"list_agent_blueprints", `{"name":"x"}`, `"field":"name"`},
		{"register_output_schema", `{"name":"bad","schema":{"type":"object","properties":[]}}`,
			`"error":"InvalidSchema"`},
	} {
		c.refused(tt.tool, tt.args, tt.want)
	}
	failed, isError := c.call("start_agent_session", `{"agent_name":"mind","prompt":"fail"}`)
	if !isError || !strings.Contains(failed, `"status":"failed","result":null,"error":{"error":"command_failed",`+
		`"message":"It went wrong"}`) {
		t.Errorf("a run that fails: %s", failed)
	}
	if _, err := c.mcp.CallTool(t.Context(), &mcp.CallToolParams{Name: "fly"}); err == nil {
		t.Error("there is a tool fly")
	}
}

// TestMCPKeepsWhatWasSent: the order of keys, and numbers that no float holds.
func TestMCPKeepsWhatWasSent(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(func(run.Queued) run.Outcome { return done(`{"z":9007199254740993,"a":[]}`) }, echo("tool"))
	c := s.speak(versions[0])
	doc, _ := c.call("start_agent_session", `{"agent_name":"tool","parameters":{"z":9007199254740993,"a":{"y":1.10,`+
		`"b":"<&>"}}}`)
	if !strings.Contains(doc, `"result_data":{"z":9007199254740993,"a":[]}`) {
		t.Errorf("the result: %s", doc)
	}
	var ran child
	if err := json.Unmarshal([]byte(doc), &ran); err != nil {
		t.Fatal(err)
	}
	if g := s.get("/runs/" + ran.RunID); !strings.Contains(g.body,
		`"parameters":{"z":9007199254740993,"a":{"y":1.10,"b":"<&>"}}`) {
		t.Errorf("the parameters: %s", g.body)
	}
}

// TestMCPModes: a call that does not wait, one that waits too short, and one that is called back.
func TestMCPModes(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := think(s)
	c := s.speak(versions[2])
	poll := good[child](c, "start_agent_session", `{"agent_name":"mind","prompt":"quick","mode":"async_poll"}`)
	if poll.Status != "pending" || !strings.Contains(poll.Next, "Call get_agent_session_result") {
		t.Errorf("async_poll: %+v", poll)
	}
	if res := good[child](c, "get_agent_session_result", `{"session_id":"`+
		poll.SessionID+`","wait_seconds":30}`); *res.Result.Text != "quick" {
		t.Errorf("its result: %+v", res)
	}
	short := good[child](c, "start_agent_session", `{"agent_name":"mind","prompt":"hold","wait_seconds":1}`)
	if !strings.Contains(short.Next, `It has not ended within 1s. The run continues`) {
		t.Errorf("a wait that is too short: %+v", short)
	}
	s.until(short.RunID, run.Running)
	if still := good[child](c, "get_agent_session_result", `{"session_id":"`+
		short.SessionID+`","wait_seconds":1}`); still.Status != "running" || still.Next == "" {
		t.Errorf("waited for once more: %+v", still)
	}
	m.token(short.RunID)
	waits := good[child](c, "resume_agent_session", `{"session_id":"`+
		short.SessionID+`","prompt":"next","mode":"async_poll"}`)
	s.post("/runs/"+short.RunID+"/stop", "").want(200)
	if res := good[child](c, "get_agent_session_result", `{"session_id":"`+
		short.SessionID+`","wait_seconds":30}`); res.RunID != waits.RunID {
		t.Errorf("the newest run is waited for: %+v", res)
	}

	called := s.speak(versions[2], "X-Agent-Session-Id: "+poll.SessionID)
	back := good[child](called, "start_agent_session", `{"agent_name":"mind","prompt":"for my parent",`+
		`"mode":"async_callback"}`)
	if !strings.Contains(back.Next, "Session "+poll.SessionID+" is resumed with its result") {
		t.Errorf("async_callback: %+v", back)
	}
	natstest.Until(t, "the parent is called back", func() bool {
		return strings.Contains(s.get("/sessions/"+poll.SessionID+"/result").body, "for my parent")
	})
	s.speak(versions[2], "X-Agent-Session-Id: ses_none").refused("start_agent_session",
		`{"agent_name":"mind","prompt":"x","mode":"async_callback"}`, "There is no session ses_none")
	s.speak(versions[2], "X-Agent-Session-Id: nobody").refused("start_agent_session",
		`{"agent_name":"mind","prompt":"x"}`, `"field":"X-Agent-Session-Id"`)
}

// TestMCPProgress: a client that asks for it gets what the run does, while it waits.
func TestMCPProgress(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.HTTP.KeepAlive = 20 * time.Millisecond })
	think(s)
	for _, version := range versions {
		c := s.speak(version)
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() { // continues until it is cancelled
			params := &mcp.CallToolParams{Name: "start_agent_session",
				Arguments: json.RawMessage(`{"agent_name":"mind","prompt":"hold and tell"}`)}
			params.SetProgressToken("of " + version)
			_, _ = c.mcp.CallTool(ctx, params)
		})
		natstest.Until(t, "progress is sent in "+version, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return slices.Contains(c.messages, "system: I am at it") && slices.Contains(c.messages, "running") &&
				strings.Contains(strings.Join(c.messages, "\n"), "continues, for ")
		})
		cancel()
		calls.Wait()
	}
}

// TestMCPProgressTakesAStreamSlot: to follow a run takes one of the slots for live streams. If all slots are taken, a
// client learns that the run continues, and no more.
func TestMCPProgressTakesAStreamSlot(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.HTTP.KeepAlive, c.HTTP.Streams = 20*time.Millisecond, 1 })
	think(s)
	next, hangUp := s.listen("GET", "/sse/sessions", "")
	defer hangUp()
	if e, ok := next(); !ok || e.name != "init" {
		t.Fatalf("got %v", e)
	}
	c := s.speak(versions[0])
	if doc, isError := c.callWith(t.Context(), "start_agent_session",
		`{"agent_name":"mind","prompt":"hold and tell","wait_seconds":2}`, "p"); isError ||
		!strings.Contains(doc, "It has not ended within 2s") {
		t.Errorf("got %s", doc)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if messages := strings.Join(c.messages, "\n"); strings.Contains(messages, "I am at it") ||
		!strings.Contains(messages, "continues, for ") {
		t.Errorf("got %s", messages)
	}
}

// rpc posts one message, as a client without an SDK does.
func (s *stack) rpc(body string, headers ...string) got {
	s.t.Helper()
	return s.post("/mcp", body, append([]string{"Content-Type: application/json", "Accept: application/json, " +
		"text/event-stream"}, headers...)...)
}

// TestMCPCancelEndsOnlyTheWait: a caller that cancels a call, or hangs up, ends the wait and not the run.
func TestMCPCancelEndsOnlyTheWait(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.HTTP.KeepAlive = 10 * time.Millisecond })
	m := think(s)
	hello := s.rpc(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	session := "Mcp-Session-Id: " + hello.header.Get("Mcp-Session-Id")
	if hello.status != 200 || len(session) < 30 {
		t.Fatalf("%d %s %v", hello.status, hello.body, hello.header)
	}
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"start_agent_session",` +
		`"arguments":{"agent_name":"mind","prompt":"hold %s","wait_seconds":600}}}`
	started := func(what string) (r run.Run) {
		natstest.Until(t, what+" has started", func() bool {
			for _, one := range into[struct{ Runs []run.Run }](s.get("/runs"), 200).Runs {
				if strings.Contains(string(one.Parameters), what) && one.Status == run.Running {
					r = one
				}
			}
			return r.ID != ""
		})
		return r
	}
	answer := s.later(func() got { return s.rpc(fmt.Sprintf(call, "first"), session) })
	other := s.later(func() got { return s.rpc(fmt.Sprintf(call, "second"), "Mcp-Session-Id: another") })
	first, second := started("first"), started("second")
	if g := s.rpc(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
		session); g.status != 202 {
		t.Errorf("cancelled: %d %s", g.status, g.body)
	}
	select {
	case g := <-answer:
		if g.status != 200 || !strings.Contains(g.body, first.SessionID) || !strings.Contains(g.body, ": alive") {
			t.Errorf("the call that was cancelled: %d %s", g.status, g.body)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the wait goes on")
	}
	select {
	case g := <-other:
		t.Errorf("another client's call of that id ended: %s", g.body)
	default:
	}
	for _, r := range []run.Run{first, second} {
		if now := into[run.Run](s.get("/runs/"+r.ID), 200); now.Status != run.Running {
			t.Errorf("run %s is %s", r.ID, now.Status)
		}
	}

	ctx, hangUp := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+"/mcp", strings.NewReader(fmt.Sprintf(call, "third")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); line != ": alive\n" {
		t.Errorf("a sign of life: %q, %v", line, err)
	}
	third := started("third")
	hangUp()
	_ = res.Body.Close()
	m.token(third.ID)
	s.stop() // ends the waits, and takes no longer than its grace: the second call is answered, the third is nobody's
	select {
	case g := <-other:
		if g.status != 200 || !strings.Contains(g.body, second.SessionID) || !strings.Contains(g.body, "continues") {
			t.Errorf("when the coordinator ends: %d %s", g.status, g.body)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the coordinator has ended, and the call has no answer")
	}
}

// TestMCPEndpoint: it is a route like the others.
func TestMCPEndpoint(t *testing.T) {
	t.Parallel()
	s := secure(t, func(c *serve.Config) { c.Coordinator.MaxPayload = 64 << 10 })
	think(s.stack, s.admin)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
	for _, tt := range []struct {
		name, method, body string
		status             int
		headers            []string
	}{
		{"no token", "POST", list, 401, nil},
		{"a token", "POST", list, 200, []string{s.read}},
		{"a session that nobody knows", "POST", list, 200, []string{s.read, "Mcp-Session-Id: of-another-coordinator"}},
		{"a foreign page", "POST", list, 403, []string{s.read, "Origin: http://evil.example"}},
		{"a rebound name", "POST", list, 403, []string{s.read, "Host: evil.example"}},
		{"a body that is too large", "POST", list + strings.Repeat(" ", 2<<20), 413, []string{s.read}},
		{"no JSON", "POST", "{", 400, []string{s.read}},
		{"a stream of its own", "GET", "", 405, []string{s.read}},
		{"the end of a session", "DELETE", "", 405, []string{s.read}},
	} {
		headers := append([]string{"Content-Type: application/json", "Accept: application/json, text/event-stream"},
			tt.headers...)
		if g := s.call(tt.method, "/mcp", tt.body, headers...); g.status != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.name, g.status, g.body, tt.status)
		}
	}

	read, starts, all := s.speak(versions[1], s.read), s.speak(versions[1], s.run), s.speak(versions[1], s.admin)
	good[struct{}](read, "list_agent_blueprints", `{}`)
	read.refused("start_agent_session", `{"agent_name":"mind","prompt":"x"}`,
		`{"error":"forbidden","message":"This needs a token with scope run, and token \"the-read\" has read; the `+
			`coordinator's operator creates one with: ao tokens create --scope run","scope":"run"}`)
	read.refused("stop_agent_session", `{"session_id":"ses_x"}`, `"scope":"run"`)
	ran := good[child](starts, "start_agent_session", `{"agent_name":"mind","prompt":"x"}`)
	good[child](read, "get_agent_session_result", `{"session_id":"`+ran.SessionID+`"}`)
	starts.refused("register_output_schema", `{"name":"x","schema":{}}`, `"scope":"admin"`)
	good[struct{}](all, "register_output_schema", `{"name":"x","schema":{}}`)
}

// TestMCPOfASession: an agent's own calls make children of its session, and reach nothing else.
func TestMCPOfASession(t *testing.T) {
	t.Parallel()
	s := secure(t)
	m := think(s.stack, s.admin)
	top := s.submit(`{"agent_name":"mind","prompt":"hold"}`, s.run)
	stranger := s.submit(`{"agent_name":"mind","prompt":"hold"}`, s.run)
	token := bearer(m.token(top.RunID))
	m.token(stranger.RunID)
	c := s.speak(versions[1], token, "X-Agent-Session-Id: "+top.SessionID)
	kid := good[child](c, "start_agent_session", `{"agent_name":"mind","prompt":"kid"}`)
	if st := good[child](c, "get_agent_session_status", `{"session_id":"`+
		kid.SessionID+`"}`); st.Parent != top.SessionID {
		t.Errorf("its parent is %q, want %q", st.Parent, top.SessionID)
	}
	back := good[child](s.speak(versions[1], token), "start_agent_session",
		`{"agent_name":"mind","prompt":"call me","mode":"async_callback"}`)
	if !strings.Contains(back.Next, "Session "+top.SessionID+" is resumed") {
		t.Errorf("async_callback: %+v", back)
	}
	good[child](c, "resume_agent_session", `{"session_id":"`+kid.SessionID+`","prompt":"more"}`)
	good[child](c, "get_agent_session_status", `{"session_id":"`+top.SessionID+`"}`)
	// at once
	c.refused("get_agent_session_result", `{"session_id":"`+top.SessionID+`","wait_seconds":600}`,
		`"error":"run_not_ended"`)
	list := good[struct {
		Sessions []child `json:"sessions"`
	}](c, "list_agent_sessions", `{}`).Sessions
	if len(list) != 2 || list[1].SessionID != kid.SessionID {
		t.Errorf("it sees %+v", list)
	}
	for _, tt := range []struct{ tool, args, want string }{
		{"get_agent_session_status", `{"session_id":"` + stranger.SessionID + `"}`, "was not started by session " +
			top.SessionID},
		{"get_agent_session_result", `{"session_id":"` + stranger.SessionID + `"}`, "was not started by"},
		{"resume_agent_session", `{"session_id":"` + stranger.SessionID + `","prompt":"x"}`, "was not started by"},
		{"resume_agent_session", `{"session_id":"` + top.SessionID + `","prompt":"x"}`, "cannot do that to itself"},
		{"stop_agent_session", `{"session_id":"` + stranger.SessionID + `"}`, "was not started by"},
		{"stop_agent_session", `{"session_id":"` + top.SessionID + `"}`, "cannot do that to itself"},
		{"list_agent_sessions", `{"parent_session_id":"` + stranger.SessionID + `"}`, "was not started by"},
		{"register_output_schema", `{"name":"x","schema":{}}`, "nothing else"},
	} {
		c.refused(tt.tool, tt.args, `"error":"forbidden"`, tt.want)
	}
	s.speak(versions[1], token, "X-Agent-Session-Id: "+stranger.SessionID).
		refused("start_agent_session", `{"agent_name":"mind","prompt":"x"}`, `"error":"forbidden"`,
			"leave the header out")
	good[child](c, "stop_agent_session", `{"session_id":"`+kid.SessionID+`"}`)
	s.post("/runs/"+top.RunID+"/stop", "", s.run).want(200)
	natstest.Until(t, "the token ends with the run", func() bool {
		return s.rpc(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, token).status == 401
	})
}
