package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// secured is a coordinator with a token of each scope.
type secured struct {
	*stack
	file             string
	read, run, admin string // headers
}

func bearer(token string) string { return "Authorization: Bearer " + token }

func secure(t *testing.T, change ...func(*serve.Config)) secured {
	t.Helper()
	s := secured{file: filepath.Join(t.TempDir(), "tokens")}
	for scope, header := range map[string]*string{"read": &s.read, "run": &s.run, "admin": &s.admin} {
		token, err := access.Create(s.file, "the-"+scope, []string{scope}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		*header = bearer(token)
	}
	s.stack = start(t, append(change, func(c *serve.Config) { c.APITokens = s.file })...)
	return s
}

// TestTokensAtTheListener: a caller without a token, or with a wrong or insufficient one, gets an error that says what
// to do.
func TestTokensAtTheListener(t *testing.T) {
	t.Parallel()
	s := secure(t)
	s.post("/agents", `{"name":"plain"}`, s.admin).want(201)
	acc := into[struct {
		RunID     string `json:"run_id"`
		SessionID string `json:"session_id"`
	}](s.post("/runs", `{"agent_name":"plain","prompt":"x"}`, s.run), 201)
	const body = `{"agent_name":"plain","prompt":"x"}`

	literal(t, s.post("/runs", body), 401, `{"error":"unauthorized","message":"This coordinator requires a token: `+
		`send 'Authorization: Bearer TOKEN'; its operator creates one with: ao tokens create"}`)
	literal(t, s.post("/runs", body, bearer("aot_WRONG")), 401,
		`{"error":"unauthorized","message":"Unknown token: it was never created here, or it was revoked"}`)
	literal(t, s.post("/runs", body, s.read), 403, `{"error":"forbidden","message":"This needs a token with scope `+
		`run, and token \"the-read\" has read; the coordinator's operator creates one with: ao tokens create --scope `+
		`run","scope":"run"}`)
	for _, tt := range []struct {
		path, challenge string
		headers         []string
	}{
		{"/runs", `Bearer realm="ao"`, nil},
		{"/nothing", `Bearer realm="ao"`, nil},
		{"/", `Bearer realm="ao"`, nil},
		{"/sse/sessions", `Bearer realm="ao"`, nil},
		{"/sse/runs", `Bearer realm="ao"`, nil},
		{"/runs", `Bearer realm="ao", error="invalid_token"`, []string{"Authorization: Basic YTpi"}},
		{"/runs", `Bearer realm="ao", error="invalid_token"`, []string{"Authorization: Bearer"}},
		{"/runs", `Bearer realm="ao", error="invalid_token"`, []string{s.read, s.admin}},
		{"/runs", `Bearer realm="ao", error="invalid_token"`,
			[]string{"Authorization: " + strings.TrimPrefix(s.read, "Authorization: Bearer ")}},
		{"/runs", `Bearer realm="ao", error="invalid_token"`, []string{bearer("aos_run_1.1.abc")}},
	} {
		g := s.get(tt.path, tt.headers...)
		if m := g.want(401); m["error"] != "unauthorized" || g.header.Get("WWW-Authenticate") != tt.challenge {
			t.Errorf("%s %v: %s, %q", tt.path, tt.headers, g.body, g.header.Get("WWW-Authenticate"))
		}
	}
	if g := s.post("/agents", `{"name":"b"}`, s.run); g.header.Get("WWW-Authenticate") != `Bearer realm="ao", `+
		`error="insufficient_scope", scope="admin"` {
		t.Errorf("a scope that does not do: %q", g.header.Get("WWW-Authenticate"))
	}

	for _, tt := range []struct {
		method, path, body string
		least              string // the scope that does
	}{
		{"GET", "/health", "", "none"}, {"GET", "/ready", "", "none"}, {"HEAD", "/ready", "", "none"},
		{"GET", "/", "", "read"}, {"HEAD", "/", "", "read"}, {"GET", "/nothing", "", "read"},
		{"PUT", "/runs", "", "read"},
		{"GET", "/runs", "", "read"}, {"GET", "/runs/" + acc.RunID, "", "read"}, {"GET", "/runs/count", "", "read"},
		{"GET", "/sessions/" + acc.SessionID + "/tree", "", "read"}, {"GET", "/ledger", "", "read"},
		{"GET", "/runners", "", "read"}, {"GET", "/callbacks", "", "read"},
		{"POST", "/runs/validate", body, "read"}, {"GET", "/agents/plain", "", "read"}, {"GET", "/schemas", "", "read"},
		{"GET", "/agents/plain/drafts/input", "", "admin"}, {"PUT", "/agents/plain/drafts/input", "{", "admin"},
		{"DELETE", "/agents/plain/drafts/output", "", "admin"},
		{"POST", "/schemas/validate", "{}", "read"}, {"POST", "/agents/preview", "{}", "read"},
		{"POST", "/runs", body, "run"}, {"POST", "/runs/" + acc.RunID + "/stop", "", "run"},
		{"POST", "/sessions/" + acc.SessionID + "/stop", "", "run"}, {"POST", "/callbacks/" + acc.RunID + "/redeliver",
			"", "run"},
		{"DELETE", "/sessions/" + acc.SessionID, "", "admin"}, {"PATCH", "/agents/plain", "{}", "admin"},
		{"POST", "/schemas", "{}", "admin"}, {"DELETE", "/schemas/x", "", "admin"},
		{"DELETE", "/runners/rnr_1", "", "admin"}, {"POST", "/runner/register", "{}", "admin"},
		{"DELETE", "/agents/plain", "", "admin"},
	} {
		for i, header := range []string{"", s.read, s.run, s.admin} {
			may := i >= strings.Index("none read run  admin", tt.least)/5
			var headers []string
			if header != "" {
				headers = append(headers, header)
			}
			want := map[bool]string{true: "passes", false: "is refused"}[may]
			if g := s.call(tt.method, tt.path, tt.body, headers...); (g.status == 401 || g.status == 403) == may {
				t.Errorf("%s %s with token %d: %d %s, but it %s", tt.method, tt.path, i, g.status, g.body, want)
			}
		}
	}
}

// TestTokensFileIsReloaded: a new token is valid at once, a revoked one no longer.
func TestTokensFileIsReloaded(t *testing.T) {
	t.Parallel()
	s := secure(t)
	token, err := access.Create(s.file, "late", []string{"read"}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	s.get("/runs", bearer(token)).want(200)
	if err := access.Revoke(s.file, "late"); err != nil {
		t.Fatal(err)
	}
	s.get("/runs", bearer(token)).want(401)
	good, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.file, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.get("/runs", s.read).want(200) // a bad file locks nobody out
	if err := os.WriteFile(s.file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	s.get("/runs", s.read).want(200)
}

// TestIdempotencyKeysArePerCaller: two callers that choose the same key get a run each.
func TestIdempotencyKeysArePerCaller(t *testing.T) {
	t.Parallel()
	s := secure(t)
	s.post("/agents", `{"name":"plain"}`, s.admin).want(201)
	const body = `{"agent_name":"plain","prompt":"x"}`
	mine := s.submit(body, s.run, "Idempotency-Key: k")
	again := s.submit(body, s.run, "Idempotency-Key: k")
	theirs := s.submit(body, s.admin, "Idempotency-Key: k")
	if mine.RunID != again.RunID || mine.RunID == theirs.RunID {
		t.Errorf("%s, again %s; another's %s", mine.RunID, again.RunID, theirs.RunID)
	}
}

// TestTheLogNamesTheCaller: by its token's name, or its session, never by the token.
func TestTheLogNamesTheCaller(t *testing.T) {
	t.Parallel()
	var log lockedLog
	s := secure(t, func(c *serve.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	m := think(s.stack, s.admin)
	top := s.submit(`{"agent_name":"mind","prompt":"hold"}`, s.run)
	token := m.token(top.RunID)
	s.post("/runs", `{"agent_name":"mind","prompt":"x"}`, bearer(token)).want(201)
	s.get("/runs", bearer(token+"0")).want(401)
	s.get("/runs", bearer("aot_WRONG")).want(401)
	natstest.Until(t, "the log has all", func() bool {
		return strings.Contains(log.text(), "token=the-run") &&
			strings.Contains(log.text(), "session="+top.SessionID) && strings.Count(log.text(), "status=401") == 2
	})
	for _, secret := range []string{token, "aot_"} {
		if strings.Contains(log.text(), secret) {
			t.Errorf("a token is in the log: %s", secret[:4])
		}
	}
}

// lockedLog is a log that can be read while it is written.
type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestBadTokenFiles: the start is refused, and the line is named.
func TestBadTokenFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("# tokens\nme admin aot_SECRET\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ file, want string }{
		{bad, "line 2: the third word is not a hash"},
		{filepath.Join(dir, "none"), "the file does not exist; create it with: ao tokens create --file"},
		{dir, "cannot be read"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := serve.Run(ctx, serve.Config{HTTPAddr: "127.0.0.1:0", APITokens: tt.file,
			NATS: serve.NATSConfig{URL: "embed", Listen: "none", DataDir: t.TempDir()}})
		cancel()
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "AO_API_TOKENS") ||
			strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", tt.file, err)
		}
	}
}

// TestPublicURL: workers are given the address of the API, over NATS and over HTTP, and its name is accepted.
func TestPublicURL(t *testing.T) {
	t.Parallel()
	s := start(t)
	register := func(s *stack) (nats, http string) {
		t.Helper()
		raw, _ := json.Marshal(runnerapi.Registration{Runner: thinker("one")})
		answer, err := s.bus.Request(t.Context(), "ao.fleet."+runnerapi.OpRegister, raw)
		var over runnerapi.Registered
		if err != nil || json.Unmarshal(answer, &over) != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		g := s.post("/runner/register", `{"hostname":"h","executor_profile":"p","executor_type":"procedural"}`).
			want(200)
		return over.APIURL, fmt.Sprint(g["api_url"])
	}
	if nats, http := register(s); nats != s.url || http != s.url {
		t.Errorf("got %q and %q, want %q", nats, http, s.url)
	}
	s.get("/ready", "Host: ao.example.com").want(403)
	s = start(t, func(c *serve.Config) { c.PublicURL = "https://ao.example.com/api" })
	if nats, http := register(s); nats != "https://ao.example.com/api" || http != nats {
		t.Errorf("got %q and %q", nats, http)
	}
	s.get("/ready", "Host: ao.example.com").want(200)
}

// TestTokensAllowRemoteCallers: with tokens the coordinator listens on all addresses, and requires one of every caller.
func TestTokensAllowRemoteCallers(t *testing.T) {
	t.Parallel()
	s := secure(t, func(c *serve.Config) { c.HTTPAddr = "0.0.0.0:0" })
	s.url = strings.Replace(s.url, "[::]", "127.0.0.1", 1)
	s.get("/runs", "Host: coordinator:8765").want(401)
	s.get("/runs", "Host: coordinator:8765", s.read).want(200)
}

// minds is a coordinator with an autonomous agent, "mind", that does what its prompt says: hold, tell, fail, or say it.
type minds struct {
	*stack
	mu  sync.Mutex
	had map[string][]run.Queued // by run: its attempts
}

func think(s *stack, admin ...string) *minds {
	s.t.Helper()
	m := &minds{stack: s, had: map[string][]run.Queued{}}
	var w *worker
	ready := make(chan struct{})
	w = s.workAs(thinker("minds"), func(q run.Queued) run.Outcome {
		<-ready
		m.mu.Lock()
		m.had[q.ID] = append(m.had[q.ID], q)
		m.mu.Unlock()
		var in struct{ Prompt string }
		_ = json.Unmarshal(q.Parameters, &in)
		if strings.HasSuffix(in.Prompt, "tell") {
			w.message(q, "I am at it")
		}
		switch {
		case strings.HasSuffix(in.Prompt, "second try") && q.Attempt == 1:
			return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "command_failed", "It went wrong")}
		case strings.HasPrefix(in.Prompt, "hold"):
			<-s.t.Context().Done()
		case strings.HasPrefix(in.Prompt, "fail"):
			return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "command_failed", "It went wrong")}
		}
		return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Text: &in.Prompt}}
	})
	close(ready)
	s.post("/agents", `{"name":"mind","description":"says what it is told"}`, admin...).want(201)
	return m
}

