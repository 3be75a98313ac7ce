package agentfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/strictjson"
)

// made is a folder with one agent in it.
func made(t *testing.T, path, text string) (dir, at string) {
	t.Helper()
	dir = t.TempDir()
	at = filepath.Join(dir, path)
	put(t, at, text)
	return dir, at
}

func put(t *testing.T, at, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, at string) string {
	t.Helper()
	raw, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func described(text string) []strictjson.Member {
	raw, _ := strictjson.Encode(text)
	return []strictjson.Member{{Key: "description", Value: raw}}
}

func anything(agent.Blueprint) error { return nil }

// What an editor writes while a change is made is not lost: the change is applied again.
func TestConcurrentEditIsKept(t *testing.T) {
	dir, at := made(t, "x/agent.json", `{"name":"x","tags":["old"]}`)
	edits := 0
	_, err := Change(t.Context(), dir, at, described("d"), Check{After: anything, Before: func(agent.Blueprint) error {
		if edits++; edits == 1 {
			put(t, at, `{"name":"x","tags":["new"]}`)
		}
		return nil
	}})
	if got := read(t, at); err != nil || got != `{"name":"x","tags":["new"],"description":"d"}` || edits != 2 {
		t.Errorf("%v, after %d edits got %s", err, edits, got)
	}
	_, err = Change(t.Context(), dir, at, described("e"), Check{After: anything, Before: func(agent.Blueprint) error {
		edits++
		put(t, at, fmt.Sprintf(`{"name":"x","tags":["%d"]}`, edits))
		return nil
	}})
	if fault.KindOf(err) != fault.Conflict || edits != 2+tries {
		t.Errorf("an editor without a pause: %v after %d edits", err, edits)
	}
	put(t, at, `{"name":"x",`)
	_, err = Change(t.Context(), dir, at, described("e"), Check{anything, anything})
	if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "fix the file") {
		t.Errorf("half a file: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "x", ".*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// If the temporary file cannot be written, nothing changes.
func TestFailedTemporaryFileChangesNothing(t *testing.T) {
	dir, at := made(t, strings.Repeat("x", 245)+".json", `{"name":"x"}`)
	if _, err := Change(t.Context(), dir, at, described("d"), Check{anything, anything}); err == nil ||
		fault.KindOf(err) == fault.Internal {
		t.Errorf("got %v", err)
	}
	if got := read(t, at); got != `{"name":"x"}` {
		t.Errorf("it holds %s", got)
	}
}

// If the second file cannot be put in place, the first one is restored.
func TestTwoFilesChangeTogether(t *testing.T) {
	dir, at := made(t, "x/agent.json", `{"name":"x"}`)
	put(t, agent.PromptPath(at), "old")
	old, err := agent.ReadFiles(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	writes := []write{{root: root, path: "x/agent.system-prompt.md", old: old.Prompt, next: []byte("new")},
		{root: root, path: "x/agent.json", old: old.JSON, next: []byte("{}")}}
	for i := range writes {
		if err := writes[i].stage(); err != nil {
			t.Fatal(err)
		}
	}
	root.Remove(writes[1].temporary)
	if err := commit(writes); err == nil {
		t.Fatal("it is committed")
	}
	if now, err := agent.ReadFiles(dir, at); err != nil || string(now.Prompt) != "old" ||
		string(now.JSON) != `{"name":"x"}` {
		t.Errorf("%s, %s, %v", now.JSON, now.Prompt, err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	for err, want := range map[error]struct {
		kind fault.Kind
		say  string
	}{
		&fs.PathError{Op: "write", Path: "p", Err: syscall.ENOSPC}: {fault.Unavailable,
			"its disk is full; nothing was changed"},
		&fs.PathError{Op: "write", Path: "p", Err: syscall.EDQUOT}: {fault.Unavailable, "its disk is full"},
		&fs.PathError{Op: "open", Path: "p", Err: syscall.EACCES}:  {fault.Conflict, "may not write there"},
		&fs.PathError{Op: "open", Path: "p", Err: syscall.EROFS}:   {fault.Conflict, "may not write there"},
		&fs.PathError{Op: "open", Path: "p", Err: syscall.ENOENT}:  {fault.Conflict, "no longer exists"},
		&fs.PathError{Op: "open", Path: "p", Err: syscall.EIO}: {fault.Unavailable,
			"file system returned an error"},
	} {
		got := explain(err, "/a/x.json")
		if fault.KindOf(got) != want.kind || !strings.Contains(fault.Of(got).Message, want.say) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// A lock of another process is waited for, at most for as long as the caller waits.
func TestALockIsWaitedFor(t *testing.T) {
	dir, at := made(t, "x.json", `{"name":"x"}`)
	release, err := lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := Change(t.Context(), dir, at, described("d"), Check{anything, anything})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	var b agent.Blueprint
	if json.Unmarshal([]byte(read(t, at)), &b) != nil || b.Description != "d" {
		t.Errorf("%+v", b)
	}
}

// What a process left that died while it wrote is removed by the next change. A recent file belongs to another process,
// and stays.
func TestLeftoversAreRemoved(t *testing.T) {
	dir, at := made(t, "x.json", `{"name":"x"}`)
	old, fresh := filepath.Join(dir, ".x.json.ao-1"), filepath.Join(dir, ".x.json.ao-2")
	put(t, old, "half")
	put(t, fresh, "half")
	past := time.Now().Add(-2 * staleAfter)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	if _, err := Change(t.Context(), dir, at, described("d"), Check{anything, anything}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the old one: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("the fresh one: %v", err)
	}
}

// TestALinkLeadsNoWriteElsewhere: a folder that becomes a link after it was looked at.
func TestALinkLeadsNoWriteElsewhere(t *testing.T) {
	dir, at := made(t, "x/agent.json", `{"name":"x"}`)
	elsewhere := t.TempDir()
	old, err := agent.ReadFiles(dir, at)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Dir(at)), os.Symlink(elsewhere, filepath.Dir(at))); err != nil {
		t.Fatal(err)
	}
	if done, err := swap(dir, old, agent.Files{Path: at, JSON: []byte(`{}`)}); done || err == nil {
		t.Errorf("done %v, %v", done, err)
	}
	if left, _ := os.ReadDir(elsewhere); len(left) > 0 {
		t.Errorf("it wrote %v", left)
	}
}
