package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Folders returns the folders in which a path of a file in dir may be. They are dir, that of this program, and where it
// was started. Runs may write to the last, so no bare name is looked up there.
func Folders(path, dir string) []string {
	if filepath.IsAbs(path) {
		return []string{""}
	}
	all := []string{dir}
	if self, err := os.Executable(); err == nil {
		all = append(all, filepath.Dir(self))
	}
	if here, err := os.Getwd(); err == nil && strings.Contains(path, "/") {
		all = append(all, here)
	}
	return all
}

// Locate returns where the path of a file in dir exists: in the first of Folders with it, or in dir if none has it.
func Locate(path, dir string) string {
	folders := Folders(path, dir)
	for _, f := range folders {
		at := filepath.Join(f, path)
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			return at
		}
	}
	return filepath.Join(folders[0], path)
}
