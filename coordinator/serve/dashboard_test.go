package serve_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// plainly makes a request as it is: nothing is followed, nothing unpacked. Headers are given as "Name: value".
func (s *stack) plainly(method, path string, headers ...string) got {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		if name, value, ok := strings.Cut(h, ": "); ok {
			req.Header.Set(name, value)
		}
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return got{s.t, res.StatusCode, res.Header, string(raw)}
}

// browser is how one asks for a page.
const browser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// TestTheRootIsAPageForBrowsersOnly: programs get JSON, as before.
func TestTheRootIsAPageForBrowsersOnly(t *testing.T) {
	t.Parallel()
	s := secure(t)
	for _, tt := range []struct {
		headers []string
		status  int
	}{
		{[]string{browser}, 303},
		{[]string{"Accept: TEXT/HTML"}, 303},
		{[]string{"Accept: text/html, application/json"}, 303},
		{[]string{browser, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 303},
		{[]string{browser, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403},
		{[]string{browser, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"}, 403},
		{[]string{browser, "Origin: http://evil.example"}, 403},
		{[]string{s.read}, 200},
		{[]string{s.read, "Accept: */*"}, 200},
		{[]string{s.read, "Accept: application/json, text/html"}, 200},
		{[]string{"Accept: application/json"}, 401},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			g := s.plainly(method, "/", tt.headers...)
			if g.status != tt.status || g.header.Get("Vary") != "Accept" || tt.status == 303 &&
				g.header.Get("Location") != "/ui/" {
				t.Errorf("%s / %v: %d, Vary %q, Location %q; want %d", method, tt.headers, g.status,
					g.header.Get("Vary"), g.header.Get("Location"), tt.status)
			}
		}
	}
}

var nonceOf = regexp.MustCompile(`'nonce-([A-Z2-7]{26})'`)

// TestTheShell: every path of a page is the same page, open to all, under a policy with a nonce of its own.
func TestTheShell(t *testing.T) {
	t.Parallel()
	s := secure(t)
	if g := s.plainly("GET", "/ui"); g.status != 308 || g.header.Get("Location") != "/ui/" {
		t.Errorf("/ui: %d to %q", g.status, g.header.Get("Location"))
	}
	nonces := map[string]bool{}
	for _, path := range []string{"/ui/", "/ui/runs", "/ui/runs/run_1?tab=result", "/ui/agents/a%2Fb",
		"/ui/index.html"} {
		g := s.plainly("GET", path, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate",
			"Sec-Fetch-Dest: document")
		policy := g.header.Get("Content-Security-Policy")
		nonce := nonceOf.FindStringSubmatch(policy)
		if g.status != 200 || nonce == nil || nonces[nonce[1]] {
			t.Fatalf("%s: %d, policy %q", path, g.status, policy)
		}
		nonces[nonce[1]] = true
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' " +
				"data:; style-src 'self' 'nonce-" + nonce[1] +
				"'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
				"trusted-types 'none'",
			"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
			"X-Content-Type-Options":     "nosniff",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := g.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if !strings.Contains(g.body, nonce[1]) || strings.Contains(g.body, "{{") {
			t.Errorf("%s: %s", path, g.body)
		}
	}
	for _, headers := range [][]string{
		{"Host: ao.example.com"}, {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"},
		{"Origin: http://evil.example"},
	} {
		if g := s.get("/ui/", headers...); g.status != 403 {
			t.Errorf("%v: %d", headers, g.status)
		}
	}
	s.post("/ui/", "{}", s.admin).want(405)
}

var assetOf = regexp.MustCompile(`(/ui/assets/[0-9a-f]{16})/dist/app\.js`)

// TestAssets: a file is found under the content of all of them alone, is kept for ever, and comes compressed.
func TestAssets(t *testing.T) {
	t.Parallel()
	s := secure(t)
	found := assetOf.FindStringSubmatch(s.plainly("GET", "/ui/").body)
	if found == nil {
		t.Fatal("the page names no app.js")
	}
	at := found[1] + "/dist/app.js"
	plain := s.plainly("GET", at, "Accept-Encoding: gzip;q=0, br")
	packed := s.plainly("GET", at, "Accept-Encoding: br, gzip")
	for name, want := range map[string]string{
		"Content-Type": "text/javascript; charset=utf-8", "Cache-Control": "public, max-age=31536000, immutable",
		"Vary":                   "Accept-Encoding",
		"X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
		"Content-Length": fmt.Sprint(len(plain.body)),
	} {
		if got := plain.header.Get(name); plain.status != 200 || got != want {
			t.Errorf("%d: %s is %q, want %q", plain.status, name, got, want)
		}
	}
	r, err := gzip.NewReader(strings.NewReader(packed.body))
	if err != nil || packed.header.Get("Content-Encoding") != "gzip" || plain.header.Get("Content-Encoding") != "" {
		t.Fatalf("compressed: %v, %q", err, packed.header.Get("Content-Encoding"))
	}
	if raw, err := io.ReadAll(r); err != nil || string(raw) != plain.body {
		t.Errorf("unpacked it is another file: %v", err)
	}
	if g := s.plainly("GET", at, "If-None-Match: "+plain.header.Get("ETag")); g.status != 304 || g.body != "" {
		t.Errorf("what a browser has already: %d %q", g.status, g.body)
	}
	if g := s.plainly("HEAD", at); g.status != 200 || g.body != "" {
		t.Errorf("HEAD: %d %q", g.status, g.body)
	}
	// Neither what is no file, nor the sources of app.js.
	for _, path := range []string{
		found[1] + "/none.js", found[1] + "/app.js", found[1] + "/lib/api.js", found[1] + "/",
		"/ui/assets/0123456789abcdef/dist/app.js", "/ui/assets/../assets/app.js", found[1] + "/..%2f..%2fdashboard.go",
	} {
		g := s.plainly("GET", path)
		if g.status != 404 || g.header.Get("Content-Type") != "application/json" ||
			g.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %q %q", path, g.status, g.header.Get("Content-Type"), g.header.Get("Cache-Control"))
		}
	}
	if g := s.plainly("GET", at, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors",
		"Sec-Fetch-Dest: script"); g.status != 403 {
		t.Errorf("as a script of another page: %d", g.status)
	}
}

// TestAnswersAreNoPages: no answer of the API runs or shows anything in a browser, whatever it answers.
func TestAnswersAreNoPages(t *testing.T) {
	t.Parallel()
	s := secure(t)
	for path, header := range map[string]string{"/runs": s.read, "/nothing": s.read, "/health": "", "/agents": "",
		"/metrics": s.read, "/openapi.json": s.read} {
		g := s.plainly("GET", path, header)
		if got := g.header.Get(
			"Content-Security-Policy"); got != "default-src 'none'; sandbox; frame-ancestors 'none'" {
			t.Errorf("%s: %d, policy %q", path, g.status, got)
		}
	}
}
