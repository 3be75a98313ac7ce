package ao

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// against returns a client of a server, whose outages are short, and the number of its notices.
func against(t *testing.T, h http.HandlerFunc) (*Client, *atomic.Int32) {
	t.Helper()
	var notices atomic.Int32
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c := New(Config{URL: s.URL, RetryFor: 2 * time.Second, Notice: func(Outage) { notices.Add(1) }})
	c.firstPause = time.Millisecond
	return c, &notices
}

// TestAnswers classifies answers by what can be done about them.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name, kind, body string
		status           int
		want             string
		passing          bool
	}{
		{"a document", "application/json", `{"a":1.50}`, 200, `ok {"a":1.50}`, false},
		{"none", "", ``, 204, `ok `, false},
		{"a refusal", "application/json", `{"error":"not_found","message":"no"}`, 404, "*ao.APIError not_found no",
			false},
		{"busy", "application/json", `{"error":"unavailable","message":"later"}`, 503, "*ao.APIError unavailable later",
			true},
		{"somebody's page", "text/html", `<html>`, 200, `*ao.UnreachableError foreign URL answered 200, but not as a ` +
			`coordinator does (text/html: "<html>"); check`, false},
		{"somebody's refusal", "text/html", `<html>`, 403, "*ao.APIError  URL answered 403, but not", false},
		{"a proxy's page", "text/html", `<html>`, 502, "*ao.APIError  URL answered 502, but not", true},
		{"half a document", "application/json", `{"a":`, 200, "*ao.UnreachableError foreign", false},
		{"an error of another API", "application/json", `{"detail":"x"}`, 400, "*ao.APIError  URL", false},
		{"an error that is no text", "application/json", `{"error":{"code":5}}`, 500, "*ao.APIError  URL", false},
		{"half an error", "application/json", `{"error":"x","message":5}`, 500, "*ao.APIError  URL", false},
		{"a redirect", "text/html", ``, 302, "*ao.APIError  URL", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := against(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			})
			doc, err := c.Once().Read(t.Context(), nil, "x")
			got := "ok " + string(doc)
			var refused *APIError
			var lost *UnreachableError
			switch {
			case errors.As(err, &refused):
				got = fmt.Sprintf("%T %s %v", err, refused.Code, err)
			case errors.As(err, &lost):
				got = fmt.Sprintf("%T %s %v", err, lost.Reason, err)
			}
			got = strings.ReplaceAll(got, c.URL(), "URL")
			if !strings.HasPrefix(got, tt.want) || Temporary(err) != tt.passing {
				t.Errorf("got %s (passing %v), want %s (%v)", got, Temporary(err), tt.want, tt.passing)
			}
		})
	}
}

// TestCopy writes an answer while it arrives; one that breaks off is an error.
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
	for path, want := range map[string]string{"whole": "a,b\r\n <nil>", "half": "a,b *ao.UnreachableError",
		"refused": " *ao.APIError"} {
		var b strings.Builder
		err := c.Copy(t.Context(), &b, nil, path)
		if got := fmt.Sprintf("%s %T", b.String(), err); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	closed, w := io.Pipe()
	_ = closed.Close()
	if err := c.Copy(t.Context(), w, nil, "whole"); err != io.ErrClosedPipe {
		t.Errorf("the writer's error: got %v", err)
	}
}

// TestNobodyAnswers: with FailFast a wrong address is an error at once. Where a server has answered it is an outage.
func TestNobodyAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	for _, reached := range []bool{false, true} {
		var notices atomic.Int32
		c := New(Config{URL: address, FailFast: true, RetryFor: 50 * time.Millisecond,
			Notice: func(Outage) { notices.Add(1) }})
		c.firstPause = time.Millisecond
		c.reached.Store(reached)
		_, err := c.Read(t.Context(), nil, "runs")
		var lost *UnreachableError
		if !errors.As(err, &lost) || lost.Reason != NotConnected || (notices.Load() > 0) != reached {
			t.Errorf("reached %v: got %T %v after %d notices", reached, err, err, notices.Load())
		}
	}
}

func TestDo(t *testing.T) {
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
	a, err := c.Do(t.Context(), Call{Method: http.MethodPost, Path: []string{"runs"}, Body: []byte(`{}`), Key: "k"})
	if err != nil || string(a.Document) != `{"run_id":"run_1"}` {
		t.Fatalf("got %s, %v", a.Document, err)
	}
	if got := <-keys + " " + <-keys + " " + <-keys; got != "k k k" {
		t.Errorf("keys: got %q, want the same three times", got)
	}
	if got := notices.Load(); got != 1 {
		t.Errorf("%d notices, want one", got)
	}
}

// TestGet: a run has its document, also the members that have no field.
func TestGet(t *testing.T) {
	const doc = `{"run_id":"run_1","more":1}`
	c, _ := against(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, doc) })
	if r, err := c.Get(t.Context(), "run_1"); err != nil || r.ID != "run_1" || string(r.Document) != doc {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestOnce: what must not be repeated is sent once, whatever the error.
func TestOnce(t *testing.T) {
	var n atomic.Int32
	c, notices := against(t, func(http.ResponseWriter, *http.Request) {
		n.Add(1)
		panic(http.ErrAbortHandler)
	})
	_, err := c.Once().Do(t.Context(), Call{Method: http.MethodPost, Path: []string{"agents"}, Body: []byte(`{}`)})
	var lost *UnreachableError
	if !errors.As(err, &lost) || lost.Reason != Lost || n.Load() != 1 || notices.Load() != 0 {
		t.Errorf("got %v after %d requests and %d notices", err, n.Load(), notices.Load())
	}
}

// TestDeadline: the caller's deadline is the caller's error, and is not retried.
func TestDeadline(t *testing.T) {
	c, notices := against(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Read(ctx, nil, "runs"); err != context.DeadlineExceeded || notices.Load() != 0 {
		t.Errorf("got %v after %d notices", err, notices.Load())
	}
}

func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		header string
		want   time.Duration
	}{{"", 0}, {"3", 3 * time.Second}, {"-3", 0}, {"99999999", time.Hour}, {"soon", 0},
		{time.Now().Add(2 * time.Hour).UTC().Format(http.TimeFormat), time.Hour}} {
		var e *APIError
		err := New(Config{}).refusal(Answer{Status: 503}, tt.header)
		if !errors.As(err, &e) || e.RetryAfter != tt.want {
			t.Errorf("%q: got %v, want %v", tt.header, e.RetryAfter, tt.want)
		}
	}
}
