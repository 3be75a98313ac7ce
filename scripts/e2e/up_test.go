package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/nats/natstest"
)

// TestAoUp: a program alone, in an empty folder, starts the whole system with the example agents. Agents that
// 'ao agents new' makes work at once, and examples that were damaged are whole again after a restart.
func TestAoUp(t *testing.T) {
	t.Parallel()
	programs, dir, addr := t.TempDir(), t.TempDir(), natstest.FreeAddr(t)
	buildProgram(t, programs, "./scripts/allinone/ao")
	if err := os.Rename(filepath.Join(programs, "ao"), filepath.Join(bin, "ao-with-up")); err != nil {
		t.Fatal(err)
	}
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
	if _, errs, code := s.exec("ao", "", nil, "up"); code != 1 || !strings.Contains(errs, "contains no servers") {
		t.Errorf("an ao without servers: %d %s", code, errs)
	}
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
