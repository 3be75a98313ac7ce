package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/nats/natstest"
)

// gates lists every route of the HTTP API, the least scope for it, and the rights of an executor's session token there.
// These are "shared" for resources of no session, "own" for its own and its children's, "" for none. Callers without
// the right name the victim's resources and must be refused. Callers with the right send malformed requests, which must
// harm no one.
var gates = []struct{ route, scope, session, names string }{
	{"GET /", "read", "", ""},
	{"GET /openapi.json", "read", "", ""},
	{"GET /health", "open", "shared", ""},
	{"GET /ready", "open", "shared", ""},
	{"GET /status", "read", "", ""},
	{"GET /doctor", "admin", "", ""},
	{"GET /metrics", "read", "", ""},
	{"GET /ledger", "read", "", ""},
	{"POST /ledger/accept", "admin", "", ""},
	{"GET /audit", "admin", "", ""},
	{"GET /rejected", "admin", "", ""},
	{"GET /settings", "admin", "", ""},
	{"GET /me", "read", "shared", ""},
	{"POST /login", "open", "", ""},
	{"POST /logout", "open", "", ""},
	{"POST /login/codes", "read", "", ""},
	{"POST /runs", "run", "own", ""},
	{"POST /runs/validate", "read", "own", ""},
	{"GET /runs", "read", "own", ""},
	{"GET /runs/count", "read", "own", ""},
	{"GET /runs/{id}", "read", "own", "run"},
	{"GET /runs/{id}/definition", "read", "own", "run"},
	{"GET /runs/{id}/explain", "read", "own", "run"},
	{"GET /runs/{id}/result", "read", "own", "run"},
	{"GET /runs/{id}/wait", "read", "own", "run"},
	{"POST /runs/stop", "run", "", ""},
	{"POST /runs/retry", "run", "", ""},
	{"POST /runs/{id}/retry", "run", "own", "run"},
	{"POST /runs/{id}/stop", "run", "own", "held run"},
	{"GET /sessions", "read", "own", ""},
	{"GET /sessions/{id}", "read", "own", "session"},
	{"GET /sessions/{id}/status", "read", "own", "session"},
	{"GET /sessions/{id}/result", "read", "own", "session"},
	{"GET /sessions/{id}/events", "read", "own", "session"},
	{"POST /sessions/{id}/stop", "run", "own", "held session"},
	{"DELETE /sessions/{id}", "admin", "", "session"},
	{"GET /sessions/{id}/tree", "read", "own", "session"},
	{"GET /sse/sessions", "read", "own", ""},
	{"GET /sse/runs", "read", "own", ""},
	{"GET /callbacks", "read", "", ""},
	{"POST /callbacks/redeliver", "run", "", ""},
	{"POST /callbacks/{id}/redeliver", "run", "", "run"},
	{"GET /agents", "read", "shared", ""},
	{"POST /agents", "admin", "", ""},
	{"POST /agents/preview", "read", "", ""},
	{"GET /agents/{name}", "read", "shared", "agent"},
	{"PATCH /agents/{name}", "admin", "", "agent"},
	{"DELETE /agents/{name}", "admin", "", "agent"},
	{"POST /agents/{name}/reset", "admin", "", "agent"},
	{"GET /agents/{name}/drafts/{side}", "admin", "", "agent"},
	{"PUT /agents/{name}/drafts/{side}", "admin", "", "agent"},
	{"DELETE /agents/{name}/drafts/{side}", "admin", "", "agent"},
	{"GET /schemas", "read", "shared", ""},
	{"POST /schemas", "admin", "", ""},
	{"POST /schemas/validate", "read", "", ""},
	{"GET /schemas/{name}", "read", "shared", "schema"},
	{"DELETE /schemas/{name}", "admin", "", "schema"},
	{"GET /runners", "read", "", ""},
	{"DELETE /runners/{id}", "admin", "", "runner"},
	{"POST /runner/register", "admin", "", ""},
	{"POST /mcp", "read", "shared", ""},
}

// scopes of an API token; each includes those before it. Only open routes need none.
var scopes = []string{"open", "read", "run", "admin"}

// harmless routes accept any body from callers with the right, or do what they do without one.
var harmless = map[string]bool{"/mcp": true, "/logout": true, "/login/codes": true, "/ledger/accept": true}

// hostileBodies are sent to every route that reads a body by the last of the callers; others with the right send two.
var hostileBodies = []string{
	``, `{"zz":1}`, `{`, `null`, `[]`, `"x"`, "\x00\xff", strings.Repeat("[", 50_000), strings.Repeat(`{"a":`, 50_000),
	`{"name":"../../x","agent_name":"../x","session_id":"ses_*.>"}`,
	`{"agent_name":"echo","agent_name":"gate"}`, `{"name":"` + strings.Repeat("x", 1<<20) + `"}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no","arguments":{}}}`,
}

