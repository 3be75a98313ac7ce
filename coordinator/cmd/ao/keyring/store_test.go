package keyring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/nats/disk"
	"ao/nats/embed"
	"ao/nats/natstest"
)

// TestStoreSizeFollowsTheDisk: on a disk with an own size, which then gets full.
func TestStoreSizeFollowsTheDisk(t *testing.T) {
	d := natstest.SmallDisk(t, 256<<20)
	dir, data := t.TempDir(), d.Path("data")
	limit := func(bytes string) {
		t.Helper()
		stream := filepath.Join(data, "jetstream/$G/streams/RUNS")
		if err := os.MkdirAll(stream, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(stream, "meta.inf"), []byte(`{"name":"RUNS","max_bytes":`+bytes+`}`),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := func(wished int64) (int64, File) {
		t.Helper()
		r, err := Make(Options{Dir: dir, Now: now, NATSData: []string{data}, Store: wished})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(data, "store.conf"))
		if err != nil {
			t.Fatal(err)
		}
		last := r.Files[len(r.Files)-1]
		if filepath.Join(r.Dir, last.Path) != filepath.Join(data, "store.conf") {
			t.Errorf("the file is called %s", last.Path)
		}
		return sizeIn(text), last
	}
	near := func(what string, got, want int64) {
		t.Helper()
		if got < want-1<<20 || got > want+1<<20 {
			t.Errorf("%s: %d MiB, want %d", what, got>>20, want>>20)
		}
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	got, f := store(0)
	near("new", got, 192<<20)
	if f.State != stateMade {
		t.Errorf("the new file is %s", f.State)
	}
	d.Leave(200 << 20)
	got, f = store(0)
	near("it still fits", got, 192<<20)
	if f.State != stateKept {
		t.Errorf("what still fits is %s", f.State)
	}
	d.Leave(100 << 20)
	got, f = store(0)
	near("it does not fit", got, 75<<20)
	if f.State != stateChanged {
		t.Errorf("what does not fit is %s", f.State)
	}
	d.Free()
	got, _ = store(0)
	near("there is room again", got, 192<<20)
	limit("1073741824")
	got, f = store(0)
	near("an older version promised more than there is", got, 1<<30)
	if !strings.Contains(f.What, "its disk has less") {
		t.Errorf("nobody is told: %s", f.What)
	}
	got, f = store(2 << 30)
	near("an operator's", got, 2<<30)
	if !strings.Contains(f.What, "its disk has less") {
		t.Errorf("nobody is told: %s", f.What)
	}
	got, f = store(128 << 20)
	near("an operator's that is small", got, 128<<20)
	if !strings.Contains(f.What, "its streams may hold 1024 MiB") {
		t.Errorf("nobody is told: %s", f.What)
	}
	d.Fill()
	got, f = store(0)
	near("a full disk keeps what was written", got, 128<<20)
	if f.State != stateKept || !strings.Contains(f.What, "no space left") {
		t.Errorf("a full disk: %+v", f)
	}
}

// TestServersShareTheirDisk: as those of docker-compose.cluster.yml do on one machine.
func TestServersShareTheirDisk(t *testing.T) {
	d := natstest.SmallDisk(t, 256<<20)
	dirs := []string{d.Path("1"), d.Path("2"), d.Path("3")}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Make(Options{Dir: t.TempDir(), Now: now, NATSData: dirs}); err != nil {
		t.Fatal(err)
	}
	var all int64
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "store.conf"))
		if err != nil {
			t.Fatal(err)
		}
		all += sizeIn(text)
	}
	if room, err := disk.UsageOf(dirs[0]); err != nil || all < 180<<20 || all > int64(room.Free) {
		t.Errorf("three servers store %d bytes at most, their disk has %+v, %v", all, room, err)
	}
	if _, err := Make(Options{Dir: t.TempDir(), Now: now, NATSData: []string{d.Path("nowhere")}}); err == nil ||
		!strings.Contains(err.Error(), "the data folder of NATS") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestBatchFolderIsThatOfTheServer: the user of 'ao init' owns it and all above it, and a server makes its stream
// there.
func TestBatchFolderIsThatOfTheServer(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	for _, state := range []string{stateMade, stateKept} {
		r, err := Make(Options{Dir: dir, Now: now, Staging: []string{data}})
		if err != nil {
			t.Fatal(err)
		}
		if last := r.Files[len(r.Files)-1]; last.State != state || !strings.HasSuffix(last.Path, "/RUNS/batches") {
			t.Errorf("%+v, want it %s", last, state)
		}
	}
	var made []string
	for at := filepath.Join(data, "jetstream/AO/streams/RUNS/batches"); at != data; at = filepath.Dir(at) {
		if i, err := os.Stat(at); err != nil || i.Mode().Perm() != 0o700 {
			t.Fatalf("%s: %v, %v", at, i, err)
		}
		made = append(made, at)
	}
	s := natstest.Server(t, func(c *embed.Config) { c.StoreDir, c.Users = data, filepath.Join(dir, "nats/users.conf") })
	if err := natstest.Open(t, s).Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"meta.inf", "meta.sum"} {
		if _, err := os.Stat(filepath.Join(made[1], of)); err != nil {
			t.Errorf("the server's stream is not where memory is mounted: %v", err)
		}
	}
	if _, err := Make(Options{Dir: dir, Now: now, Staging: []string{filepath.Join(data, "nowhere")}}); err == nil ||
		!strings.Contains(err.Error(), "the data folder of NATS") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestReadSize(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "10GB": 10 << 30, "10GiB": 10 << 30, "10gb": 10 << 30, "10G": 10_000_000_000, "512MB": 512 << 20,
		"1t": 1_000_000_000_000, "6442450944": 6 << 30,
	} {
		if got, err := ReadSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"10 GB", "GB", "-1", "0", "1.5GB", "10XB", "10IB", "1MB", "2000000TB",
		"99999999999999999999", "$X"} {
		if got, err := ReadSize(text); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}
