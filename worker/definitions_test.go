package worker

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/shared/runnerapi"
	"ao/worker/profile"
)

// TestOlderDefinitions: an older definition is served until a coordinator says that no run carries it, and at least for
// a minute. One whose program is gone is no longer served. Too many of them leave the definitions as they are.
func TestOlderDefinitions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	define := func(program string) (hash string) {
		t.Helper()
		write(program, "#!/bin/sh\n")
		write("a.json", `{"name":"a","command":"./`+program+`"}`)
		agents, _, err := profile.Agents(dir)
		if err != nil {
			t.Fatal(err)
		}
		return agents[0].Hash()
	}
	one := define("one")
	d, err := newDefinitions(profile.Profile{AgentsDir: dir}, natstest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	two := define("two-")
	d.look()
	three := define("three")
	d.look()
	for hash, program := range map[string]string{one: "one", two: "two-", three: "three", "": "three"} {
		if got, ok := d.serves("a", hash); !ok || got != filepath.Join(dir, program) {
			t.Errorf("%s is served with %s, %v", program, got, ok)
		}
	}
	r, _ := d.describe(runnerapi.Runner{}, true)
	if r.Older() != 2 || !r.Updates || r.Agents[0].Hash() != three {
		t.Errorf("announced %+v", r)
	}

	d.dropUnused([]string{one})
	if _, ok := d.serves("a", one); !ok {
		t.Error("a definition of a moment ago was dropped")
	}
	d.keep = 0
	d.dropUnused([]string{one})
	if _, ok := d.serves("a", one); ok {
		t.Error("an unused definition was kept")
	}
	if err := os.Remove(filepath.Join(dir, "two-")); err != nil {
		t.Fatal(err)
	}
	d.look()
	if _, ok := d.serves("a", two); !ok {
		t.Error("a definition was dropped whose program may be being replaced")
	}
	d.look()
	if _, ok := d.serves("a", two); ok {
		t.Error("a definition without its program is served")
	}

	d.maxOlder = 0
	define("four")
	d.look()
	r, _ = d.describe(runnerapi.Runner{}, true)
	if r.Agents[0].Hash() != three || len(r.Broken) != 1 || r.Broken[0].Path != dir {
		t.Errorf("with too many older ones: %+v", r)
	}
}

// TestAnnouncementsPause: a failure delays the next announcement, and a refused part is announced again in a minute.
func TestAnnouncementsPause(t *testing.T) {
	t.Parallel()
	d := fixedDefinitions(nil)
	_, state := d.describe(runnerapi.Runner{}, true)
	if !d.due(state) {
		t.Error("what was never announced is not due")
	}
	if !d.failed(os.ErrDeadlineExceeded) || d.failed(os.ErrDeadlineExceeded) || d.due(state) {
		t.Error("a failure is no reason to wait, or logged twice")
	}
	d.accepted(state, runnerapi.Registered{Updates: true})
	d.notBefore = time.Time{}
	if d.due(state) || !d.due(state+"changed") {
		t.Error("what was accepted is due, or what changed is not")
	}
	d.accepted(state, runnerapi.Registered{Updates: true, Refused: map[string]string{"x": "taken"}})
	d.again = d.again.Add(-announceAgain)
	if !d.due(state) {
		t.Error("what was refused is not due in a minute")
	}
}
