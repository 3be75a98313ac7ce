//go:build compose

package compose

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/worker/claudecode/standin"
)

// The test program runs as the model's API in another container.
const standinEnv = "AO_TEST_STANDIN"

func TestMain(m *testing.M) {
	if addr := os.Getenv(standinEnv); addr != "" {
		fmt.Println(http.ListenAndServe(addr, http.HandlerFunc(messages)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// messages answers every request of the Messages API.
func messages(w http.ResponseWriter, r *http.Request) {
	var ask standin.Request
	if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" || json.NewDecoder(r.Body).Decode(&ask) != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if r.Header.Get("X-Api-Key") != secret {
		standin.Error(http.StatusUnauthorized, "authentication_error", "invalid x-api-key")(w, ask)
		return
	}
	standin.Text("said by the stand-in")(w, ask)
}

const secret = "sk-ant-stand-in"

// models: the services worker-llm and worker-claude call a simulated model API with the key from its file.
func models(t *testing.T, s *stack) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 10001, 10001); err != nil { // owned by the containers' user, as documented
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	t.Setenv("AO_ANTHROPIC_API_KEY_FILE", write("anthropic", secret+"\n"))
	t.Setenv("AO_LLM_API_KEY_FILE", write("llm", secret+"\n"))
	t.Setenv("AO_LLM_PROFILE", write("llm.json", `{"type":"autonomous","command":"ao-llm-exec",`+
		`"config":{"provider":"anthropic","base_url":"http://model:8080","model":"m","api_key_env":"AO_LLM_KEY"}}`))
	t.Setenv("ANTHROPIC_BASE_URL", "http://model:8080")
	t.Setenv("AO_TEST_WORKERS", "0")
	s.docker(t, "up", "-d", "--no-deps", "--no-build", "worker-test")
	if left := s.docker(t, "ps", "-q", "worker-test"); left != "" {
		t.Errorf("with AO_TEST_WORKERS=0 there is a worker of the profile test: %s", left)
	}
	s.standin(t)
	for _, tt := range []struct{ service, profile string }{{"worker-llm", "llm"}, {"worker-claude", "claude-code"}} {
		t.Run(tt.service, func(t *testing.T) {
			if tt.profile == "claude-code" {
				if _, err := os.Stat("../../bin/claude-code/claude"); err != nil {
					t.Skip("NOT TESTED: bin/claude-code/claude is not there; scripts/get-claude fetches it")
				}
			}
			s.docker(t, "--profile", strings.TrimSuffix(tt.profile, "-code"), "up", "-d", "--no-build", tt.service)
			s.until(t, 90*time.Second, tt.service+" is healthy", func() error {
				return checkContainer(s.docker(t, "--profile", strings.TrimSuffix(tt.profile, "-code"), "ps", "-q",
					tt.service))
			})
			agent := fmt.Sprintf(`{"name":"asked-by-%s","description":"asks","executor_profile":%q}`, tt.profile,
				tt.profile)
			cmd := exec.CommandContext(t.Context(), s.ao, "agents", "create", agent)
			cmd.Env = append(os.Environ(), "AO_URL="+s.http, "AO_TOKEN="+s.token)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			cmd = exec.CommandContext(t.Context(), s.ao, "run", "asked-by-"+tt.profile, "--prompt", "who says it?")
			cmd.Env = append(os.Environ(), "AO_URL="+s.http, "AO_TOKEN="+s.token)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "said by the stand-in") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// standin starts the simulated API in the stack's network under the name model.
func (s *stack) standin(t *testing.T) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	project := os.Getenv("COMPOSE_PROJECT_NAME")
	out, err := exec.Command("docker", "run", "-d", "--rm", "--network", project+"_default", "--network-alias", "model",
		"-e", standinEnv+"=:8080", "-v", program+":/standin:ro", "debian:bookworm-slim", "/standin").CombinedOutput()
	if err != nil {
		t.Fatalf("docker run: %v\n%s", err, out)
	}
	id := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("docker", "rm", "-f", id).CombinedOutput(); err != nil {
			t.Errorf("docker rm: %v\n%s", err, out)
		}
	})
}
