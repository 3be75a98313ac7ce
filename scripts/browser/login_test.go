package browser

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ao/coordinator/access"

	"github.com/chromedp/chromedp"
)

// tokenStack is a stack that requires tokens, with one token per scope.
type tokenStack struct {
	*stack
	file   string
	tokens map[string]string
}

func newTokenStack(t *testing.T, env ...string) tokenStack {
	t.Helper()
	g := tokenStack{file: filepath.Join(t.TempDir(), "tokens"), tokens: map[string]string{}}
	for _, scope := range []string{"read", "run", "admin"} {
		token, err := access.Create(g.file, "the-"+scope, []string{scope}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		g.tokens[scope] = token
	}
	g.stack = ownStack(t, append(env, "AO_API_TOKENS="+g.file)...)
	return g
}

// as returns the stack with the token of a scope.
func (g tokenStack) as(scope string) *stack { return &stack{url: g.url, token: g.tokens[scope]} }

// logIn logs in by pasting a token.
func (p *page) logIn(token string) {
	p.t.Helper()
	p.until(`document.querySelector("form.login")`)
	p.fill("API token", token)
	p.click("Log in")
}

// shows waits until the page of a path is shown.
func (p *page) shows(path string) {
	p.t.Helper()
	p.until(`location.pathname === ` + strconv.Quote(path) + ` && document.querySelector(".page")`)
}

// me returns the answer of GET /me in this page, or its status if refused.
func (p *page) me() string {
	p.t.Helper()
	return eval[string](p, `fetch("/me", {headers: {"X-Requested-With": "ao"}}).then(async (r) => r.ok ? (await `+
		`r.json()).name : String(r.status))`)
}

// TestLogIn: the requested page is shown after the login, no script sees the cookie, it survives a reload, and
// logging out removes it.
func TestLogIn(t *testing.T) {
	t.Parallel()
	s := newTokenStack(t)
	p := tab(t, s.stack, "/ui/runs?status=failed")
	p.until(`document.querySelector("form.login")`)
	for _, found := range append(p.axe("light", ""), p.axe("dark", "")...) {
		t.Error(found)
	}
	p.logIn("aot_WRONG")
	p.until(`document.querySelector("form.login")?.textContent.includes("Unknown token")`)
	p.logIn(s.tokens["run"])
	p.shows("/ui/runs")
	if got := eval[string](p,
		`location.search + document.cookie + JSON.stringify([localStorage, sessionStorage])`); !strings.HasPrefix(got,
		"?status=failed") || strings.Contains(got, "aot_") || strings.Contains(got, "ao_") {
		t.Errorf("the address, and what scripts see: %s", got)
	}
	p.do(chromedp.Navigate(s.url + "/ui/"))
	p.shows("/ui/")
	if who := p.me(); who != "the-run" {
		t.Errorf("after a reload it is %s", who)
	}
	p.click("Log out")
	p.until(`document.querySelector("form.login")`)
	if who := p.me(); who != "401" {
		t.Errorf("after the logout it is %s", who)
	}
}

// TestLateRefusal: a refusal of an earlier request that arrives after a login does not ask for another login.
func TestLateRefusal(t *testing.T) {
	t.Parallel()
	s := newTokenStack(t)
	p := tab(t, s.stack, "/ui/runs")
	p.until(`document.querySelector("form.login")`)
	eval[bool](p, `import(document.querySelector("script[type=module]").src).then(({ api }) => {
		const real = window.fetch;
		window.fetch = (...asked) => real(...asked).then((answer) => new Promise((done) => (window.comes = () => `+
		`done(answer))));
		window.late = api.get("/status").catch((err) => err.status);
		window.fetch = real;
		return true;
	})`)
	p.until(`window.comes`)
	p.logIn(s.tokens["read"])
	p.shows("/ui/runs")
	if got := eval[int](p, `(comes(), late)`); got != 401 {
		t.Errorf("what was asked before the login is answered with %d, want 401", got)
	}
	if at := p.path(); at != "/ui/runs" {
		t.Errorf("after it the page is %s", at)
	}
}

// TestReturnTo: a login leads only to pages of the dashboard, whatever the link says.
func TestReturnTo(t *testing.T) {
	t.Parallel()
	s := newTokenStack(t)
	p := tab(t, s.stack, "/ui/login?return_to="+"https%3A%2F%2Fevil.example%2Fui%2F")
	p.logIn(s.tokens["read"])
	p.shows("/ui/")
	for _, there := range []string{"//evil.example/ui/", "/\\evil.example", "javascript:alert(1)", "/runs",
		"/ui/../runs"} {
		p.do(chromedp.Navigate(s.url + "/ui/login?return_to=" +
			strings.NewReplacer("/", "%2F", ":", "%3A", "\\", "%5C").Replace(there)))
		p.logIn(s.tokens["read"])
		p.until(`document.querySelector(".page")`)
		if at := eval[string](p, `location.origin + location.pathname`); !strings.HasPrefix(at, s.url+"/ui/") {
			t.Errorf("return_to %s leads to %s", there, at)
		}
	}
}

// TestCodeOfAo: the address of 'ao dashboard' logs a browser in once, and the code does not stay in the address.
func TestCodeOfAo(t *testing.T) {
	t.Parallel()
	s := newTokenStack(t)
	var made struct{ Code string }
	if err := json.Unmarshal([]byte(s.as("admin").call(t, "POST", "/login/codes", "", 200)), &made); err != nil ||
		made.Code == "" {
		t.Fatal("there is no code", err)
	}
	p := tab(t, s.stack, "/ui/login#code="+made.Code)
	p.shows("/ui/")
	if who, at := p.me(), eval[string](p, `location.href`); who != "the-admin" || at != s.url+"/ui/" {
		t.Errorf("it is %s at %s", who, at)
	}
	again := tab(t, s.stack, "/ui/login#code="+made.Code)
	again.until(`document.querySelector("form.login")?.textContent.includes("used already")`)
	if who := again.me(); who != "401" {
		t.Errorf("the second time it is %s", who)
	}
}

// TestCodeOfAnother: a link with another user's code does not replace a login without confirmation.
func TestCodeOfAnother(t *testing.T) {
	t.Parallel()
	s := newTokenStack(t)
	code := func() string {
		return strings.Trim(member(t, s.as("read").call(t, "POST", "/login/codes", "", 200), "code"), `"`)
	}
	p := tab(t, s.stack, "/ui/runs")
	p.logIn(s.tokens["admin"])
	p.shows("/ui/runs")
	p.do(chromedp.Navigate(s.url + "/ui/login#code=" + code()))
	p.has("is logged in as the-admin. The link that was opened logs it in as the-read.")
	p.click("Stay as I am")
	p.shows("/ui/")
	if who := p.me(); who != "the-admin" {
		t.Errorf("after staying it is %s", who)
	}
	p.do(chromedp.Navigate(s.url + "/ui/login#code=" + code()))
	p.click("Log in as the other")
	p.shows("/ui/")
	if who := p.me(); who != "the-read" {
		t.Errorf("it is %s", who)
	}
}

// TestTwoStacksOnOneHost: two stacks on one host do not log each other out.
func TestTwoStacksOnOneHost(t *testing.T) {
	t.Parallel()
	one, two := newTokenStack(t), newTokenStack(t)
	p := tab(t, one.stack, "/ui/runs", two.stack)
	p.logIn(one.tokens["run"])
	p.shows("/ui/runs")
	p.do(chromedp.Navigate(two.url + "/ui/runs"))
	p.logIn(two.tokens["read"])
	p.shows("/ui/runs")
	p.do(chromedp.Navigate(one.url + "/ui/"))
	p.shows("/ui/")
	if who := p.me(); who != "the-run" {
		t.Errorf("at the first stack it is %s", who)
	}
	p.click("Log out")
	p.until(`document.querySelector("form.login")`)
	p.do(chromedp.Navigate(two.url + "/ui/"))
	p.shows("/ui/")
	if who := p.me(); who != "the-read" {
		t.Errorf("at the second stack it is %s", who)
	}
}

// TestRevokedInMidStream: a page whose token is revoked asks for another one and continues.
func TestRevokedInMidStream(t *testing.T) {
	t.Parallel()
	s := newTokenStack(t)
	p := tab(t, s.stack, "/ui/runs")
	p.logIn(s.tokens["read"])
	p.shows("/ui/runs")
	if err := access.Revoke(s.file, "the-read"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(40 * time.Second); p.path() != "/ui/login"; { // the stream's next heartbeat
		if time.Now().After(end) {
			t.Fatal("the page continues")
		}
	}
	p.logIn(s.tokens["run"])
	p.shows("/ui/runs")
	if who := p.me(); who != "the-run" {
		t.Errorf("it is %s", who)
	}
}
