package embed_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/embed"
	"ao/nats/natstest"
	"ao/nats/subject"

	"github.com/nats-io/nats.go"
)

// staged is a server whose data lie where the test can see them, and a bus on it.
func staged(t *testing.T, opts ...natstest.Option) (s *embed.Server, b *bus.Bus, link string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "looks like [a] pattern")
	s = natstest.Server(t, append(opts, natstest.SyncAlways, func(c *embed.Config) { c.StoreDir = data })...)
	b = natstest.Open(t, s)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, b, linkOf(data)
}

func linkOf(data string) string {
	return filepath.Join(data, "jetstream", "$G", "streams", subject.Runs, "batches")
}

// small mounts a file system in memory, and gives its folder as this process finds it.
func small(t *testing.T, bytes int64) (*natstest.Disk, string) {
	d := natstest.SmallDisk(t, bytes)
	return d, d.Path()
}

// pair is a batch of two records.
func pair(name string) []bus.Entry {
	return []bus.Entry{{Subject: subject.Claimed("01", name, "key"), Body: []byte("{}")},
		{Subject: subject.Ended("01", name, "key"), Body: []byte("{}")}}
}

// stands reports whether both records of a pair do.
func stands(t *testing.T, b *bus.Bus, name string) {
	t.Helper()
	for _, e := range pair(name) {
		if _, err := b.Last(t.Context(), e.Subject); err != nil {
			t.Errorf("%s was acknowledged: %v", e.Subject, err)
		}
	}
}

