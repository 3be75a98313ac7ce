package httpapi

import (
	"net/http/httptest"
	"strings"
	"testing"

	"ao/shared/fault"
)

// TestTheDashboardIsThereBeforeTheAPI: while a coordinator starts, its page and files are there to say so.
func TestTheDashboardIsThereBeforeTheAPI(t *testing.T) {
	for path, want := range map[string]int{"/ui/": 200, "/ui/runs": 200, "/ui/assets/0/app.js": 503, "/runs": 503,
		"/": 503, "/health": 200} {
		w := httptest.NewRecorder()
		Starting(w, httptest.NewRequest("GET", path, nil), fault.New(fault.Unavailable, "", "not yet"))
		policy := w.Header().Get("Content-Security-Policy")
		if w.Code != want || strings.HasPrefix(path, "/ui/") && want == 200 != strings.Contains(policy,
			"script-src 'self'") {
			t.Errorf("%s: %d, policy %q", path, w.Code, policy)
		}
	}
}
