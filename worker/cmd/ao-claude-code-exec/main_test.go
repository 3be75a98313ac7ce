package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain turns the test binary into the program if EXECUTOR is set, and into its guard.
func TestMain(m *testing.M) {
	if os.Getenv("EXECUTOR") != "" || os.Getenv("AGENT_ORCHESTRATOR_GUARD") != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestProgram(t *testing.T) {
	dir := t.TempDir()
	claude := filepath.Join(dir, "claude")
	os.WriteFile(claude, []byte(`#!/bin/sh
cat >/dev/null
echo '{"type":"system","subtype":"init","session_id":"s","model":"m"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"hello","num_turns":1}'
`), 0o700)
	document := `{"schema_version":"2.2","mode":"start","session_id":"ses_1","run_id":"run_1",` +
		`"parameters":{"prompt":"Say hello"},"project_dir":%q,` +
		`"agent_name":"any","agent_blueprint":{},"executor_config":{"claude":%q}}`
	for _, tt := range []struct {
		name, in, arg, stdout, stderr string
		code                          int
	}{
		{"answers", fmt.Sprintf(document, dir, claude), "", `{"type":"bind","executor_session_id":"s"}
{"type":"event","event_type":"metadata","metadata":{"model":"m","num_turns":1}}
{"type":"result","result_type":"autonomous","result_text":"hello","result_data":null}
`, "", 0},
		{"is not there", fmt.Sprintf(document, dir, dir+"/none"), "", `"error":{"error":"claude_not_found"`,
			"npm install -g @anthropic-ai/claude-code", 1},
		{"no document", "", "", "", "invocation on stdin", 2},
		{"help", "", "--help", "Usage: ao-claude-code-exec < invocation.json", "", 0},
		{"an argument", "", "--model", "", `unexpected argument "--model"`, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), os.Args[0])
			if tt.arg != "" {
				c.Args = append(c.Args, tt.arg)
			}
			c.Env = []string{"EXECUTOR=1", "PATH=" + os.Getenv("PATH"), "HOME=" + dir}
			c.Stdin = strings.NewReader(tt.in)
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			c.Run()
			if c.ProcessState.ExitCode() != tt.code || !strings.Contains(out.String(), tt.stdout) ||
				!strings.Contains(errs.String(), tt.stderr) {
				t.Errorf("got %d %s%s, want %d %s%s", c.ProcessState.ExitCode(), out.String(), errs.String(), tt.code,
					tt.stdout, tt.stderr)
			}
		})
	}
}
