package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// before is the release whose programs must work beside the current ones: in one deployment, on one history, with one
// folder of keys.
const before = "073a48ecea07ec2fdc9edf49e8ff134aee8397e8"

// A version is a prefix of program names, as in launch(t, old+"worker", …).
const (
	today = ""
	old   = "before" + string(filepath.Separator)
)

// withOld builds the programs of the old release. It skips the test if the clone lacks that commit.
func withOld(t testing.TB) {
	t.Helper()
	if onCluster {
		t.Skip("old and new are mixed on one server")
	}
	switch err := oldPrograms(); {
	case errors.Is(err, errNoHistory):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

var errNoHistory = errors.New("old × new is skipped: this clone has no history back to commit " + before[:7] +
	" (shallow, or no clone at all)")

// oldPrograms puts the old programs below bin. They are built once per machine and Go version, without the race
// detector, and kept in the user's cache.
var oldPrograms = sync.OnceValue(func() error {
	if git("cat-file", "-e", before+"^{commit}").Run() != nil {
		return errNoHistory
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = bin // no home: built for this test process alone
	}
	kept := filepath.Join(cache, "ao-e2e", fmt.Sprintf("%s-%s-%s", before[:12], runtime.Version(), runtime.GOARCH))
	if _, err := os.Stat(kept); errors.Is(err, fs.ErrNotExist) {
		if err := buildOld(kept); err != nil {
			return err
		}
	}
	return os.Symlink(kept, filepath.Join(bin, filepath.Dir(old+"x")))
})

func git(args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = root()
	return cmd
}

// buildOld builds into a temporary folder and renames it to kept, which is always complete.
func buildOld(kept string) error {
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(kept), "building-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sources, programs := filepath.Join(dir, "src"), filepath.Join(dir, "bin")
	if err := os.Mkdir(sources, 0o700); err != nil {
		return err
	}
	if err := checkout(sources); err != nil {
		return err
	}
	build := exec.Command("go",
		append([]string{"build", "-buildvcs=false", "-o", programs + string(filepath.Separator)}, mains...)...)
	build.Dir = sources
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs of %s: %w\n%s", before[:7], err, out)
	}
	// another test process was quicker
	if err := os.Rename(programs, kept); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// checkout writes the files of the commit before into dir.
func checkout(dir string) error {
	archive, unpack := git("archive", before), exec.Command("tar", "-x", "-C", dir)
	var logged [2]bytes.Buffer // each is written by a goroutine of its own
	archive.Stderr, unpack.Stderr = &logged[0], &logged[1]
	pipe, err := archive.StdoutPipe()
	if err != nil {
		return err
	}
	unpack.Stdin = io.Reader(pipe)
	if err := errors.Join(archive.Start(), unpack.Run(), archive.Wait()); err != nil {
		return fmt.Errorf("check out %s: %w\n%s", before[:7], err, append(logged[0].Bytes(), logged[1].Bytes()...))
	}
	return nil
}
