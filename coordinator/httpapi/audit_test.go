package httpapi

import (
	"net/http"
	"testing"
)

// TestEveryChangeHasAnAction walks the router: a route that can change something leaves a line in the audit log.
func TestEveryChangeHasAnAction(t *testing.T) {
	// MCP's tools are recorded each for itself
	changesNothing := map[string]bool{"POST /runs/validate": true, "POST /schemas/validate": true,
		"POST /agents/preview": true, "POST /mcp": true}
	a := New(Config{})
	seen := map[string]bool{}
	for _, r := range a.engine.Routes() {
		at := r.Method + " " + r.Path
		seen[at] = true
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !changesNothing[at] && actions[at] == "" {
			t.Errorf("%s has no action: give it one in audit.go", at)
		}
	}
	for at := range actions {
		if !seen[at] {
			t.Errorf("%s is no route", at)
		}
	}
}
