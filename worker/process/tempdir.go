package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// emptyDirs are unused folders for temporary files. Making and removing one can take longer than a program's start on
// a disk where others sync.
var emptyDirs struct {
	mu   sync.Mutex
	dirs []string
}

// maxEmptyDirs is how many of them are kept.
const maxEmptyDirs = 64

// newTempDir returns an empty folder for a program's temporary files. This process's guard finds it by its name.
func newTempDir() (string, error) {
	for dir := takeEmptyDir(); dir != ""; dir = takeEmptyDir() {
		info, err := os.Lstat(dir)
		if err == nil && info.Mode() == fs.ModeDir|0o700 && filepath.Dir(dir) == filepath.Clean(os.TempDir()) {
			return dir, nil
		}
		remove(dir)
	}
	dir, err := os.MkdirTemp("", tempPrefix())
	if err != nil {
		return "",
			fmt.Errorf("cannot create its folder for temporary files: %w; set the worker's TMPDIR to a writable "+
				"folder with free space", err)
	}
	return dir, nil
}

func tempPrefix() string { return "ao-" + instance() + "-" }

func takeEmptyDir() (dir string) {
	emptyDirs.mu.Lock()
	defer emptyDirs.mu.Unlock()
	if n := len(emptyDirs.dirs); n > 0 {
		dir, emptyDirs.dirs = emptyDirs.dirs[n-1], emptyDirs.dirs[:n-1]
	}
	return dir
}

// releaseTempDir empties or removes a folder after use.
func releaseTempDir(dir string) {
	// not a pipe that the program put there, which would block
	if info, err := os.Lstat(dir); err == nil && info.IsDir() {
		if f, err := os.Open(dir); err == nil {
			names, _ := f.Readdirnames(1)
			f.Close()
			if len(names) == 0 && keepEmpty(dir) {
				return
			}
		}
	}
	remove(dir)
}

func keepEmpty(dir string) bool {
	emptyDirs.mu.Lock()
	defer emptyDirs.mu.Unlock()
	if len(emptyDirs.dirs) >= maxEmptyDirs {
		return false
	}
	emptyDirs.dirs = append(emptyDirs.dirs, dir)
	return true
}

// RemoveTempDirs removes the unused folders for temporary files.
func RemoveTempDirs() {
	for dir := takeEmptyDir(); dir != ""; dir = takeEmptyDir() {
		remove(dir)
	}
}

// remove removes a folder and its contents, also if the program made them unwritable.
func remove(dir string) {
	if err := os.RemoveAll(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(p, 0o700) // before its entries are read
		}
		return nil
	})
	os.RemoveAll(dir)
}
