//go:build newcomer

package newcomer

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// expected has, for each line of the README's sections, what it prints. A line that is not here fails the test: say
// what its reader may expect.
var expected = map[string]string{
	"ao run hello --param name=you":                       "you",
	"ao run text-stats --param file=README.md":            "words",
	`ao run security-scanner --prompt "Look through src"`: "this answer is invented",
	"ao agents new word-count --procedural":               "word-count",
	`ao run word-count --param text="one two three"`:      "3",
}

// TestTheReadme: an empty folder, a clone, and the README's lines one after the other, up to an agent of one's own and
// a client.
func TestTheReadme(t *testing.T) {
	r := newReader(t)
	first := r.lines("README.md", "## 60 seconds")
	up := r.up(first[0])
	r.get("/", "<title>", time.Minute)
	for _, line := range append(first[1:], r.lines("README.md", "## An agent of your own")...) {
		switch {
		case strings.HasPrefix(line, "export PATH="):
			r.exports = append(r.exports, line)
		case strings.HasPrefix(line, "curl -s localhost:8765/runs"):
			r.run(line, `"status":"completed"`, 20*time.Second)
		case strings.HasPrefix(line, "nats request"):
			t.Run("nats", func(t *testing.T) {
				if _, err := exec.LookPath("nats"); err != nil {
					t.Skipf("SKIPPED: %s: the NATS command line is not installed", line)
				}
				sub := *r
				sub.t = t
				sub.run(line+" --server "+r.nats, `"status":"pending"`, 20*time.Second)
			})
		case line == "scripts/test":
			t.Logf("NOT RUN HERE: %s: CI does", line)
		case strings.Contains(line, "docker compose"): // TestTheReadmeWithDocker
		default:
			want, known := expected[line]
			if !known {
				t.Errorf("the README has a new line, and this test does not know what it prints: %s", line)
				continue
			}
			r.run(line, want, 20*time.Second)
		}
	}
	t.Run("clients", r.clients)

	up.interrupt() // the history stays
	r.up(first[0])
	r.run("ao runs", "word-count", 20*time.Second)
	r.run("ao verify", "", 20*time.Second)
}

// TestTheReadmeWithDocker: the README's lines for Docker, in a clone.
func TestTheReadmeWithDocker(t *testing.T) {
	if built, err := filepath.Abs("../../bin/docker-compose"); err == nil && exec.Command("docker", "compose",
		"version").Run() != nil { // scripts/get-compose has built one, or there is none
		t.Setenv("DOCKER_CONFIG", t.TempDir())
		plugins := filepath.Join(os.Getenv("DOCKER_CONFIG"), "cli-plugins")
		if err := os.Mkdir(plugins, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(built, filepath.Join(plugins, "docker-compose")); err != nil {
			t.Fatal(err)
		}
	}
	for _, need := range []string{"docker info", "docker compose version"} {
		if out, err := exec.Command("bash", "-c", need).CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: %s: %v: %.200s", need, err, out)
		}
	}
	r := newReader(t)
	port := func(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }
	r.env = append(r.env, "COMPOSE_PROJECT_NAME=ao-newcomer-"+port(r.http), "AO_HTTP_PORT="+port(r.http),
		"AO_NATS_PORT="+port(r.nats))
	if exec.Command("docker", "buildx", "version").Run() != nil {
		r.env = append(r.env, "DOCKER_BUILDKIT=0") // compose then builds with the engine's own builder
	}
	t.Cleanup(func() {
		away := exec.Command("docker", "compose", "down", "--volumes", "--rmi", "local", "--timeout", "5")
		away.Dir, away.Env = r.clone, r.env
		if out, err := away.CombinedOutput(); err != nil {
			t.Errorf("docker compose down: %v\n%s", err, out)
		}
	})
	ran := 0
	for _, line := range r.lines("README.md", "## 60 seconds") {
		switch {
		case !strings.Contains(line, "docker compose"):
			continue
		case strings.HasPrefix(line, "docker compose up"):
			r.run(line, "", 0)
		case strings.HasPrefix(line, "export AO_TOKEN="):
			r.exports = append(r.exports, line)
		default:
			r.run(line, "you", time.Minute)
		}
		ran++
	}
	if ran != 3 {
		t.Errorf("the README has %d lines for Docker, this test knows 3", ran)
	}
}

// program finds the first program of a client's page.
var program = regexp.MustCompile("(?s)```[a-z]+\n(.*?)\n```")

// clients follows the pages of the Go and the Python client, from folders beside the clone.
func (r *reader) clients(t *testing.T) {
	example := func(language, file string) string {
		page, err := os.ReadFile(filepath.Join(r.clone, "shared", "clients", language, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(r.folder, language)
		err = os.MkdirAll(dir, 0o755)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), program.FindSubmatch(page)[1], 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	dir := example("go", "main.go")
	edit := r.lines("shared/clients/go/README.md", "# Go client")[0]
	r.run("cd "+dir+" && go mod init example && "+edit, "", 0)
	r.run("cd "+dir+" && GOWORK=off go run .", "words", 0)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Log("SKIPPED: there is no python3 here")
		return
	}
	dir = example("python", "main.py")
	library := filepath.Join(r.clone, "shared", "clients", "python")
	r.run("cd "+dir+" && PYTHONPATH="+library+" python3 main.py", "words", 0)
}
