package gateway

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/shared/runnerapi"
)

// api is the orchestrator's API as the gateway sees it: it returns the request and its session.
func api(t *testing.T) *httptest.Server {
	t.Helper()
	cancelled := make(chan struct{}, 10)
	m := http.NewServeMux()
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Mcp-Session-Id", "m1")
		if r.Method == http.MethodPost && r.URL.Path == "/base/runs" {
			w.Header().Set("Location", "/runs/run_9")
			w.WriteHeader(http.StatusCreated)
		}
		fmt.Fprintf(w, "%s %s by %s with %q; %q %q %q host %v", r.Method, r.URL, r.Header.Get(runnerapi.HeaderSession),
			r.Header.Get("Authorization"), r.Header.Get("Cookie"),
			r.Header.Get("X-Forwarded-For")+r.Header.Get("Forwarded"), body,
			r.Host == r.Context().Value(http.LocalAddrContextKey).(fmt.Stringer).String())
	})
	m.HandleFunc("GET /base/mcp", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: first\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		cancelled <- struct{}{}
	})
	m.HandleFunc("GET /base/agents", func(w http.ResponseWriter, r *http.Request) { // breaks off
		w.Write([]byte("half"))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	t.Cleanup(func() {
		select {
		case <-cancelled:
		case <-time.After(10 * time.Second):
			t.Error("the API's stream outlives the run")
		}
	})
	return s
}

// TestForward: the API gets requests as the session, whatever the executor sends, and only allowed paths.
func TestForward(t *testing.T) {
	s := api(t)
	_, d, _ := open(t, Config{}, func(r *Run) { r.API = func() string { return s.URL + "/base" } })
	forge := func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer stolen")
		r.Header.Set(runnerapi.HeaderSession, "ses_other")
		r.Header.Set("Cookie", "x=y")
		r.Header.Set("X-Forwarded-For", "10.0.0.1")
		r.Header.Set("Forwarded", "for=10.0.0.1")
		r.Header.Set("Connection", runnerapi.HeaderSession+", Authorization") // hop by hop: would be taken off
	}
	as := ` by ses_1 with "Bearer aos_1"; "" "" `
	for _, tt := range []struct{ method, path, body, want string }{
		{"POST", "/mcp", `{"jsonrpc":"2.0"}`, `200 POST /base/mcp` + as + `"{\"jsonrpc\":\"2.0\"}" host true`},
		{"DELETE", "/mcp", "", `200 DELETE /base/mcp` + as + `"" host true`},
		{"POST", "/api/runs", `{"agent_name":"a"}`, `201 POST /base/runs` + as + `"{\"agent_name\":\"a\"}" host true`},
		{"GET", "/api/runs/run_9/wait?timeout_seconds=3", "", `200 GET /base/runs/run_9/wait?timeout_seconds=3` + as +
			`"" host true`},
		{"GET", "/api/sessions/ses_9/events?after=1-2", "", `200 GET /base/sessions/ses_9/events?after=1-2` + as +
			`"" host true`},
		{"POST", "/api/sessions/ses_9/stop", "", `200 POST /base/sessions/ses_9/stop` + as + `"" host true`},
	} {
		status, head, body := ask(t, tt.method, d.URL+tt.path, tt.body, forge)
		if got := fmt.Sprint(status, " ", body); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
		if head.Get("Set-Cookie") != "" || head.Get("Mcp-Session-Id") != "m1" {
			t.Errorf("header %v", head)
		}
		if to := head.Get("Location"); status == 201 && to != "/"+d.token+"/api/runs/run_9" {
			t.Errorf("Location %q", to)
		}
	}

	// A stream comes through as it is sent, and ends with the run.
	r, _ := http.NewRequestWithContext(context.Background(), "GET", d.URL+"/mcp", nil)
	a, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if line, err := bufio.NewReader(a.Body).ReadString('\n'); line != "data: first\n" || err != nil {
		t.Errorf("got %q, %v", line, err)
	}

	b, err := http.Get(d.URL + "/api/agents")
	if err == nil {
		_, err = io.ReadAll(b.Body)
		b.Body.Close()
	}
	if err == nil {
		t.Error("an answer that broke off looks whole")
	}

	d.Close()
	if rest, err := io.ReadAll(a.Body); err == nil {
		t.Errorf("the stream ends well, with %q", rest)
	}
}

// TestNoAPI: an API that does not answer is reported.
func TestNoAPI(t *testing.T) {
	s := httptest.NewServer(nil)
	s.Close()
	_, d, _ := open(t, Config{}, func(r *Run) { r.API = func() string { return s.URL } })
	status, head, body := ask(t, "POST", d.URL+"/mcp", "{}")
	if status != 503 || head.Get("Retry-After") != "1" || !strings.Contains(body, `"error":"api_unreachable"`) ||
		strings.Contains(body, s.URL) {
		t.Errorf("got %d %s", status, body)
	}
}

// TestForwardOverTLS: the API may be https with a private authority (AO_CA).
func TestForwardOverTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	at := func(r *Run) { r.API = func() string { return s.URL } }
	_, d, _ := open(t, Config{CA: ca}, at)
	if status, _, body := ask(t, "POST", d.URL+"/api/runs", "{}"); status != 200 || body != "Bearer aos_1" {
		t.Errorf("%d %s", status, body)
	}
	_, d, _ = open(t, Config{}, at)
	if status, _, body := ask(t, "POST", d.URL+"/api/runs", "{}"); status != 503 ||
		!strings.Contains(body, `"api_untrusted"`) || !strings.Contains(body, "AO_CA") {
		t.Errorf("%d %s", status, body)
	}
	if _, err := New(Config{CA: ca + "x"}); err == nil || !strings.Contains(err.Error(), "AO_CA") {
		t.Errorf("%v", err)
	}
}