// token is the session token of a run's first attempt, as its worker makes it; tokenOf that of any, counted from 1.
func (m *minds) token(id string) string {
	m.t.Helper()
	return m.tokenOf(id, 1)
}

func (m *minds) tokenOf(id string, attempt int) string {
	m.t.Helper()
	var q run.Queued
	natstest.Until(m.t, id+" has started", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.had[id]) < attempt {
			return false
		}
		q = m.had[id][attempt-1]
		return true
	})
	return runnerapi.SessionToken(q.ID, q.Attempt, q.Key)
}

// TestALiveStreamEndsWithItsToken: a reader whose token expires, or was revoked, gets that error at the next
// keep-alive.
func TestALiveStreamEndsWithItsToken(t *testing.T) {
	t.Parallel()
	s := secure(t, func(c *serve.Config) { c.HTTP.KeepAlive = 20 * time.Millisecond })
	m := think(s.stack, s.admin)
	top := m.submit(`{"agent_name":"mind","prompt":"hold"}`, s.admin)
	mine := bearer(m.token(top.RunID))
	child := m.submit(`{"agent_name":"mind","prompt":"hold"}`, mine)
	for _, tt := range []struct {
		path, header, say string
		end               func()
	}{
		{"/sse/sessions?session_id=" + child.SessionID, mine, "session token has expired",
			func() { m.post("/runs/"+top.RunID+"/stop", "", s.admin).want(200) }},
		{"/sse/sessions", s.read, "was revoked", func() {
			if err := access.Revoke(s.file, "the-read"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		next, hangUp := s.listen("GET", tt.path, "", tt.header)
		time.AfterFunc(20*time.Second, hangUp)
		e, ok := next()
		if !ok || e.name != "init" {
			t.Fatalf("%s begins with %v", tt.path, e)
		}
		tt.end()
		for ok && e.name != "error" {
			e, ok = next()
		}
		if !ok || !strings.Contains(e.data, `"unauthorized"`) || !strings.Contains(e.data, tt.say) {
			t.Errorf("%s ends with %v", tt.path, e)
		}
		if e, ok := next(); ok {
			t.Errorf("%s goes on with %v", tt.path, e)
		}
	}
}

// TestSessionTokens: while its run is active, a session may start children, read itself and its descendants, and stop
// the descendants. Other sessions are closed to it. Both also hold where no other caller needs a token.
func TestSessionTokens(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"tokens are asked for", "nobody is asked"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var admin []string
			s := &stack{}
			if name == "nobody is asked" {
				s = start(t)
			} else {
				x := secure(t)
				s, admin = x.stack, []string{x.admin}
			}
			sessionTokens(t, think(s, admin...), admin)
		})
	}
}

