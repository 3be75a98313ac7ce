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
	`ao run security-scanner --prompt "Look through src"`: "",
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
			if _, err := exec.LookPath("nats"); err != nil {
				t.Logf("SKIPPED: %s: nats is not installed", line)
				continue
			}
			r.run(line+" --server "+r.nats, `"status":"pending"`, 20*time.Second)
		case line == "scripts/test", strings.Contains(line, "docker compose"):
			t.Logf("NOT RUN HERE: %s", line) // CI does, and TestTheReadmeWithDocker
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
