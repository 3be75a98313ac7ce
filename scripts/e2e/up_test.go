package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ao/nats/natstest"
)

// TestAoUp: a program alone, in an empty folder, starts the whole system with the example agents. Agents that
// 'ao agents new' makes work at once, and examples that were damaged are whole again after a restart.
func TestAoUp(t *testing.T) {
	t.Parallel()
	buildAoWithUp(t)
	dir, addr := t.TempDir(), natstest.FreeAddr(t)
	s := &stack{t: t, dir: dir, url: "http://" + addr}
	s.env = []string{"AO_URL=" + s.url, "AO_HTTP_ADDR=" + addr, "AO_NATS_LISTEN=none", "AO_DATA_DIR=", "AO_PROFILES=",
		"AO_PROFILES_DIR=", "AO_NATS_URL="}
	p := launch(t, "ao-with-up", dir, s.env, "up")
	s.until("it is ready", func() bool { return s.get("/ready").code == 200 })
	s.private(".ao")
	out, errs, code := s.exec("ao-with-up", "", nil, "run", "hello", "--param", "name=you")
	if code != 0 || !strings.Contains(out, "Hello, you!") {
		t.Errorf("hello: %d %s%s", code, out, errs)
	}
	s.has(s.post("/runs", `{"agent_name":"summarizer","prompt":"x","mode":"sync"}`), 200, `"completed"`)
	for _, args := range []string{"mine --procedural", "thinker --autonomous"} {
		out, errs, code := s.exec("ao-with-up", "", nil, append([]string{"agents", "new"}, strings.Fields(args)...)...)
		if code != 0 {
			t.Errorf("agents new %s: %d %s%s", args, code, out, errs)
		}
	}
	s.until("the autonomous agent is read", func() bool { return s.get("/agents/thinker").code == 200 })
	s.until("the procedural agent is read", func() bool { return s.get("/agents/mine").code == 200 })
	s.has(s.sync("mine", `{"text":"one two three"}`), 200, `"words":3`)
	s.has(s.post("/runs", `{"agent_name":"thinker","prompt":"x","mode":"sync"}`), 200, `"answer"`)

	s.write("theirs/poet/agent.json", `{"name":"poet","description":"d","hooks":{},"tags":["x"]}`)
	s.write("theirs/poet/agent.system-prompt.md", "You rhyme.")
	s.write("theirs/poet/agent.mcp.json", `{"mcpServers":{"o":{"type":"http","url":"${runner.orchestrator_mcp_url}"}}}`)
	out, errs, code = s.exec("ao-with-up", "", nil, "agents", "import", "theirs")
	if code != 0 || out != "poet: imported\n  left out: hooks\n" {
		t.Errorf("an agent of the original: %d %s%s", code, out, errs)
	}
	s.has(s.get("/agents/poet"), 200, `"system_prompt":"You rhyme."`, `${AGENT_ORCHESTRATOR_MCP_URL}`)
	s.has(s.post("/runs", `{"agent_name":"poet","prompt":"x","mode":"sync"}`), 200, `"completed"`)

	p.stop()
	s.write(".ao/worker/agents/procedural/hello/hello", "#!/bin/sh\nexit 9\n")
	for _, open := range []string{".ao", ".ao/worker", ".ao/worker/agents/procedural/hello"} { // as earlier versions
		if err := os.Chmod(filepath.Join(dir, open), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.start()
	s.until("it is ready again", func() bool { return s.get("/ready").code == 200 })
	s.private(".ao/worker/agents/procedural/hello")
	if info, err := os.Stat(filepath.Join(dir, ".ao")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data folder of an earlier version: %v %v", info.Mode(), err)
	}
	s.has(s.sync("mine", `{"text":"one two three"}`), 200, `"words":3`)
	s.has(s.sync("hello", `{}`), 200, "Hello, world!")
	p.stop()
	if code := p.ends(s); code != 0 {
		t.Errorf("it ended with %d: %s", code, p.log.String())
	}
	for _, server := range []string{"up", "worker"} {
		_, errs, code := s.exec("ao", "", nil, server)
		if code != 1 || !strings.Contains(errs, "contains no servers") {
			t.Errorf("%s of an ao without servers: %d %s", server, code, errs)
		}
	}
}

// aoWithUp builds ao with servers once; it is ao-with-up in bin.
var aoWithUp sync.Mutex

func buildAoWithUp(t *testing.T) {
	t.Helper()
	aoWithUp.Lock()
	defer aoWithUp.Unlock()
	at := filepath.Join(bin, "ao-with-up")
	if _, err := os.Stat(at); err == nil {
		return
	}
	programs := t.TempDir()
	buildProgram(t, programs, "./scripts/allinone/ao")
	if err := os.Rename(filepath.Join(programs, "ao"), at); err != nil {
		t.Fatal(err)
	}
}

// TestAoWorker: a worker beside 'ao up', started as the dashboard says, is a runner of its own. So is a second one. The
// profiles are those of a checkout, or the examples.
func TestAoWorker(t *testing.T) {
	t.Parallel()
	buildAoWithUp(t)
	dir, addr, nats := t.TempDir(), natstest.FreeAddr(t), natstest.FreeAddr(t)
	s := &stack{t: t, dir: dir, url: "http://" + addr}
	s.env = []string{"AO_URL=" + s.url, "AO_HTTP_ADDR=" + addr, "AO_NATS_LISTEN=" + nats, "AO_DATA_DIR=",
		"AO_PROFILES=", "AO_PROFILES_DIR=", "AO_NATS_URL=", "AO_HOSTNAME="}
	launch(t, "ao-with-up", dir, s.env, "up")
	s.until("it is ready", func() bool { return s.get("/ready").code == 200 })
	another := func(start func()) (host string) {
		known := s.onlineHosts()
		start()
		s.until("the worker is a runner of its own", func() bool {
			for _, h := range s.onlineHosts() {
				if !slices.Contains(known, h) {
					host = h
				}
			}
			return host != ""
		})
		return host
	}
	worker := func(dir string, args ...string) string {
		return another(func() {
			args := append([]string{"worker", "--nats-url", "nats://" + nats}, args...)
			launch(t, "ao-with-up", dir, s.env, args...)
		})
	}
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if host := worker(dir, "-x", "test"); !strings.HasPrefix(host, here+"-") {
			t.Errorf("the worker is called %s", host)
		}
	}

	// as the dashboard prints it, in a checkout; the sleep ends when the test says so
	checkout := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(checkout, "bin"), 0o755),
		os.Symlink(filepath.Join(bin, "ao-with-up"), filepath.Join(checkout, "bin/ao"))); err != nil {
		t.Fatal(err)
	}
	sh := exec.Command("bash", "-c", "sleep() { read -r; }\nPATH=bin:$PATH ao worker -x test --nats-url nats://"+nats+
		" & sleep 12; kill -9 $!")
	var log lockedBuffer
	sh.Dir, sh.Env, sh.Stdout, sh.Stderr = checkout, append(os.Environ(), s.env...), &log, &log
	enter, err := sh.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	sh.SysProcAttr, sh.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, 30*time.Second
	another(func() {
		if err := sh.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Kill(-sh.Process.Pid, syscall.SIGKILL) })
	})
	_ = enter.Close()
	if err := sh.Wait(); err != nil || strings.Contains(log.String(), "shutting down") { // also its output has ended
		t.Errorf("the worker was not killed: %v\n%s", err, log.String())
	}

	empty := t.TempDir()
	host := worker(empty, "--project-dir", dir, "--data-dir", "mine")
	s.has(s.post("/runs", `{"agent_name":"hello","mode":"sync","additional_demands":{"hostname":"`+host+`"}}`), 200,
		`"completed"`)
	s.private(".ao")
	if _, err := os.Stat(filepath.Join(empty, "mine/worker/profiles")); err != nil {
		t.Errorf("--data-dir is not where the examples are: %v", err)
	}
	checkout = t.TempDir()
	profiles := stack{t: t, dir: checkout}
	profiles.write("worker/profiles/mine.json", `{"type":"autonomous","command":"ao-test-exec"}`)
	host = worker(checkout, "-x", "mine")
	s.has(s.post("/runs", `{"agent_name":"summarizer","prompt":"x","mode":"sync","additional_demands":{"hostname":"`+
		host+`","executor_profile":"mine"}}`), 200, `"completed"`)
	if _, err := os.Stat(filepath.Join(checkout, ".ao")); err == nil {
		t.Error("a worker in a checkout has written the examples")
	}
}

// onlineHosts returns the hostnames of online runners.
func (s *stack) onlineHosts() (hosts []string) {
	s.t.Helper()
	var list struct {
		Runners []struct{ Status, Hostname string }
	}
	if err := json.Unmarshal([]byte(s.get("/runners").text), &list); err != nil {
		s.t.Fatal(err)
	}
	for _, r := range list.Runners {
		if r.Status == "online" {
			hosts = append(hosts, r.Hostname)
		}
	}
	return hosts
}

// private checks that only the owner can read what is in a folder. What NATS itself writes is in a private folder.
func (s *stack) private(dir string) {
	s.t.Helper()
	err := filepath.WalkDir(filepath.Join(s.dir, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it was replaced meanwhile
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			s.t.Errorf("%s has mode %v", path, info.Mode())
		}
		if d.Name() == "nats" {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}
