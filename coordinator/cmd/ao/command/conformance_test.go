package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/shared/executor/conformance"
)

// TestConformance: a program is judged without any coordinator, by name, and the exit code says whether it can be
// used.
func TestConformance(t *testing.T) {
	t.Setenv("AO_URL", "http://127.0.0.1:1")
	file := filepath.Join(t.TempDir(), "executor")
	if err := os.WriteFile(file, []byte("#!/bin/sh\ncat >/dev/null\necho \"$1 $OWN\"\n"+`[ "$1" != bad ] || exit 3`+
		"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OWN", "variable")
	ao := func(args ...string) (string, string, int) {
		var out, errs strings.Builder
		code := Main(t.Context(), append([]string{"conformance"}, args...), strings.NewReader(""), &out, &errs, nil)
		return out.String(), errs.String(), code
	}
	out, errs, code := ao("--env", "OWN", "--", file, "good")
	for _, part := range []string{"PASS    MUST", "a start is done", "WARN    should", "it binds its own session id",
		`text "good variable"`, "0 failed", "the program conforms"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is missing in\n%s%s", part, out, errs)
		}
	}
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	out, _, code = ao("--json", "--", file, "bad")
	var r conformance.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.OK || code != 1 ||
		r.Checks[0].Result != conformance.Fail || !strings.Contains(r.Checks[0].Detail, "exit code 3") {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
	for _, args := range [][]string{nil, {"--env", "NOT_SET_ANYWHERE", "--", file}, {"--config", "[]", "--", file}} {
		if _, errs, code := ao(args...); code != 2 || errs == "" {
			t.Errorf("%v: exit code %d, %q", args, code, errs)
		}
	}
	if _, errs, code := ao("--", filepath.Join(t.TempDir(), "none")); code != 1 ||
		!strings.Contains(errs, "cannot be started") {
		t.Errorf("no program: exit code %d, %q", code, errs)
	}
}
