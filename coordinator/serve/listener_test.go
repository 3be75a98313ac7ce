package serve_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ao/coordinator/serve"
	"ao/coordinator/serve/parts"
	"ao/shared/agent"
	"ao/shared/run"
)

// literal compares a whole answer.
func literal(t *testing.T, g got, status int, want string) {
	t.Helper()
	if g.status != status || g.body != want {
		t.Errorf("status %d, want %d\n got %s\nwant %s", g.status, status, g.body, want)
	}
}

const crawler = `{"name":"web-crawler","description":"reads pages","parameters_schema":{"type":"object",` +
	`"required":["url"],` +
	`"properties":{"url":{"type":"string","format":"uri"},"depth":{"type":"integer","minimum":1}},` +
	`"additionalProperties":false}}`

// TestErrorsAreLiteral reads every refusal of POST /runs as its caller does.
func TestErrorsAreLiteral(t *testing.T) {
	t.Parallel()
	s := start(t)
	schema := crawler[strings.Index(crawler, `{"type":"object"`) : len(crawler)-1]
	s.post("/agents", crawler).want(201)
	s.post("/agents", `{"name":"asleep","status":"inactive"}`).want(201)
	s.post("/agents", `{"name":"plain"}`).want(201)
	s.work(func(run.Queued) run.Outcome { return done(`1`) }, echo("tool"))
	other := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	implicit := `{"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string","minLength":1}},` +
		`"additionalProperties":false}`
	tool := s.submit(`{"agent_name":"tool"}`)
	s.until(tool.RunID, run.Completed)

	wrong := func(agent, schema string, errs ...string) string {
		return fmt.Sprintf(`{"error":"parameter_validation_failed","message":"Parameters do not match agent's `+
			`parameters_schema","agent_name":"%s","validation_errors":[%s],"parameters_schema":%s}`,
			agent, strings.Join(errs, ","), schema)
	}
	at := func(path, message, schemaPath string) string {
		return fmt.Sprintf(`{"path":"%s","message":"%s","schema_path":"%s"}`, path, message, schemaPath)
	}
	invalid := func(message, field string) string {
		if field != "" {
			field = `,"field":"` + field + `"`
		}
		return `{"error":"invalid_request","message":"` + message + `"` + field + `}`
	}
	for _, tt := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"agent_name":"web-crawler","parameters":{"url":"not-a-url"}}`, 400,
			wrong("web-crawler", schema, at("$.url", "'not-a-url' is not a valid URI", "properties.url.format"))},
		{`{"agent_name":"web-crawler","parameters":{"depth":0,"zz":1}}`, 400, wrong("web-crawler", schema,
			at("$.depth", "0 is less than the minimum of 1", "properties.depth.minimum"),
			at("$.url", "'url' is a required property", "required"),
			at("$.zz", "Additional properties are not allowed ('zz' was unexpected)", "additionalProperties"))},
		{`{"agent_name":"plain","parameters":{}}`, 400, wrong("plain", implicit, at("$.prompt", "'prompt' is a "+
			"required property", "required"))},
		{`{"agent_name":"plain","prompt":""}`, 400,
			wrong("plain", implicit, at("$.prompt", "'' should be non-empty", "properties.prompt.minLength"))},
		{`{"agent_name":"nobody"}`, 404, `{"error":"not_found","message":"There is no agent \"nobody\"; GET /agents ` +
			`lists them","agent_name":"nobody","field":"agent_name"}`},
		{`{"agent_name":"asleep","prompt":"x"}`, 409, `{"error":"agent_inactive","message":"Agent asleep is ` +
			`inactive; set its status to active first","agent_name":"asleep"}`},
		{`{}`, 400, invalid("agent_name is required to start a session; GET /agents lists them", "agent_name")},
		{`{"type":"resume_session"}`, 400, invalid("resume_session needs session_id: which session goes on?",
			"session_id")},
		{`{"type":"resume_session","session_id":"ses_none","prompt":"x"}`, 404,
			`{"error":"not_found","message":"There is no session ses_none; GET /sessions lists those that are kept",` +
				`"session_id":"ses_none"}`},
		{`{"session_id":"` + tool.SessionID + `","prompt":"x"}`, 400,
			`{"error":"procedural_agent_no_resume","message":"Procedural agents are stateless and cannot be resumed",` +
				`"agent_name":"tool"}`},
		{`{"session_id":"` + other.SessionID + `","prompt":"x"}`, 409,
			`{"error":"session_never_began","message":"The model session of ` +
				other.SessionID + ` has not started yet: run ` +
				other.RunID + ` waits for a runner; resume the session later","session_id":"` +
				other.SessionID + `"}`},
		{`{"type":"resume_session","agent_name":"tool","session_id":"` + other.SessionID + `"}`, 400,
			invalid("session "+other.SessionID+` belongs to agent \"plain\"; leave agent_name out or name that one`,
				"agent_name")},
		{`{"agent_name":"plain","session_id":"` + other.SessionID + `","prompt":"x"}`, 409,
			`{"error":"conflict","message":"session ` + other.SessionID + ` exists already; leave session_id out for ` +
				`a new one, or resume it","session_id":"` + other.SessionID + `","field":"session_id"}`},
		{`{"agent_name":"plain","prompt":"x","parent_session_id":"ses_none"}`, 404,
			`{"error":"not_found","message":"There is no session ses_none; GET /sessions lists those that are kept",` +
				`"session_id":"ses_none","field":"parent_session_id"}`},
		{`{"agent_name":"plain","prompt":"a","parameters":{"prompt":"b"}}`, 400,
			invalid(`prompt and parameters differ; prompt is short for parameters {\"prompt\":…}, send one of them`,
				"prompt")},
		{`{"agent_name":"plain","prompt":"x","mode":"async_callback"}`, 400,
			invalid("mode async_callback needs parent_session_id, the session that is called back (callback_url is "+
				"for an HTTP receiver)", "parent_session_id")},
		{`{"agent_name":"plain","prompt":"x","mode":"later"}`, 400,
			invalid("mode must be sync, async_poll or async_callback", "mode")},
		{`{"agent_name":"plain","prompt":"x","callback_url":"http://x"}`, 400,
			invalid("callback_url is refused: HTTP callbacks are disabled here; whoever runs the coordinator enables "+
				"them by naming the allowed hosts in AO_CALLBACK_HOSTS; otherwise leave it out", "callback_url")},
		{`{"agent_name":"plain","prompt":"x","max_attempts":0}`, 400, invalid("max_attempts must be from 1 to 100",
			"max_attempts")},
		{`{"agent_name":"plain","prompt":"x","timeout_seconds":0}`, 400,
			invalid("timeout_seconds must be from 1 to 2592000", "timeout_seconds")},
		{`{"agent_name":"plain","agent_name":"plain"}`, 400,
			invalid(`$ has the key \"agent_name\" twice; send each key once`, "agent_name")},
		{`{"agent_name":"plain"} {}`, 400, invalid("The body must be one JSON value; something follows it at byte 22",
			"")},
		{`agent=plain`, 400, invalid("The body is not JSON: unexpected 'a' at byte 0", "")},
		{``, 400, invalid("The body is not JSON: it ends too early", "")},
		{`[]`, 400, invalid(`The body must be a JSON object such as {\"agent_name\":\"…\",\"parameters\":{…}}`, "")},
	} {
		t.Run(tt.body, func(t *testing.T) {
			g := s.post("/runs", tt.body)
			literal(t, g, tt.status, tt.want)
			if v := s.post("/runs/validate", tt.body); v.body != g.body || v.status != g.status {
				t.Errorf("POST /runs/validate answers %d %s", v.status, v.body)
			}
		})
	}
	if list := into[struct{ Runs []run.Run }](s.get("/runs"), 200); len(list.Runs) != 2 {
		t.Errorf("refused requests left something behind: %d runs, want 2", len(list.Runs))
	}
}

