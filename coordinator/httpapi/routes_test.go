package httpapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
)

// TestNothingIsReportedBeforeItIsRead: a coordinator that has not read the registries says so, and does not report them
// as empty.
func TestNothingIsReportedBeforeItIsRead(t *testing.T) {
	c := parts.New(parts.Config{Bus: natstest.Bus(t), Log: natstest.Log(t)})
	a := New(Config{Agents: c.Agents, Runners: c, Registries: c.Registries, Positions: c.History, Log: natstest.Log(t)})
	for ask, want := range map[string]int{
		"GET /agents": 503, "GET /agents/x": 503, "POST /agents": 503, "GET /runners": 503, "DELETE /runners/x": 503,
		"POST /runner/register": 503, "POST /runs/validate": 503,
		"GET /health": 200, "GET /": 200,
	} {
		method, path, _ := strings.Cut(ask, " ")
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, strings.NewReader(`{"name":"x"}`))
		r.Host = "127.0.0.1"
		r.Header.Set("Content-Type", "application/json")
		a.ServeHTTP(w, r)
		if w.Code != want || want == http.StatusServiceUnavailable &&
			(!strings.Contains(w.Body.String(), "agents and runners are being read") ||
				w.Header().Get("Retry-After") == "") {
			t.Errorf("%s: %d %s", ask, w.Code, w.Body)
		}
	}
}

// TestAReaderWaitsForItsPosition: a coordinator that has not read so far says so after a second, and when to come
// again.
func TestAReaderWaitsForItsPosition(t *testing.T) {
	b := natstest.Bus(t)
	for i := range 5 {
		if _, err := b.Append(t.Context(), bus.Entry{Subject: subject.Deleted("1", fmt.Sprint("ses_", i)),
			Body: []byte(`{"v":1}`)}); err != nil {
			t.Fatal(err)
		}
	}
	c := parts.New(parts.Config{Bus: b, Log: natstest.Log(t)}) // it reads nothing
	a := New(Config{Positions: c.History, Log: natstest.Log(t)})
	for _, path := range []string{"/runs", "/sse/runs", "/sessions/ses_1/tree"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = "127.0.0.1"
		r.Header.Set("Ao-Position", "5-1")
		start := time.Now()
		a.ServeHTTP(w, r)
		if took := time.Since(start); w.Code != 503 || w.Header().Get("Retry-After") != "1" || took < behind ||
			!strings.Contains(w.Body.String(), "not to 5 yet") {
			t.Errorf("%s: %d after %v: %s", path, w.Code, took, w.Body)
		}
	}
}

const behind = time.Second
