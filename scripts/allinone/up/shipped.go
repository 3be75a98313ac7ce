package up

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"

	"ao/shared/config"
	"ao/worker/agents"
	"ao/worker/profiles"
	worker "ao/worker/serve"
)

// embedded: without AO_PROFILES_DIR the embedded agents and profiles are used.
var embedded bool

// Embedded makes Main use an embedded NATS server, agents and profiles where the settings name no others.
func Embedded() {
	embedded = true
	if os.Getenv("AO_NATS_URL") == "" {
		os.Setenv("AO_NATS_URL", "embed")
	}
}

// useShipped writes the example agents and profiles into a data folder, as they are laid out in the repository, and has
// the worker use them.
func useShipped(data string, w *worker.Config) error {
	if err := config.PrivateDir(data); err != nil {
		return err
	}
	for name, files := range map[string]fs.FS{"agents": agents.Files, "profiles": profiles.Files} {
		if err := write(files, filepath.Join(data, "worker", name)); err != nil {
			return err
		}
	}
	w.ProfilesDir = filepath.Join(data, "worker/profiles")
	w.Profiles = shippedProfiles(w.Profiles)
	return nil
}

// shippedProfiles are the profiles of a worker: those it names, or the ones that need no model.
func shippedProfiles(named []string) []string {
	if len(named) == 0 {
		return []string{"procedural", "test"}
	}
	return named
}

// write writes files below dir, which only their owner can read: an edited copy may have secrets. Those that exist are
// closed to others as well. A script is executable.
func write(files fs.FS, dir string) error {
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return config.PrivateDir(to)
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if bytes.HasPrefix(text, []byte("#!")) {
			mode = 0o700
		}
		if old, err := os.ReadFile(to); err != nil || !bytes.Equal(old, text) {
			if err := os.WriteFile(to, text, mode); err != nil {
				return err
			}
		}
		return os.Chmod(to, mode)
	})
}
