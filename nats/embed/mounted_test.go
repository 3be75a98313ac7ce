package embed_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ao/nats/bus"
	"ao/nats/disk"
	"ao/nats/embed"
	"ao/nats/natstest"
	"ao/nats/subject"
)

// The server runs on its own, like that of docker-compose.yml. Memory is mounted over its folder for batches before it
// starts, and no code of ours maintains it.

// TestMountedMemory: on a folder that is new, and on one of a server that had its batches on disk and was killed.
// Batches are in the memory over all starts, and what is acknowledged is kept. A batch that is too large for it is
// written record by record.
func TestMountedMemory(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(t *testing.T, data string){
		"new": func(*testing.T, string) {},
		"of an older version": func(t *testing.T, data string) {
			p := natstest.Proc(t, natstest.StoreDir(data), natstest.Staging("disk"))
			if _, err := p.Bus(t).AppendBatch(t.Context(), pair("older")...); err != nil {
				t.Fatal(err)
			}
			opened(t, p.Conn(t), "left")
			p.Kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			before(t, data)
			folder := disk.Batches(data, "$G", subject.Runs)
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			left := inside(folder)
			memory := natstest.SmallDiskOver(t, folder, 1<<20)
			p := natstest.ProcOn(t, memory, natstest.StoreDir(data), natstest.Staging("disk"), natstest.SyncAlways)
			b := p.Bus(t)
			for i := range 4 {
				opened(t, p.Conn(t), fmt.Sprint("open", i))
				if in, out := inside(memory.Path()), inside(folder); in != 1 || out != left {
					t.Fatalf("start %d: %d batches lie in memory, want the one that is open; on disk %d, were %d", i,
						in, out, left)
				}
				run := fmt.Sprint("run", i)
				if _, err := b.AppendBatch(t.Context(), pair(run)...); err != nil {
					t.Fatal(err)
				}
				if i%2 == 0 {
					p.Kill()
				} else {
					p.Stop()
				}
				p.Start()
				b = p.Bus(t)
				stands(t, b, run)
			}
			if left > 0 {
				stands(t, b, "older")
			}
			tooLarge(t, b)
			if err := errors.Join(remade(t, p), p.Bus(t).Setup(t.Context())); err != nil {
				t.Fatal(err)
			}
			if _, err := b.AppendBatch(t.Context(), pair("anew")...); err != nil {
				t.Errorf("in a recreated stream: %v", err)
			}
		})
	}
}

// tooLarge writes what does not fit into one MiB.
func tooLarge(t *testing.T, b *bus.Bus) {
	t.Helper()
	var large []bus.Entry
	for i := range 6 {
		large = append(large, bus.Entry{Subject: subject.Claimed("01", fmt.Sprint("large", i), "key"),
			Body: make([]byte, 256<<10)})
	}
	if _, err := b.AppendBatch(t.Context(), large...); !errors.Is(err, bus.ErrTooManyBatches) {
		t.Errorf("a batch that is too large for the memory: %v", err)
	}
	if _, err := b.Last(t.Context(), large[0].Subject); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("something of it is stored: %v", err)
	}
	if _, err := b.AppendEach(t.Context(), large...); err != nil {
		t.Error(err)
	}
	var together sync.WaitGroup
	for i := range 32 {
		together.Go(func() {
			e := bus.Entry{Subject: subject.Claimed("01", fmt.Sprint("together", i), "key"),
				Body: make([]byte, 256<<10)}
			if _, err := b.Append(t.Context(), e); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	if _, err := b.AppendBatch(t.Context(), pair("small")...); err != nil {
		t.Errorf("a small one after it: %v", err)
	}
}

// remade deletes the stream, below which memory is mounted.
func remade(t *testing.T, p *natstest.Process) error {
	t.Helper()
	js, err := p.Conn(t).JetStream()
	if err != nil {
		return err
	}
	return js.DeleteStream(subject.Runs)
}

// TestAFolderBeforeItsStream: the server's one warning of it comes at the first start, and names the stream that is
// not there yet.
func TestAFolderBeforeItsStream(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := os.MkdirAll(disk.Batches(data, "$G", subject.Runs), 0o700); err != nil {
		t.Fatal(err)
	}
	logged := &warnings{}
	s := natstest.Server(t, natstest.StoreDir(data), natstest.Staging("disk"), func(c *embed.Config) {
		c.Log = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	b := natstest.Open(t, s)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.AppendBatch(t.Context(), pair("run")...); err != nil {
		t.Fatal(err)
	}
	const missing = "Missing stream metafile"
	if got := logged.lines(); len(got) == 0 || !strings.Contains(got[0], missing) ||
		!strings.Contains(got[0], filepath.Join(subject.Runs, "meta.inf")) {
		t.Errorf("at the first start: %q", got)
	}
	s.Restart()
	natstest.Until(t, "the server answers again",
		func() bool { _, err := b.Last(t.Context(), pair("run")[0].Subject); return err == nil })
	stands(t, b, "run")
	for _, line := range logged.lines()[1:] {
		if strings.Contains(line, missing) { // a slow machine may give others
			t.Errorf("once more: %s", line)
		}
	}
}

// warnings are the lines of a log.
type warnings struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *warnings) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(line)
}

func (w *warnings) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Split(strings.TrimSpace(w.text.String()), "\n")
}
