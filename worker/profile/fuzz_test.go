package profile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ao/shared/executor"
)

// FuzzRead: a profile's file is refused by its name and a reason, or all its methods work.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../a"}`,
		`{"type":"autonomous","command":"./x","lifecycle":"persistent","idle_seconds":5,"max_sessions":9,"env":["A"]}`,
		`{"type":"autonomous","command":"x","limits":{"cpu_seconds":1,"open_files":9},"sandbox":{"kind":"bubblewrap",` +
			`"read":["/"],"hide":["~/.ssh"],"network":false}}`,
		`{"type":"autonomous","command":"x","sandbox":"none"}`, `{"type":"autonomous","command":"x","sandbox":[]}`,
		`{"limits":{"memory_mb":1e99}}`, `{`,
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(filepath.Join(dir, "p.json"), raw, 0o600); err != nil {
			t.Skip(err)
		}
		p, err := Read(dir, "p")
		if err != nil {
			if err.Error() == "" || errors.Is(err, os.ErrNotExist) {
				t.Errorf("refused by %v", err)
			}
			return
		}
		RunEnv(p.BaseEnv(func(string) (string, bool) {
			return "", false
		}), executor.Invocation{SessionID: "ses_1", RunID: "run_1"})
		if c := p.Confinement(); c.Sandbox.HasNetwork() != p.Sandbox.HasNetwork() ||
			p.BuiltIn() != (p.BuiltIn() && p.Type == "autonomous") {
			t.Errorf("%s is read as %+v", raw, p)
		}
	})
}
