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

// Before a server commits an atomic batch it puts the messages aside, in the folder "batches" of the stream: files of their own for
// each batch, synced to disk. Once the batch is committed they count for nothing, so they may lie in memory: "batches" becomes a link to
// a folder there. What was committed lies in the stream as before. A power cut inside a commit may leave the first messages of
// a batch and not the rest; whoever appends several records is safe against that.

// Staging is where the messages of batches lie until they are committed.
type Staging struct {
	Dir string // a folder in memory; empty: on disk, beside the stream
	Why string // what keeps them from memory
}

const (
	shm    = "/dev/shm" // stays when a user logs out, as $XDG_RUNTIME_DIR does not
	prefix = "ao-nats-"
	mark   = "lock" // the file in a folder that its process holds locked; its text is the folder of the server's data
)

// What batches may take of the memory, and what must be free beside them; in bytes. Nobody needs as much: 16 batches of 8 MiB are the most
// that a process of ours has under way, and mostly it has one. A stranger may leave batches open.
const (
	mostStaged = 256 << 20
	leastFree  = 32 << 20
	calm       = 30 * time.Second // how long batches stay on disk after memory was too full
)

type staging struct {
	data  string // the server's folder
	under string // the file system in memory; empty: batches stay where the server has them
	off   string // why they do
	log   *slog.Logger

	mu    sync.Mutex
	dir   string    // in memory, of this process; empty: none
	lock  *os.File  // held as long as dir is ours
	full  error     // why there was none
	after time.Time // when to try again
	now   atomic.Pointer[Staging]
}

func newStaging(c Config, log *slog.Logger) *staging {
	g := &staging{data: c.StoreDir, under: c.Staging, log: log}
	if abs, err := filepath.Abs(c.StoreDir); err == nil {
		g.data = abs
	}
	switch {
	case c.ClusterListen != "":
		g.under, g.off = "", "the servers of a cluster keep them in memory by themselves"
	case c.Staging == "", c.Staging == "memory":
		g.under = shm
	case c.Staging == "disk":
		g.under, g.off = "", "AO_NATS_STAGING=disk"
	}
	g.now.Store(&Staging{Why: "the server has not started"})
	return g
}

// tend makes the folder that batches go to, and the links of the streams that are there, what they should be by now.
func (g *staging) tend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := Staging{}
	if err := g.folder(); err != nil {
		now.Why = err.Error()
	} else {
		now.Dir = g.dir
	}
	for _, link := range g.links() {
		if err := g.lay(link, now.Dir); err != nil {
			now = Staging{Why: err.Error()}
		}
	}
	if last := g.now.Swap(&now); last.Dir != now.Dir {
		g.log.Info("NATS in this process puts batches aside", "in memory", now.Dir != "", "dir", now.Dir, "why", now.Why)
	}
}

// links are the folders of batches that the streams of this server have, or could have: those of RUNS, in whatever account.
func (g *staging) links() []string {
	all, _ := fs.Glob(os.DirFS(g.data), "jetstream/*/streams/RUNS/meta.inf") // the folder's own name may look like a pattern
	for i, meta := range all {
		all[i] = filepath.Join(g.data, filepath.Dir(meta), "batches")
	}
	return all
}

// lay makes one folder of batches a link into dir, or takes the link away: then the server makes a folder. A batch under way fails,
// nothing of it is written, and it is sent again.
func (g *staging) lay(link, dir string) error {
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
	if err := errors.Join(os.RemoveAll(want), os.Mkdir(want, 0o700)); err != nil { // what a server left that was started anew
		return err
	}
	for range 100 { // between the two a server under load makes its folder again
		if err := makeWay(link); err != nil {
			return err
		}
		if err = os.Symlink(want, link); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

// makeWay takes away a link, or a folder that may be in use: under another name first, since batches come without end.
func makeWay(path string) error {
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

// account is whose stream a folder of batches belongs to.
func account(link string) string {
	return filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(link))))
}

