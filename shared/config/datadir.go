package config

import (
	"io/fs"
	"os"
)

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