// opened leaves a batch without its end and waits until the server has it.
func opened(t *testing.T, nc *nats.Conn, id string) {
	t.Helper()
	_, err := nc.RequestMsg(&nats.Msg{Subject: subject.Claimed("02", id, "key"),
		Header: nats.Header{"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {"1"}}, Data: []byte("{}")}, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
}

// inside are the folders of batches below a folder.
func inside(dir string) int {
	all, _ := filepath.Glob(filepath.Join(dir, "*", "msgs"))
	return len(all)
}

// TestBatchesAreStagedInMemory: from the first one on, after each start, and never below a name that somebody
// could have known.
func TestBatchesAreStagedInMemory(t *testing.T) {
	t.Parallel()
	_, shm := small(t, 64<<20)
	s, b, link := staged(t, natstest.Staging(shm))
	for i := range 20 {
		to, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(to, s.Staging().Dir) || s.Staging().Dir == "" {
			t.Fatalf("start %d: batches go to %q, %v; the server says %+v", i, to, err, s.Staging())
		}
		id := fmt.Sprint("open", i)
		opened(t, natstest.Conn(t, s), id)
		if n := inside(to); n != 1 {
			t.Fatalf("start %d: %d batches lie in memory, want the one that is open", i, n)
		}
		name := fmt.Sprint("run", i)
		if _, err := b.AppendBatch(t.Context(), pair(name)...); err != nil {
			t.Fatal(err)
		}
		s.Restart()
		natstest.Until(t, "the server answers again",
			func() bool { _, err := b.Last(t.Context(), pair(name)[0].Subject); return err == nil })
		stands(t, b, name)
	}
	if all, _ := filepath.Glob(filepath.Join(shm, "*")); len(all) != 1 {
		t.Errorf("%v lie in memory, want one folder", all)
	}
	s.Close()
	if all, _ := filepath.Glob(filepath.Join(shm, "*")); len(all) != 0 {
		t.Errorf("%v are left of a server that ended", all)
	}
	if _, err := os.Lstat(link); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link of a server that ended: %v", err)
	}
}

// TestBatchesStayOnDisk: where it is wanted, and where memory is none, or too small.
func TestBatchesStayOnDisk(t *testing.T) {
	t.Parallel()
	_, tiny := small(t, 1<<20)
	for name, tt := range map[string]struct{ where, why string }{
		"wanted":    {"disk", "AO_NATS_STAGING=disk"},
		"no memory": {t.TempDir(), "is not in memory"},
		"not there": {filepath.Join(t.TempDir(), "none"), "no such file"},
		"one MiB":   {tiny, "MiB free"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b, link := staged(t, natstest.Staging(tt.where))
			if got := s.Staging(); got.Dir != "" || !strings.Contains(got.Why, tt.why) {
				t.Errorf("%+v, want why: %s", got, tt.why)
			}
			if _, err := b.AppendBatch(t.Context(), pair("run")...); err != nil {
				t.Fatal(err)
			}
			stands(t, b, "run")
			if i, err := os.Lstat(link); err != nil || !i.IsDir() {
				t.Errorf("%v, %v", i, err)
			}
		})
	}
}

// TestMemoryLostDuringBatches: the folder deleted, given to others, full, or full of batches that somebody left open.
// What is acknowledged is kept, and appends continue within seconds.
func TestMemoryLostDuringBatches(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]struct {
		do     func(t *testing.T, d *natstest.Disk, s *embed.Server)
		memory bool // batches go to memory again
	}{
		"deleted": {func(t *testing.T, _ *natstest.Disk, s *embed.Server) { os.RemoveAll(s.Staging().Dir) }, true},
		"another's": {func(t *testing.T, _ *natstest.Disk, s *embed.Server) {
			if err := os.Chmod(s.Staging().Dir, 0o777); err != nil {
				t.Error(err)
			}
		}, true},
		"left open": {func(t *testing.T, _ *natstest.Disk, s *embed.Server) { // by who is allowed to write records
			nc := natstest.Conn(t, s)
			for i := range 264 {
				m := &nats.Msg{Subject: subject.Claimed("02", fmt.Sprint("r", i), "key"),
					Header: nats.Header{"Nats-Batch-Id": {"open"}, "Nats-Batch-Sequence": {fmt.Sprint(i + 1)}},
					Data:   make([]byte, 1<<20-256)}
				if err := nc.PublishMsg(m); err != nil {
					t.Error(err)
				}
			}
		}, false},
		"full": {func(_ *testing.T, d *natstest.Disk, _ *embed.Server) { d.Fill() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, shm := small(t, 512<<20)
			s, b, _ := staged(t, natstest.Staging(shm))
			was := s.Staging().Dir
			var done sync.Map
			var written atomic.Int64
			ctx, end := context.WithCancel(t.Context())
			var load sync.WaitGroup
			for w := range 4 {
				load.Go(func() {
					tick := time.Tick(10 * time.Millisecond)
					for i := 0; ctx.Err() == nil; i++ {
						<-tick
						name := fmt.Sprintf("r%d_%d", w, i)
						if _, err := b.AppendBatch(t.Context(), pair(name)...); err == nil {
							done.Store(name, true)
							written.Add(1)
						}
					}
				})
			}
			natstest.Until(t, "batches come", func() bool { return written.Load() > 20 })
			spoil.do(t, d, s)
			natstest.Until(t, "it is noticed", func() bool { return s.Staging().Dir != was })
			if got := s.Staging(); (got.Dir != "") != spoil.memory {
				t.Errorf("%+v, want in memory: %v", got, spoil.memory)
			}
			before := written.Load()
			natstest.Until(t, "batches go on", func() bool { return written.Load() > before+20 })
			end()
			load.Wait()
			done.Range(func(name, _ any) bool { stands(t, b, name.(string)); return !t.Failed() })
		})
	}
}

// TestRecreatedStreamIsStaged: within half a second, or at once when Setup makes it.
func TestRecreatedStreamIsStaged(t *testing.T) {
	t.Parallel()
	_, shm := small(t, 64<<20)
	s, b, link := staged(t, natstest.Staging(shm))
	js, err := natstest.Conn(t, s).JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(js.DeleteStream(subject.Runs), b.Setup(t.Context())); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || filepath.Dir(to) != s.Staging().Dir {
		t.Errorf("%q, %v", to, err)
	}
	if _, err := b.AppendBatch(t.Context(), pair("run")...); err != nil {
		t.Fatal(err)
	}
	stands(t, b, "run")
}

// laid waits until a server has laid its link, and gives the folder in memory. A server in another process is not
// notified of created streams, and answers a moment before it lays the link of its last start.
func laid(t *testing.T, data string) (dir string) {
	t.Helper()
	natstest.Until(t, "it has laid its link", func() bool {
		to, err := os.Readlink(linkOf(data))
		dir = filepath.Dir(to)
		return err == nil
	})
	return dir
}

