package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
)

// TestMain turns the test binary into an executor program, which knows no more than an executor does.
func TestMain(m *testing.M) {
	switch os.Getenv("AO_TEST_EXECUTOR") {
	case "talk":
		executor.Main(talk)
	case "memory":
		executor.Program(remember)
	}
	os.Exit(m.Run())
}

// itself makes a profile of the test binary as an executor of a kind.
func itself(t *testing.T, kind string) func(*Config) {
	return autonomous(t, "AO_TEST_EXECUTOR="+kind+" exec "+os.Args[0])
}

// ask asks the gateway, and gives the status and the answer's body.
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

// talk sends what the prompt's "say" has, in order, and leaves the answers as a message. It prints something, too.
func talk(ctx context.Context, v executor.Invocation, out *executor.Out) error {
	var p struct {
		Say []struct{ Method, Path, Body string }
	}
	if err := json.Unmarshal([]byte(v.Prompt), &p); err != nil {
		return err
	}
	var all bytes.Buffer
	for _, s := range p.Say {
		status, body, err := ask(ctx, s.Method, os.Getenv(executor.EnvAPIURL)+s.Path, strings.ReplaceAll(s.Body, "SESSION", v.SessionID))
		fmt.Fprintln(&all, status, body, err)
	}
	out.Message("system", all.String())
	fmt.Println("printed")
	return nil
}

// remember adds the prompt's "add" to what is kept, and has what was kept before as its result; null: nothing.
func remember(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome {
	var p struct{ Add []string }
	json.Unmarshal([]byte(v.Prompt), &p)
	state, err := host.State(ctx)
	if err != nil {
		return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
	}
	was, _ := json.Marshal(strings.ReplaceAll(string(state), strings.Repeat("x", 1<<16), "X"))
	if state == nil {
		was = []byte("null")
	}
	for _, more := range p.Add {
		state = append(state, more...)
		if err := host.Keep(ctx, state); err != nil {
			return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
		}
	}
	return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Data: was}}
}

// said is the texts and bodies of a run's events.
func said(t *testing.T, s *boss, q run.Queued) string {
	t.Helper()
	all, err := s.b.Events(t.Context(), subject.RunEvents(q.SessionID, q.ID), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, m := range all {
		var e run.Event
		if err := json.Unmarshal(m.Body, &e); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&text, e.Type, string(e.Body))
	}
	return text.String()
}

// saying makes a run say this to its gateway.
func saying(lines ...string) func(*run.Queued) {
	var p struct {
		Prompt string              `json:"prompt"`
		Say    []map[string]string `json:"say"`
	}
	for _, l := range lines {
		f := strings.SplitN(l+"  ", " ", 3)
		p.Say = append(p.Say, map[string]string{"method": f[0], "path": f[1], "body": strings.TrimSpace(f[2])})
	}
	return asking(p)
}

// asking makes a run one of an autonomous agent that is told this, as JSON.
func asking(what any) func(*run.Queued) {
	text, _ := json.Marshal(what)
	raw, _ := json.Marshal(map[string]string{"prompt": string(text)})
	return func(q *run.Queued) { q.AgentType, q.Input = run.Autonomous, &run.Input{Parameters: raw} }
}

// TestGateway: a program that knows its URL only binds, tells events, and tells its result, as executors of S003's system do.
func TestGateway(t *testing.T) {
	t.Parallel()
	s := newBoss(t, natstest.Bus(t))
	start(t, s.b, nil, itself(t, "talk"))
	q := s.queue(saying(
		`POST /bind {"session_id":"SESSION","executor_session_id":"m-1","project_dir":"/x"}`,
		`POST /events {"event_type":"message","session_id":"SESSION","timestamp":"2026-01-01T00:00:00Z","role":"assistant","content":[{"type":"text","text":"hello"}]}`,
		`POST /events {"event_type":"result","session_id":"SESSION","result_text":"first","result_data":null}`,
		`POST /events {"session_id":"SESSION","event_type":"post_tool","tool_name":"ls","tool_input":{"a":1.0},"tool_output":"x","error":null}`,
		`PATCH /metadata {"session_id":"SESSION","last_resumed_at":"2026-01-01T00:00:00Z","cost_usd":0.10}`,
		`POST /events {"event_type":"result","session_id":"SESSION","timestamp":"2026-01-01T00:00:00Z","result_text":null,"result_data":{"n":1e400}}`,
		`GET /sessions/`,
	))
	e := s.ended(q)
	if e.Status != run.Completed || string(e.Result.Data) != `{"n":1e400}` || e.Result.Text != nil {
		t.Errorf("got %s %v %+v", e.Status, e.Error, e.Result)
	}
	var bound run.Bound
	if !s.record(subject.Bound(subject.Partition(q.SessionID), q.ID, q.Key), &bound) || bound.Model != "m-1" {
		t.Errorf("bound %+v", bound)
	}
	got := said(t, s, q)
	for _, want := range []string{
		`message {"role":"assistant","content":[{"type":"text","text":"hello"}]}` + "\n",
		`post_tool {"tool_name":"ls","tool_input":{"a":1.0},"tool_output":"x","error":null}` + "\n",
		`metadata {"metadata":{"cost_usd":0.10}}` + "\n",
		`printed`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}
