package browser

import (
	"os"
	"path/filepath"
	"testing"
)

// TestUnusedFile: an agent that was edited here names the file that it does not use, warns when that changes, and takes
// it.
func TestUnusedFile(t *testing.T) {
	t.Parallel()
	shipped := t.TempDir()
	if err := os.CopyFS(shipped, os.DirFS("../../worker/agents/autonomous")); err != nil {
		t.Fatal(err)
	}
	s := ownStack(t, "AO_AGENTS_SEED="+shipped)
	p := open(t, s, "/ui/agents/summarizer")
	p.fill("Description", "mine")
	p.click("Save")
	p.has("Its file is not used.")
	p.has(filepath.Join(shipped, "summarizer", "agent.json"))
	write := func(description string) {
		file := filepath.Join(shipped, "summarizer", "agent.json")
		text := []byte(`{"name":"summarizer","description":"` + description + `"}`)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("theirs")
	eventually(t, "the changed file is seen", func() bool {
		return member(t, member(t, s.call(t, "GET", "/agents/summarizer", "", 200), "unused_file"), "changed") == "true"
	})
	copied := open(t, s, "/ui/agents/summarizer") // what answers alone have is no part of a copy
	copied.has("Its file has changed, to no effect.")
	copied.menu("More actions", "Copy")
	copied.fill("Name", "summarizer-two")
	copied.click("Create")
	copied.shows("/ui/agents/summarizer-two")

	p.fill("Description", "mine again")
	p.until(`[...document.querySelectorAll(".banner button")].some((b) => ` +
		`b.title === "Save or discard the changes first")`)
	p.click("Save")
	p.has("summarizer is saved")
	p.click("Take the file")
	p.has("What was edited here is replaced by")
	p.click("Reset summarizer")
	p.until(at("Description") + `?.value === "theirs" && !document.querySelector(".banner")`)
	write("newer") // from now on the file is followed
	eventually(t, "the file's change is there", func() bool {
		return member(t, s.call(t, "GET", "/agents/summarizer", "", 200), "description") == `"newer"`
	})
}
