package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestMain turns the test binary into an executor program.
func TestMain(m *testing.M) {
	switch os.Getenv("AO_TEST_EXECUTOR") {
	case "talk":
		executor.Main(talkExecutor)
	case "mcp":
		status, body, err := ask(context.Background(), "POST", os.Getenv(executor.EnvMCPURL), "{}")
		fmt.Println(status, body, err)
		os.Exit(0)
	case "memory":
		executor.Program(stateExecutor)
	}
	os.Exit(m.Run())
}

// testBinary returns a profile with the test binary as an executor of a kind.
func testBinary(t *testing.T, kind string) func(*Config) {
	return autonomous(t, "AO_TEST_EXECUTOR="+kind+" exec "+os.Args[0])
}

// ask sends a request to the gateway and returns the status and the body.
func ask(ctx context.Context, method, url, body string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	all, err := io.ReadAll(a.Body)
	return a.StatusCode, string(all), err
}

// talkExecutor sends the requests in the prompt's "say", in order, and emits the responses as a message. It prints
// something as well.
func talkExecutor(ctx context.Context, v executor.Invocation, out *executor.Out) error {
	var p struct {
		Say []struct{ Method, Path, Body string }
	}
	if err := json.Unmarshal([]byte(v.Prompt), &p); err != nil {
		return err
	}
	var all bytes.Buffer
	for _, s := range p.Say {
		status, body, err := ask(ctx, s.Method, os.Getenv(executor.EnvAPIURL)+s.Path,
			strings.ReplaceAll(s.Body, "SESSION", v.SessionID))
		fmt.Fprintln(&all, status, body, err)
	}
	out.Message("system", all.String())
	fmt.Println("printed")
	return nil
}

// stateExecutor adds the prompt's "add" to its state; its result is the state before, or null.
func stateExecutor(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome {
	var p struct{ Add []string }
	json.Unmarshal([]byte(v.Prompt), &p)
	state, err := host.LoadState(ctx)
	if err != nil {
		return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
	}
	was, _ := json.Marshal(strings.ReplaceAll(string(state), strings.Repeat("x", 1<<16), "[64 KiB]"))
	if state == nil {
		was = []byte("null")
	}
	for _, more := range p.Add {
		state = append(state, more...)
		if err := host.SaveState(ctx, state); err != nil {
			return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
		}
		if now, err := host.LoadState(ctx); err != nil || !bytes.Equal(now, state) {
			return run.Outcome{Status: run.Failed, Error: fault.Newf(fault.Internal,
				"just kept %d bytes, got %d, %v", len(state), len(now), err)}
		}
	}
	return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Data: was}}
}

// eventTexts returns the texts and bodies of a run's events.
func eventTexts(t *testing.T, s *fakeCoordinator, q run.Queued) string {
	t.Helper()
	all, err := s.b.Events(t.Context(), subject.RunEvents(q.SessionID, q.ID), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, m := range all {
		bare, by := run.SplitSignature(m.Subject, m.Body)
		if by == nil || !by(q.Key) {
			t.Errorf("an event without a proof: %s", m.Body)
		}
		var e run.Event
		if err := json.Unmarshal(bare, &e); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&text, e.Type, string(e.Body))
	}
	return text.String()
}

// withRequests makes talkExecutor send these requests.
func withRequests(lines ...string) func(*run.Queued) {
	var p struct {
		Prompt string              `json:"prompt"`
		Say    []map[string]string `json:"say"`
	}
	for _, l := range lines {
		f := strings.SplitN(l+"  ", " ", 3)
		p.Say = append(p.Say, map[string]string{"method": f[0], "path": f[1], "body": strings.TrimSpace(f[2])})
	}
	return withPrompt(p)
}

// withPrompt makes a run an autonomous one with this prompt, as JSON.
func withPrompt(what any) func(*run.Queued) {
	text, _ := json.Marshal(what)
	raw, _ := json.Marshal(map[string]string{"prompt": string(text)})
	return func(q *run.Queued) { q.AgentType, q.Input = run.Autonomous, &run.Input{Parameters: raw} }
}