// TestNoAcknowledgedBatchIsLostWithItsServer: a server is killed again and again while batches come. What it
// acknowledged is kept, what it left in memory is removed at its next start.
func TestNoAcknowledgedBatchIsLostWithItsServer(t *testing.T) {
	t.Parallel()
	_, shm := small(t, 64<<20)
	data := t.TempDir()
	p := natstest.Proc(t, natstest.SyncAlways, natstest.Staging(shm), natstest.StoreDir(data))
	b := p.Bus(t)
	laid(t, data)
	var done sync.Map
	var written atomic.Int64
	ctx, end := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for w := range 8 {
		load.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("r%d_%d", w, i)
				if _, err := b.AppendBatch(ctx, pair(name)...); err != nil {
					<-time.After(5 * time.Millisecond) // it is away
					continue
				}
				done.Store(name, true)
				written.Add(1)
			}
		})
	}
	for kill := range 8 {
		before := written.Load()
		natstest.Until(t, "batches come", func() bool { return written.Load() > before+int64(5+7*kill) })
		p.Kill()
		p.Start()
	}
	end()
	load.Wait()
	n, after := 0, p.Bus(t)
	done.Range(func(name, _ any) bool { n++; stands(t, after, name.(string)); return !t.Failed() })
	t.Log(n, "batches over 8 kills")
	natstest.Until(t, "one folder is left", func() bool {
		all, _ := filepath.Glob(filepath.Join(shm, "*"))
		return len(all) == 1
	})
}

// TestAKilledServerEndsItsBatch: killed at any point of a large batch, it has the whole of it after its next start,
// or nothing. The memory outlives the process.
func TestAKilledServerEndsItsBatch(t *testing.T) {
	t.Parallel()
	const points, members = 16, 64
	_, shm := small(t, 64<<20)
	data := t.TempDir()
	p := natstest.Proc(t, natstest.SyncAlways, natstest.Staging(shm), natstest.StoreDir(data))
	b := p.Bus(t)
	laid(t, data)
	batch := func(name string) (all []bus.Entry) {
		for i := range members {
			all = append(all, bus.Entry{Subject: subject.Claimed("01", fmt.Sprint(name, "_", i), "key"),
				Body: make([]byte, 16<<10)})
		}
		return all
	}
	began := time.Now()
	if _, err := b.AppendBatch(t.Context(), batch("first")...); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	var whole, none int
	for point := range points {
		all := batch(fmt.Sprint("at", point))
		ctx, end := context.WithCancel(t.Context())
		answer := make(chan error, 1)
		go func() {
			_, err := b.AppendBatch(ctx, all...)
			answer <- err
		}()
		<-time.After(took * time.Duration(point) / (points - 4)) // up to a little after its end
		p.Kill()
		end()
		err := <-answer
		p.Start()
		b = p.Bus(t)
		laid(t, data)
		have := 0
		for _, e := range all {
			if _, err := b.Last(t.Context(), e.Subject); err == nil {
				have++
			}
		}
		switch {
		case have == members:
			whole++
		case have == 0 && err != nil:
			none++
		default:
			t.Errorf("killed after %d/%d of a batch: %d of %d records stand; the answer was %v", point, points-4,
				have, members, err)
		}
	}
	t.Logf("a batch takes %v; after the kills %d are whole and %d not there", took, whole, none)
}

// TestAForeignFolderIsLeftAlone: what looks like a folder of a server that was killed, and is another's or in use.
func TestAForeignFolderIsLeftAlone(t *testing.T) {
	t.Parallel()
	_, shm := small(t, 64<<20)
	loose := filepath.Join(shm, "ao-nats-loose") // everybody may look into it: not made by a server
	file := filepath.Join(shm, "ao-nats-file")
	kept := t.TempDir()
	link := filepath.Join(shm, "ao-nats-link")
	left := filepath.Join(shm, "ao-nats-left")
	for _, err := range []error{os.Mkdir(loose, 0o755), os.WriteFile(file, nil, 0o600), os.Symlink(kept, link),
		os.Mkdir(left, 0o700),
		os.WriteFile(filepath.Join(loose, "lock"), nil, 0o600),
		os.WriteFile(filepath.Join(left, "lock"), []byte(t.TempDir()), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	first, _, _ := staged(t, natstest.Staging(shm))
	second, b, _ := staged(t, natstest.Staging(shm))
	for _, dir := range []string{loose, file, link, kept, first.Staging().Dir, second.Staging().Dir} {
		if _, err := os.Lstat(dir); err != nil || dir == "" {
			t.Errorf("%q: %v", dir, err)
		}
	}
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed server left is there: %v", err)
	}
	if _, err := b.AppendBatch(t.Context(), pair("run")...); err != nil {
		t.Error(err)
	}
}
