package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadFile: links count within the folder alone, and what is no file is refused at once.
func TestReadFile(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "key")
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(out, []byte("SECRET"), 0o600), os.WriteFile(at("a"), []byte("text"), 0o600),
		os.Symlink(out, at("out")), os.Symlink("../../../../../../../../../"+out, at("up")),
		os.Symlink(filepath.Dir(out), at("folder")), os.Symlink("a", at("in")), os.Symlink("round", at("round")),
		syscall.Mkfifo(at("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, want string }{
		{"a", "text"}, {"in", "text"}, {"out", "out: " + ErrLinkOut.Error()}, {"up", "up: " + ErrLinkOut.Error()},
		{"folder/key", "folder/key: " + ErrLinkOut.Error()}, {"pipe", "pipe must be a file of at most 5 bytes"},
		{".", "must be a file of"}, {"missing", "no such file"}, {"round", "too many"},
	} {
		text, _, err := ReadFile(dir, at(tt.name), 5)
		got := string(text)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) || strings.Contains(got, "SECRET") {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if _, _, err := ReadFile(dir, at("a"), 3); err == nil {
		t.Error("a file that is too large is read")
	}
}