// TestEveryCredentialAtEveryRoute: callers without the right are refused and learn nothing; callers with it break
// nothing.
func TestEveryCredentialAtEveryRoute(t *testing.T) {
	t.Parallel()
	b := newSecurityStack(t)
	b.has(b.post("/agents", `{"name":"theirs"}`), 201)
	b.has(b.post("/schemas", `{"name":"theirs","schema":{"type":"object"}}`), 201)
	b.everyRouteHasARow()
	of := map[string]string{"run": b.victim.run, "held run": b.victim.held, "session": b.victim.session,
		"held session": b.victim.holds, "runner": b.victim.runner, "agent": "theirs", "schema": "theirs"}
	nobodys := map[string]string{"run": "run_nobodys", "held run": "run_nobodys", "session": "ses_nobodys",
		"held session": "ses_nobodys", "runner": "rnr_nobodys", "agent": "nobodys", "schema": "nobodys"}
	for _, gate := range gates {
		b.row(gate.route, func(b *securityStack) {
			method, path, _ := strings.Cut(gate.route, " ")
			at := func(ids map[string]string) string {
				return strings.NewReplacer("{id}", ids[gate.names], "{name}", ids[gate.names], "{side}",
					"input").Replace(path)
			}
			for _, who := range callers {
				scope := slices.Index(scopes, who)
				own := who == "session" && gate.session == "own"
				if gate.scope == "open" || scope >= slices.Index(scopes, gate.scope) || who == "session" &&
					gate.session == "shared" {
					bodies := hostileBodies
					if who != callers[len(callers)-1] {
						bodies = bodies[:natstest.Load(2, len(bodies))]
					}
					for _, body := range bodies {
						r := b.request(who, method, at(nobodys), body)
						if refused(r) || r.code >= 500 || r.err != nil || r.code/100 == 2 && method != "GET" &&
							!harmless[path] {
							b.t.Errorf("%s at %s with %.60q: %d %.300s %v", who, gate.route, body, r.code, r.text,
								r.err)
						}
						if method == "GET" {
							break
						}
					}
					continue
				}
				for _, body := range []string{"", `{"agent_name":"theirs","name":"theirs","session_id":"` +
					b.victim.session + `","parent_session_id":"` + b.victim.session + `","prompt":"x"}`} {
					r := b.request(who, method, at(of), body)
					empty := own && r.code == 200 && gate.names == "" && method == "GET" // a list of its own
					if !empty && !refused(r) && (!own || r.code/100 != 4) {
						b.t.Errorf("%s at %s: %d %.300s", who, gate.route, r.code, r.text)
					}
					if strings.Contains(r.text, b.victim.secret) || own && strings.Contains(r.text, b.victim.run) &&
						gate.names != "run" {
						b.t.Errorf("%s at %s was shown what is others': %.1000s", who, gate.route, r.text)
					}
					if method == "GET" {
						break
					}
				}
			}
			b.checkUnharmed("it")
		})
	}
	for _, name := range []string{"agents", "schemas"} {
		b.has(b.get("/"+name+"/theirs"), 200)
	}
	b.through()
	b.checkAtEnd()
}

// everyRouteHasARow fails if a route of the API has no row in gates, or a row no route.
func (b *securityStack) everyRouteHasARow() {
	b.t.Helper()
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	r := b.get("/openapi.json")
	if err := json.Unmarshal([]byte(r.text), &document); err != nil || len(document.Paths) == 0 {
		b.t.Fatalf("GET /openapi.json: %d %v", r.code, err)
	}
	var have, rows []string
	for path, item := range document.Paths {
		for method := range item {
			have = append(have, strings.ToUpper(method)+" "+path)
		}
	}
	for _, gate := range gates {
		rows = append(rows, gate.route)
	}
	for _, route := range have {
		if !slices.Contains(rows, route) {
			b.t.Errorf("the route %s has no row in gates: say what it needs, and what a stranger would do there", route)
		}
	}
	for _, route := range rows {
		if !slices.Contains(have, route) {
			b.t.Errorf("gates has a row for %s, and there is no such route", route)
		}
	}
}

// through uses an executor's access: its environment has no credential, and the worker's gateway acts as its session.
func (b *securityStack) through() {
	b.t.Helper()
	for _, variable := range b.lines("env-intruder") {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "AO_") || strings.Contains(value, "nats.nk") || strings.Contains(value, b.token) {
			b.t.Errorf("an executor is given %s", variable)
		}
	}
	for _, gate := range gates {
		method, path, _ := strings.Cut(gate.route, " ")
		if gate.session == "shared" || gate.scope == "open" {
			continue
		}
		for prefix, ids := range map[string][2]string{"/api": {b.victim.run, b.victim.session},
			"/api/../..": {b.victim.held, b.victim.holds}} {
			id := ids[0]
			if strings.Contains(gate.names, "session") {
				id = ids[1]
			}
			r := b.at(b.gateway+prefix+strings.NewReplacer("{id}", id, "{name}", "theirs").Replace(path), "", method,
				`{"session_id":"`+b.victim.session+`","prompt":"x"}`)
			if r.code/100 == 2 && (gate.session != "own" || gate.names != "") ||
				strings.Contains(r.text, b.victim.secret) {
				b.t.Errorf("an executor at %s: %d %.300s", gate.route, r.code, r.text)
			}
		}
	}
	b.checkHealthy("an executor at every route")
}

// request sends one request; of a live stream it reads only the beginning.
func (b *securityStack) request(who, method, path, body string) reply {
	return b.at(b.url+path, b.tokens[who], method, body)
}

func (b *securityStack) at(url, token, method, body string) reply {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return reply{err: err, text: err.Error()}
	}
	defer res.Body.Close()
	var text []byte
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		text = make([]byte, 64<<10)
		n, _ := res.Body.Read(text)
		text = text[:n]
	} else {
		text, err = io.ReadAll(res.Body)
	}
	return reply{res.StatusCode, res.Header, string(text), err}
}
