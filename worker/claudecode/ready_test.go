package claudecode

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"ao/shared/fault"
)

// A worker reports at its start why each run of the profile would fail.
func TestReady(t *testing.T) {
	dir := t.TempDir()
	claude := filepath.Join(dir, "claude")
	if err := os.WriteFile(claude, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	named, _ := json.Marshal(map[string]string{"claude": claude})
	t.Setenv("PATH", t.TempDir())
	for config, want := range map[string]string{``: codeNotFound, `{"claude":"/no/such/claude"}`: codeNotFound,
		string(named): "", `{"claud":"x"}`: "invalid_request"} {
		err := Ready(json.RawMessage(config))
		if got := codeOf(err); got != want {
			t.Errorf("%s: %q, want %q (%v)", config, got, want, err)
		}
	}
	t.Setenv("PATH", dir)
	if err := Ready(nil); err != nil {
		t.Errorf("it is on PATH: %v", err)
	}
}

func codeOf(err *fault.Fault) string {
	if err == nil {
		return ""
	}
	return err.Code
}
