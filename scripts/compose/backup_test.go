//go:build compose

package compose

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// restored makes a backup, removes everything including volumes, and restores it.
func restored(t *testing.T, s *stack) {
	var waits result
	err := s.post(t.Context(), "", map[string]any{"agent_name": "text-stats", "parameters": map[string]any{
		"file": story}, "additional_demands": map[string]any{"tags": []string{"later"}}}, &waits)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "all.backup")
	script(t, "backup", file)
	s.docker(t, "down", "--volumes", "--timeout", "30")
	script(t, "restore", file)
	s.docker(t, "up", "-d", "--no-build")
	s.keys(t)
	s.until(t, time.Minute, "/ready says 200", func() error { return s.get("/ready", nil) })
	if err := s.completed(s.first); err != nil {
		t.Errorf("the first run, after everything was made anew: %v", err)
	}
	var r result
	if err := s.get("/runs/"+waits.RunID, &r); err != nil || r.Status != "pending" {
		t.Errorf("the run that waited is %q, %v; want pending", r.Status, err)
	}
	s.until(t, time.Minute, "a runner is online", func() error {
		if s.online(1) == nil {
			return nil
		}
		return s.get("/agents/text-stats", nil)
	})
	s.writeStory(t)
	id, err := s.createRun(t.Context(), "restored")
	if err != nil {
		t.Fatal(err)
	}
	s.until(t, time.Minute, "a new run completes", func() error { return s.completed(id) })
	s.verify(t)
}

func script(t *testing.T, name, file string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "scripts/"+name, file)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("scripts/%s: %w\n%s", name, err, out))
	}
}
