package command

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestAudit: entries are shown as rows, gaps beside them, and a lookup that found nothing yet continues.
func TestAudit(t *testing.T) {
	var asked []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("cursor") == "" {
			_, _ = io.WriteString(w, `{"entries":[],"next_cursor":"7-0","gaps":[{"after":"2026-01-01T00:00:00Z",`+
				`"before":"2026-01-01T00:01:00Z","count":12}]}`)
			return
		}
		_, _ = io.WriteString(w,
			`{"entries":[{"time":"2026-01-01T00:00:00Z","door":"http","actor":{"kind":"token","name":"ci"},`+
				`"from":"10.0.0.1:5","action":"agent.delete","agent_name":"x","status":204},
			{"time":"2026-01-01T00:00:00Z","door":"nats","actor":{"kind":"nats"},"action":"run.create","status":403,`+
				`"error":"forbidden"},
			{"time":"2026-01-01T00:00:00Z","actor":{"kind":"unknown"},"action":"audit.omitted","count":340}],`+
				`"next_cursor":"3-1","gaps":[]}`)
	})
	out, errs, code := ao(t, url, "", "audit", "--actor", "ci", "--action", "agent", "--run",
		"run_01a20c3efa967ebc837bacfdf2417ac1", "--since", "2026-01-01T00:00:00Z")
	for _, want := range []string{"ci", "10.0.0.1:5", "agent.delete", "x", "204", "nats", "run.create", "403 forbidden",
		"340 more, not listed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	const query = "action=agent&actor=ci&after=2026-01-01T00%3A00%3A00Z"
	if code != exitDone || len(asked) != 2 || asked[0] != query+"&limit=50&run=run_01a20c3efa967ebc837bacfdf2417ac1" ||
		!strings.Contains(asked[1], "cursor=7-0") ||
		!strings.Contains(errs, "12 entries are missing from 2026-01-01T00:00:00Z to 2026-01-01T00:01:00Z") ||
		!strings.Contains(errs, "--cursor 3-1") {
		t.Errorf("exit %d, asked %q, said %s", code, asked, errs)
	}
	if _, errs, code := ao(t, url, "", "audit", "--run", "x"); code != exitUsage {
		t.Errorf("exit %d, %s", code, errs)
	}
}
