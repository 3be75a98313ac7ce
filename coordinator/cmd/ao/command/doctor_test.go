package command

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"ao/shared/version"
)

// TestDoctor: a line for each check and what to do, exit code 1 when something failed, and all of it for programs.
func TestDoctor(t *testing.T) {
	for _, name := range []string{"AO_API_TOKENS", "AO_NATS_URL", "AO_NATS_CREDS", "AO_NATS_KEY", "AO_TLS_KEY",
		"AO_DATA_DIR", "AO_PROFILES_DIR"} {
		t.Setenv(name, "")
	}
	well := `{"check":"http","verdict":"ok","what":"asks for a token"},{"check":"runners","verdict":"warn",` +
		`"what":"there are none","advice":"start one"}`
	url := func(checks string) string {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Path != "/doctor" {
				fmt.Fprint(w, `{"status":"ready"}`)
				return
			}
			fmt.Fprintf(w, `{"at":%q,"version":"unknown","go":"go1","hostname":"h","public_url":"","checks":[%s]}`,
				time.Now().Format(time.RFC3339Nano), checks)
		})
	}
	out, errs, code := ao(t, url(well), "", "doctor")
	if code != exitDone || !strings.Contains(out, "ok    ao            version "+version.Current()) ||
		!strings.Contains(out, "ok    http          asks for a token\n") ||
		!strings.Contains(out, "warn  runners       there are none\n      → start one\n") ||
		!strings.Contains(out, "skip  nats ") || !strings.Contains(errs, "1 warnings, 0 failed, 2 skipped") {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	bad := well + `,{"check":"secrets","verdict":"fail","what":"open to all\u001b[2J","advice":"chmod"}`
	out, errs, code = ao(t, url(bad), "", "doctor")
	if code != exitFailed || !strings.Contains(out, "fail  secrets       open to all") ||
		strings.Contains(out, "\x1b") || !strings.Contains(errs, "1 failed") {
		t.Errorf("%d\n%q%s", code, out, errs)
	}
	if out, _, code := ao(t, url(bad), "", "doctor", "--json"); code != exitFailed ||
		!strings.HasPrefix(out, `{"ok":false,"checks":[{"check":"ao","verdict":"ok",`) ||
		!strings.Contains(out, `"advice":"chmod"`) {
		t.Errorf("for programs: %d %s", code, out)
	}
	if out, _, code := ao(t, url(well), "", "doctor", "--json"); code != exitDone ||
		!strings.HasPrefix(out, `{"ok":true,`) {
		t.Errorf("for programs: %d %s", code, out)
	}
	if out, _, code := ao(t, "http://127.0.0.1:1", "", "doctor"); code != exitFailed ||
		!strings.Contains(out, "fail  coordinator   no coordinator answers") {
		t.Errorf("nobody there: %d %s", code, out)
	}
	closed := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/doctor" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"unauthorized","message":"Unknown token"}`)
			return
		}
		fmt.Fprint(w, `{"status":"ready"}`)
	})
	if out, _, code := ao(t, closed, "", "doctor", "--token", "aot_wrong"); code != exitFailed ||
		!strings.Contains(out, "fail  coordinator   the coordinator refuses the token") {
		t.Errorf("a token that is refused: %d %s", code, out)
	}
	if out, errs, code := ao(t, closed, "", "doctor"); code != exitFailed ||
		!strings.Contains(out, "skip  coordinator") || !strings.Contains(errs, "no check was possible") {
		t.Errorf("nothing to be seen: %d %s%s", code, out, errs)
	}
	if _, _, code := ao(t, "", "", "doctor", "what"); code != exitUsage {
		t.Errorf("words: %d", code)
	}
}

// What connects to NATS itself does not take a coordinator's address for NATS's.
func TestBackupTakesNoURL(t *testing.T) {
	t.Setenv("AO_NATS_URL", "nats://tok3n@127.0.0.1:1,nats://user:s3cret@127.0.0.1:2")
	for _, words := range [][]string{{"backup", "f"}, {"restore", os.DevNull}} {
		if _, errs, code := ao(t, "", "", append([]string{"--url", "http://127.0.0.1:9999"},
			words...)...); code != exitUsage || !strings.Contains(errs, "(now nats://127.0.0.1:1,nats://127.0.0.1:2)") {
			t.Errorf("%v: %d %s", words, code, errs)
		}
	}
}

// Errors that a user meets say what to do next.
func TestErrorsNameTheNextStep(t *testing.T) {
	t.Setenv("AO_NATS_URL", "nats://127.0.0.1:1")
	nothing := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		field := "run_id"
		if strings.HasPrefix(r.URL.Path, "/sessions") {
			field = "session_id"
		}
		fmt.Fprintf(w, `{"error":"not_found","message":"There is none","%s":"x"}`, field)
	})
	away := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error":"unavailable","message":"NATS is not reachable"}`)
	})
	for _, tt := range []struct {
		url  string
		args []string
		code int
		say  string
	}{
		{nothing, []string{"explain", "run_nope"}, exitFailed, "hint: 'ao runs'"},
		{nothing, []string{"show", "ses_nope"}, exitFailed, "hint: 'ao sessions'"},
		{away, []string{"verify"}, exitFailed, "hint: if this persists, 'ao doctor'"},
		{"", []string{"init", "/some/dir"}, exitUsage, "--dir /some/dir"},
	} {
		if _, errs, code := ao(t, tt.url, "", tt.args...); code != tt.code || !strings.Contains(errs, tt.say) {
			t.Errorf("%v: %d %s, want %d and %q", tt.args, code, errs, tt.code, tt.say)
		}
	}
}
