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
		{"GET", "/runs/run_1/wait", 404, "not_found"},
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

// TestTooManyPendingRuns: back-pressure is 429 with Retry-After.
func TestTooManyPendingRuns(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.Coordinator = parts.Config{MaxPending: 4} })
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
