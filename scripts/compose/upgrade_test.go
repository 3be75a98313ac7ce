//go:build compose

package compose

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// upgraded runs the lines of "Upgrade without loss" as they are written, while callers start runs. Other limits of
// memory stand for another version: every container is replaced, and nothing is compiled.
func upgraded(t *testing.T, s *stack) {
	services := []string{"nats", "coordinator", "worker-procedural", "worker-test"}
	old := map[string]string{}
	for _, service := range services {
		old[service] = s.docker(t, "ps", "-q", service)
	}
	for _, limit := range []string{"AO_NATS_MEMORY", "AO_COORDINATOR_MEMORY", "AO_WORKER_MEMORY"} {
		t.Setenv(limit, "1900m")
	}
	l := s.load(t)
	l.more("before the upgrade")
	for _, line := range documentedLines(t, "## Upgrade without loss", "    ") {
		if strings.HasPrefix(line, "export ") { // scripts/compose-test has set the same
			continue
		}
		if rest, pulls := strings.CutPrefix(line, "docker compose pull nats && "); pulls {
			t.Log("NOT RUN: docker compose pull nats: there may be no registry here")
			line = rest
		}
		s.line(t, line, "")
		l.more("after " + line)
	}
	for _, service := range services {
		if s.docker(t, "ps", "-q", service) == old[service] {
			t.Errorf("%s was not replaced", service)
		}
	}
	l.settle("the documented upgrade")
	s.until(t, time.Minute, "three runners are online again", func() error { return s.online(3) })
	s.verify(t)
}

// comment is what a line says after its command.
var comment = regexp.MustCompile(`\s{2,}# .*$`)

// documentedLines returns the lines of a section of operating.md that begin with a prefix, without that and their
// comments. Of a line of prose it is what stands in backquotes first.
func documentedLines(t *testing.T, heading, prefix string) (all []string) {
	t.Helper()
	page, err := os.ReadFile("../../shared/docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), prefix)
		if !ok {
			continue
		}
		if strings.TrimSpace(prefix) != "" {
			_, rest, _ = strings.Cut(rest, "`")
			rest, _, _ = strings.Cut(rest, "`")
		}
		all = append(all, comment.ReplaceAllString(rest, ""))
	}
	if len(all) == 0 {
		t.Fatalf("section %q of operating.md has no line that begins with %q", heading, prefix)
	}
	return all
}

// line runs a line of the documentation in the repository, with a file in place of FILE, and returns what it prints.
func (s *stack) line(t *testing.T, line, file string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	line = strings.NewReplacer("docker compose", strings.Join(s.compose, " "), " run --rm ", " run --rm -T ", "FILE",
		file).Replace(line) // there is no terminal here
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(s.ao)+":"+os.Getenv("PATH"), "AO_URL="+s.http,
		"AO_TOKEN="+s.token)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}
