package command

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A tree is read to its end, and shown with what went wrong beside each run.
func TestTree(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/sessions/ses_1/tree" {
			t.Errorf("asked for %s", r.URL)
		}
		const run = `{"run_id":"run_%d","status":%q,"created_at":"2026-01-31T12:00:00Z","error":%s,"reports":%s,` +
			`"earlier_attempts":[{"attempt":1,"claimed_at":"2026-01-31T12:00:00Z",` +
			`"completed_at":"2026-01-31T12:00:02Z","error":{"error":"x","message":"the first time"}}]}`
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("cursor") == "" {
			_, _ = fmt.Fprintf(w, `{"session_id":"ses_1","sessions":[{"session_id":"ses_1","depth":0,`+
				`"status":"finished","agent_name":"lead","created_at":"2026-01-31T12:00:00Z","runs":[`+run+
				`]}],"next_cursor":"x"}`, 1, "completed", "null", `["run_3"]`)
			return
		}
		_, _ = io.WriteString(w, `{"session_id":"ses_1","sessions":[{"session_id":"ses_2","depth":1,"deleted":true,`+
			`"runs":[]},{"session_id":"ses_3","depth":2,"status":"failed","agent_name":"hand",`+
			`"runs_omitted":4,"runs":[`+
			fmt.Sprintf(run, 3, "failed", `{"error":"command_failed","message":"it broke"}`, "null")+`]}]}`)
	})
	out, errs, code := ao(t, url, "", "tree", "ses_1")
	for _, want := range []string{"ses_1", "· run_1", "attempt 1", "2.0s", "the first time", "reports run_3", "· ses_2",
		"deleted or expired", "· · ses_3", "4 older runs omitted", "· · · run_3", "it broke"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not shown: %d\n%s%s", want, code, out, errs)
		}
	}
	if out, _, _ := ao(t, url, "", "tree", "ses_1", "--json"); strings.Count(out, "\n") != 3 {
		t.Errorf("for programs: %s", out)
	}
	if _, errs, code := ao(t, url, "", "tree", "run_1"); code != exitUsage || !strings.Contains(errs, "session_id") {
		t.Errorf("a run's id: %d %s", code, errs)
	}
}

// Each filter of runs goes into the request under its name there.
func TestFiltersOfRuns(t *testing.T) {
	var got string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.RawQuery
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"runs":[],"partial":true,"next_cursor":"abc"}`)
	})
	_, errs, code := ao(t, url, "", "runs", "--q", "it broke", "--runner", "rnr_1", "--retry-of", "run_1", "--roots")
	if want := "limit=20&q=it+broke&retry_of=run_1&roots=true&runner_id=rnr_1"; code != exitDone || got != want {
		t.Errorf("%d: got %s, want %s", code, got, want)
	}
	if !strings.Contains(errs, "--cursor abc") {
		t.Errorf("a search that goes on: %s", errs)
	}
}
