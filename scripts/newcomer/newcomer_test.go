//go:build newcomer

package newcomer

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/scripts/rules"
)

// reader is somebody who has nothing but an empty folder, and the machine's programs.
type reader struct {
	t       *testing.T
	folder  string // empty at first
	clone   string
	http    string   // where scripts/up listens, in place of 127.0.0.1:8765
	nats    string   // in place of 127.0.0.1:4222
	env     []string // what keeps several stacks apart on one machine
	otlp    string   // in place of 127.0.0.1:4318; empty: that
	session string   // in place of ses_…
	exports []string // lines of before that set the shell's environment
}

// newReader clones the repository into an empty folder.
func newReader(t *testing.T) *reader {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, folder: t.TempDir(), http: natstest.FreeAddr(t), nats: natstest.FreeAddr(t)}
	r.clone = filepath.Join(r.folder, "agent-orchestrator")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AO_") && !strings.HasPrefix(v, "AGENT_ORCHESTRATOR_") {
			r.env = append(r.env, v)
		}
	}
	r.env = append(r.env, "AO_HTTP_ADDR="+r.http, "AO_NATS_LISTEN="+r.nats, "AO_URL=http://"+r.http,
		"AO_NATS_URL=", "RUN_LEASE=5s")
	if out, err := exec.Command("git", "clone", "-q", root, r.clone).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: this folder cannot be cloned: %v\n%s", err, out)
	}
	return r
}

// page reads a page.
func (r *reader) page(path string) string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.clone, path))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// commands returns the commands of a section.
func (r *reader) commands(path, heading string) (all []rules.Command) {
	r.t.Helper()
	page := filepath.Base(path)
	for _, c := range rules.Commands(page, r.page(path)) {
		if c.Section == page+" "+heading {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		r.t.Fatalf("section %q of %s has no commands to run", heading, path)
	}
	return all
}

// lines returns the commands of a section as texts.
func (r *reader) lines(path, heading string) (all []string) {
	r.t.Helper()
	for _, c := range r.commands(path, heading) {
		all = append(all, c.Text)
	}
	return all
}

// command returns a line as a command in a shell of the clone, at this reader's addresses.
func (r *reader) command(line string) *exec.Cmd {
	_, port, _ := strings.Cut(r.nats, ":")
	line = strings.NewReplacer("localhost:8765", r.http, "127.0.0.1:8765", r.http, "-p 4222", "-p "+port,
		"127.0.0.1:4318", cmp.Or(r.otlp, "127.0.0.1:4318"), "ses_…", cmp.Or(r.session, "ses_…")).Replace(line)
	c := exec.CommandContext(r.t.Context(), "bash", "-c", strings.Join(append(slices.Clone(r.exports), "exec "+line),
		"\n"))
	if strings.ContainsAny(line, "&|;(") || strings.Contains(strings.Split(line, " ")[0], "=") {
		c.Args[2] = strings.Join(append(slices.Clone(r.exports), line), "\n")
	}
	c.Dir, c.Env = r.clone, r.env
	return c
}

// run runs a line until it succeeds and prints what is expected, for at most limit.
func (r *reader) run(line, want string, limit time.Duration) {
	r.t.Helper()
	var out []byte
	var err error
	if !natstest.Poll(limit, func() bool {
		out, err = r.command(line).CombinedOutput()
		return err == nil && bytes.Contains(out, []byte(want))
	}) {
		r.t.Fatalf("%s: %v; want %q, it printed\n%s", line, err, want, out)
	}
}

// process is a line that runs until Ctrl-C.
type process struct {
	t    *testing.T
	line string
	cmd  *exec.Cmd
	log  string // file of its output
	done chan error
}

// start runs a line in a terminal of its own.
func (r *reader) start(line string) *process {
	r.t.Helper()
	p := &process{t: r.t, line: line, cmd: r.command(line), done: make(chan error, 1)}
	log, err := os.CreateTemp(r.folder, "terminal-")
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	p.log = log.Name()
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return nil } // the clean-up ends it
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	r.t.Cleanup(func() {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		if r.t.Failed() {
			text, _ := os.ReadFile(p.log)
			r.t.Logf("--- %s\n%s", line, text[max(0, len(text)-4000):])
		}
	})
	return p
}

// interrupt presses Ctrl-C and waits for the end.
func (p *process) interrupt() {
	p.t.Helper()
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT)
	select {
	case <-p.done:
	case <-time.After(45 * time.Second):
		p.t.Fatalf("%s does not end with Ctrl-C", p.line)
	}
}

// up runs scripts/up until its pages are there. The first time compiles, which takes a minute or two.
func (r *reader) up(line string) *process {
	r.t.Helper()
	p := r.start(line)
	r.get("/ready", "", 5*time.Minute)
	return p
}

// get reads a page, as a browser does, until it has a text.
func (r *reader) get(path, want string, limit time.Duration) (last string) {
	r.t.Helper()
	if !natstest.Poll(limit, func() bool {
		req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.http+path, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html,*/*")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			last = err.Error()
			return false
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		last = fmt.Sprint(res.Status, " ", string(body))
		return res.StatusCode == 200 && strings.Contains(last, want)
	}) {
		r.t.Fatalf("GET %s: want %q, got %.2000s", path, want, last)
	}
	return last
}
