package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/nats/natstest"
	"ao/shared/run"
	"ao/worker/process"
	"ao/worker/profile"
)

// confined returns a profile of a program with more settings.
func confined(t *testing.T, settings, program string) func(*Config) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"p.json": `{"command":"./program",` + settings + `}`,
		"program": "#!/bin/sh\n" + program + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p, err := profile.Read(dir, "p")
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Executor, c.Profile, c.ProjectDir = nil, p, t.TempDir() }
}

// TestConfinement: oneshot and persistent programs are confined. The error names the limit that was hit. The
// temporary folder is removed with the run or its process.
func TestConfinement(t *testing.T) {
	t.Parallel()
	model := func(q *run.Queued) { q.AgentType, q.Timeout = run.Autonomous, 60 }
	const full = `head -c 3000000 /dev/zero >"$TMPDIR/f"`
	for _, tt := range []struct{ name, settings, program, want string }{
		{"oneshot", `"type":"autonomous","limits":{"file_mb":1}`, full + `; exit $?`, "executor_failed file_mb"},
		{"persistent", `"type":"autonomous","lifecycle":"persistent","limits":{"file_mb":1}`,
			`read -r line; ` + full + `; exit $?`, "executor_failed file_mb"},
		{"oneshot in a sandbox", `"type":"autonomous","limits":{"file_mb":1},"sandbox":"bubblewrap"`,
			full + `; exit $?`, "executor_failed file_mb"},
		{"persistent in a sandbox",
			`"type":"autonomous","lifecycle":"persistent","limits":{"file_mb":1},"sandbox":"bubblewrap"`,
			`read -r line; ` + full + `; exit $?`, "executor_failed file_mb"},
		{"the gateway from a sandbox", `"type":"autonomous","sandbox":"bubblewrap"`,
			`url=${AGENT_ORCHESTRATOR_API_URL#http://}; path=/${url#*/} host=${url%%/*}; body='{"text":"ok"}'
exec bash -c "exec 3<>/dev/tcp/\${0%:*}/\${0#*:} && printf 'GET %s/state HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n' '$path' ` +
				`'$host' >&3 && head -1 <&3 | cut -d/ -f1" "$host"`, "completed HTTP"},
		{"no gateway without a network", `"type":"autonomous","sandbox":{"kind":"bubblewrap","network":false}`,
			`echo "url:$AGENT_ORCHESTRATOR_API_URL"`, "completed url:"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(tt.settings, process.Bubblewrap) {
				if err := (&process.Confinement{
					Sandbox: process.Sandbox{Kind: process.Bubblewrap}}).Supported(); err != nil {
					t.Skipf("bubblewrap is not tried: %v", err)
				}
			}
			b := natstest.Bus(t)
			s := newFakeCoordinator(t, b)
			start(t, b, nil, confined(t, tt.settings, tt.program))
			e := s.waitEnded(s.enqueue(model))
			got := string(e.Status)
			switch {
			case e.Error != nil:
				got = e.Error.Code
				for _, f := range e.Error.Fields {
					if f.Name == "limit" {
						got += " " + strings.Trim(fmt.Sprintf("%s", f.Value), `"`)
					}
				}
			case e.Result != nil && e.Result.Text != nil:
				got += " " + *e.Result.Text
			}
			if got != tt.want {
				t.Errorf("got %q, want %q: %v", got, tt.want, e.Error)
			}
		})
	}
}
