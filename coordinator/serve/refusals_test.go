package serve_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"

	"github.com/nats-io/nats.go/micro"
)

// stored is the last record of the history.
func (s *stack) stored() uint64 {
	s.t.Helper()
	state, err := s.bus.State(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return state.Last
}

// refusedEverywhere hands a run's body in over HTTP, NATS and MCP. Each refuses it alike, and nothing is stored.
func (s *stack) refusedEverywhere(c *client, body string, status int, words ...string) {
	s.t.Helper()
	before := s.stored()
	s.refusedByAPI(body, status, words...)
	s.tool(c, body, status).has("MCP of "+body, status, words...)
	if after := s.stored(); after != before {
		s.t.Errorf("%.200s is refused, and %d records are stored", body, after-before)
	}
}

// refusedByAPI is refusedEverywhere without MCP: the other answers are the same to the byte.
func (s *stack) refusedByAPI(body string, status int, words ...string) {
	s.t.Helper()
	before := s.stored()
	g := s.post("/runs", body, "Idempotency-Key: refused-"+s.t.Name())
	g.has(body, status, words...)
	over := s.request(subject.APIRunsCreate, body)
	if over.header[micro.ErrorCodeHeader] == nil {
		s.t.Errorf("%.200s: got headers %v over NATS, want %s", body, over.header, micro.ErrorCodeHeader)
	}
	for where, other := range map[string]got{subject.APIRunsCreate: over, "validate": s.post("/runs/validate", body)} {
		if other.status != g.status || other.body != g.body {
			s.t.Errorf("%s of %.200s: got %d %.400s, want what POST /runs says: %d %.400s", where, body, other.status,
				other.body, g.status, g.body)
		}
	}
	if after := s.stored(); after != before {
		s.t.Errorf("%.200s is refused, and %d records are stored", body, after-before)
	}
}

// has requires a status and these words.
func (g got) has(input string, status int, words ...string) {
	g.t.Helper()
	if g.status != status {
		g.t.Errorf("%.200s: got status %d, want %d: %.400s", input, g.status, status, g.body)
	}
	for _, w := range words {
		if !strings.Contains(g.body, w) {
			g.t.Errorf("%.200s: got %.400s, without %s", input, g.body, w)
		}
	}
}

// tool starts an agent with the members of a request that the tool knows. A refusal has the status that HTTP has; MCP
// has none.
func (s *stack) tool(c *client, body string, status int) got {
	s.t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &members); err != nil { // no client sends that
		return s.post("/runs", body)
	}
	for _, other := range []string{"type", "execution_mode", "parent_session_id", "callback_url", "session_id",
		"max_attempts"} {
		if _, ok := members[other]; ok {
			return s.post("/runs", body)
		}
	}
	doc, isError := c.call("start_agent_session", body)
	if !isError {
		s.t.Errorf("start_agent_session %.200s is not refused: %.200s", body, doc)
	}
	return got{s.t, status, http.Header{}, doc}
}

// refuses requires a 400 that names the field.
func (g got) refuses(input, field string) {
	g.t.Helper()
	if g.want(400)["field"] != field {
		g.t.Errorf("%s: got %s, want field %s", input, g.body, field)
	}
}

// TestEmptyTextIsRefusedByName: a caller that sends an empty text meant something that is missing; it does not stand
// for "not given".
func TestEmptyTextIsRefusedByName(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(func(run.Queued) run.Outcome { return done(`{}`) }, echo("plain"))
	c := s.speak(versions[1])
	for _, field := range []string{
		"type", "session_id", "mode", "execution_mode", "parent_session_id", "project_dir", "callback_url",
		"output_schema_name",
	} {
		s.refusedEverywhere(c, `{"agent_name":"plain","`+field+`":""}`, 400, `"field":"`+field+`"`,
			field+` is empty: give a value, or leave it out`)
	}
	s.refusedEverywhere(c, `{"agent_name":""}`, 400, `"field":"agent_name"`)
	for _, field := range []string{"hostname", "project_dir", "executor_profile", "executor_type"} {
		s.refusedEverywhere(c, `{"agent_name":"plain","additional_demands":{"`+field+`":""}}`, 400,
			`"field":"additional_demands.`+field+`"`, "is empty")
	}
	s.refusedEverywhere(c, `{"agent_name":"plain","output_schema":{},"output_schema_options":{"validation_mode":""}}`,
		400, `"field":"output_schema_options.validation_mode"`, "is empty")

	for _, path := range []string{"/runs?status=", "/runs?status", "/sessions?agent_name=", "/runs?session_id=",
		"/sessions?parent_session_id=", "/runs?created_after=", "/runs?limit=", "/runs?runner_id=", "/runs?roots=",
		"/runs?q=", "/runs?retry_of=", "/runs/count?status=",
		"/callbacks?status=", "/agents?status=", "/sse/sessions?session_id="} {
		name, _, _ := strings.Cut(path[strings.Index(path, "?")+1:], "=")
		g := s.get(path)
		if g.want(400)["field"] != name || !strings.Contains(g.body, "is empty") {
			t.Errorf("%s: %s", path, g.body)
		}
	}
	s.get("/runs?status=running,").want(400)
	for _, field := range []string{"status", "agent_name", "parent_session_id", "cursor"} {
		c.refused("list_agent_sessions", `{"`+field+`":""}`, `"field":"`+field+`"`, "is empty")
	}
	s.request(subject.APIAgentsList, `{"status":""}`).refuses("an empty status", "status")
	for _, name := range []string{"Idempotency-Key", "Nats-Msg-Id"} {
		s.request(subject.APIRunsCreate, `{"agent_name":"plain"}`, name+": ").refuses("an empty header", name)
	}
	s.post("/runs", `{"agent_name":"plain"}`, "Idempotency-Key: ").refuses("an empty header", "Idempotency-Key")

	for field, path := range map[string]string{"executor_profile": "", "output_schema_name": "", "type": "",
		"status": "", "demands.hostname": "demands"} {
		body := `{"name":"mind","` + field + `":""}`
		if path != "" {
			body = `{"name":"mind","demands":{"hostname":""}}`
		}
		s.post("/agents", body).refuses(body, field)
	}
	s.post("/agents", `{"name":"mind","description":"","system_prompt":""}`).want(201)
	s.call("PATCH", "/agents/mind", `{"executor_profile":""}`).refuses("PATCH with it empty", "executor_profile")
}

