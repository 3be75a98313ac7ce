package embed_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/embed"
	"ao/nats/natstest"
	"ao/nats/subject"

	"github.com/nats-io/nats.go"
)

// nobody is another user of this machine.
const nobody = 65534

// shared is a folder in memory that everybody may write to and nobody may take others' files from, as /dev/shm is.
func shared(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("another user of this machine takes root to become")
	}
	dir, err := os.MkdirTemp("/dev/shm", "test-")
	if err != nil {
		t.Skipf("there is no memory that users share: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// stranger runs a script in a folder as another user, and gives what it prints.
func stranger(t *testing.T, dir, script string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, "stranger"}, args...)...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Skipf("no program runs as another user here: %v", err)
	}
	return string(out)
}

// lays is what a stranger puts where a server could take it for its own: folders, links and locks. $1 is a folder
// of the server's user.
const lays = `umask 0
for i in 1 2 3 4 5 6; do rm -rf ao-nats-$i; done
mkdir ao-nats-1 && echo / >ao-nats-1/lock
mkdir -m 700 ao-nats-2 && ln -s "$1/kept" ao-nats-2/lock
mkdir ao-nats-3 && mkfifo ao-nats-3/lock
ln -s "$1" ao-nats-4
echo >ao-nats-5
ln -s "$1" lock
`

// spoils is what a stranger does to a server's folder, $1, whose name everybody sees. $2 stands in the messages
// that lie there. Each word that it prints is something that it could do.
const spoils = `exec 2>/dev/null
ls "$1" && echo LISTED
cat "$1"/lock && echo READ
find "$1" . -type f -exec grep -q "$2" {} \; -exec echo FOUND \;
flock -n "$1/lock" true && echo LOCKED
echo >"$1/lock" && echo WRITTEN
ln -s /etc "$1/link" && echo LINKED
chmod 777 "$1" && echo OPENED
mv "$1" mine && echo MOVED
rm -rf "$1" && echo REMOVED
true`

