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

// PrivateDir makes a folder that only its owner may enter, since it has secrets: a data folder, or a copy of agents.
// One that exists is closed to others, if it is ours and not shared by design, as /tmp is. 'ao doctor' names one that
// stays open.
func PrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	const others fs.FileMode = 0o077
	if err == nil && info.Mode()&fs.ModeSticky == 0 && info.Mode()&others != 0 {
		_ = os.Chmod(dir, info.Mode()&^others)
	}
	return err
}
