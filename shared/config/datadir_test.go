package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestPrivateDir: a new folder is private, an open one is closed, one that many share stays.
func TestPrivateDir(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for name, tt := range map[string]struct{ before, after fs.FileMode }{
		"new": {0, 0o700}, "open": {0o755, 0o700}, "group's": {0o770 | fs.ModeSetgid, 0o700 | fs.ModeSetgid},
		"shared": {0o777 | fs.ModeSticky, 0o777 | fs.ModeSticky}, "private": {0o700, 0o700},
	} {
		dir := filepath.Join(top, name)
		if tt.before != 0 {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, tt.before); err != nil {
				t.Fatal(err)
			}
		}
		if err := PrivateDir(dir); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode()&^fs.ModeDir != tt.after {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, tt.after)
		}
	}
}
