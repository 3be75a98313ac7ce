package client

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ao/shared/fault"
)

func against(t *testing.T, h http.HandlerFunc) (*Client, *atomic.Int32) {
	t.Helper()
	var notices atomic.Int32
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL, RetryPause: time.Millisecond, RetryFor: 2 * time.Second, Notice: func(string) {
		notices.Add(1)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c, &notices
}

func TestNew(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"", DefaultURL}, {"localhost:8765", "http://localhost:8765"}, {"https://x.org/ao/", "https://x.org/ao"},
		{"ftp://x", ""}, {"http://", ""}, {"http://x?a=b", ""}, {"http://x:port", ""}, {"http://[", ""},
	} {
		c, err := New(Config{URL: tt.url})
		if tt.want == "" {
			if err == nil || !strings.Contains(err.Error(), "AO_URL") {
				t.Errorf("%q: got %v", tt.url, err)
			}
			continue
		}
		if err != nil || c.base != tt.want {
			t.Errorf("%q: got %v, want %q", tt.url, err, tt.want)
		}
	}
}

// TestResponses classifies responses by what can be done about them.
func TestResponses(t *testing.T) {
	for _, tt := range []struct {
		name, kind, body string
		status           int
		want             string
		passing          bool
	}{
		{"a document", "application/json", `{"a":1.50}`, 200, `ok {"a":1.50}`, false},
		{"none", "", ``, 204, `ok `, false},
		{"a refusal", "application/json", `{"error":"not_found","message":"no"}`, 404, "*client.APIError no", false},
		{"busy", "application/json", `{"error":"unavailable","message":"later"}`, 503, "*client.APIError later", true},
		{"somebody's page", "text/html", `<html>`, 200, "*client.NotCoordinator", false},
		{"a proxy's page", "text/html", `<html>`, 502, "*client.NotCoordinator", true},
		{"half a document", "application/json", `{"a":`, 200, "*client.NotCoordinator", false},
		{"an error of another API", "application/json", `{"detail":"x"}`, 400, "*client.NotCoordinator", false},
		{"an error that is no text", "application/json", `{"error":{"code":5}}`, 500, "*client.NotCoordinator", false},
		{"a redirect", "text/html", ``, 302, "*client.NotCoordinator", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := against(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			})
			doc, err := c.Get(t.Context(), nil, "x")
			got := "ok " + string(doc)
			if err != nil {
				got = fmt.Sprintf("%T %v", err, err)
			}
			if !strings.HasPrefix(got, tt.want) || Temporary(err) != tt.passing {
				t.Errorf("got %s (passing %v), want %s (%v)", got, Temporary(err), tt.want, tt.passing)
			}
		})
	}
}

