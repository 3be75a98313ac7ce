//go:build compose

// Package compose tests the stacks that scripts/compose-test has started from the compose files.
package compose

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// stack is the running compose project.
type stack struct {
	compose []string // docker compose, or docker-compose
	http    string   // base URL of the coordinator
	nats    string
	ao      string // path of the command line
	first   string // id of the first run, which must survive everything
	token   string // with scope admin
	creds   string // file of a publisher's NATS credential
	inbox   string // inbox prefix of that publisher
}

// The steps depend on each other, so the first failure ends the test.
func TestStack(t *testing.T) {
	if os.Getenv("AO_TEST_COMPOSE") == "" {
		t.Fatal("AO_TEST_COMPOSE is not set: start this by scripts/compose-test, which brings the stack up")
	}
	s := open(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T, *stack)
	}{
		{"it becomes ready", ready},
		{"NATS stores what fits on its disk", stored},
		{"NATS puts batches aside in memory", remembered},
		{"keys and tokens are made once", checkInitOnce},
		{"who shows nothing gets nothing", checkUnauthenticated},
		{"nobody is root, the root file system is read-only, and there are limits", checkConfined},
		{"images and programs show their version", versioned},
		{"a run over HTTP", overHTTP},
		{"a run by the ao command", byCommand},
		{"the doctor on its host warns of nothing", checkSecrets},
		{"a run over NATS", overNATS},
		{"three workers share the agents", scaled},
		{"a rolling restart of each service loses nothing", rolling},
		{"the documented upgrade refuses nobody and loses nothing", upgraded},
		{"NATS is killed while batches come, and nothing is lost", killed},
		{"the history outlives the containers", recreated},
		{"a backup outlives everything", restored},
		{"agents of one's own are mounted, and no program of a run reads a secret", checkUnreadable},
		{"agents by models", models},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, s) }) {
			return
		}
	}
}

const (
	story = "story.txt" // in the workers' workspace
	text  = "the quick brown fox\njumps over\nthe lazy dog\n"
)

// open finds the running stack and builds the command line.
func open(t *testing.T) *stack {
	t.Helper()
	s := &stack{
		compose: strings.Fields(os.Getenv("AO_TEST_COMPOSE")),
		http:    "http://127.0.0.1:" + os.Getenv("AO_HTTP_PORT"),
		nats:    "nats://127.0.0.1:" + os.Getenv("AO_NATS_PORT"),
		ao:      filepath.Join(t.TempDir(), "ao"),
		creds:   filepath.Join(t.TempDir(), "nats.nk"),
	}
	stamp := "-X ao/shared/version.stamp=" + os.Getenv("AO_VERSION")
	if out, err := exec.Command("go", "build", "-ldflags", stamp, "-o", s.ao,
		"ao/coordinator/cmd/ao").CombinedOutput(); err != nil {
		t.Fatalf("go build ao: %v\n%s", err, out)
	}
	s.keys(t)
	return s
}

func ready(t *testing.T, s *stack) {
	s.until(t, time.Minute, "/ready says 200", func() error { return s.get("/ready", nil) })
	s.until(t, time.Minute, "a runner is online", func() error { return s.online(1) })
	s.until(t, time.Minute, "text-stats is announced", func() error { return s.get("/agents/text-stats", nil) })
	s.writeStory(t)
	s.until(t, time.Minute, "an autonomous agent is served, and the result says that it is invented", func() error {
		var r struct {
			Result struct {
				Note string `json:"note"`
			} `json:"result"`
		}
		err := s.post(t.Context(), "", map[string]any{"agent_name": "security-scanner", "prompt": "x",
			"mode": "sync"}, &r)
		if err == nil && r.Result.Note == "" {
			err = errors.New("the result has no note")
		}
		return err
	})
}

// writeStory writes the story into the workers' workspace.
func (s *stack) writeStory(t *testing.T) {
	t.Helper()
	s.docker(t, "exec", "-T", "worker-procedural", "sh", "-c", fmt.Sprintf("printf %%s '%s' >%s", text, story))
}

