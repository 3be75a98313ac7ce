package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain turns the test binary into the program if EXECUTOR is set, and into its guard.
func TestMain(m *testing.M) {
	if os.Getenv("EXECUTOR") != "" || os.Getenv("AGENT_ORCHESTRATOR_GUARD") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestProgram(t *testing.T) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-1" {
			http.Error(w, `{"error":{"message":"who are you?"}}`, http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w,
			`data: {"model":"m-1","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":"stop"}]}`+
				"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(model.Close)
	for _, tt := range []struct {
		name, key, config string
		args              []string
		code              int
		stdout, stderr    string
	}{
		{"answers", "sk-1", `{"base_url":"` + model.URL + `","model":"m"}`, nil, 0,
			`{"type":"result","result_type":"autonomous","result_text":"hello","result_data":null}` + "\n", ""},
		{"refused", "sk-2", `{"base_url":"` + model.URL + `","model":"m"}`, nil, 1,
			`"error":{"error":"llm_unauthorized"`, "the key is from OPENAI_API_KEY"},
		{"odd configuration", "", `{"provider":"openai","model":"m","colour":1}`, nil, 1, "llm_config",
			`Unknown field "colour"`},
		{"help", "", "", []string{"--help"}, 0, "Usage: ao-llm-exec", ""},
		{"argument", "", "", []string{"-x"}, 2, "", `unexpected argument "-x"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(), os.Args[0], tt.args...)
			c.Env = []string{"EXECUTOR=1", "PATH=" + os.Getenv("PATH"), "OPENAI_API_KEY=" + tt.key}
			c.Stdin = strings.NewReader(fmt.Sprintf(`{"schema_version":"2.2","mode":"start","session_id":"ses_1",`+
				`"run_id":"run_1","parameters":{"prompt":"Hi"},"project_dir":"/","agent_name":"a",`+
				`"agent_blueprint":{},"executor_config":%s}`, tt.config))
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			c.Run()
			if c.ProcessState.ExitCode() != tt.code || !strings.Contains(out.String(), tt.stdout) ||
				!strings.Contains(errs.String(), tt.stderr) {
				t.Errorf("got %d\n%s\n%s\nwant %d %s %s", c.ProcessState.ExitCode(), out.String(), errs.String(),
					tt.code, tt.stdout, tt.stderr)
			}
			if tt.key != "" && strings.Contains(out.String()+errs.String(), tt.key) {
				t.Error("the key is shown")
			}
		})
	}
}