// TestGateway: a program that knows only its URL binds, sends events and its result, in the format of earlier
// executors.
func TestGateway(t *testing.T) {
	t.Parallel()
	s := newFakeCoordinator(t, natstest.Bus(t))
	start(t, s.b, nil, testBinary(t, "talk"))
	q := s.enqueue(withRequests(
		`POST /bind {"session_id":"SESSION","executor_session_id":"m-1","project_dir":"/x"}`,
		`POST /events {"event_type":"message","session_id":"SESSION","timestamp":"2026-01-01T00:00:00Z",`+
			`"role":"assistant","content":[{"type":"text","text":"hello"}]}`,
		`POST /events {"event_type":"result","session_id":"SESSION","result_text":"first","result_data":null}`,
		`POST /events {"session_id":"SESSION","event_type":"post_tool","tool_name":"ls","tool_input":{"a":1.0,`+
			`"b":"x<y && z>\u0026"},`+
			`"tool_output":"x","error":null}`,
		`PATCH /metadata {"session_id":"SESSION","last_resumed_at":"2026-01-01T00:00:00Z","cost_usd":0.10}`,
		`POST /events {"event_type":"result","session_id":"SESSION","timestamp":"2026-01-01T00:00:00Z",`+
			`"result_text":null,"result_data":{"n":1e400}}`,
		`GET /sessions/`,
	))
	e := s.waitEnded(q)
	if e.Status != run.Completed || string(e.Result.Data) != `{"n":1e400}` || e.Result.Text != nil {
		t.Errorf("got %s %v %+v", e.Status, e.Error, e.Result)
	}
	var bound run.Bound
	if !s.record(subject.Bound(subject.Partition(q.SessionID), q.ID, q.Key), &bound) ||
		bound.ExecutorSessionID != "m-1" {
		t.Errorf("bound %+v", bound)
	}
	got := eventTexts(t, s, q)
	for _, want := range []string{
		`message {"role":"assistant","content":[{"type":"text","text":"hello"}]}` + "\n",
		`post_tool {"tool_name":"ls","tool_input":{"a":1.0,"b":"x<y && z>\u0026"},"tool_output":"x",` +
			`"error":null}` + "\n",
		`metadata {"metadata":{"cost_usd":0.10}}` + "\n",
		`printed`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// TestExecutorsHoldNoCredential: an executor knows only its own URL. The worker tells the API which session asks.
func TestExecutorsHoldNoCredential(t *testing.T) {
	var asked, by string
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked, by = r.Header.Get(runnerapi.HeaderSession)+" "+r.URL.Path, r.Header.Get("Authorization")
	}))
	t.Cleanup(api.Close)
	for name, value := range map[string]string{"AO_NATS_URL": "nats://u:nats-secret@h", "AO_API_TOKENS": "/api-tokens",
		"ALLOWED": "yes"} {
		t.Setenv(name, value)
	}
	s := newFakeCoordinator(t, natstest.Bus(t))
	s.with(func() { s.apiURL = api.URL })
	start(t, s.b, nil, autonomous(t, "env; echo stdin; cat; echo; AO_TEST_EXECUTOR=mcp "+os.Args[0]), func(c *Config) {
		c.Profile.Env = []string{"ALLOWED", "AGENT_ORCHESTRATOR_API_URL"}
	})
	q := s.enqueue(withPrompt("hello"))
	e := s.waitEnded(q)
	if e.Status != run.Completed || e.Result.Text == nil {
		t.Fatalf("got %s", answer(e))
	}
	all := *e.Result.Text
	token := runnerapi.SessionToken(q.ID, 1, q.Key)
	for _, secret := range []string{"nats-secret", "api-tokens", "AO_", q.Key, token,
		strings.SplitN(token, ".", 3)[2]} {
		if strings.Contains(all, secret) {
			t.Errorf("the executor knows %s:\n%s", secret, all)
		}
	}
	for _, want := range []string{"ALLOWED=yes\n", "AGENT_ORCHESTRATOR_API_URL=http://127.0.0.1:",
		"AGENT_ORCHESTRATOR_MCP_URL=http://127.0.0.1:", "/mcp\n"} {
		if strings.Count(all, want) != 1 {
			t.Errorf("not once %s in\n%s", want, all)
		}
	}
	if asked != q.SessionID+" /mcp" || by != "Bearer "+token {
		t.Errorf("the API is asked %q by %q", asked, by)
	}
	url, _, _ := strings.Cut(all[strings.Index(all, "http://127.0.0.1:"):], "\n")
	if status, body, err := ask(t.Context(), "POST", url, "{}"); status != 401 && err == nil {
		t.Errorf("after the run: %d %s", status, body)
	}
}