// TestCopy writes a response while it arrives; a truncated one is an error.
func TestCopy(t *testing.T) {
	c, _ := against(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refused":
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error":"forbidden","message":"no"}`)
		case "/half":
			_, _ = io.WriteString(w, "a,b")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, "a,b\r\n")
		}
	})
	for path, want := range map[string]string{"whole": "a,b\r\n <nil>", "half": "a,b *client.ConnectionLost",
		"refused": " *client.APIError"} {
		var b strings.Builder
		err := c.Copy(t.Context(), &b, nil, path)
		if got := fmt.Sprintf("%s %T", b.String(), err); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func unreachable(t *testing.T) *Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	c, err := New(Config{URL: address, RetryPause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestUnreachableIsNotRetried: a wrong address is reported at once, without minutes of retries.
func TestUnreachableIsNotRetried(t *testing.T) {
	_, err := unreachable(t).DoWithRetry(t.Context(), Call{Path: []string{"runs"}})
	if _, ok := errors.AsType[*Unreachable](err); !ok {
		t.Errorf("got %T %v", err, err)
	}
}

func TestDoWithRetry(t *testing.T) {
	var n atomic.Int32
	keys := make(chan string, 3)
	c, notices := against(t, func(w http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("Idempotency-Key")
		switch n.Add(1) {
		case 1:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(503)
			_, _ = w.Write([]byte(`{"error":"unavailable","message":"later"}`))
		case 2:
			panic(http.ErrAbortHandler)
		default:
			_, _ = w.Write([]byte(`{"run_id":"run_1"}`))
		}
	})
	a, err := c.DoWithRetry(t.Context(), Call{Method: http.MethodPost, Path: []string{"runs"}, Body: []byte(`{}`),
		Key: "k"})
	if err != nil || string(a.Doc) != `{"run_id":"run_1"}` {
		t.Fatalf("got %s, %v", a.Doc, err)
	}
	if got := <-keys + " " + <-keys + " " + <-keys; got != "k k k" {
		t.Errorf("keys: got %q, want the same three times", got)
	}
	if got := notices.Load(); got != 1 {
		t.Errorf("told %d times, want once", got)
	}
}

func TestDoWithRetryTimesOut(t *testing.T) {
	c, _ := against(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	c.retryFor = 20 * time.Millisecond
	_, err := c.DoWithRetry(t.Context(), Call{Path: []string{"runs"}})
	if _, ok := errors.AsType[*ConnectionLost](err); !ok {
		t.Errorf("got %T %v", err, err)
	}
}

// TestOutageIsReported: from the beginning of an outage to the end of the retries, a user knows for how long there are
// more.
func TestOutageIsReported(t *testing.T) {
	for _, tt := range []struct {
		name       string
		retryAfter time.Duration
		want       string
	}{
		{"short pauses", 0,
			"0s away; retrying for up to 1m40s|30s away; still retrying, for another 1m10s|1m0s away; " +
				"still retrying, for another 40s|1m30s away; still retrying, for another 10s|1m40s still failing " +
				"after 1m40s; giving up"},
		{"long pauses", 40 * time.Second, "0s away; retrying for up to 1m40s|40s away; still retrying, for another " +
			"1m0s|1m20s still failing after 1m20s; giving up"},
		{"longer than the patience", time.Hour, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var reported []string
				c, err := New(Config{RetryFor: 100 * time.Second, Notice: func(s string) {
					reported = append(reported, time.Since(start).Round(5*time.Second).String()+" "+s)
				}})
				if err != nil {
					t.Fatal(err)
				}
				away := &APIError{Status: 503, Fault: fault.New(fault.Unavailable, "", "away"),
					RetryAfter: tt.retryAfter}
				row := c.newRetrier()
				row.setMinPause(5 * time.Second)
				for err = nil; err == nil; {
					err = row.wait(t.Context(), away)
				}
				if got := strings.Join(reported, "|"); !errors.Is(err, away) || got != tt.want {
					t.Errorf("got %v\n%s\nwant\n%s", err, got, tt.want)
				}
			})
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		header string
		want   time.Duration
	}{{"", 0}, {"3", 3 * time.Second}, {"-3", 0}, {"99999999", time.Hour}, {"soon", 0}} {
		if got := retryAfter(&http.Response{Header: http.Header{"Retry-After": {tt.header}}}); got != tt.want {
			t.Errorf("%q: got %v, want %v", tt.header, got, tt.want)
		}
	}
}

// line is the transport of a session's events: it knows all of them and breaks as its script says.
type line struct {
	events []string // the i-th has the position 0-(i+1)
	listed int      // how many of them the list has
	breaks []int    // the n-th connection ends after so many messages
	conns  int
	from   []string // Last-Event-ID of each connection
}

func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := 0
	if r.URL.Path != "/sse/sessions" {
		_, _ = fmt.Sscanf(r.URL.Query().Get("after"), "0-%d", &at)
		page := l.events[min(at, l.listed):l.listed]
		page = page[:min(2, len(page))]
		_, _ = fmt.Fprintf(w, `{"events":[%s],"next":"0-%d"}`, strings.Join(page, ","), at+len(page))
		return
	}
	l.from = append(l.from, r.Header.Get("Last-Event-ID"))
	most := len(l.events) + 1
	if l.conns < len(l.breaks) {
		most = l.breaks[l.conns]
	}
	l.conns++
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(format string, args ...any) {
		if most--; most < 0 {
			panic(http.ErrAbortHandler)
		}
		_, _ = fmt.Fprintf(w, format, args...)
		w.(http.Flusher).Flush()
	}
	if last := r.Header.Get("Last-Event-ID"); last == "" {
		at = l.listed
		say("id: 0-%d\nevent: init\ndata: {}\n\n", at)
	} else {
		_, _ = fmt.Sscanf(last, "0-%d", &at)
	}
	for ; at < len(l.events); at++ {
		say("id: 0-%d\nevent: event\ndata: %s\n\n", at+1, l.events[at])
	}
	<-r.Context().Done()
}

// TestFollow: whatever is listed before, and wherever connections break, every event is reported once and in order.
func TestFollow(t *testing.T) {
	events := []string{`"a"`, `"b"`, `"c"`, `"d"`, `"e"`}
	for _, tt := range []struct {
		name   string
		after  string
		listed int
		breaks []int
		want   string
		from   string
	}{
		{"from the beginning, nothing listed", "", 0, nil, "abcde", ""},
		{"from the beginning, three listed", "", 3, nil, "abcde", ",0-3"},
		{"all listed", "", 5, nil, "abcde", ""},
		{"after a position", "0-2", 2, nil, "cde", "0-2"},
		{"breaks at once", "0-2", 2, []int{0, 0, 0}, "cde", "0-2,0-2,0-2,0-2"},
		{"breaks after each", "0-0", 0, []int{1, 1, 1}, "abcde", "0-0,0-1,0-2,0-3"},
		{"breaks before init", "", 2, []int{0, 1, 1}, "abcde", ",,0-2,0-3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := &line{events: events, listed: tt.listed, breaks: tt.breaks}
			c, _ := against(t, l.ServeHTTP)
			got, at := "", ""
			err := c.Follow(t.Context(), "ses_1", tt.after, func(p string) { at = p }, func(m Message) bool {
				if m.Name == "event" {
					got += strings.Trim(string(m.Data), `"`)
				}
				return strings.HasSuffix(got, "e")
			})
			if err != nil || got != tt.want || strings.Join(l.from, ",") != tt.from {
				t.Errorf("got %q over connections from %q, %v; want %q from %q", got, l.from, err, tt.want, tt.from)
			}
			if at == "" {
				t.Error("the position was not told")
			}
		})
	}
}

func TestFollowEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := &line{events: []string{`"a"`}}
	c, _ := against(t, l.ServeHTTP)
	err := c.Follow(ctx, "ses_1", "", nil, func(Message) bool { cancel(); return false })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestFollowIsRefused(t *testing.T) {
	c, _ := against(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(404)
		_, _ = w.Write([]byte(`{"error":"not_found","message":"no such session"}`))
	})
	err := c.Follow(t.Context(), "ses_1", "", nil, func(Message) bool { return false })
	if r, ok := errors.AsType[*APIError](err); !ok || r.Status != 404 {
		t.Errorf("got %T %v", err, err)
	}
}