// TestUnknownFieldsAreNamed: what a caller may send is closed at every depth.
func TestUnknownFieldsAreNamed(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, tt := range []struct{ method, path, body, field string }{
		{"POST", "/runs", `{"agent_name":"a","promt":"x"}`, "promt"},
		{"POST", "/runs", `{"agent_name":"a","additional_demands":{"host":"x"}}`, "additional_demands.host"},
		{"POST", "/runs", `{"agent_name":"a","session_id":"ses_a*b"}`, "session_id"},
		{"POST", "/runs", `{"agent_name":"a","session_id":"ses_a.b"}`, "session_id"},
		{"POST", "/runs", `{"agent_name":"a","session_id":"ses_a/b"}`, "session_id"},
		{"POST", "/runs", `{"agent_name":"a","session_id":"ses_a b"}`, "session_id"},
		{"POST", "/runs", `{"agent_name":"a","session_id":"ses_>"}`, "session_id"},
		{"POST", "/runs", `{"agent_name":"a","parent_session_id":"ses_*"}`, "parent_session_id"},
		{"POST", "/agents", `{"name":"a","comand":"x"}`, "comand"},
		{"POST", "/agents", `{"name":"a/b"}`, "name"},
		{"POST", "/agents", `{"name":"a","type":"procedural","command":"x"}`, "type"},
		{"POST", "/agents", `{"name":"a","output_schema":{"type":"objekt"}}`, "output_schema"},
		{"POST", "/agents", `{"name":"a","output_schema":{},"output_schema_options":{"xyz":1}}`,
			"output_schema_options.xyz"},
		{"POST", "/runs", `{"agent_name":"a","output_schema_options":{"xyz":1}}`, "output_schema_options.xyz"},
		{"POST", "/schemas", `{"name":"a","scheme":{}}`, "scheme"},
		{"POST", "/runner/register", `{"hostname":"h","executor_type":"procedural","executor_profile":"p","colour":1}`,
			"colour"},
		{"GET", "/runs?state=x", ``, "state"},
		{"GET", "/runs?status=going", ``, "status"},
		{"GET", "/runs?limit=0", ``, "limit"},
		{"GET", "/runs?limit=1001", ``, "limit"},
		{"GET", "/runs?limit=2&limit=3", ``, "limit"},
		{"GET", "/runs?cursor=zzz", ``, "cursor"},
		{"GET", "/runs?created_after=yesterday", ``, "created_after"},
		{"GET", "/runs?session_id=nonsense", ``, "session_id"},
		{"GET", "/runs?parent_session_id=ses_*", ``, "parent_session_id"},
		{"GET", "/sessions?status=completed", ``, "status"},
		{"GET", "/runs/run_a*b", ``, "run_id"},
		{"GET", "/runs/run_a%2Fb", ``, "run_id"},
		{"GET", "/runs/run_a.b", ``, "run_id"},
		{"GET", "/runs/run_a%20b", ``, "run_id"},
		{"GET", "/runs/run_%00", ``, "run_id"},
		{"GET", "/runs/run_1?verbose=1", ``, "verbose"},
		{"GET", "/runs/run_1/wait?timeout_seconds=601", ``, "timeout_seconds"},
		{"GET", "/runs/run_1/wait?timeout_seconds=soon", ``, "timeout_seconds"},
		{"GET", "/sessions/ses_%3E", ``, "session_id"},
		{"GET", "/sessions/ses_1/events?after=first", ``, "after"},
		{"GET", "/agents/a%2Fb", ``, "name"},
		{"GET", "/agents?status=gone", ``, "status"},
		{"DELETE", "/runners/_owners", ``, "runner_id"},
		{"GET", "/sse/sessions?session_id=x", ``, "session_id"},
	} {
		t.Run(tt.method+" "+tt.path+" "+tt.body, func(t *testing.T) {
			m := s.call(tt.method, tt.path, tt.body).want(400)
			if m["field"] != tt.field {
				t.Errorf("field %v, want %q: %v", m["field"], tt.field, m["message"])
			}
		})
	}
}

