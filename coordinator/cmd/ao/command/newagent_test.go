package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ao/shared/agent"
	"ao/shared/run"
)

// TestNewAgent: the folder is complete and valid, where the agents of its type are read, and replaces nothing.
func TestNewAgent(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("AO_DATA_DIR", "")
	for _, tt := range []struct {
		name string
		args []string
		make string // a folder that there is
		want string // the folder that is made
	}{
		{"a checkout", []string{"one", "--procedural"}, "worker/agents/procedural", "worker/agents/procedural/one"},
		{"ao up", []string{"two", "--autonomous"}, ".ao/worker/agents/autonomous", ".ao/worker/agents/autonomous/two"},
		{"a folder of one's own", []string{"three", "--procedural", "--dir", "a/b"}, "", "a/b/three"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.MkdirAll(tt.make, 0o755); tt.make != "" && err != nil {
				t.Fatal(err)
			}
			args := append([]string{"agents", "new"}, tt.args...)
			out, errs, code := ao(t, "http://127.0.0.1:1", "", args...)
			if code != 0 || !strings.HasPrefix(out, tt.want+"\n") || !strings.Contains(out, "ao run "+tt.args[0]) {
				t.Fatalf("%d %s%s", code, out, errs)
			}
			lines := strings.Split(out, "\n")
			if at := strings.Index(lines[2], "the program"); at > 0 && at != strings.Index(lines[1], "what callers") {
				t.Errorf("its lines do not begin below each other:\n%s", out)
			}
			kind := strings.TrimPrefix(tt.args[1], "--")
			files, broken, err := agent.Load(filepath.Dir(tt.want), kind, func(agent.File) error { return nil })
			if err != nil || len(broken) > 0 || len(files) != 1 || files[0].Name != tt.args[0] ||
				files[0].Type != kind || kind == run.Autonomous && files[0].SystemPrompt == "" {
				t.Errorf("%+v %+v %v", files, broken, err)
			}
			if kind == run.Procedural {
				out, err := exec.Command("./"+filepath.Join(tt.want, tt.args[0]), "--text", "two words").Output()
				if string(out) != "{\"words\":2}\n" || err != nil {
					t.Errorf("its program prints %q, %v", out, err)
				}
			}
			before, _ := os.ReadFile(filepath.Join(tt.want, "agent.json"))
			_, errs, code = ao(t, "http://127.0.0.1:1", "", args...)
			after, _ := os.ReadFile(filepath.Join(tt.want, "agent.json"))
			if code != exitFailed || !strings.Contains(errs, tt.want+" already exists") ||
				string(after) != string(before) {
				t.Errorf("again: %d %s", code, errs)
			}
		})
	}
	for _, tt := range []struct{ args, want string }{
		{"four", "give --procedural or --autonomous"},
		{"four --procedural --autonomous", "use only one of"},
		{"--procedural", "the agent's name"},
		{"a/b --procedural", "use 1 to 60 letters"},
	} {
		args := append([]string{"agents", "new"}, strings.Fields(tt.args)...)
		_, errs, code := ao(t, "http://127.0.0.1:1", "", args...)
		if code != exitUsage || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: %d %s", tt.args, code, errs)
		}
	}
	t.Chdir(t.TempDir())
	if _, errs, code := ao(t, "http://127.0.0.1:1", "", "agents", "new", "x", "--procedural"); code != exitUsage ||
		!strings.Contains(errs, "name the folder of agents with --dir") {
		t.Errorf("without a folder: %d %s", code, errs)
	}
}
