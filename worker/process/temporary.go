package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// empties are folders for temporary files that nothing was left in, for further programs: on a disk where others sync, making one
// and removing it again can take longer than a program's start.
var empties struct {
	mu   sync.Mutex
	dirs []string
}

// maxEmpties is how many of them are kept.
const maxEmpties = 64

// temporary gives an empty folder for a program's temporary files. The guard of this process knows it by its name.
func temporary() (string, error) {
	for dir := spare(); dir != ""; dir = spare() {
		info, err := os.Lstat(dir)
		if err == nil && info.Mode() == fs.ModeDir|0o700 && filepath.Dir(dir) == filepath.Clean(os.TempDir()) {
			return dir, nil
		}
		remove(dir)
	}
	dir, err := os.MkdirTemp("", temporaryPrefix())
	if err != nil {
		return "", fmt.Errorf("no folder for its temporary files can be made: %w; let TMPDIR of the worker be a folder with room that it may write to", err)
	}
	return dir, nil
}

func temporaryPrefix() string { return "ao-" + instance() + "-" }

func spare() (dir string) {
	empties.mu.Lock()
	defer empties.mu.Unlock()
	if n := len(empties.dirs); n > 0 {
		dir, empties.dirs = empties.dirs[n-1], empties.dirs[:n-1]
	}
	return dir
}

// discard ends the use of a folder: with all that is in it, it goes.
func discard(dir string) {
	if info, err := os.Lstat(dir); err == nil && info.IsDir() { // and no pipe that the program has put there, which would be waited for
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
	empties.mu.Lock()
	defer empties.mu.Unlock()
	if len(empties.dirs) >= maxEmpties {
		return false
	}
	empties.dirs = append(empties.dirs, dir)
	return true
}

// Tidy removes the folders for temporary files that no program uses.
func Tidy() {
	for dir := spare(); dir != ""; dir = spare() {
		remove(dir)
	}
}

// remove removes a folder with all that is in it, also what the program has made unwritable.
func remove(dir string) {
	if err := os.RemoveAll(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(p, 0o700) // called before its entries are read
		}
		return nil
	})
	os.RemoveAll(dir)
}
