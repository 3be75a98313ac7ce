package follow

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"ao/coordinator/projection"
	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
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
	l.allParts = joinedIn(dir, b, projection.Config{Log: slog.New(slog.NewTextHandler(l.log, nil))})
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
	w.Await(t.Context(), w.write(ended.Queued(1), ended.Claimed(1), ended.Ended(1, run.Completed, 0), open.Queued(1)))
	want := j.Stats().Applied
	j.stop()
	if all := snapshots(t, dir); len(all) != 1 || want != 4 {
		t.Fatalf("after %d records there are %q", want, all)
	}
	w.write(open.Claimed(1))
	j = launch(t, b, dir)
	if got := j.Stats(); got.Applied != 1 || !j.log.has("checkpoint read") {
		t.Errorf("it read %+v", got)
	}
	if r, err := j.Get(t.Context(), ended.Spec.ID); err != nil || r.Status != run.Completed ||
		string(r.Parameters) != string(ended.Spec.Parameters) {
		t.Errorf("the run that ended: %+v %v", r, err)
	}
	if _, claimed, n := j.Counts(); claimed != 1 || n != 1 {
		t.Errorf("got %d claimed, %d ended", claimed, n)
	}
	again := j.seen(t)
	j.stop()
	if got := launch(t, b, t.TempDir()).seen(t); got != again {
		t.Errorf("who read it all has\n%s\nwant\n%s", got, again)
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
			if err := b.Truncate(t.Context(), w.write(a.Queued(1), a.Claimed(1))); err != nil {
				t.Fatal(err)
			}
		}},
		{"of records that NATS lost", "the history ends at",
			func(t *testing.T, file string, b *bus.Bus, js jetstream.JetStream) {
				forge(t, file, func(end *state.Part) { end.End.Seq += 100 })
			}},
		{"of records that are others now", "has changed",
			func(t *testing.T, file string, b *bus.Bus, js jetstream.JetStream) {
				forge(t, file, func(end *state.Part) {
					end.End.Fingerprints[len(end.End.Fingerprints)-1].Sum++
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
				w.Await(t.Context(), w.write(a.Queued(1), a.Claimed(1), a.Ended(1, run.Failed, 0)))
			}
			j.stop()
			file := snapshots(t, dir)[0]
			tt.spoil(t, file, b, js)
			j = launch(t, b, dir)
			if !j.log.has("checkpoint discarded") || !j.log.has(tt.why) {
				t.Errorf("it said %s", j.log.all.String())
			}
			if got, want := j.seen(t), launch(t, b, "").seen(t); got != want {
				t.Errorf("%s\nwant\n%s", got, want)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("the file is there")
			}
		})
	}
}

// forge changes the last part of a snapshot.
func forge(t *testing.T, file string, change func(*state.Part)) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	header, parts, _ := strings.Cut(string(raw), "\n")
	var all bytes.Buffer
	all.WriteString(header + "\n")
	from, to := gob.NewDecoder(strings.NewReader(parts)), gob.NewEncoder(&all)
	for end := false; !end; {
		var p state.Part
		if err := from.Decode(&p); err != nil {
			t.Fatal(err)
		}
		end = p.End != nil
		if end {
			change(&p)
		}
		if err := to.Encode(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, sealed(all.Bytes()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// sealed adds the checksum.
func sealed(raw []byte) []byte {
	return binary.BigEndian.AppendUint32(slices.Clone(raw), crc32.Checksum(raw, castagnoli))
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
	w.Await(t.Context(), w.write(lost.Queued(1), lost.Claimed(1)))
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
		w.write(a.Queued(1))
		if i == 0 {
			first = a
		}
	}
	reached, goOn := make(chan struct{}), make(chan struct{})
	j := joined(b, projection.Config{Log: natstest.Log(t), OnChange: func(c state.Change) {
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
		"runs":      func() error { _, err := j.Runs(t.Context(), query.Query{}); return err },
		"sessions":  func() error { _, err := j.Sessions(t.Context(), query.Query{}); return err },
		"callbacks": func() error { _, err := j.Callbacks(t.Context(), query.Query{}); return err },
		"a run":     func() error { _, err := j.Get(t.Context(), first.Spec.ID); return err },
		"a session": func() error { _, err := j.Session(t.Context(), first.Spec.SessionID); return err },
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
	j := joinedIn(t.TempDir(), nil, projection.Config{Log: natstest.Log(t)})
	j.checkpoints.identity = "x"
	j.Apply(records[0])
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for _, m := range records[1:] {
			j.Apply(m)
		}
	})
	fresh, at := state.New(nil, nil, 0), 0
	for j.LastSnapshot().Seq < uint64(len(records)) {
		done, err := j.checkpoints.save(func() { j.Claimed() })
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(j.checkpoints.file())
		if err != nil || int64(len(raw)) != done.Bytes {
			t.Fatalf("%d bytes, %+v %v", len(raw), done, err)
		}
		f, err := load(bytes.NewReader(raw), int64(len(raw)), "x", nil)
		if err != nil {
			t.Fatal(err)
		}
		for ; at < int(done.Seq); at++ {
			fresh.Apply(records[at])
		}
		if got, want := seen(t, f), seen(t, fresh); got != want {
			t.Fatalf("of record %d\n%s\nwant\n%s", done.Seq, got, want)
		}
	}
}
