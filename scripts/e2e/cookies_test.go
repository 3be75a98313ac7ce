package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/nats/natstest"
)

// cookie logs in with a token and returns the browser's cookie header.
func (b *securityStack) cookie(who string) string {
	b.t.Helper()
	r := b.asked("POST", "/login", `{"token":"`+b.tokens[who]+`"}`)
	value, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	if r.code != 200 || value == "" {
		b.t.Fatalf("login as %s: %d %s", who, r.code, r.text)
	}
	return "Cookie: " + value
}

// asked sends one request with exactly these headers; of a live stream it reads only the beginning.
func (b *securityStack) asked(method, path, body string, headers ...string) reply {
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return reply{err: err, text: err.Error()}
	}
	defer res.Body.Close()
	text := make([]byte, 64<<10)
	n := 0
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		n, _ = res.Body.Read(text)
		text = text[:n]
	} else {
		text, err = io.ReadAll(res.Body)
	}
	return reply{res.StatusCode, res.Header, string(text), err}
}

// sameOrigin is the header of a browser for our own pages; otherOrigins are those for other pages, or none.
const sameOrigin = "Sec-Fetch-Site: same-origin"

var otherOrigins = [][]string{
	nil,
	{"Origin: http://evil.example"}, {"Origin: null"}, {"Origin: http://127.0.0.1:1"},
	{"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site"}, {"Sec-Fetch-Site: none"},
	{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"},
	{sameOrigin, "Origin: http://evil.example"},
}

// TestEveryCookieAtEveryRoute: a browser's login has its token's rights for our pages. For other pages, and after its
// end, it has none.
func TestEveryCookieAtEveryRoute(t *testing.T) {
	t.Parallel()
	b := newSecurityStack(t)
	cookies := map[string]string{"read": b.cookie("read"), "run": b.cookie("run"), "admin": b.cookie("admin"),
		"ended": b.cookie("admin")}
	if r := b.asked("POST", "/logout", "", cookies["ended"], sameOrigin); r.code != 204 {
		t.Fatalf("logout: %d %s", r.code, r.text)
	}
	for _, gate := range gates {
		b.row(gate.route, func(b *securityStack) {
			method, path, _ := strings.Cut(gate.route, " ")
			path = strings.NewReplacer("{id}", "run_nobodys", "{name}", "nobodys", "{side}", "input").Replace(path)
			const body = `{"zz":1}`
			for who, cookie := range cookies {
				may := gate.scope == "open" || who != "ended" && slices.Index(scopes, who) >= slices.Index(scopes,
					gate.scope)
				if r := b.asked(method, path, body, cookie, sameOrigin); refused(r) == may || r.code >= 500 ||
					r.err != nil {
					b.t.Errorf("%s at %s: %d %.300s %v, may it: %v", who, gate.route, r.code, r.text, r.err, may)
				}
				pages := otherOrigins
				if who != "admin" { // whose cookie it is makes no difference to pages of others
					pages = pages[:natstest.Load(1, len(pages))]
				}
				for _, page := range pages {
					r := b.asked(method, path, body, append([]string{cookie}, page...)...)
					open := gate.scope == "open" && !slices.ContainsFunc(page, crossSite)
					if r.code >= 500 || r.err != nil || refused(r) == open || strings.Contains(r.text, b.victim.run) {
						b.t.Errorf("%s at %s for %v: %d %.300s %v", who, gate.route, page, r.code, r.text, r.err)
					}
				}
			}
			for _, page := range otherOrigins { // a token does not make a foreign page ours
				r := b.asked(method, path, body, append([]string{"Authorization: Bearer " + b.tokens["admin"]},
					page...)...)
				if refused(r) != slices.ContainsFunc(page, crossSite) {
					b.t.Errorf("the admin's token at %s for %v: %d %.300s", gate.route, page, r.code, r.text)
				}
			}
			b.checkUnharmed("a cookie")
		})
	}
	b.checkForeignLogins(cookies["admin"])
	b.checkAtEnd()
}

// crossSite reports whether our own pages never send this header.
func crossSite(header string) bool {
	return strings.HasPrefix(header, "Origin:") || header == "Sec-Fetch-Site: cross-site" ||
		header == "Sec-Fetch-Site: same-site"
}

// checkForeignLogins: only an API token, or a one-time code created with one, becomes a cookie.
func (b *securityStack) checkForeignLogins(cookie string) {
	b.t.Helper()
	_, value, _ := strings.Cut(cookie, "=")
	var made struct{ Code string }
	if r := b.asked("POST", "/login/codes", "", cookie, sameOrigin); json.Unmarshal([]byte(r.text), &made) != nil ||
		made.Code == "" {
		b.t.Fatalf("a code: %d %s", r.code, r.text)
	}
	if r := b.asked("POST", "/login", `{"code":"`+made.Code+`"}`); r.code != 200 {
		b.t.Errorf("a code: %d %s", r.code, r.text)
	}
	for what, body := range map[string]string{
		"a made-up token": `{"token":"` + b.tokens["made-up"] + `"}`, "an expired one": `{"token":"` +
			b.tokens["expired"] + `"}`,
		"a revoked one": `{"token":"` + b.tokens["revoked"] + `"}`, "a session's": `{"token":"` + b.tokens["session"] +
			`"}`,
		"a used code": `{"code":"` + made.Code + `"}`, "a cookie as a code": `{"code":"` + value + `"}`,
		"a cookie as a token": `{"token":"` + value + `"}`,
	} {
		if r := b.asked("POST", "/login", body); r.code != 401 || r.header.Get("Set-Cookie") != "" {
			b.t.Errorf("%s: %d %s, Set-Cookie %q", what, r.code, r.text, r.header.Get("Set-Cookie"))
		}
	}
	heard := 0
	for range 10 {
		if r := b.asked("POST", "/login", `{"token":"`+b.tokens["made-up"]+`"}`); r.code == 401 {
			heard++
		} else if r.code != 429 {
			b.t.Errorf("guessing: %d %s", r.code, r.text)
		}
	}
	if heard > 3 { // of ten within a minute, seven were above
		b.t.Errorf("%d more guesses are heard", heard)
	}
	if r := b.as("admin", http.MethodGet, "/me", ""); r.code != 200 {
		b.t.Errorf("a token beside it: %d %s", r.code, r.text)
	}
	b.until("the audit has the guesses", func() bool {
		r := b.as("admin", http.MethodGet, "/audit?action=login&actor=unknown&after="+
			time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04:05Z"), "")
		return strings.Count(r.text, `"action":"login"`) >= 10 && !strings.Contains(r.text, b.tokens["made-up"])
	})
}
