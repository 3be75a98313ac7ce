package projection

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"

	"github.com/nats-io/nats.go/jetstream"
)

// life is a projection with a folder that is ended by its stop, and what it said.
type life struct {
	*allParts
	log  *syncLog
	stop func()
}

type syncLog struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *syncLog) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(b)
}

func (s *syncLog) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.all.String(), text)
}

func launch(t testing.TB, b *bus.Bus, dir string) *life {
	t.Helper()
	l := &life{log: &syncLog{}}
	l.allParts = joined(b, Config{Dir: dir, Log: slog.New(slog.NewTextHandler(l.log, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	l.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(l.stop)
	natstest.Until(t, "the projection is ready", func() bool { return l.Ready() == nil })
	return l
}

func snapshots(t testing.TB, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRestartReadsOnlyNewRecords(t *testing.T) {
	server, dir := natstest.Server(t), filepath.Join(t.TempDir(), "new")
	b := natstest.Open(t, server)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	j := launch(t, b, dir)
	w := &bench{j.allParts, t, b, b.Emitter(context.Background(), nil)}
	ended, open := w.actor(run.NewSessionID()), w.actor(run.NewSessionID())
	w.Await(t.Context(), w.write(ended.queued(1), ended.claimed(1), ended.ended(1, run.Completed, 0), open.queued(1)))
	want := j.Stats().Applied
	j.stop()
	if all := snapshots(t, dir); len(all) != 1 || want != 4 {
		t.Fatalf("after %d records there are %q", want, all)
	}
	w.write(open.claimed(1))
	j = launch(t, b, dir)
	if got := j.Stats(); got.Applied != 1 || !j.log.has("checkpoint read") {
		t.Errorf("it read %+v", got)
	}
	if r, err := j.Get(t.Context(), ended.spec.ID); err != nil || r.Status != run.Completed ||
		string(r.Parameters) != string(ended.spec.Parameters) {
		t.Errorf("the run that ended: %+v %v", r, err)
	}
	if _, claimed, n := j.Counts(); claimed != 1 || n != 1 {
		t.Errorf("got %d claimed, %d ended", claimed, n)
	}
	again := whole(j.reducer)
	j.stop()
	if got := whole(launch(t, b, t.TempDir()).reducer); got != again {
		t.Errorf("who read it all has\n%s", differ(got, again))
	}
	j = launch(t, b, dir)
	if got := j.Stats(); got.Applied != 0 {
		t.Errorf("nothing was new, and it read %+v", got)
	}
}

// What is wrong with a checkpoint is found, reported and corrected by reading the whole history.
func TestWrongCheckpointIsDiscarded(t *testing.T) {
	for _, tt := range []struct {
		name, why string
		spoil     func(t *testing.T, file string, b *bus.Bus, js jetstream.JetStream)
	}{
		{"damaged", "damaged", func(t *testing.T, file string, b *bus.Bus, js jetstream.JetStream) {
			raw, err := os.ReadFile(file)
			if err == nil {
				raw[len(raw)/2] ^= 4
				err = os.WriteFile(file, raw, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
		{"too old", "the history begins at", func(t *testing.T, file string, b *bus.Bus, js jetstream.JetStream) {
			w := &bench{nil, t, b, b.Emitter(context.Background(), nil)}
			a := w.actor(run.NewSessionID())
			if err := b.Truncate(t.Context(), w.write(a.queued(1), a.claimed(1))); err != nil {
				t.Fatal(err)
			}
		}},
		{"of records that NATS lost", "the history ends at",
			func(t *testing.T, file string, b *bus.Bus, js jetstream.JetStream) {
				forge(t, file, func(f *reducer) { f.seq += 100 })
			}},
		{"of records that are others now", "has changed",
			func(t *testing.T, file string, b *bus.Bus, js jetstream.JetStream) {
				forge(t, file, func(f *reducer) {
					last := f.lastRead.Last()
					last[len(last)-1].Sum++
					f.lastRead = stream.TailOf(last)
				})
			}},
		{"of nothing that is left", "none of its last records",
			func(t *testing.T, file string, b *bus.Bus, js jetstream.JetStream) {
				if err := b.Purge(t.Context(), subject.Runs, subject.AllRuns, 0); err != nil {
					t.Fatal(err)
				}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, dir := natstest.Server(t), t.TempDir()
			b := natstest.Open(t, server)
			if err := b.Setup(t.Context()); err != nil {
				t.Fatal(err)
			}
			js, err := jetstream.New(natstest.Conn(t, server))
			if err != nil {
				t.Fatal(err)
			}
			j := launch(t, b, dir)
			w := &bench{j.allParts, t, b, b.Emitter(context.Background(), nil)}
			for range 3 {
				a := w.actor(run.NewSessionID())
				w.Await(t.Context(), w.write(a.queued(1), a.claimed(1), a.ended(1, run.Failed, 0)))
			}
			j.stop()
			file := snapshots(t, dir)[0]
			tt.spoil(t, file, b, js)
			j = launch(t, b, dir)
			if !j.log.has("checkpoint discarded") || !j.log.has(tt.why) {
				t.Errorf("it said %s", j.log.all.String())
			}
			if got, want := whole(j.reducer), whole(launch(t, b, "").reducer); got != want {
				t.Errorf("%s", differ(got, want))
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("the file is there")
			}
		})
	}
}

// forge changes what a snapshot says.
func forge(t *testing.T, file string, change func(*reducer)) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	header, _, _ := strings.Cut(string(raw), "\n")
	_, identity, _ := strings.Cut(header, " of ")
	f, err := loadBytes(raw, identity, nil)
	if err != nil {
		t.Fatal(err)
	}
	change(f)
	var all bytes.Buffer
	if _, _, err := writeCheckpoint(over(f).Projection, identity, &all, 1, func() {}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, sealed(all.Bytes()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A history that is replaced after a start from a checkpoint is noticed although no record came since, and its
// checkpoint is deleted.
func TestReplacedHistoryDiscardsItsCheckpoint(t *testing.T) {
	server, dir := natstest.Server(t), t.TempDir()
	b := natstest.Open(t, server)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(natstest.Conn(t, server))
	if err != nil {
		t.Fatal(err)
	}
	j := launch(t, b, dir)
	w := &bench{j.allParts, t, b, b.Emitter(context.Background(), nil)}
	lost := w.actor(run.NewSessionID())
	w.Await(t.Context(), w.write(lost.queued(1), lost.claimed(1)))
	j.stop()
	j = launch(t, b, dir)
	file := snapshots(t, dir)[0]
	if err := js.DeleteStream(t.Context(), subject.Runs); err != nil {
		t.Fatal(err)
	}
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "the new history is read", func() bool {
		_, claimed, _ := j.Counts()
		return j.Ready() == nil && claimed == 0
	})
	if _, err := os.Stat(file); err == nil {
		t.Error("the snapshot of the old history is there")
	}
}

func TestUnusableFolderIsIgnored(t *testing.T) {
	b := natstest.Bus(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j := launch(t, b, filepath.Join(file, "folder"))
	j.stop()
	if !j.log.has("every start reads the whole history") {
		t.Errorf("it said %s", j.log.all.String())
	}
}

// A newer version's records are nothing that this program may put into a checkpoint.
func TestNoCheckpointOfNewerRecords(t *testing.T) {
	b, dir := natstest.Bus(t), t.TempDir()
	j := launch(t, b, dir)
	w := &bench{j.allParts, t, b, b.Emitter(context.Background(), nil)}
	w.Await(t.Context(), w.write(entry{Subject: "ao.runs.3.dreamt.run_1", Body: []byte(`{"v":1}`)}))
	j.stop()
	if all := snapshots(t, dir); len(all) != 0 {
		t.Errorf("there are %q", all)
	}
}

// While history is read, the projection reports that, and how far it is.
func TestNotReadyWhileHistoryIsRead(t *testing.T) {
	b := natstest.Bus(t)
	w := &bench{nil, t, b, b.Emitter(context.Background(), nil)}
	var first actor
	for i := range 20 {
		a := w.actor(run.NewSessionID())
		w.write(a.queued(1))
		if i == 0 {
			first = a
		}
	}
	reached, goOn := make(chan struct{}), make(chan struct{})
	j := joined(b, Config{Log: natstest.Log(t), OnChange: func(c Change) {
		if c.Seq == 7 {
			close(reached)
			<-goOn
		}
	}})
	if err := j.Ready(); err == nil || err.Error() != "the history is being read" { // nobody has asked how long it is
		t.Errorf("before it begins it says %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { j.Run(ctx) })
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	<-reached
	natstest.Until(t, "it knows how far it has to go", func() bool { return j.goal.Load() == 20 })
	if err := j.Ready(); err == nil || !strings.Contains(err.Error(), "the history is being read; at record 7 of 20") {
		t.Errorf("it says %v", err)
	}
	// Nor does it return a part of the history as if that were all, or a run's state of long ago. The index already has
	// the first run.
	reads := map[string]func() error{
		"runs":      func() error { _, err := j.Runs(t.Context(), Query{}); return err },
		"sessions":  func() error { _, err := j.Sessions(t.Context(), Query{}); return err },
		"callbacks": func() error { _, err := j.Callbacks(t.Context(), Query{}); return err },
		"a run":     func() error { _, err := j.Get(t.Context(), first.spec.ID); return err },
		"a session": func() error { _, err := j.Session(t.Context(), first.spec.SessionID); return err },
	}
	var asking sync.WaitGroup
	for what, read := range reads {
		asking.Go(func() {
			if err := read(); fault.KindOf(err) != fault.Unavailable {
				t.Errorf("%s: %v, want that the history is being read", what, err)
			}
		})
	}
	asking.Wait()
	close(goOn)
	natstest.Until(t, "it is ready", func() bool { return j.Ready() == nil })
	for what, read := range reads {
		if err := read(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Checkpoints are written while records come as fast as they can, and readers read: each is the state after the records
// up to its own.
func TestCheckpointsUnderLoad(t *testing.T) {
	records := plain(t, 1500)
	j := joined(nil, Config{Log: natstest.Log(t), Dir: t.TempDir()})
	j.checkpoints.identity = "x"
	j.apply(records[0])
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for _, m := range records[1:] {
			j.apply(m)
		}
	})
	fresh, at := newReducer(nil), 0
	for j.LastSnapshot().Seq < uint64(len(records)) {
		done, err := j.checkpoints.save(func() { j.find(t.Context(), Query{Agent: "nobody"}, 1<<64-1, 1) })
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(j.checkpoints.file())
		if err != nil || int64(len(raw)) != done.Bytes {
			t.Fatalf("%d bytes, %+v %v", len(raw), done, err)
		}
		f, err := loadBytes(raw, "x", nil)
		if err != nil {
			t.Fatal(err)
		}
		for ; at < int(done.Seq); at++ {
			fresh.apply(records[at])
		}
		if got, want := whole(f), whole(fresh); got != want {
			t.Fatalf("of record %d\n%s", done.Seq, differ(got, want))
		}
	}
}
