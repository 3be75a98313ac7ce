package agentfile

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ao/shared/clock"
)

// write is a change of one file's text. All is done below root, so that no link leads a write elsewhere.
type write struct {
	root      *os.Root
	path      string // below root
	old, next []byte // nil: there is no such file
	temporary string // below root
}

// stage writes the new text to a temporary file beside the old one, with its permissions, and syncs it.
func (w *write) stage() error {
	w.sweep()
	if w.next == nil {
		return nil
	}
	mode := fs.FileMode(0o600)
	var owner *syscall.Stat_t
	if info, err := w.root.Stat(w.path); err == nil {
		mode = info.Mode().Perm()
		owner, _ = info.Sys().(*syscall.Stat_t)
	}
	name := filepath.Join(filepath.Dir(w.path), tempPrefix(w.path)+rand.Text())
	f, err := w.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w.temporary = name
	if owner != nil {
		_ = f.Chown(int(owner.Uid), int(owner.Gid)) // without the right to, the file keeps our owner
	}
	_, err = f.Write(w.next)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

// commit renames the temporary file over the old one.
func (w *write) commit() error {
	if w.next == nil {
		return w.root.Remove(w.path)
	}
	err := w.root.Rename(w.temporary, w.path)
	if err == nil {
		w.temporary = ""
	}
	return err
}

// commit commits all writes, or none.
func commit(writes []write) error {
	for i := range writes {
		if err := writes[i].commit(); err != nil {
			for _, w := range writes[:i] {
				err = errors.Join(err, w.undo())
			}
			return err
		}
	}
	return nil
}

// undo restores the old text.
func (w write) undo() error {
	back := write{root: w.root, path: w.path, old: w.next, next: w.old}
	defer back.discard()
	return errors.Join(back.stage(), back.commit())
}

// discard removes a temporary file that was not committed.
func (w *write) discard() {
	if w.temporary != "" {
		_ = w.root.Remove(w.temporary)
	}
}

// staleAfter is the age from which a temporary file belongs to a process that has ended.
const staleAfter = time.Hour

// sweep removes stale temporary files of the path.
func (w *write) sweep() {
	dir := filepath.Dir(w.path)
	entries, _ := fs.ReadDir(w.root.FS(), filepath.ToSlash(dir)) // an unreadable folder fails later
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix(w.path)) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = w.root.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// lockTimeout is how long a change waits for the lock.
const lockTimeout = 10 * time.Second

// lock locks a folder of agents. Without locks in the file system, only the comparison before a file is replaced
// protects it.
func lock(ctx context.Context, dir string) (release func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil, errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EBADF),
			errors.Is(err, syscall.ENOSYS):
			return func() { f.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			f.Close()
			return nil, err
		}
		if !clock.Sleep(ctx, 5*time.Millisecond) {
			f.Close()
			return nil, ctx.Err()
		}
	}
}

// syncDir makes a rename durable, where the file system can sync folders.
func syncDir(dir string) {
	if f, err := os.Open(dir); err == nil {
		_ = f.Sync()
		f.Close()
	}
}
