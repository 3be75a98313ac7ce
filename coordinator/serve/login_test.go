package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/coordinator/access"
	deployment "ao/coordinator/record"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"

	"github.com/nats-io/nats.go/jetstream"
)

// who is the answer of GET /me.
type who struct {
	Name, Kind, Scope, Version, Deployment string
	Expires                                *time.Time `json:"expires_at"`
	Login                                  bool
	May                                    []string
}

// page is what a browser sends with the requests of our own page.
const page = "Sec-Fetch-Site: same-origin"

// login logs in and gives the header with the cookie.
func (s *stack) login(header string) (cookie string) {
	s.t.Helper()
	_, token, _ := strings.Cut(header, "Bearer ")
	g := s.post("/login", `{"token":"`+token+`"}`)
	if m := into[who](g, 200); m.Kind != "cookie" {
		s.t.Fatalf("logged in as %+v", m)
	}
	return cookieOf(g)
}

func cookieOf(g got) string {
	cookie, _, _ := strings.Cut(g.header.Get("Set-Cookie"), ";")
	return "Cookie: " + cookie
}

var wanted = regexp.MustCompile(`^ao_[0-9a-f]{12}=\d+\.[A-Z2-7]{26}\.[0-9a-f]{32}\.the-run; Path=/; Max-Age=43200; ` +
	`HttpOnly; SameSite=Strict$`)

// wantedOverTLS is a cookie over TLS: browsers take its name only with Secure, Path=/ and no Domain.
var wantedOverTLS = regexp.MustCompile(
	`^__Host-ao_[0-9a-f]{12}=[^;]+; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict$`)

// TestLogin: a token that is shown once is a cookie afterwards, on every coordinator, with the token's rights.
func TestLogin(t *testing.T) {
	t.Parallel()
	s := secure(t)
	other := s.another(func(c *serve.Config) { c.APITokens = s.file })
	g := s.post("/login", `{"token":"`+strings.TrimPrefix(s.run, "Authorization: Bearer ")+`"}`, page)
	m := into[who](g, 200)
	if got := g.header.Get("Set-Cookie"); !wanted.MatchString(got) {
		t.Errorf("Set-Cookie: %s", got)
	}
	if m.Name != "the-run" || m.Kind != "cookie" || m.Scope != "run" || !m.Login || m.Expires != nil ||
		!strings.HasPrefix(cookieOf(g), "Cookie: ao_"+m.Deployment+"=") {
		t.Errorf("me: %+v", m)
	}
	cookie := cookieOf(g)
	for _, at := range []*stack{s.stack, other} {
		if again := into[who](at.get("/me", cookie, page), 200); again.Name != m.Name ||
			again.Deployment != m.Deployment || !slices.Equal(again.May, m.May) {
			t.Errorf("%+v, then %+v", m, again)
		}
		at.get("/runs", cookie, page).want(200)
		at.post("/agents", `{"name":"x"}`, cookie, page).want(403)
		if g := at.get("/me", cookie, page, s.admin); into[who](g, 200).Name != "the-admin" {
			t.Errorf("Authorization does not win over the cookie: %s", g.body)
		}
		at.get("/me", cookie, page, bearer("aot_WRONG")).want(401)
	}
	for _, path := range []string{"/runs", "/me"} {
		s.get(path).want(401)
	}
}