// TestSchemasAreCheckedAtEveryEndpoint: a bad one is refused by what is wrong with it.
func TestSchemasAreCheckedAtEveryEndpoint(t *testing.T) {
	t.Parallel()
	s := start(t)
	const bad = `"parameters_schema":{"type":"object","properties":[]}`
	s.post("/agents", `{"name":"good"}`).want(201)
	for name, g := range map[string]got{
		"create": s.post("/agents", `{"name":"a",`+bad+`}`),
		"change": s.call("PATCH", "/agents/good", `{`+bad+`}`),
		"register": s.post("/runner/register", `{"hostname":"h","executor_profile":"p","executor_type":"procedural",`+
			`"agents":[{"name":"a","command":"./a",`+bad+`}]}`),
	} {
		m := g.want(400)
		if m["error"] != "InvalidSchema" || !strings.HasPrefix(fmt.Sprint(m["details"]), "Schema validation error at "+
			"$.properties: ") {
			t.Errorf("%s: %s", name, g.body)
		}
	}
}

func TestAgentsOverTheAPI(t *testing.T) {
	t.Parallel()
	s := start(t)
	g := s.post("/agents", crawler)
	g.want(201)
	if at := g.header.Get("Location"); at != "/agents/web-crawler" {
		t.Errorf("Location %q", at)
	}
	s.post("/agents", crawler).want(409)
	list := into[struct{ Agents []agent.Blueprint }](s.get("/agents"), 200)
	if len(list.Agents) != 1 || string(list.Agents[0].ParametersSchema) == "" {
		t.Errorf("the list: %+v", list)
	}
	changed := s.call("PATCH", "/agents/web-crawler", `{"status":"inactive","description":null}`).want(200)
	if changed["status"] != "inactive" || changed["description"] != "" {
		t.Errorf("changed: %v", changed)
	}
	if m := s.get("/agents?status=active").body; m != `{"agents":[]}` {
		t.Errorf("active: %s", m)
	}
	s.call("PATCH", "/agents/web-crawler", `{"name":"other"}`).want(400)
	s.call("PATCH", "/agents/nobody", `{}`).want(404)
	s.call("PATCH", "/agents/web-crawler", `[]`).want(400)
	if g := s.call("DELETE", "/agents/web-crawler", ""); g.status != 204 || g.body != "" {
		t.Errorf("delete: %d %s", g.status, g.body)
	}
	s.get("/agents/web-crawler").want(404)
	s.call("DELETE", "/agents/web-crawler", "").want(404)
}