// result is the part of a run's answer that the tests read.
type result struct {
	RunID  string `json:"run_id"`
	Status string `json:"status"`
	Result struct {
		Data json.RawMessage `json:"result_data"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
}

func (r result) check(t *testing.T) {
	t.Helper()
	if r.Status != "completed" {
		t.Fatalf("run %s is %s, want completed; error %s", r.RunID, r.Status, r.Error)
	}
}

func overHTTP(t *testing.T, s *stack) {
	var r result
	if err := s.post(t.Context(), "", map[string]any{"agent_name": "text-stats", "parameters": map[string]any{
		"file": story}, "mode": "sync"}, &r); err != nil {
		t.Fatal(err)
	}
	r.check(t)
	if !bytes.Contains(r.Result.Data, []byte("9")) { // words
		t.Errorf("result_data is %s, want 9 words somewhere", r.Result.Data)
	}
	s.first = r.RunID
	err := s.post(t.Context(), "", map[string]any{"agent_name": "text-stats", "parameters": map[string]any{
		"fail": story}}, nil)
	if err == nil || !strings.Contains(err.Error(), "parameter_validation_failed") {
		t.Errorf("a wrong parameter: got %v, want parameter_validation_failed", err)
	}
}

func byCommand(t *testing.T, s *stack) {
	// the latter is the first documented example and is part of the image
	for _, file := range []string{story, "README.md"} {
		cmd := exec.CommandContext(t.Context(), s.ao, "run", "text-stats", "--param", "file="+file)
		cmd.Env = append(os.Environ(), "AO_URL="+s.http, "AO_TOKEN="+s.token)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	if out := s.docker(t, "exec", "-T", "-e", "AO_TOKEN="+s.token, "coordinator", "ao", "agents"); !strings.Contains(
		out, "text-stats") {
		t.Errorf("ao agents inside the container says %q, want text-stats in it", out)
	}
}

// versioned: programs and images have the version given by scripts/compose-test.
func versioned(t *testing.T, s *stack) {
	version, revision := os.Getenv("AO_VERSION"), os.Getenv("AO_REVISION")
	for service, program := range map[string]string{"coordinator": "coordinator", "worker-procedural": "worker"} {
		if out := s.docker(t, "exec", "-T", service, program, "--version"); !strings.HasPrefix(out, program+" "+version+
			" (") {
			t.Errorf("%s --version: %s, want %s", program, out, version)
		}
		const labels = `{{index .Config.Labels "org.opencontainers.image.version"}} {{index .Config.Labels ` +
			`"org.opencontainers.image.revision"}}`
		out, err := exec.Command("docker", "inspect", "-f", labels, s.docker(t, "ps", "-q", service)).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != version+" "+revision {
			t.Errorf("the image of %s is labelled %s (%v), want %s %s", service, got, err, version, revision)
		}
	}
}

func overNATS(t *testing.T, s *stack) {
	nc := s.publisher(t)
	body := fmt.Sprintf(`{"agent_name":"text-stats","parameters":{"file":%q}}`, story)
	answer, err := nc.Request("ao.api.runs.create", []byte(body), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(answer.Data, &r); err != nil || answer.Header.Get("status") != "201" {
		t.Fatalf("status %q, body %s", answer.Header.Get("status"), answer.Data)
	}
	s.until(t, 30*time.Second, "its run completes", func() error { return s.completed(r.RunID) })
}

func scaled(t *testing.T, s *stack) {
	s.line(t, documentedLines(t, "## Scale out", "- **Workers**: ")[0], "")
	s.until(t, time.Minute, "three runners are online", func() error { return s.online(3) })
	var list struct {
		Agents []struct {
			Name string `json:"name"`
		} `json:"agents"`
	}
	if err := s.get("/agents", &list); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, a := range list.Agents {
		count[a.Name]++
	}
	if count["text-stats"] != 1 || slices.Max(slices.Collect(maps.Values(count))) != 1 {
		t.Errorf("agents by name: %v, want each once", count)
	}
	took := map[string]int{}
	s.until(t, time.Minute, "each of them has taken a run", func() error {
		var r struct {
			RunID    string `json:"run_id"`
			RunnerID string `json:"runner_id"`
		}
		accepted := result{}
		if err := s.post(t.Context(), "", map[string]any{"agent_name": "text-stats", "parameters": map[string]any{
			"file": story}, "mode": "sync"}, &accepted); err != nil {
			return err
		}
		if err := s.get("/runs/"+accepted.RunID, &r); err != nil {
			return err
		}
		if took[r.RunnerID]++; len(took) < 3 {
			return fmt.Errorf("runs by runner: %v", took)
		}
		return nil
	})
}

// rolling restarts one service after the other under load.
func rolling(t *testing.T, s *stack) {
	l := s.load(t)
	l.more("before any restart")
	containers := strings.Fields(s.docker(t, "ps", "-q", "worker-procedural"))
	if len(containers) != 3 {
		t.Fatalf("%d worker containers, want 3", len(containers))
	}
	if out, err := exec.Command("docker", "restart", "-t", "30", containers[0]).CombinedOutput(); err != nil {
		t.Fatalf("docker restart: %v\n%s", err, out)
	}
	l.more("after a worker's restart")
	for _, service := range []string{"coordinator", "nats"} {
		s.docker(t, "restart", "-t", "30", service)
		l.more("after the restart of " + service)
	}
	l.settle("three restarts")
	s.until(t, time.Minute, "three runners are online again", func() error { return s.online(3) })
	s.verify(t)
}

func recreated(t *testing.T, s *stack) {
	s.docker(t, "down", "--timeout", "30")
	s.docker(t, "up", "-d", "--no-build")
	s.until(t, time.Minute, "/ready says 200", func() error { return s.get("/ready", nil) })
	if err := s.completed(s.first); err != nil {
		t.Errorf("the first run, after all containers were recreated: %v", err)
	}
	s.until(t, time.Minute, "a new run completes", func() error {
		id, err := s.createRun(t.Context(), "after")
		if err != nil {
			return err
		}
		return s.completed(id)
	})
}

func (s *stack) completed(id string) error {
	var r result
	if err := s.get("/runs/"+id, &r); err != nil {
		return err
	}
	if r.Status != "completed" {
		return fmt.Errorf("run %s is %s, error %s", id, r.Status, r.Error)
	}
	return nil
}

// online reports whether so many runners are online, without that of the profile test.
func (s *stack) online(want int) error {
	var list struct {
		Runners []struct {
			RunnerID string `json:"runner_id"`
			Profile  string `json:"executor_profile"`
			Status   string `json:"status"`
		} `json:"runners"`
	}
	if err := s.get("/runners", &list); err != nil {
		return err
	}
	got := 0
	for _, r := range list.Runners {
		if r.Status == "online" && r.Profile != "test" {
			got++
		}
	}
	if got != want {
		return fmt.Errorf("%d online: %+v", got, list.Runners)
	}
	return nil
}

// refusal is an HTTP answer with an error status.
type refusal struct {
	code int
	body string
}

func (r refusal) Error() string { return fmt.Sprintf("%d %s", r.code, r.body) }

func (s *stack) get(path string, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.http+path, nil)
	if err != nil {
		return err
	}
	return s.do(req, into)
}

func (s *stack) post(ctx context.Context, key string, run map[string]any, into any) error {
	body, err := json.Marshal(run)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.http+"/runs", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return s.do(req, into)
}

func (s *stack) do(req *http.Request, into any) error {
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 300:
		return refusal{resp.StatusCode, string(body)}
	case into == nil:
		return nil
	}
	return json.Unmarshal(body, into)
}

// docker runs a compose command on the stack and returns its output.
func (s *stack) docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.try(args...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out
}

func (s *stack) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	args = append(s.compose[1:len(s.compose):len(s.compose)], args...)
	cmd := exec.CommandContext(ctx, s.compose[0], args...)
	cmd.Dir = "../.."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%w: %s", err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// until polls every 100 ms and fails with the last error at the limit.
func (s *stack) until(t *testing.T, limit time.Duration, what string, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return
		}
		if !pause(ctx, 100*time.Millisecond) {
			t.Fatalf("not within %s: %s; last: %v", limit, what, err)
		}
	}
}

// pause waits; false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