// TestAReasonNamesTheFirstViolation: a reader of the stream of refused messages sees what was wrong, not only that
// something was.
func TestAReasonNamesTheFirstViolation(t *testing.T) {
	t.Parallel()
	s := start(t)
	typed := echo("typed")
	typed.ParametersSchema = json.RawMessage(`{"type":"object","required":["a","b"],` +
		`"properties":{"a":{"type":"integer"}}}`)
	s.work(func(run.Queued) run.Outcome { return done(`{}`) }, typed)
	js, err := s.nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"agent_name":"typed","parameters":{"a":"x"}}`: "Parameters do not match agent's parameters_schema: " +
			"$.a: 'x' is not of type 'integer' (and 1 more)",
		`{"agent_name":"typed","output_schema":{"type":7}}`: "output_schema is not a valid JSON Schema: Schema " +
			"validation error at $.type: ",
		`{"agent_name":"typed","session_id":""}`: "session_id is empty: give a value, or leave it out",
	} {
		if strings.Contains(body, "output_schema") {
			body = strings.Replace(body, `"output_schema"`, `"parameters":{"a":1,"b":1},"output_schema"`, 1)
		}
		if _, err := js.Publish(subject.InboxRuns, []byte(body)); err != nil {
			t.Fatal(err)
		}
		natstest.Until(t, body+" is refused", func() bool { return s.rejected()[body] != "" })
		if got := s.rejected()[body]; !strings.HasPrefix(got, want) {
			t.Errorf("%s is refused with %q, want %q", body, got, want)
		}
	}
}

// TestUnknownFieldsAreNamed: what a caller may send is closed at every depth.
func TestUnknownFieldsAreNamed(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, tt := range []struct{ method, path, body, field string }{
		{"POST", "/runs", `{"agent_name":"a","session_id":"ses_a*b"}`, "session_id"},
		{"POST", "/runs", `{"agent_name":"a","session_id":"ses_a/b"}`, "session_id"},
		{"POST", "/runs", `{"agent_name":"a","session_id":"ses_a b"}`, "session_id"},
		{"POST", "/agents", `{"name":"a","comand":"x"}`, "comand"},
		{"POST", "/agents", `{"name":"a/b"}`, "name"},
		{"POST", "/agents", `{"name":"a","type":"procedural","command":"x"}`, "type"},
		{"POST", "/agents", `{"name":"a","output_schema":{"type":"objekt"}}`, "output_schema"},
		{"POST", "/agents", `{"name":"a","output_schema":{},"output_schema_options":{"xyz":1}}`,
			"output_schema_options.xyz"},
		{"POST", "/runs", `{"agent_name":"a","output_schema_options":{"xyz":1}}`, "output_schema_options.xyz"},
		{"POST", "/runs", `{"agent_name":"a","promt":"x"}`, "promt"},
		{"POST", "/runs", `{"agent_name":"a","additional_demands":{"host":"x"}}`, "additional_demands.host"},
		{"POST", "/schemas", `{"name":"a","scheme":{}}`, "scheme"},
		{"POST", "/runner/register", `{"hostname":"h","executor_type":"procedural","executor_profile":"p","colour":1}`,
			"colour"},
		{"GET", "/runs?state=x", ``, "state"},
		{"GET", "/runs?session_id=nonsense", ``, "session_id"},
		{"GET", "/sessions?status=completed", ``, "status"},
		{"GET", "/runs/run_1?verbose=1", ``, "verbose"},
		{"GET", "/runs/run_1/wait?timeout_seconds=601", ``, "timeout_seconds"},
		{"GET", "/runs/run_1/wait?timeout_seconds=soon", ``, "timeout_seconds"},
		{"GET", "/sessions/ses_1/events?after=first", ``, "after"},
		{"GET", "/agents/a%2Fb", ``, "name"},
		{"GET", "/agents?status=gone", ``, "status"},
	} {
		t.Run(tt.method+" "+tt.path+" "+tt.body, func(t *testing.T) {
			m := s.call(tt.method, tt.path, tt.body).want(400)
			if m["field"] != tt.field {
				t.Errorf("field %v, want %q: %v", m["field"], tt.field, m["message"])
			}
		})
	}
}
