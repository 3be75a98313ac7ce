package embed

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ao/nats/disk"
)

// Before a server commits an atomic batch, it stages the messages in files in the stream's folder "batches", synced
// to disk. After the commit they are worthless, so they may be in memory: "batches" becomes a link to a folder there.
// Committed messages are in the stream as before. A power cut during a commit may leave a prefix of a batch; code that
// appends several records must handle that.

// Staging is where the messages of batches are before they are committed.
type Staging struct {
	Dir string // a folder in memory; empty: on disk, in the stream's folder
	Why string // why they are not in memory
}

const (
	shm      = "/dev/shm" // stays when a user logs out, unlike $XDG_RUNTIME_DIR
	prefix   = "ao-nats-"
	lockFile = "lock" // locked by the folder's process; contains the path of the server's data
)

// How much memory batches may use, and how much must stay free; in bytes. More than enough: one of our processes has at
// most 16 batches of 8 MiB in flight, and usually one. A foreign client may leave batches open.
const (
	maxStaged        = 256 << 20
	minFree          = 32 << 20
	retryMemoryAfter = 30 * time.Second // how long batches stay on disk after memory was too full
)

type staging struct {
	data       string // the server's data folder
	memoryDir  string // the file system in memory; empty: batches stay on disk
	diskReason string // why they do
	log        *slog.Logger

	mu      sync.Mutex
	dir     string    // this process's folder in memory; empty: none
	lock    *os.File  // held while dir is ours
	lastErr error     // why there was no folder
	retryAt time.Time // when to try again
	current atomic.Pointer[Staging]
}

func newStaging(c Config, log *slog.Logger) *staging {
	g := &staging{data: c.StoreDir, memoryDir: c.Staging, log: log}
	if abs, err := filepath.Abs(c.StoreDir); err == nil {
		g.data = abs
	}
	switch {
	case c.ClusterListen != "":
		g.memoryDir, g.diskReason = "", "servers of a cluster keep batches in memory anyway"
	case c.Staging == "", c.Staging == "memory":
		g.memoryDir = shm
	case c.Staging == "disk":
		g.memoryDir, g.diskReason = "", "AO_NATS_STAGING=disk"
	}
	g.current.Store(&Staging{Why: "the server has not started"})
	return g
}

// update creates or removes the folder in memory and the links of the streams.
func (g *staging) update() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := Staging{}
	if err := g.ensureFolder(); err != nil {
		now.Why = err.Error()
	} else {
		now.Dir = g.dir
	}
	for _, link := range g.links() {
		if err := g.setLink(link, now.Dir); err != nil {
			now = Staging{Why: err.Error()}
		}
	}
	if last := g.current.Swap(&now); last.Dir != now.Dir {
		g.log.Info("NATS in this process stages batches", "in memory", now.Dir != "", "dir", now.Dir, "why", now.Why)
	}
}

// links returns the folders "batches" of the RUNS streams of this server, in any account.
func (g *staging) links() []string {
	// the folder's own name may contain pattern characters
	all, _ := fs.Glob(os.DirFS(g.data), "jetstream/*/streams/RUNS/meta.inf")
	for i, meta := range all {
		all[i] = filepath.Join(g.data, filepath.Dir(meta), "batches")
	}
	return all
}

// setLink makes a folder "batches" a link into dir, or removes the link: then the server creates a folder. A
// batch in flight fails, with nothing written, and is sent again.
func (g *staging) setLink(link, dir string) error {
	have, err := os.Readlink(link)
	linked := err == nil
	if dir == "" {
		if linked {
			return os.Remove(link)
		}
		return nil
	}
	want := filepath.Join(dir, account(link))
	if linked && have == want {
		return nil
	}
	// left by a server that was restarted
	if err := errors.Join(os.RemoveAll(want), os.Mkdir(want, 0o700)); err != nil {
		return err
	}
	for range 100 { // between the two, a server under load creates its folder again
		if err := removePath(link); err != nil {
			return err
		}
		err = os.Symlink(want, link)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

// removePath removes a link, or a folder that may be in use: it renames it first, since new batches keep arriving.
func removePath(path string) error {
	err := os.Remove(path)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil
	case !errors.Is(err, syscall.ENOTEMPTY):
		return err
	}
	old := path + ".old"
	if err := errors.Join(os.RemoveAll(old), os.Rename(path, old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(old)
}

// account returns the account of a stream's folder "batches".
func account(link string) string {
	return filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(link))))
}

