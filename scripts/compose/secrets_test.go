//go:build compose

package compose

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/coordinator/health"
	"ao/worker/process/secretsearch"
)

// checkSecrets: 'ao doctor' reports no failure for a new stack.
func checkSecrets(t *testing.T, s *stack) {
	cmd := exec.CommandContext(t.Context(), s.ao, "doctor", "--json")
	cmd.Env = append(os.Environ(), "AO_URL="+s.http, "AO_TOKEN="+s.token)
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("ao doctor: %v", err)
	}
	var report struct{ Checks []health.Result }
	if err := json.Unmarshal(out, &report); err != nil || len(report.Checks) < 10 {
		t.Fatalf("ao doctor --json: %v\n%s", err, out)
	}
	for _, f := range report.Checks {
		// the disk usage of this machine does not matter
		if f.Verdict != health.OK && f.Verdict != health.Skip && f.Check != "disk" {
			t.Errorf("ao doctor: %+v", f)
		}
	}
	if !slices.ContainsFunc(report.Checks, func(f health.Result) bool { return f.Check == "nats-staging" }) {
		t.Error("ao doctor does not say how to find out where NATS stages batches")
	}
}

// counter is an agent's program that is mounted, not built into the image.
const counter = `#!/bin/sh
case $1 in
  --file) file=$2 ;;
  --file=*) file=./${1#--file=} ;;
esac
echo "counting $file" >&2
words=$(wc -w < "$file") || exit 1
echo "$words words"
`

// checkUnreadable runs an agent that searches all readable files for the worker's credential, a model's key and files
// of settings, also after restarts. Without AO_HIDE it finds them, and 'ao doctor' fails. AO_AGENTS mounts the agent.
func checkUnreadable(t *testing.T, s *stack) {
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	agents := filepath.Join(dir, "agents")
	if err := os.CopyFS(agents, os.DirFS("../../worker/agents")); err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(agents, "procedural/intruder")
	if err := os.Mkdir(agent, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AO_AGENTS", agents)
	t.Setenv("AO_FILES", filepath.Dir(put("files/ca.key", secret+"\n", 0o644)))
	build := exec.Command("go", "build", "-o", filepath.Join(agent, "intruder"), "ao/scripts/compose/intruder")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	put("agents/procedural/intruder/agent.json", `{"name":"intruder","description":"looks for secrets",`+
		`"command":"./intruder","timeout_seconds":300,"parameters_schema":{"type":"object"}}`, 0o644)
	t.Setenv("AO_LLM_API_KEY_FILE", put("llm", secret+"\n", 0o644))
	more := put("override.yml", `services:
  worker-procedural:
    environment: {AO_LLM_KEY_FILE: /run/secrets/llm_api_key}
    secrets: [llm_api_key]
`, 0o644)
	t.Setenv("COMPOSE_FILE", os.Getenv("COMPOSE_FILE")+":"+more)

	search := func(what string) (found string) {
		t.Helper()
		var r result
		s.until(t, 2*time.Minute, what+": the intruder has run", func() error {
			return s.post(t.Context(), "", map[string]any{"agent_name": "intruder", "mode": "sync"}, &r)
		})
		r.check(t)
		var loot secretsearch.Findings
		if err := json.Unmarshal(r.Result.Data, &loot); err != nil || loot.Files < 500 || loot.Processes < 2 {
			t.Errorf("%s: the intruder looked at %d files and %d processes: %v\n%s", what, loot.Files, loot.Processes,
				err, r.Result.Data)
		}
		return strings.Join(loot.Found, " ")
	}
	doctor := func() string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), s.ao, "doctor")
		cmd.Env = append(os.Environ(), "AO_URL="+s.http, "AO_TOKEN="+s.token)
		out, _ := cmd.CombinedOutput() // the exit code also depends on this machine
		return string(out)
	}
	up := func() {
		t.Helper()
		s.docker(t, "up", "-d", "--no-build", "--scale", "worker-procedural=1", "worker-procedural")
		s.until(t, time.Minute, "the worker is healthy",
			func() error { return checkContainer(s.docker(t, "ps", "-q", "worker-procedural")) })
		s.until(t, 3*time.Minute, // a runner restored from the backup is online until RUNNER_STALE_THRESHOLD
			"one runner is online", func() error { return s.online(1) })
	}

	t.Setenv("AO_HIDE", "")
	up()
	if found := search("nothing is hidden"); !strings.Contains(found, "/keys/worker/nats.nk") ||
		!strings.Contains(found, "/run/secrets/llm_api_key") || !strings.Contains(found, "/files/ca.key") {
		t.Errorf("where nothing is hidden the intruder should find the credential, the key and the file, found %q",
			found)
	}
	if out := doctor(); !strings.Contains(out, "worker-secrets") {
		t.Errorf("where nothing is hidden the doctor should say so:\n%s", out)
	}
	os.Unsetenv("AO_HIDE") // restored by Setenv's cleanup
	up()
	put("agents/procedural/word-count/agent.json",
		`{"name":"word-count","description":"Counts words","command":"./word-count",
 "parameters_schema":{"type":"object","required":["file"],"properties":{"file":{"type":"string"}}}}`, 0o644)
	put("agents/procedural/word-count/word-count", counter, 0o755)
	for i := range 2 {
		if found := search(fmt.Sprintf("restart %d", i)); found != "" {
			t.Errorf("after %d restarts the intruder finds secrets in %s", i, found)
		}
		if out, err := exec.Command("docker", "restart", "-t", "30",
			s.docker(t, "ps", "-q", "worker-procedural")).CombinedOutput(); err != nil {
			t.Fatalf("docker restart: %v\n%s", err, out)
		}
		s.until(t, time.Minute, "the worker is healthy again",
			func() error { return checkContainer(s.docker(t, "ps", "-q", "worker-procedural")) })
	}
	var r result
	s.until(t, time.Minute, "the agent that was put into AO_AGENTS is there", func() error {
		return s.post(t.Context(), "", map[string]any{"agent_name": "word-count", "parameters": map[string]any{
			"file": story}, "mode": "sync"}, &r)
	})
	if r.check(t); !strings.Contains(string(r.Result.Data), "9 words") {
		t.Errorf("word-count says %s, want 9 words", r.Result.Data)
	}
	if out, err := s.try("exec", "-T", "worker-procedural", "sh", "-c",
		"touch /etc/ao/agents/x || touch /etc/ao/profiles/x || touch /files/x"); err == nil {
		t.Errorf("a container writes to the folders of its host: %s", out)
	}
	if out := doctor(); strings.Contains(out, "worker-secrets") {
		t.Errorf("where all is hidden the doctor says\n%s", out)
	}
}