func sessionTokens(t *testing.T, m *minds, admin []string) {
	blocking := func(headers ...string) runs.Accepted {
		t.Helper()
		return m.submit(`{"agent_name":"mind","prompt":"hold"}`, headers...)
	}
	top := blocking(admin...)
	mine := bearer(m.token(top.RunID))
	child := blocking(mine)
	theirs := bearer(m.token(child.RunID))
	grandchild := blocking(theirs)
	stranger := blocking(admin...)
	strange := bearer(m.token(stranger.RunID))

	for id, parent := range map[string]string{child.RunID: top.SessionID, grandchild.RunID: child.SessionID} {
		if r := into[run.Run](m.get("/runs/"+id, admin...), 200); r.Parent != parent {
			t.Errorf("the parent of %s is %q, want %q", id, r.Parent, parent)
		}
	}
	m.post("/agents", `{"name":"secretive","system_prompt":"SECRET","mcp_servers":{"x":{"type":"http",`+
		`"url":"http://x","headers":{"Authorization":"SECRET"}}}}`, admin...).want(201)
	for _, path := range []string{"/agents", "/agents/secretive"} {
		if theirs, all := m.get(path, mine), m.get(path, admin...); strings.Contains(theirs.body, "SECRET") ||
			!strings.Contains(theirs.body, "secretive") || !strings.Contains(all.body, "SECRET") {
			t.Errorf("%s: a session sees %s, an admin %s", path, theirs.body, all.body)
		}
	}
	for _, tt := range []struct {
		name, token, method, path, body string
		status                          int
		say                             string
	}{
		{"its own session", mine, "GET", "/sessions/" + top.SessionID, "", 200, ""},
		{"its own run", mine, "GET", "/runs/" + top.RunID, "", 200, ""},
		{"its child", mine, "GET", "/sessions/" + child.SessionID + "/status", "", 200, ""},
		{"its child's run", mine, "GET", "/runs/" + child.RunID, "", 200, ""},
		{"its own tree", mine, "GET", "/sessions/" + top.SessionID + "/tree", "", 200, grandchild.RunID},
		{"a stranger's tree", mine, "GET", "/sessions/" + stranger.SessionID + "/tree", "", 403, "was not started by"},
		{"a stranger's list, live", mine, "GET", "/sse/runs?session_id=" + stranger.SessionID, "", 403,
			"was not started by"},
		{"its grandchild", mine, "GET", "/sessions/" + grandchild.SessionID + "/events", "", 200, ""},
		{"a child's parent", theirs, "GET", "/sessions/" + top.SessionID, "", 403, "was not started by session " +
			child.SessionID},
		{"a stranger", mine, "GET", "/sessions/" + stranger.SessionID, "", 403, "was not started by session " +
			top.SessionID},
		{"a stranger's run", mine, "GET", "/runs/" + stranger.RunID + "/wait?timeout_seconds=0", "", 403,
			"was not started by"},
		{"nobody", mine, "GET", "/sessions/ses_none", "", 404, "There is no session ses_none"},
		{"no run", mine, "GET", "/runs/run_none", "", 404, "There is no run run_none"},
		{"no id", mine, "GET", "/runs/nine", "", 400, "run_id"},
		{"agents", mine, "GET", "/agents", "", 200, ""},
		{"schemas", mine, "GET", "/schemas", "", 200, ""},
		{"its child's runs", mine, "GET", "/runs?session_id=" + child.SessionID, "", 200, ""},
		{"how many runs a stranger has", mine, "GET", "/runs/count?session_id=" + stranger.SessionID, "", 403,
			"was not started by"},
		{"how many runs its child has", mine, "GET", "/runs/count?session_id=" + child.SessionID, "", 200,
			`{"count":1,"exact":true}`},
		{"how many children it has", theirs, "GET", "/runs/count", "", 200, `{"count":1,"exact":true}`},
		{"a stranger's runs", mine, "GET", "/runs?session_id=" + stranger.SessionID, "", 403, "was not started by"},
		{"a stranger's children", mine, "GET", "/sessions?parent_session_id=" + stranger.SessionID, "", 403,
			"was not started by"},
		{"a stream of all", mine, "GET", "/sse/sessions", "", 403, "name it with session_id"},
		{"a stream of nobody", mine, "GET", "/sse/sessions", "", 403, "name it with session_id"},
		{"a stream of an empty name", mine, "GET", "/sse/sessions?session_id=", "", 400, "session_id"},
		{"runs of an empty name", mine, "GET", "/runs?session_id=", "", 400, "session_id"},
		{"children of an empty name", mine, "GET", "/sessions?parent_session_id=", "", 400, "parent_session_id"},
		{"a stranger's stream", mine, "GET", "/sse/sessions?session_id=" + stranger.SessionID, "", 403,
			"was not started by"},
		{"another's child", mine, "POST", "/runs", `{"agent_name":"mind","prompt":"x","parent_session_id":"` +
			stranger.SessionID + `"}`, 403, "a run's parent is the token's own session " + top.SessionID},
		{"its own child, said", mine, "POST", "/runs", `{"agent_name":"mind","prompt":"x","parent_session_id":"` +
			top.SessionID + `"}`, 201, ""},
		{"a child with a callback", mine, "POST", "/runs", `{"agent_name":"mind","prompt":"x","mode":"async_callback"}`,
			201, ""},
		{"a bad request", mine, "POST", "/runs", `{"agent_name":"mind","promt":"x"}`, 400, "promt"},
		{"a check of a request", mine, "POST", "/runs/validate", `{"agent_name":"mind","prompt":"x"}`, 200, ""},
		{"a turn of a stranger", mine, "POST", "/runs", `{"session_id":"` + stranger.SessionID + `","prompt":"x"}`, 403,
			"was not started by"},
		{"a turn of its own", mine, "POST", "/runs", `{"session_id":"` + top.SessionID + `","prompt":"x"}`, 403,
			"cannot do that to itself"},
		{"a turn of its grandchild", mine, "POST", "/runs", `{"session_id":"` +
			grandchild.SessionID + `","prompt":"x"}`, 201, ""},
		{"a child with an id of its choice", mine, "POST", "/runs",
			`{"type":"start_session","agent_name":"mind","prompt":"x","session_id":"ses_mine"}`, 403,
			`"field":"session_id"`},
		{"a check of such a child", mine, "POST", "/runs/validate",
			`{"type":"start_session","agent_name":"mind","prompt":"x","session_id":"ses_mine"}`, 403,
			`"field":"session_id"`},
		{"a retry with an id of its choice", mine, "POST", "/runs/" + child.RunID + "/retry",
			`{"session_id":"ses_mine"}`, 403, `"field":"session_id"`},
		{"stop a stranger", mine, "POST", "/sessions/" + stranger.SessionID + "/stop", "", 403, "was not started by"},
		{"stop a stranger's run", mine, "POST", "/runs/" + stranger.RunID + "/stop", "", 403, "was not started by"},
		{"stop itself", mine, "POST", "/sessions/" + top.SessionID + "/stop", "", 403, "cannot do that to itself"},
		{"stop a grandchild", mine, "POST", "/sessions/" + grandchild.SessionID + "/stop", "", 200, ""},
		{"delete a child", mine, "DELETE", "/sessions/" + child.SessionID, "", 403, "nothing else"},
		{"make an agent", mine, "POST", "/agents", `{"name":"b"}`, 403, "nothing else"},
		{"files that are broken", mine, "GET", "/agents?status=broken", "", 403, "nothing else"},
		{"runners", mine, "GET", "/runners", "", 403, "nothing else"},
		{"the ledger", mine, "GET", "/ledger", "", 403, "nothing else"},
		{"callbacks", mine, "GET", "/callbacks", "", 403, "nothing else"},
		{"what there is", mine, "GET", "/", "", 403, "nothing else"},
		{"another's token", strange, "GET", "/sessions/" + child.SessionID, "", 403, "was not started by session " +
			stranger.SessionID},
	} {
		if g := m.call(tt.method, tt.path, tt.body, tt.token); g.status != tt.status ||
			!strings.Contains(g.body, tt.say) {
			t.Errorf("%s: %d %s, want %d %s", tt.name, g.status, g.body, tt.status, tt.say)
		}
	}
	// its children, two more since, and the turn it gave its grandchild
	for path, want := range map[string]int{"/sessions": 3, "/runs": 4, "/sessions?parent_session_id=" +
		child.SessionID: 1} {
		var all struct{ Runs, Sessions []json.RawMessage }
		g := m.get(path, mine)
		all = into[struct{ Runs, Sessions []json.RawMessage }](g, 200)
		if len(all.Runs)+len(all.Sessions) != want {
			t.Errorf("%s lists %d, want %d: %s", path, len(all.Runs)+len(all.Sessions), want, g.body)
		}
	}

	if g := m.get("/sse/sessions?session_id=ses_to_come", mine, "Last-Event-ID: 1-0"); g.status != 404 {
		t.Errorf("the stream of a session that a stranger may begin: %d %s", g.status, g.body)
	}

	good := strings.TrimPrefix(mine, "Authorization: Bearer ")
	name, mac, _ := strings.Cut(good, "."+"1.")
	for _, bad := range []string{good + "0", good[:len(good)-1], name + ".2." + mac, name + ".1.",
		strings.Replace(good, top.RunID, stranger.RunID, 1), "aos_", "aos_x.y.z"} {
		if g := m.get("/sessions/"+top.SessionID, bearer(bad)); g.status != 401 ||
			!strings.Contains(g.body, "issued by another deployment") {
			t.Errorf("%s: %d %s", bad, g.status, g.body)
		}
	}
	again := m.submit(`{"agent_name":"mind","prompt":"hold at the second try","max_attempts":2}`, admin...)
	m.get("/runs/"+again.RunID, bearer(m.tokenOf(again.RunID, 2))).want(200)
	if g := m.get("/runs/"+again.RunID, bearer(m.token(again.RunID))); g.status != 401 ||
		!strings.Contains(g.body, "is over") {
		t.Errorf("the token of an attempt that failed: %d %s", g.status, g.body)
	}

	m.post("/runs/"+top.RunID+"/stop", "", admin...).want(200)
	natstest.Until(t, "the run has ended", func() bool {
		return into[run.Run](m.get("/runs/"+top.RunID, admin...), 200).Status == run.Stopped
	})
	if g := m.get("/sessions/"+top.SessionID, mine); g.status != 401 ||
		!strings.Contains(g.body, "session token has expired") || g.header.Get("WWW-Authenticate") == "" {
		t.Errorf("after its end: %d %s", g.status, g.body)
	}
}