// ensureFolder creates the folder in memory if needed. The error is why there can be none.
func (g *staging) ensureFolder() error {
	switch {
	case g.memoryDir == "":
		return errors.New(g.diskReason)
	case time.Now().Before(g.retryAt):
		return g.lastErr
	}
	err := g.checkFolder()
	if err != nil {
		g.removeFolder()
		err = g.createFolder()
	}
	if err == nil {
		err = g.checkSpace()
	}
	if err != nil {
		g.removeFolder()
		g.lastErr, g.retryAt = err, time.Now().Add(retryMemoryAfter)
	}
	return err
}

// checkFolder checks that the folder exists and belongs to nobody else.
func (g *staging) checkFolder() error {
	if g.dir == "" {
		return errors.New("there is none")
	}
	if err := checkOwner(g.dir); err != nil {
		return err
	}
	_, err := os.Lstat(filepath.Join(g.dir, lockFile))
	return err
}

// checkOwner checks that a folder belongs to this user and is closed to others.
func checkOwner(dir string) error {
	i, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if s, ok := i.Sys().(*syscall.Stat_t); !ok || !i.IsDir() || i.Mode().Perm() != 0o700 || int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a folder of this user alone", dir)
	}
	return nil
}

// createFolder creates a folder with an unpredictable name.
func (g *staging) createFolder() error {
	if usage, err := disk.UsageOf(g.memoryDir); err != nil {
		return err
	} else if !usage.Memory {
		return fmt.Errorf("%s is not in memory", g.memoryDir)
	}
	dir, err := os.MkdirTemp(g.memoryDir, prefix)
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		_, err = lock.WriteString(g.data)
		err = errors.Join(err, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), checkOwner(dir))
	}
	if err != nil {
		if lock != nil {
			lock.Close()
		}
		os.RemoveAll(dir)
		return err
	}
	g.dir, g.lock = dir, lock
	return nil
}

// checkSpace is nil while batches use no more memory than they may.
func (g *staging) checkSpace() error {
	usage, err := disk.UsageOf(g.dir)
	if err != nil {
		return err
	}
	if usage.Free < minFree {
		return fmt.Errorf("%s has %d MiB free, %d MiB are needed", g.memoryDir, usage.Free>>20, minFree>>20)
	}
	if has := disk.SizeOf(g.dir); has > maxStaged {
		return fmt.Errorf("staged batches use %d MiB, %d MiB are allowed", has>>20, maxStaged>>20)
	}
	return nil
}

// removeFolder removes the folder.
func (g *staging) removeFolder() {
	if g.dir == "" {
		return
	}
	if checkOwner(g.dir) == nil {
		os.RemoveAll(g.dir)
	}
	g.lock.Close()
	g.dir, g.lock = "", nil
}

// removeStale removes folders of processes that were killed. A folder that a server's link still points to is
// kept: it may hold what a commit lacks.
func (g *staging) removeStale() {
	if g.memoryDir == "" {
		return
	}
	all, _ := filepath.Glob(filepath.Join(g.memoryDir, prefix+"*"))
	for _, dir := range all {
		if checkOwner(dir) != nil {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
		if err != nil {
			continue // it is being created
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			text, _ := os.ReadFile(lock.Name())
			if !hasLinkInto(&staging{data: string(text)}, dir) {
				os.RemoveAll(dir)
			}
		}
		lock.Close()
	}
}

// removeForeignLinks removes links to folders that do not belong to this user alone. A starting server completes an
// interrupted commit from there, and after a reboot anybody may have created a folder of that name.
func (g *staging) removeForeignLinks() error {
	var failed error
	for _, link := range g.links() {
		if to, err := os.Readlink(link); err == nil && checkOwner(filepath.Dir(to)) != nil {
			failed = errors.Join(failed, os.Remove(link))
		}
	}
	return failed
}

// hasLinkInto reports whether a link of the server points into dir.
func hasLinkInto(g *staging, dir string) bool {
	for _, link := range g.links() {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

// close removes links and folder. The server has ended.
func (g *staging) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, link := range g.links() {
		if _, err := os.Readlink(link); err == nil {
			os.Remove(link)
		}
	}
	g.removeFolder()
}

// UpdateStaging updates at once where batches are staged. Call it after streams were created; otherwise it
// happens twice a second.
func (s *Server) UpdateStaging() { s.staging.update() }

// Staging is where batches are staged now.
func (s *Server) Staging() Staging { return *s.staging.current.Load() }
