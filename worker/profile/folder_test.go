package profile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAFolderThatChanges: a broken file keeps its last good definition. A missing one must be missed twice before its
// agent goes. A missing folder changes nothing.
func TestAFolderThatChanges(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "agents")
	put := func(name, text string) {
		t.Helper()
		write(t, filepath.Join(dir, name), text, 0o700)
	}
	put("run", "#!/bin/sh\n")
	put("a.json", `{"name":"a","command":"./run"}`)
	put("b/agent.json", `{"name":"b","command":"../run"}`)
	f := &Folder{Dir: dir}
	load := func(want string) {
		t.Helper()
		if err := f.Look(); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, a := range f.Agents() {
			got += a.Name + ":" + a.Description + " "
		}
		for _, b := range f.Broken {
			got += "!" + b.Name + " "
			if strings.Contains(got, b.Name+":") != strings.Contains(b.Reason, "last good") {
				t.Errorf("the reason of %s is %s", b.Name, b.Reason)
			}
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	load("a: b: ")
	put("a.json", `{"name":"a","description":"new","command":"./run"}`)
	load("a:new b: ")
	put("a.json", `{"name":"a","desc`)
	load("a:new b: !a ")
	put("a.json", `{"name":"a","description":"whole","command":"./later"}`)
	load("a:new b: !a ")
	put("later", "#!/bin/sh\n") // its definition's file is the same
	load("a:whole b: ")
	put("c.json", `{`)
	load("a:whole b: !c ")
	for _, name := range []string{"c.json", "b/agent.json"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	load("a:whole b: ")
	load("a:whole ")
	put("a.json", `{"name":"renamed","command":"./run"}`)
	load("renamed: ")
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := f.Look(); err == nil || len(f.Agents()) != 1 {
		t.Errorf("without its folder: %v, %d agents", err, len(f.Agents()))
	}
}
