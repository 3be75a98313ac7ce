//go:build compose

package compose

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// restored makes a backup while callers start runs, removes everything including volumes, and restores it.
func restored(t *testing.T, s *stack) {
	var waits result
	err := s.post(t.Context(), "", map[string]any{"agent_name": "text-stats", "parameters": map[string]any{
		"file": story}, "additional_demands": map[string]any{"tags": []string{"later"}}}, &waits)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "all.backup")
	lines := documentedLines(t, "## Back up and restore", "    ")
	l := s.load(t)
	l.more("before the backup")
	before := l.runs()
	s.line(t, lines[0], file) // scripts/backup
	l.more("after the backup")
	l.settle("a backup")
	s.docker(t, "down", "--volumes", "--timeout", "30")
	s.line(t, lines[2], file) // scripts/restore, and the coordinator
	s.keys(t)
	s.until(t, time.Minute, "/ready says 200", func() error { return s.get("/ready", nil) })
	if out := s.line(t, lines[3], ""); !strings.Contains(out, waits.RunID) {
		t.Errorf("%s: it printed\n%s", lines[3], out)
	}
	s.line(t, lines[4], "") // the rest, and ao verify
	if err := s.completed(s.first); err != nil {
		t.Errorf("the first run, after everything was recreated: %v", err)
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
	s.kept(t, before)
	id, err := s.createRun(t.Context(), "restored")
	if err != nil {
		t.Fatal(err)
	}
	s.until(t, time.Minute, "a new run completes", func() error { return s.completed(id) })
	s.verify(t)
}

// kept checks that these runs are there and ended. One that was in progress when the backup began has failed.
func (s *stack) kept(t *testing.T, runs map[string]string) {
	t.Helper()
	for _, id := range runs {
		s.until(t, time.Minute, "run "+id+" has ended", func() error {
			err := s.completed(id)
			if err != nil && strings.Contains(err.Error(), "runner_disconnected") {
				t.Logf("run %s was in progress when the backup began", id)
				return nil
			}
			return err
		})
	}
	t.Logf("%d runs of before the backup have ended", len(runs))
}