// TestMe: each caller learns what the routes really answer.
func TestMe(t *testing.T) {
	t.Parallel()
	open := start(t)
	if m := into[who](open.get("/me"), 200); m.Kind != "none" || m.Scope != "admin" || m.Login || m.Name != "" ||
		len(m.May) != len(access.Rules) {
		t.Errorf("where nobody is asked: %+v", m)
	}
	open.post("/login", `{"token":"x"}`).want(409)
	open.post("/login/codes", "").want(409)
	if g := open.post("/logout", ""); g.status != 204 || g.header.Get("Set-Cookie") != "" {
		t.Errorf("logout where nobody logs in: %d, Set-Cookie %q", g.status, g.header.Get("Set-Cookie"))
	}

	s := secure(t)
	m := think(s.stack, s.admin)
	run := s.submit(`{"agent_name":"mind","prompt":"hold"}`, s.run)
	session := bearer(m.token(run.RunID))
	if me := into[who](s.get("/me", session), 200); me.Kind != "session" || me.Name != run.SessionID ||
		me.Scope != "" || slices.Contains(me.May, "GET /status") {
		t.Errorf("a session: %+v", me)
	}
	s.post("/login", `{"token":"`+strings.TrimPrefix(session, "Authorization: Bearer ")+`"}`).want(401)
	s.post("/login/codes", "", session).want(403)
	if _, err := access.Create(s.file, "brief", []string{"read"}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for name, header := range map[string]string{"read": s.read, "run": s.run, "admin": s.admin} {
		me := into[who](s.get("/me", header), 200)
		if me.Kind != "token" || me.Scope != name || me.Name != "the-"+name {
			t.Errorf("%s: %+v", name, me)
		}
		for route, rule := range access.Rules {
			if got, want := slices.Contains(me.May, route), rule.Scope.String() == "open" ||
				strings.Index("read run  admin", rule.Scope.String()) <= strings.Index("read run  admin",
					name); got != want {
				t.Errorf("%s, %s: may is %v, want %v", name, route, got, want)
			}
		}
	}
}

// TestCookieNeedsOurOrigin: without the browser's header that a page of ours asks, it is refused, reads too.
func TestCookieNeedsOurOrigin(t *testing.T) {
	t.Parallel()
	s := secure(t)
	cookie := s.login(s.admin)
	origin := "Origin: " + s.url
	for _, tt := range []struct {
		headers     []string
		reads, acts int // 0: not refused
	}{
		{[]string{page}, 0, 0},
		{[]string{page, origin}, 0, 0},
		{[]string{origin}, 0, 0},
		{[]string{"X-Requested-With: ao"}, 0, 403},
		{nil, 403, 403},
		{[]string{"Sec-Fetch-Site: none"}, 403, 403},
		{[]string{"Sec-Fetch-Site: none", "X-Requested-With: ao"}, 403, 403},
		{[]string{"Sec-Fetch-Site: same-site"}, 403, 403},
		{[]string{"Sec-Fetch-Site: cross-site"}, 403, 403},
		{[]string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 403, 403},
		{[]string{"Origin: http://evil.example"}, 403, 403},
		{[]string{"Origin: null"}, 403, 403},
	} {
		headers := append([]string{cookie}, tt.headers...)
		for _, ask := range []struct {
			method, path string
			refused      int
		}{
			{"GET", "/ledger", tt.reads}, {"GET", "/runs", tt.reads},
			{"GET", "/sse/sessions?session_id=ses_none", tt.reads}, {"HEAD", "/me", tt.reads},
			{"POST", "/runs", tt.acts}, {"POST", "/runs/validate", tt.acts}, {"DELETE", "/agents/none", tt.acts},
			{"POST", "/mcp", tt.acts}, {"POST", "/login/codes", tt.acts},
		} {
			if strings.HasPrefix(ask.path, "/sse") && ask.refused == 0 {
				continue // it would go on
			}
			g := s.call(ask.method, ask.path, "", headers...)
			if refused := g.status == 401 || g.status == 403; refused != (ask.refused != 0) || refused &&
				g.status != ask.refused {
				t.Errorf("%s %s, %v: %d %s", ask.method, ask.path, tt.headers, g.status, g.body)
			}
		}
	}
	if g := s.post("/logout", "", cookie); g.status != 403 {
		t.Errorf("logout by another page: %d", g.status)
	}
	s.get("/me", cookie, page).want(200)
}

// TestALoginEnds by logout for every coordinator, with the token, and is no other deployment's.
func TestALoginEnds(t *testing.T) {
	t.Parallel()
	s := secure(t)
	other := s.another(func(c *serve.Config) { c.APITokens = s.file })
	mine, theirs := s.login(s.run), other.login(s.run)
	if g := other.post("/logout", "", mine, page); g.status != 204 || !strings.Contains(g.header.Get("Set-Cookie"),
		"=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict") {
		t.Errorf("logout: %d, Set-Cookie %q", g.status, g.header.Get("Set-Cookie"))
	}
	for _, at := range []*stack{s.stack, other} {
		at.get("/me", mine, page).want(401)
		at.get("/me", theirs, page).want(200) // another browser's with the same token
	}
	s.get("/me", s.run).want(200) // the token itself
	s.post("/logout", "", mine, page).want(204)
	s.post("/logout", "").want(204)

	if err := access.Revoke(s.file, "the-run"); err != nil {
		t.Fatal(err)
	}
	other.get("/me", theirs, page).want(401)
	// another token by the same name
	if _, err := access.Create(s.file, "the-run", []string{"admin"}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	s.get("/me", theirs, page).want(401)

	stranger := secure(t)
	value := strings.SplitN(stranger.login(stranger.admin), "=", 2)[1]
	name := strings.SplitN(theirs, "=", 2)[0]
	s.get("/me", name+"="+value, page).want(401) // its file has a token of that name, too
	own := s.login(s.admin)
	for _, forged := range []string{"", "x", own[strings.Index(own, "=")+1:] + "x", "1.A.b.the-admin",
		"9999999999.AAAAAAAAAAAAAAAAAAAAAAAAAA.00000000000000000000000000000000.the-admin"} {
		s.get("/me", name+"="+forged, page).want(401)
	}
	// another server of this host has set one, too
	s.get("/me", name+"=x; "+strings.TrimPrefix(own, "Cookie: "), page).want(200)
}

// TestALiveStreamEndsWithItsLogin: after a logout no stream sends more, at any coordinator.
func TestALiveStreamEndsWithItsLogin(t *testing.T) {
	t.Parallel()
	s := secure(t, func(c *serve.Config) { c.HTTP.KeepAlive = 20 * time.Millisecond })
	cookie := s.login(s.read)
	_, value, _ := strings.Cut(cookie, ": ")
	req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/sse/sessions", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Cookie", value)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%v %v", res, err)
	}
	defer res.Body.Close()
	ended := make(chan string, 1)
	go func() {
		var all strings.Builder
		buf := make([]byte, 4096)
		for {
			n, err := res.Body.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				ended <- all.String()
				return
			}
		}
	}()
	s.post("/logout", "", cookie, page).want(204)
	select {
	case text := <-ended:
		if !strings.Contains(text, "This login has ended") {
			t.Errorf("it ended with %q", text)
		}
	case <-time.After(20 * time.Second):
		t.Error("the stream goes on")
	}
}