// TestForeignPagesAreTurnedAway: the API has no tokens yet, so a web page must not reach it.
func TestForeignPagesAreTurnedAway(t *testing.T) {
	t.Parallel()
	s := start(t)
	here := strings.TrimPrefix(s.url, "http://")
	for _, tt := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"curl", nil, 404},
		{"curl's default type", []string{"Content-Type: application/x-www-form-urlencoded"}, 404},
		{"text", []string{"Content-Type: text/plain"}, 404},
		{"own page", []string{"Origin: " + s.url}, 404},
		{"foreign page", []string{"Origin: http://evil.example"}, 403},
		{"sandboxed page", []string{"Origin: null"}, 403},
		{"page on another port", []string{"Origin: http://127.0.0.1:1"}, 403},
		{"form of a foreign page", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"rebound name", []string{"Host: evil.example"}, 403},
		{"rebound name with our port", []string{"Host: evil.example:" + strings.Split(here, ":")[1]}, 403},
		{"localhost, forwarded port", []string{"Host: localhost:9999"}, 404},
		{"IPv6 loopback", []string{"Host: [::1]:8765"}, 404},
		{"this network", []string{"Host: 192.168.0.7:8765"}, 403},
	} {
		if g := s.post("/runs", `{"agent_name":"nobody"}`, tt.headers...); g.status != tt.status {
			t.Errorf("%s: status %d, want %d: %s", tt.name, g.status, tt.status, g.body)
		}
	}
}

// TestReadsOfForeignPagesAreTurnedAway: a GET without Origin is what an image, a frame or a link of another site sends.
func TestReadsOfForeignPagesAreTurnedAway(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, path := range []string{"/", "/runs", "/sse/sessions", "/status", "/metrics", "/health", "/nothing"} {
		for site, refused := range map[string]bool{"cross-site": true, "same-site": true, "same-origin": false,
			"none": false, "": false} {
			var headers []string
			if site != "" {
				headers = append(headers, "Sec-Fetch-Site: "+site)
			}
			if got := s.opens(path, headers...); (got == 403) != refused {
				t.Errorf("GET %s, Sec-Fetch-Site %q: %d", path, site, got)
			}
		}
	}
}

func TestListeningBeyondLoopback(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := serve.Run(ctx, serve.Config{HTTPAddr: "0.0.0.0:0", NATS: serve.NATSConfig{URL: "embed", Listen: "none",
		DataDir: t.TempDir()}})
	if err == nil || !strings.Contains(err.Error(), "AO_INSECURE_LISTEN=yes") {
		t.Fatalf("listening everywhere: %v", err)
	}
	s := start(t, func(c *serve.Config) { c.HTTPAddr, c.InsecureListen = "0.0.0.0:0", true })
	s.url = strings.Replace(s.url, "[::]", "127.0.0.1", 1)
	if g := s.get("/ready", "Host: coordinator:8765"); g.status != 200 {
		t.Errorf("a name of the network: %d %s", g.status, g.body)
	}
	if g := s.post("/runs", `{}`, "Host: coordinator:8765", "Origin: http://evil.example"); g.status != 403 {
		t.Errorf("a foreign page: %d %s", g.status, g.body)
	}
}