// TestSecretsOfAgentsAreMasked: what an agent shows to its MCP servers is the administrator's to see, by whatever way
// it is asked for.
func TestSecretsOfAgentsAreMasked(t *testing.T) {
	t.Parallel()
	s := secure(t)
	const shown = `{"one":{"command":"x","args":["--api-key","SECRET-3","--db=pg://SECRET-4@db/x"],` +
		`"env":{"KEY":"SECRET-1"}},"two":{"url":"https://SECRET-5@mcp.example/?k=SECRET-6",` +
		`"headers":{"Authorization":"SECRET-2"}}}`
	hidden := regexp.MustCompile("SECRET-.").ReplaceAllString(shown, "••••")
	s.post("/agents", `{"name":"armed","mcp_servers":`+shown+`}`, s.admin).want(201)
	cookie := s.login(s.run)
	for _, path := range []string{"/agents", "/agents/armed", "/agents?status=active"} {
		for _, tt := range []struct {
			want    string
			headers []string
		}{{shown, []string{s.admin}}, {hidden, []string{s.run}}, {hidden, []string{s.read}},
			{hidden, []string{cookie, page}}} {
			if g := s.get(path, tt.headers...); g.status != 200 || !strings.Contains(g.body, `"mcp_servers":`+tt.want) {
				t.Errorf("%s: %d %s, want %s", path, g.status, g.body, tt.want)
			}
		}
	}
	run := s.submit(`{"agent_name":"armed","prompt":"x"}`, s.run)
	for _, path := range []string{"/runs", "/runs/" + run.RunID, "/runs/" + run.RunID + "/explain", "/sessions",
		"/sessions/" + run.SessionID, "/sessions/" + run.SessionID + "/events", "/status", "/runners"} {
		if g := s.get(path, s.read); g.status != 200 || strings.Contains(g.body, "SECRET") {
			t.Errorf("%s: %d %s", path, g.status, g.body)
		}
	}
	if g := s.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_agent_blueprints",`+
		`"arguments":{}}}`, s.run, "Content-Type: application/json",
		"Accept: application/json, text/event-stream"); strings.Contains(g.body, "SECRET") ||
		!strings.Contains(g.body, "armed") {
		t.Errorf("over MCP: %s", g.body)
	}
	answer, err := s.nc.Request("ao.api.agents.list", nil, 10*time.Second)
	if err != nil || strings.Contains(string(answer.Data), "SECRET") || !strings.Contains(string(answer.Data), hidden) {
		t.Errorf("over NATS: %v %s", err, answer.Data)
	}
	for _, headers := range [][]string{{s.run}, {s.read}, {cookie, page}} { // what was shown to them is not saved
		s.call("PATCH", "/agents/armed", `{"mcp_servers":`+hidden+`}`, headers...).want(403)
	}
	// Nor does an administrator save what was shown to others.
	for _, g := range []got{s.call("PATCH", "/agents/armed", `{"mcp_servers":`+hidden+`}`, s.admin),
		s.post("/agents", `{"name":"copy","mcp_servers":`+hidden+`}`, s.admin)} {
		if m := g.want(400); m["field"] != "mcp_servers.one.args[1]" {
			t.Errorf("a mask is refused with %v", m)
		}
	}
	s.call("PATCH", "/agents/armed", `{"description":"x"}`, s.admin).want(200)
	if got := string(into[agent.Blueprint](s.get("/agents/armed", s.admin), 200).MCPServers); got != shown {
		t.Errorf("the definition is changed by being shown: %s", got)
	}
}
