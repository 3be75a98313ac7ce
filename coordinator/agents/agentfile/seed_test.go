package agentfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestSeed: shipped files reach the copy, and what a user changed in the copy stays.
func TestSeed(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "agents")
	s := Seed{From: from, To: to}
	ship := func(at, text string) { put(t, filepath.Join(from, at), text) }
	mine := func(at, text string) { put(t, filepath.Join(to, at), text) }
	sync := func(changed ...string) {
		t.Helper()
		got, _, err := s.Sync(t.Context())
		if err != nil || !slices.Equal(got, changed) {
			t.Errorf("changed %v %v, want %v", got, err, changed)
		}
	}
	has := func(want ...string) {
		t.Helper()
		var got []string
		_ = filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
			if at, _ := filepath.Rel(to, path); err == nil && !d.IsDir() && !strings.HasPrefix(at, ".ao") {
				got = append(got, at+"="+read(t, path))
			}
			return nil
		})
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("the copy has %q, want %q", got, want)
		}
	}
	ship("README.md", "no agent")
	ship("a/agent.json", "a1")
	ship("a/agent.system-prompt.md", "p1")
	ship("b/agent.json", "b1")
	ship("c.json", "c1")
	ship("d/agent.json", "d1")
	mine("b/agent.json", "my own b")
	sync("a", "c.json", "d")
	has("a/agent.json=a1", "a/agent.system-prompt.md=p1", "b/agent.json=my own b", "c.json=c1", "d/agent.json=d1")
	sync()

	// The user changes one and deletes one; a new version changes all, has no prompt, and a new agent.
	mine("c.json", "mine")
	if err := os.RemoveAll(filepath.Join(to, "d")); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"a/agent.json", "b/agent.json", "c.json", "d/agent.json", "e/agent.json"} {
		ship(at, "2")
	}
	if err := os.Remove(filepath.Join(from, "a/agent.system-prompt.md")); err != nil {
		t.Fatal(err)
	}
	sync("a", "e")
	has("a/agent.json=2", "b/agent.json=my own b", "c.json=mine", "e/agent.json=2")
	sync()

	// What is no longer shipped goes, unless the user has made it his.
	mine("e/notes.txt", "mine")
	for _, at := range []string{"a", "c.json", "e"} {
		if err := os.RemoveAll(filepath.Join(from, at)); err != nil {
			t.Fatal(err)
		}
	}
	sync("a")
	has("b/agent.json=my own b", "c.json=mine", "e/agent.json=2", "e/notes.txt=mine")

	// A copy that was cut off by a crash is finished.
	ship("f/agent.json", "f1")
	sync("f")
	n, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	n.Writing = "f"
	if err := s.write(n); err != nil {
		t.Fatal(err)
	}
	mine("f/agent.json", "half")
	ship("f/agent.json", "f2")
	sync("f")
	mine("f/agent.json", "mine")
	sync()

	// A folder that cannot be read changes nothing.
	s.From = filepath.Join(from, "none")
	if _, _, err := s.Sync(t.Context()); err == nil {
		t.Error("a folder that is not there is no error")
	}
	has("b/agent.json=my own b", "c.json=mine", "e/agent.json=2", "e/notes.txt=mine", "f/agent.json=mine")
}

// TestSeedOfWhatIsNoFile: an agent.json that is a folder or a pipe is named, its copy stays, and others are copied.
func TestSeedOfWhatIsNoFile(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "agents")
	put(t, filepath.Join(from, "a/agent.json"), "a1")
	s := Seed{From: from, To: to}
	if _, _, err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(from, "b/agent.json"), "b1")
	for _, name := range []string{"a", "pipe"} {
		at := filepath.Join(from, name, "agent.json")
		err := os.RemoveAll(filepath.Dir(at))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(at), 0o755)
		}
		switch {
		case err != nil:
		case name == "a":
			err = os.Mkdir(at, 0o755)
		default:
			err = syscall.Mkfifo(at, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	changed, _, err := s.Sync(t.Context())
	if !slices.Equal(changed, []string{"b"}) || err == nil || !strings.Contains(err.Error(), "agent a ") ||
		!strings.Contains(err.Error(), "agent pipe ") {
		t.Errorf("changed %v, %v", changed, err)
	}
	if read(t, filepath.Join(to, "a/agent.json")) != "a1" {
		t.Error("the copy of a is gone")
	}
}