// folder sees to it that there is a folder in memory, and says why there can be none.
func (g *staging) folder() error {
	switch {
	case g.under == "":
		return errors.New(g.off)
	case time.Now().Before(g.after):
		return g.full
	}
	err := g.sound()
	if err != nil {
		g.leave()
		err = g.make()
	}
	if err == nil {
		err = g.roomy()
	}
	if err != nil {
		g.leave()
		g.full, g.after = err, time.Now().Add(calm)
	}
	return err
}

// sound tells whether the folder is there and nobody else's.
func (g *staging) sound() error {
	if g.dir == "" {
		return errors.New("there is none")
	}
	if err := own(g.dir); err != nil {
		return err
	}
	_, err := os.Lstat(filepath.Join(g.dir, mark))
	return err
}

// own tells whether a folder belongs to this user, and nobody else may look into it.
func own(dir string) error {
	i, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if s, ok := i.Sys().(*syscall.Stat_t); !ok || !i.IsDir() || i.Mode().Perm() != 0o700 || int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a folder of this user alone", dir)
	}
	return nil
}

// make makes a folder whose name nobody can know before.
func (g *staging) make() error {
	if room, err := disk.RoomOf(g.under); err != nil {
		return err
	} else if !room.Memory {
		return fmt.Errorf("%s is not in memory", g.under)
	}
	dir, err := os.MkdirTemp(g.under, prefix)
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, mark), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		_, err = lock.WriteString(g.data)
		err = errors.Join(err, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), own(dir))
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

// roomy is nil where batches take no more of the memory than they may.
func (g *staging) roomy() error {
	room, err := disk.RoomOf(g.dir)
	if err != nil {
		return err
	}
	if room.Free < leastFree {
		return fmt.Errorf("%s has %d MiB free, %d MiB are needed", g.under, room.Free>>20, leastFree>>20)
	}
	if has := disk.SizeOf(g.dir); has > mostStaged {
		return fmt.Errorf("batches that were begun take %d MiB, %d MiB are allowed", has>>20, mostStaged>>20)
	}
	return nil
}

// leave gives the folder up.
func (g *staging) leave() {
	if g.dir == "" {
		return
	}
	if own(g.dir) == nil {
		os.RemoveAll(g.dir)
	}
	g.lock.Close()
	g.dir, g.lock = "", nil
}

// sweep removes folders that processes left behind which were killed. One that a server's link still leads to is left to that server:
// it may hold what a commit lacks.
func (g *staging) sweep() {
	if g.under == "" {
		return
	}
	all, _ := filepath.Glob(filepath.Join(g.under, prefix+"*"))
	for _, dir := range all {
		if own(dir) != nil {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, mark), os.O_RDWR, 0)
		if err != nil {
			continue // it is being made
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			text, _ := os.ReadFile(lock.Name())
			if !leads(&staging{data: string(text)}, dir) {
				os.RemoveAll(dir)
			}
		}
		lock.Close()
	}
}

// doubt takes away links that lead to a folder which is not this user's alone. A starting server completes from there the batch in whose
// commit it died. Once the machine was started anew, anybody may have made a folder of that name.
func (g *staging) doubt() error {
	var failed error
	for _, link := range g.links() {
		if to, err := os.Readlink(link); err == nil && own(filepath.Dir(to)) != nil {
			failed = errors.Join(failed, os.Remove(link))
		}
	}
	return failed
}

// leads tells whether a link of the server's leads into dir.
func leads(g *staging, dir string) bool {
	for _, link := range g.links() {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

// close takes links and folder away; the server has ended.
func (g *staging) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, link := range g.links() {
		if _, err := os.Readlink(link); err == nil {
			os.Remove(link)
		}
	}
	g.leave()
}

// Stage sees at once to where batches are put aside, as it is done twice a second anyway: call it when streams were made.
func (s *Server) Stage() { s.staging.tend() }

// Staging says where batches are put aside at the moment.
func (s *Server) Staging() Staging { return *s.staging.now.Load() }