// TestGatewayOfProceduralRun: a command may send events; what only an executor of an autonomous agent may send is
// refused.
func TestGatewayOfProceduralRun(t *testing.T) {
	t.Parallel()
	s := newFakeCoordinator(t, natstest.Bus(t))
	var one sync.Once
	other, tried := make(chan string, 1), make(chan struct{})
	start(t, s.b, func(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome {
		var all []int
		for _, say := range []string{`POST /events {"event_type":"message","role":"system","content":[{"type":"text",` +
			`"text":"12 of 40"}]}`, `POST /bind {"executor_session_id":"m"}`,
			`POST /events {"event_type":"result","result_text":"x"}`, `PUT /state x`, `GET /state `} {
			f := strings.SplitN(say, " ", 3)
			status, _, err := ask(ctx, f[0], host.URL+f[1], f[2])
			if err != nil {
				t.Error(err)
			}
			all = append(all, status)
		}
		first := false
		one.Do(func() { first = true })
		if first {
			other <- host.URL
			select {
			case <-tried:
			case <-ctx.Done():
			}
		} else { // the first run's URL is not good for this session
			status, _, _ := ask(ctx, "POST", <-other+"/events",
				fmt.Sprintf(`{"session_id":%q,"event_type":"pre_tool","tool_name":"x"}`, v.SessionID))
			all = append(all, status)
			close(tried)
		}
		raw, _ := json.Marshal(all)
		return completed(string(raw))
	})
	a, b := s.enqueue(), s.enqueue()
	got := []string{answer(s.waitEnded(a)), answer(s.waitEnded(b))}
	slices.Sort(got)
	if want := "[[200,409,409,409,409,403] [200,409,409,409,409]]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if got := eventTexts(t, s, a); got != `message {"role":"system","content":[{"type":"text","text":"12 of 40"}]}`+
		"\n" {
		t.Errorf("events %s", got)
	}
}

// TestVariables: variables in the strings of mcp_servers are replaced, once, and nowhere else. An unknown one fails
// the run.
func TestVariables(t *testing.T) {
	t.Setenv("TEST_TOKEN", `a"b${AGENT_SESSION_ID}`)
	t.Setenv("TEST_SECRET", "not allowed")
	s := newFakeCoordinator(t, natstest.Bus(t))
	start(t, s.b, func(_ context.Context, v executor.Invocation, host executor.Host) run.Outcome {
		return completed(strings.ReplaceAll(string(v.Blueprint), host.URL, "URL"))
	}, func(c *Config) { c.Profile.Env = []string{"TEST_TOKEN", "TEST_UNSET"} })
	for _, tt := range []struct{ blueprint, want string }{
		{`{"name":"a"}`, `{"name":"a"}`},
		{`{"system_prompt":"${AGENT_SESSION_ID}","mcp_servers":{"o":{"type":"http",` +
			`"url":"${AGENT_ORCHESTRATOR_MCP_URL}"}},"z":1.0}`,
			`{"system_prompt":"${AGENT_SESSION_ID}","mcp_servers":{"o":{"type":"http","url":"URL/mcp"}},"z":1.0}`},
		{`{"mcp_servers":{"${TEST_TOKEN}":{"args":["-s","${AGENT_SESSION_ID}",1e400,null,true,[]],` +
			`"headers":{"A":"Bearer ${TEST_TOKEN}!"},"b":"$TEST_TOKEN ${} ${a b} <"}}}`,
			`{"mcp_servers":{"${TEST_TOKEN}":{"args":["-s","SESSION",1e400,null,true,[]],"headers":{"A":"Bearer ` +
				`a\"b${AGENT_SESSION_ID}!"},"b":"$TEST_TOKEN ${} ${a b} <"}}}`},
		{`{"mcp_servers":{"x":{"env":{"K":["${TEST_SECRET}"]}}}}`,
			`failed mcp_servers.x.env.K[0] of agent "a" names the variable ${TEST_SECRET}, which this worker does ` +
				`not have: add "TEST_SECRET" to "env" of the profile "p", or remove it from the agent`},
		{`{"mcp_servers":{"x":"${TEST_UNSET}"}}`,
			`failed mcp_servers.x of agent "a" names the variable ${TEST_UNSET}, which this worker does not have: it ` +
				`is in "env" of the profile "p"; set it for the worker`},
	} {
		q := s.enqueue(func(q *run.Queued) {
			q.Input = &run.Input{Parameters: json.RawMessage(`{"a":"${TEST_SECRET}"}`),
				Blueprint: json.RawMessage(tt.blueprint)}
		})
		e := s.waitEnded(q)
		if got, want := answer(e), strings.ReplaceAll(tt.want, "SESSION\"", q.SessionID+"\""); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if e.Status == run.Failed && (code(e) != "unknown_variable" || field(e, "variable") == "") {
			t.Errorf("got %s", code(e))
		}
	}
}