func TestEventsPages(t *testing.T) {
	c, _ := against(t, (&line{events: []string{`1`, `2`, `3`, `4`, `5`}, listed: 5}).ServeHTTP)
	var got []string
	at, err := c.Events(t.Context(), "ses_1", "0-1", func(raw json.RawMessage) bool {
		got = append(got, string(raw))
		return false
	})
	if err != nil || strings.Join(got, "") != "2345" || at != "0-5" {
		t.Errorf("got %v at %q, %v", got, at, err)
	}
}

// TestTLS: a server is trusted if AO_CA has its authority. Otherwise the error says what to do, and there is no retry.
func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"ready"}`)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	plain := httptest.NewServer(s.Config.Handler)
	t.Cleanup(plain.Close)
	dir := t.TempDir()
	ca, other := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "other")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ url, ca, say string }{
		{s.URL, ca, ""},
		{plain.URL, ca, ""},
		{s.URL, "", "is not trusted: its certificate is not trusted here: name the authority that signed it in AO_CA"},
		{strings.Replace(s.URL, "127.0.0.1", "localhost", 1), ca, "is for another name"},
		{strings.Replace(plain.URL, "http:", "https:", 1), ca, "it does not speak TLS: use http://"},
		{strings.Replace(s.URL, "https:", "http:", 1), ca, "uses TLS: write https://"},
		{s.URL, other, `AO_CA "` + other + `" contains no certificate`},
		{s.URL, filepath.Join(dir, "none"), "cannot be read"},
	} {
		c, err := New(Config{URL: tt.url, CA: tt.ca})
		if err == nil {
			_, err = c.Get(t.Context(), nil, "ready")
		}
		switch {
		case tt.say == "" && err != nil, tt.say != "" && (err == nil || !strings.Contains(err.Error(), tt.say)):
			t.Errorf("%s with %q: %v, want %q", tt.url, tt.ca, err, tt.say)
		case err != nil && Temporary(err):
			t.Errorf("%v is said to pass", err)
		}
	}
}