// TestLoginCodes: a code lets one browser in, once over all coordinators.
func TestLoginCodes(t *testing.T) {
	t.Parallel()
	s := secure(t)
	other := s.another(func(c *serve.Config) { c.APITokens = s.file })
	made := into[struct {
		Code    string
		Seconds int `json:"expires_in"`
	}](s.post("/login/codes", "", s.read), 200)
	if made.Seconds != 60 || strings.Contains(s.read, made.Code) {
		t.Errorf("the code: %+v", made)
	}
	s.get("/me", bearer(made.Code)).want(401) // it is no token, and no cookie
	body, _ := json.Marshal(map[string]string{"code": made.Code})
	answers := make(chan got, 8)
	for i := range 8 {
		at := []*stack{s.stack, other}[i%2]
		go func() { answers <- at.post("/login", string(body)) }()
	}
	in := 0
	for range 8 {
		if g := <-answers; g.status == 200 {
			in++
			if m := into[who](other.get("/me", cookieOf(g), page), 200); m.Name != "the-read" || m.Kind != "cookie" {
				t.Errorf("logged in as %+v", m)
			}
		} else if g.status != 401 || g.header.Get("Set-Cookie") != "" {
			t.Errorf("a used code: %d %s", g.status, g.body)
		}
	}
	if in != 1 {
		t.Errorf("the code let %d in", in)
	}
	if cookie := strings.SplitN(s.login(s.read), "=", 2)[1]; s.post("/login", `{"code":"`+cookie+`"}`).status != 401 {
		t.Error("a cookie is a code, too")
	}
}

