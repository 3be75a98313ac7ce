package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ao/coordinator/serve/parts"
	"ao/nats/natstest"
)

// TestNothingIsToldBeforeItIsRead: a coordinator that has not read the registries says so, and not that there is nobody.
func TestNothingIsToldBeforeItIsRead(t *testing.T) {
	c := parts.New(parts.Config{Bus: natstest.Bus(t), Log: natstest.Log(t)})
	a := New(Config{Agents: c.Agents, Runners: c, Registries: c.Registries, Log: natstest.Log(t)})
	for ask, want := range map[string]int{
		"GET /agents": 503, "GET /agents/x": 503, "POST /agents": 503, "GET /runners": 503, "DELETE /runners/x": 503, "POST /runner/register": 503, "POST /runs/validate": 503,
		"GET /health": 200, "GET /": 200,
	} {
		method, path, _ := strings.Cut(ask, " ")
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, strings.NewReader(`{"name":"x"}`))
		r.Host = "127.0.0.1"
		r.Header.Set("Content-Type", "application/json")
		a.ServeHTTP(w, r)
		if w.Code != want || want == http.StatusServiceUnavailable && (!strings.Contains(w.Body.String(), "agents and runners are being read") || w.Header().Get("Retry-After") == "") {
			t.Errorf("%s: %d %s", ask, w.Code, w.Body)
		}
	}
}
