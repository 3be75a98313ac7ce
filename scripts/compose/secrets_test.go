//go:build compose

package compose

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/worker/process/prowl"
)

// prying has an agent look for the worker's credential and for a model's key in all that it can read, over restarts of its container. Where
// nothing is hidden it finds both, and the doctor says so.
func prying(t *testing.T, s *stack) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	agent := filepath.Join(dir, "intruder")
	if err := os.Mkdir(agent, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(agent, "intruder"), "ao/scripts/compose/intruder")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	put("intruder/agent.json", `{"name":"intruder","description":"looks for secrets","command":"./intruder","timeout_seconds":300,"parameters_schema":{"type":"object"}}`)
	t.Setenv("AO_LLM_API_KEY_FILE", put("llm", secret+"\n"))
	more := put("override.yml", fmt.Sprintf(`services:
  worker-procedural:
    environment: {AO_LLM_KEY_FILE: /run/secrets/llm_api_key}
    secrets: [llm_api_key]
    volumes: ["%s:/etc/ao/agents/procedural/intruder:ro"]
`, agent))
	t.Setenv("COMPOSE_FILE", os.Getenv("COMPOSE_FILE")+":"+more)

	search := func(what string) (found string) {
		t.Helper()
		var r result
		s.until(t, 2*time.Minute, what+": the intruder has run", func() error {
			return s.post(t.Context(), "", map[string]any{"agent_name": "intruder", "mode": "sync"}, &r)
		})
		r.check(t)
		var loot prowl.Loot
		if err := json.Unmarshal(r.Result.Data, &loot); err != nil || loot.Files < 500 || loot.Processes < 2 {
			t.Errorf("%s: the intruder looked at %d files and %d processes: %v\n%s", what, loot.Files, loot.Processes, err, r.Result.Data)
		}
		return strings.Join(loot.Found, " ")
	}
	doctor := func() string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), s.ao, "doctor")
		cmd.Env = append(os.Environ(), "AO_URL="+s.http, "AO_TOKEN="+s.token)
		out, _ := cmd.CombinedOutput() // its exit code is about this machine, too
		return string(out)
	}
	up := func() {
		t.Helper()
		s.docker(t, "up", "-d", "--no-build", "--scale", "worker-procedural=1", "worker-procedural")
		s.until(t, time.Minute, "the worker is healthy", func() error { return sound(s.docker(t, "ps", "-q", "worker-procedural")) })
		// A runner that was in a backup is online until RUNNER_STALE_THRESHOLD, two minutes.
		s.until(t, 3*time.Minute, "one runner is online", func() error { return s.online(1) })
	}

	t.Setenv("AO_HIDE", "")
	up()
	if found := search("nothing is hidden"); !strings.Contains(found, "/keys/worker/nats.nk") || !strings.Contains(found, "/run/secrets/llm_api_key") {
		t.Errorf("where nothing is hidden the intruder should find the credential and the key, found %q", found)
	}
	if out := doctor(); !strings.Contains(out, "worker-secrets") {
		t.Errorf("where nothing is hidden the doctor should say so:\n%s", out)
	}
	os.Unsetenv("AO_HIDE") // restored by Setenv's cleanup
	up()
	for i := range 2 {
		if found := search(fmt.Sprintf("restart %d", i)); found != "" {
			t.Errorf("after %d restarts the intruder finds secrets in %s", i, found)
		}
		if out, err := exec.Command("docker", "restart", "-t", "30", s.docker(t, "ps", "-q", "worker-procedural")).CombinedOutput(); err != nil {
			t.Fatalf("docker restart: %v\n%s", err, out)
		}
		s.until(t, time.Minute, "the worker is healthy again", func() error { return sound(s.docker(t, "ps", "-q", "worker-procedural")) })
	}
	if out := doctor(); strings.Contains(out, "worker-secrets") {
		t.Errorf("where all is hidden the doctor says\n%s", out)
	}
}
