package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/nats/natstest"
)

// A backup of a busy deployment is restored elsewhere: ended runs are history, waiting ones run once, running ones
// fail, and later ones are unknown.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	if onCluster {
		t.Skip("a cluster is restored by nats/backup's own test")
	}
	first := natstest.Proc(t)
	s := upOn(t, first.URL())
	gate := filepath.Join(s.dir, "gate")
	starts := filepath.Join(s.dir, "begun")
	agents := func(s *stack) {
		s.agent("quick", `echo '{"quick":true}'`, "")
		s.agent("held", `echo "$AGENT_ORCHESTRATOR_RUN_ID" >>`+starts+`; while [ ! -e `+gate+
			` ]; do sleep 0.1; done; echo '{"held":true}'`, "")
	}
	agents(s)
	w := s.worker()
	ended := s.run(`{"agent_name":"quick"}`)
	s.status(ended, "completed")
	var under, waiting []string
	for range 8 { // its slots
		under = append(under, s.run(`{"agent_name":"held"}`))
	}
	for _, id := range under {
		s.status(id, "running")
	}
	for range 3 {
		waiting = append(waiting, s.run(`{"agent_name":"held"}`))
	}
	file := filepath.Join(s.dir, "all.backup")
	// left by an interrupted backup: its mode is not kept
	if err := os.WriteFile(file+".part", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	on := func(nats string) []string { return []string{"AO_NATS_URL=" + nats} }
	if out, errs, code := s.exec("ao", "", on(first.URL()), "backup", file); code != 0 ||
		!strings.Contains(out, "RUNS") {
		t.Fatalf("ao backup: exit code %d\n%s%s", code, out, errs)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup: %v, %v; want mode 0600, it holds secrets", info, err)
	}
	if _, errs, code := s.exec("ao", "", on(first.URL()), "backup", file); code != 2 ||
		!strings.Contains(errs, "already") {
		t.Errorf("over another backup: exit code %d, %s", code, errs)
	}
	late := s.run(`{"agent_name":"quick"}`)
	w.kill()
	s.coordinator.kill()
	first.Kill()

	second := natstest.Proc(t)
	if out, errs, code := s.exec("ao", "", on(second.URL()), "restore", file); code != 0 ||
		!strings.Contains(out, "RUNS") {
		t.Fatalf("ao restore: exit code %d\n%s%s", code, out, errs)
	}
	if _, errs, code := s.exec("ao", "", on(second.URL()), "restore", file); code != 1 ||
		!strings.Contains(errs, "NATS already has a stream INBOX") {
		t.Errorf("restored once more: exit code %d, %s", code, errs)
	}
	old, err := os.ReadFile(starts)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The coordinator keeps its old folder, with a snapshot of another history.
	r := upOn(t, second.URL(), "AO_DATA_DIR="+filepath.Join(s.dir, "data"))
	agents(r)
	r.worker()
	if got := r.get("/runs/" + ended + "/result").text; !strings.Contains(got, `"quick":true`) {
		t.Errorf("the result of before: %s", got)
	}
	for _, id := range under {
		if got := r.ended(id); got.at("error.error") != "runner_disconnected" {
			t.Errorf("a run that was under way: %s", got.text)
		}
	}
	for _, id := range waiting {
		if got := r.ended(id); got.at("status") != "completed" {
			t.Errorf("a run that waited: %s", got.text)
		}
	}
	if got := r.get("/runs/" + late); got.code != 404 {
		t.Errorf("a run that was accepted after the backup: %d %s", got.code, got.text)
	}
	text, err := os.ReadFile(starts)
	if err != nil {
		t.Fatal(err)
	}
	since := strings.TrimPrefix(string(text), string(old))
	for _, id := range waiting {
		if n := strings.Count(since, id); n != 1 {
			t.Errorf("run %s was started %d times since", id, n)
		}
	}
	for _, id := range under {
		if strings.Contains(since, id) {
			t.Errorf("run %s, which was under way, was started once more", id)
		}
	}
	r.status(r.run(`{"agent_name":"quick"}`), "completed")
	if out, errs, code := r.ao("verify"); code != 0 {
		t.Errorf("ao verify: exit code %d\n%s%s", code, out, errs)
	}
}