// TestLoginIsBounded: what a caller without a login may send is small, and few wrong tokens are told apart. A right one
// logs in all the same.
func TestLoginIsBounded(t *testing.T) {
	t.Parallel()
	s := secure(t)
	s.post("/login", `{"token":"`+strings.Repeat("x", 5000)+`"}`).want(413)
	for _, body := range []string{``, `[]`, `{}`, `{"token":""}`, `{"token":"aot_A","code":"b"}`,
		`{"token":"aot_SECRET","x":1}`, `{"aot_SECRET":1}`} {
		if g := s.post("/login", body); g.status != 400 || strings.Contains(g.body, "SECRET") {
			t.Errorf("%s: %d %s", body, g.status, g.body)
		}
	}
	for range 20 {
		s.login(s.read) // right ones are not counted
	}
	began := 0
	for range 70 {
		if s.post("/login", `{"token":"`+strings.TrimPrefix(s.run, "Authorization: Bearer ")+`"}`).status == 200 {
			began++
		}
	}
	if began != 60 {
		t.Errorf("%d logins begin with one token", began)
	}
	var wrong int
	for range 12 {
		g := s.post("/login", `{"token":"aot_WRONG"}`)
		if g.status == 401 {
			wrong++
			continue
		}
		if g.want(429); g.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	if wrong != 10 {
		t.Errorf("%d wrong tokens are 401", wrong)
	}
	s.login(s.read) // wrong tokens of others at the same address lock nobody out
	s.post("/login", `{"token":"aot_WRONG"}`).want(429)
	s.get("/me", s.read).want(200)
}

// TestCodesAreBounded: a token makes so many codes, and what its logins leave in NATS is bounded, too.
func TestCodesAreBounded(t *testing.T) {
	t.Parallel()
	s := secure(t)
	codes := map[int]int{}
	for range 70 {
		codes[s.post("/login/codes", "", s.read).status]++
	}
	if codes[200] != 60 || codes[429] != 10 {
		t.Errorf("codes: %v", codes)
	}
	code := into[struct{ Code string }](s.post("/login/codes", "", s.run), 200).Code
	token := strings.TrimPrefix(s.run, "Authorization: Bearer ")
	for range 60 {
		s.post("/login", `{"token":"`+token+`"}`).want(200)
	}
	s.post("/login", `{"code":"`+code+`"}`).want(429)
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := js.Stream(t.Context(), "KV_"+subject.Logins)
	if err != nil {
		t.Fatal(err)
	}
	if n := ended.CachedInfo().State.Msgs; n != 0 {
		t.Errorf("%d records of logins that did not begin", n)
	}
}

// TestCookiesOverTLS go nowhere else; behind a proxy that ends TLS neither.
func TestCookiesOverTLS(t *testing.T) {
	t.Parallel()
	s := secure(t, func(c *serve.Config) { c.PublicURL = "https://ao.example.com" })
	g := s.post("/login", `{"token":"`+strings.TrimPrefix(s.read, "Authorization: Bearer ")+`"}`)
	if got := g.header.Get("Set-Cookie"); !wantedOverTLS.MatchString(got) {
		t.Errorf("Set-Cookie: %s", got)
	}
	cookie := cookieOf(g)
	s.get("/me", cookie, page).want(200)
	s.get("/me", strings.Replace(cookie, "__Host-", "", 1), page).want(401)
	cleared := s.post("/logout", "", cookie, page).header.Get("Set-Cookie")
	if !strings.HasPrefix(cleared, "__Host-ao_") ||
		!strings.HasSuffix(cleared, "; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Strict") {
		t.Errorf("Set-Cookie of the logout: %s", cleared)
	}

	plain := secure(t)
	cookie = plain.login(plain.read)
	plain.get("/me", cookie, page).want(200)
	plain.get("/me", strings.Replace(cookie, "ao_", "__Host-ao_", 1), page).want(401)
}

// TestLoginsAreAudited: who logged in or out, who was refused; never what was shown.
func TestLoginsAreAudited(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	s := secure(t, func(c *serve.Config) { c.AuditLog = file })
	cookie := s.login(s.run)
	s.post("/login/codes", "", cookie, page).want(200)
	s.post("/logout", "", cookie, page).want(204)
	s.post("/login", `{"token":"aot_WRONG"}`).want(401)
	s.post("/login", `{"token":"aot_WRONG"}`, "Sec-Fetch-Site: cross-site").want(403)
	want := []string{
		`login token the-run 200 `, `login.code token the-run 200 `, `logout token the-run 204 `,
		`login unknown  401 unauthorized`, `login unknown  403 foreign_origin`,
	}
	natstest.Until(t, "five entries are written", func() bool { return len(record(t, file)) == len(want) })
	for i, e := range record(t, file) {
		if got := fmt.Sprintf("%v %v %v %v %v", e.Action, e.Actor.Kind, e.Actor.Name, e.Status,
			e.Error); got != want[i] {
			t.Errorf("entry %d: %s, want %s", i, got, want[i])
		}
	}
}

// TestALoginIsRenewedInUse: one that is an hour old gets a new time with the next answer, and ends with the old one.
func TestALoginIsRenewedInUse(t *testing.T) {
	t.Parallel()
	s := secure(t)
	keys := deployment.NewKeys()
	if err := keys.Read(t.Context(), s.bus.Bucket(subject.Secrets)); err != nil {
		t.Fatal(err)
	}
	token := strings.TrimPrefix(s.read, "Authorization: Bearer ")
	aged := func(age time.Duration) string { // as a coordinator has made it then
		at, id := time.Now().Add(-age).Unix(), strings.Repeat("A", 26)
		mac := keys.Sign(fmt.Sprintf("cookie|%d|%s|the-read|%x", at, id, access.Hash(token)))
		return fmt.Sprintf("Cookie: ao_%s=%d.%s.%s.the-read", keys.Deployment(), at, id, mac)
	}
	for age, status := range map[time.Duration]int{time.Minute: 200, 59 * time.Minute: 200,
		12*time.Hour + time.Second: 401} {
		if g := s.get("/me", aged(age), page); g.status != status || g.header.Get("Set-Cookie") != "" {
			t.Errorf("after %v: %d, Set-Cookie %q", age, g.status, g.header.Get("Set-Cookie"))
		}
	}
	old := aged(11 * time.Hour)
	g := s.get("/runs", old, page)
	renewed := cookieOf(g)
	if g.status != 200 || !strings.Contains(g.header.Get("Set-Cookie"), "Max-Age=43200; HttpOnly; SameSite=Strict") ||
		renewed == old {
		t.Fatalf("%d, Set-Cookie %q", g.status, g.header.Get("Set-Cookie"))
	}
	if g := s.get("/me", renewed, page); g.status != 200 || g.header.Get("Set-Cookie") != "" {
		t.Errorf("renewed: %d, Set-Cookie %q", g.status, g.header.Get("Set-Cookie"))
	}
	s.post("/logout", "", renewed, page).want(204)
	s.get("/me", old, page).want(401)
	s.get("/me", aged(time.Minute), page).want(401) // the same login
}