// TestBounds: bodies, keys and routes have limits, each with its own answer.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.Coordinator.MaxPayload = 64 << 10 })
	s.post("/agents", `{"name":"plain"}`).want(201)
	large := `{"agent_name":"plain","prompt":"` + strings.Repeat("x", 5<<18) + `"}`
	if m := s.post("/runs", large).want(413); m["error"] != "too_large" {
		t.Errorf("%v", m)
	}
	// without Content-Length
	if g := s.callReader("POST", "/runs", onlyReader{strings.NewReader(large)}); g.status != 413 {
		t.Errorf("chunked: %d %s", g.status, g.body)
	}
	// fits the body, not the parameters
	s.post("/runs", `{"agent_name":"plain","prompt":"`+strings.Repeat("x", 100<<10)+`"}`).want(413)
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	s.post("/runs", `{"agent_name":"plain","parameters":{"prompt":`+deep+`}}`).want(400)
	s.post("/runs", `{"agent_name":"plain","prompt":"x"}`, "Idempotency-Key: "+strings.Repeat("k", 256)).want(400)
	s.post("/runs", `{"agent_name":"plain","prompt":"x"}`, "Idempotency-Key: a", "Idempotency-Key: b").want(400)
	s.post("/runs", `{}`, "Content-Encoding: gzip").want(400)
	s.post("/runs/run_1/stop", `{"force":true}`).want(400)
	for _, tt := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/nothing", 404, "not_found"}, {"GET", "/schemas/none", 404, "SchemaNotFound"},
		{"GET", "/runs/", 404, "not_found"},
		{"PUT", "/runs", 405, "method_not_allowed"}, {"DELETE", "/runs/run_1", 405, "method_not_allowed"},
		{"OPTIONS", "/runs", 405, "method_not_allowed"},
		{"GET", "/runs/run_1", 404, "not_found"}, {"GET", "/sessions/ses_1", 404, "not_found"},
		{"POST", "/runs/run_1/stop", 404, "not_found"},
		{"POST", "/sessions/ses_1/stop", 404, "not_found"}, {"DELETE", "/sessions/ses_1", 404, "not_found"},
		{"DELETE", "/runners/rnr_1", 404, "not_found"},
		{"GET", "/sse/sessions?session_id=ses_1", 404, "not_found"}, {"GET", "/runs/run_1/wait", 404, "not_found"},
		{"GET", "/sessions/ses_1/events", 404, "not_found"},
	} {
		if m := s.call(tt.method, tt.path, "").want(tt.status); m["error"] != tt.code || m["message"] == "" {
			t.Errorf("%s %s: %v", tt.method, tt.path, m)
		}
	}
	if g := s.call("PUT", "/runs", ""); !strings.Contains(g.header.Get("Allow"), "POST") {
		t.Errorf("Allow: %q", g.header.Get("Allow"))
	}
}

type onlyReader struct{ *strings.Reader }

func (onlyReader) Len() {} // so that the client does not know how much it is

// TestRequestIDs: a sane one is kept, any other replaced.
func TestRequestIDs(t *testing.T) {
	t.Parallel()
	s := start(t)
	if g := s.get("/health", "X-Request-Id: abc-1"); g.header.Get("X-Request-Id") != "abc-1" {
		t.Errorf("kept: %q", g.header.Get("X-Request-Id"))
	}
	if id := s.get("/health", "X-Request-Id: a b\"c").header.Get("X-Request-Id"); !strings.HasPrefix(id, "req-") {
		t.Errorf("replaced: %q", id)
	}
	if a, b := s.get("/health").header.Get("X-Request-Id"), s.get("/health").header.Get("X-Request-Id"); a == b ||
		a == "" {
		t.Errorf("made: %q, %q", a, b)
	}
	if g := s.call(http.MethodHead, "/ready", ""); g.status != 200 || g.body != "" {
		t.Errorf("HEAD: %d %q", g.status, g.body)
	}
}

// TestTooManyWait: back-pressure is 429 with Retry-After.
func TestTooManyWait(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.Coordinator = parts.Config{MaxPending: 2} })
	s.post("/agents", `{"name":"plain"}`).want(201)
	first := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	second := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	s.until(first.RunID, run.Pending)
	s.until(second.RunID, run.Pending)
	g := s.post("/runs", `{"agent_name":"plain","prompt":"x"}`)
	if m := g.want(429); m["error"] != "too_many_pending" || g.header.Get("Retry-After") != "2" {
		t.Errorf("%s, Retry-After %q", g.body, g.header.Get("Retry-After"))
	}
	s.post("/runs/"+first.RunID+"/stop", "").want(200)
	s.submit(`{"agent_name":"plain","prompt":"x"}`)
}
