package claudecode

import (
	"os"
	"path/filepath"
	"testing"

	"ao/worker/process"
)

// TestClaudeInASandbox: claude reads the file of its MCP servers, and writes to its project and its own folder. If it
// hits a limit, the error names that.
func TestClaudeInASandbox(t *testing.T) {
	t.Parallel()
	t.Cleanup(process.RemoveTempDirs)
	own := t.TempDir()
	box := process.Confinement{Sandbox: process.Sandbox{Kind: process.Bubblewrap, Write: []string{own}},
		Limits: process.Limits{FileMB: 1}}
	if err := box.Supported(); err != nil {
		t.Skipf("bubblewrap is not tried: %v", err)
	}
	script := `cat >/dev/null; for a in "$@"; do case "$a" in --mcp-config=*) cat "${a#*=}" >servers;; ` +
		`esac; done; touch ` + own + `/session; touch ~/outside 2>/dev/null && exit 9
echo '{"type":"result","subtype":"success","is_error":false,"result":"ok"}'`
	inv, host, _ := turn(t, fakeClaude(t, script), "", "Hello", `{"mcp_servers":{"a":{"command":"x"}}}`, "{}")
	host.Env = append(host.Env, "HOME=/usr")
	if got := outcomeText(Executor{Confinement: &box}.Run(t.Context(), inv, host)); got != "completed | ok" {
		t.Fatal(got)
	}
	if raw, _ := os.ReadFile(filepath.Join(inv.ProjectDir, "servers")); len(raw) == 0 {
		t.Error("claude saw no MCP servers")
	}
	if _, err := os.Stat(own + "/session"); err != nil {
		t.Error(err)
	}

	inv, host, _ = turn(t, fakeClaude(t, "cat >/dev/null; head -c 3000000 /dev/zero >big"), "", "Hello", "", "{}")
	o := Executor{Confinement: &box}.Run(t.Context(), inv, host)
	if o.Error == nil || len(o.Error.Fields) == 0 || o.Error.Fields[len(o.Error.Fields)-1].Value != "file_mb" {
		t.Errorf("got %v", o.Error)
	}
}