// TestAnotherUser: what another user of the machine puts where a server makes its folder is neither followed nor
// removed. What the server has there is neither read nor changed, not even while the server is dead.
func TestAnotherUser(t *testing.T) {
	t.Parallel()
	shm := shared(t)
	own := t.TempDir()
	if err := os.WriteFile(filepath.Join(own, "kept"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	stranger(t, shm, lays, own)
	foreign := all(t, shm, nobody)
	if len(foreign) != 6 {
		t.Fatalf("the stranger laid %q", foreign)
	}
	data := t.TempDir()
	p := natstest.Proc(t, natstest.SyncAlways, natstest.Staging(shm), natstest.StoreDir(data))
	b := p.Bus(t)
	for start := range 3 {
		dir := laid(t, data)
		natstest.Until(t, "it is the server's one folder",
			func() bool { return slices.Equal(all(t, shm, 0), []string{dir}) })
		run, secret := fmt.Sprint("run", start), fmt.Sprint("secret", start)
		if _, err := b.AppendBatch(t.Context(), pair(run)...); err != nil {
			t.Fatal(err)
		}
		opened(t, p.Conn(t), secret)
		natstest.Until(t, "the message that is put aside lies there",
			func() bool { return exec.Command("grep", "-rq", secret, dir).Run() == nil })
		if did := stranger(t, shm, spoils, dir, secret); did != "" {
			t.Errorf("another user could do with the folder of a server: %s", did)
		}
		p.Kill()
		if did := stranger(t, shm, spoils, dir, secret); did != "" {
			t.Errorf("another user could do with the folder of a dead server: %s", did)
		}
		stranger(t, shm, lays, own)
		p.Start()
		b = p.Bus(t)
		stands(t, b, run)
	}
	if now := all(t, shm, nobody); !slices.Equal(now, foreign) {
		t.Errorf("of what was another's, %q, there is %q", foreign, now)
	}
	if text, err := os.ReadFile(filepath.Join(own, "kept")); err != nil || string(text) != "kept" {
		t.Errorf("what another's links lead to: %q, %v", text, err)
	}
}

// all is what a user has in a folder.
func all(t *testing.T, dir string, uid uint32) (paths []string) {
	t.Helper()
	there, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range there {
		if i, err := e.Info(); err == nil && i.Sys().(*syscall.Stat_t).Uid == uid {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// TestAServerTrustsItsOwnFolderAlone: the machine was restarted, its memory is empty, and the link still names a
// folder, which another user has made by now. A server that died inside a commit takes nothing from there, and
// continues in a folder of its own.
func TestAServerTrustsItsOwnFolderAlone(t *testing.T) {
	t.Parallel()
	_, shm := small(t, 64<<20)
	s, _, link := staged(t, natstest.Staging(shm))
	forged := bus.Entry{Subject: subject.Ended("01", "forged", "key"), Body: []byte("{}")}
	foreign := filepath.Join(shm, "ao-nats-theirs") // everybody may look into it: not made by a server
	if err := os.MkdirAll(filepath.Join(foreign, "$G"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, s, false, append(pair("mine"), forged)...)
	natstest.Until(t, "the open batch is written", func() bool {
		files, _ := filepath.Glob(filepath.Join(s.Staging().Dir, "$G", "*", "msgs", "1.blk"))
		text, _ := os.ReadFile(strings.Join(files, ""))
		return strings.Contains(string(text), "forged")
	})
	if err := os.CopyFS(filepath.Join(foreign, "$G"), os.DirFS(link)); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	put(t, s, true, append(pair("mine"), bus.Entry{Subject: subject.Ended("01", "cut", "key"), Body: []byte("{}")})...)
	s.Close()
	shorten(t, filepath.Join(filepath.Dir(link), "msgs")) // as if it had died before it wrote the last one
	if err := os.Symlink(filepath.Join(foreign, "$G"), link); err != nil {
		t.Fatal(err)
	}
	data, _, _ := strings.Cut(link, "/jetstream/")
	s = natstest.Server(t, natstest.StoreDir(data), natstest.Staging(shm))
	b := natstest.Open(t, s)
	stands(t, b, "mine")
	if _, err := b.Last(t.Context(), forged.Subject); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("a record out of another user's folder is stored: %v", err)
	}
	if to, err := os.Readlink(link); err != nil || filepath.Dir(to) != s.Staging().Dir {
		t.Errorf("batches go to %q, %v; the server says %+v", to, err, s.Staging())
	}
	if left := inside(filepath.Join(foreign, "$G")); left != 1 {
		t.Errorf("%d batches lie in the folder of another, want the one that it laid", left)
	}
}

// put publishes one batch, under one id always.
func put(t *testing.T, s *embed.Server, commit bool, members ...bus.Entry) {
	t.Helper()
	nc := natstest.Conn(t, s)
	for i, e := range members {
		m := &nats.Msg{Subject: e.Subject, Data: e.Body,
			Header: nats.Header{"Nats-Batch-Id": {"id"}, "Nats-Batch-Sequence": {strconv.Itoa(i + 1)}}}
		if commit && i == len(members)-1 {
			m.Header.Set("Nats-Batch-Commit", "1")
		}
		if r, err := nc.RequestMsg(m, 10*time.Second); err != nil || strings.Contains(string(r.Data), "error") {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}

// shorten takes the last message out of a stream's one file. A message there begins with its length; the highest
// bit stands for headers.
func shorten(t *testing.T, msgs string) {
	t.Helper()
	file := filepath.Join(msgs, "1.blk")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for at := 0; at < len(text); at += int(binary.LittleEndian.Uint32(text[at:]) &^ (1 << 31)) {
		last = at
	}
	if err := errors.Join(os.Truncate(file, int64(last)), os.Remove(filepath.Join(msgs, "index.db"))); err != nil {
		t.Fatal(err)
	}
}
