package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ao/nats/natstest"
)

// TestExamplesCanBeEdited: with the settings of scripts/up, example agents are edited in a copy, not in the
// repository.
func TestExamplesCanBeEdited(t *testing.T) {
	t.Parallel()
	s := upShipped(t, "embed", "AO_NATS_LISTEN="+natstest.FreeAddr(t), "AO_DATA_DIR="+
		filepath.Join(t.TempDir(), "data"))
	for i, set := range s.env {
		if dir, ok := strings.CutPrefix(set, "AGENT_ORCHESTRATOR_AGENTS_DIR="); ok {
			s.env[i] = "AO_AGENTS_SEED=" + dir
		}
	}
	s.env = append(s.env, "AO_AGENTS_WRITABLE=yes")
	p := launch(t, "allinone", s.dir, s.env)
	s.ready()
	before := s.get("/agents/summarizer")
	s.has(before, 200, `"origin":"file"`, `"editable":true`)
	s.has(s.do("PATCH", "/agents/summarizer", `{"description":"mine"}`), 200, `"description":"mine"`)
	s.has(s.do("DELETE", "/agents/pr-reviewer", ""), 204)
	p.stop()
	p.start()
	s.ready()
	s.has(s.get("/agents/summarizer"), 200, `"description":"mine"`, `"path":"`+
		filepath.Join(filepath.Dir(before.at("path")), "agent.json"))
	s.has(s.get("/agents/pr-reviewer"), 404)
	for _, name := range []string{"summarizer", "pr-reviewer"} {
		raw, err := os.ReadFile(filepath.Join(root(), "worker/agents/autonomous", name, "agent.json"))
		if err != nil || strings.Contains(string(raw), "mine") {
			t.Errorf("%s: got %s, %v; want the unchanged file", name, raw, err)
		}
	}
	s.has(s.post("/runs", `{"agent_name":"summarizer","prompt":"a text"}`), 201)
}

// TestUpCopiesItsExamples: scripts/up sets that, unless other folders are named.
func TestUpCopiesItsExamples(t *testing.T) {
	t.Parallel()
	up, err := os.ReadFile(filepath.Join(root(), "scripts/up"))
	if err != nil {
		t.Fatal(err)
	}
	_, settings, _ := strings.Cut(string(up), "# Data is stored")
	settings, _, _ = strings.Cut(settings, "export PATH=")
	for _, tt := range []struct {
		env  string
		args string
		want string
	}{
		{"", "", "seed=/r/worker/agents/autonomous writable=yes dirs="},
		{"AO_AGENTS_WRITABLE=no", "", "seed=/r/worker/agents/autonomous writable=no dirs="},
		{"AGENT_ORCHESTRATOR_AGENTS_DIR=/mine", "", "seed= writable= dirs=/mine"},
		{"X=y", "--agents-dir=/mine", "seed= writable= dirs="},
		{"X=y", "-agents-dir /mine", "seed= writable= dirs="},
	} {
		cmd := exec.Command("bash",
			append([]string{"-c", "root=/r\n#" + settings + "\necho seed=${AO_AGENTS_SEED:-} " +
				"writable=${AO_AGENTS_WRITABLE:-} dirs=${AGENT_ORCHESTRATOR_AGENTS_DIR:-}", "up"},
				strings.Fields(tt.args)...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), tt.env}
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != tt.want {
			t.Errorf("%+v: %s %v", tt, out, err)
		}
	}
}
