package audit

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ao/shared/clock/clocktest"
)

// syncLog is a log that can be read while it is written.
type syncLog struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (s *syncLog) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Write(b)
}

func (s *syncLog) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.String()
}

func (s *syncLog) log() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

func lines(t *testing.T, path string) (all []Entry) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		all = append(all, e)
	}
	return all
}

func TestDisabledLogAllocatesNothing(t *testing.T) {
	l, err := Open("", nil, nil)
	if l != nil || err != nil {
		t.Fatal(l, err)
	}
	l.Record(Entry{})
	l.Reopen()
	l.Close()
	if n := testing.AllocsPerRun(100, func() { l.Record(Entry{Action: RunCreate}) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestEntriesAreFlushedSoon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	if err := os.WriteFile(path, []byte(`{"time":"2026-01-01T00:00:00Z","action":"earlier"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(path, nil, new(syncLog).log())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Record(
		Entry{
			Action:     RunCreate,
			EntryPoint: HTTP,
			Actor:      &Actor{Kind: Token, Name: "ci"},
			Targets:    Targets{Run: "run_<1>"},
			Status:     201,
		},
	)
	clocktest.Until(t, "the line is there, before the end", func() bool { return len(lines(t, path)) == 2 })
	raw, _ := os.ReadFile(path)
	if !strings.Contains(
		string(raw),
		`"door":"http","actor":{"kind":"token","name":"ci"},"action":"run.create","run_id":"run_<1>","status":201}`,
	) {
		t.Errorf("%s", raw)
	}
}

// TestRotation: after SIGHUP lines go to the file that has the name now, and none is lost.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit")
	l, err := Open(path, nil, new(syncLog).log())
	if err != nil {
		t.Fatal(err)
	}
	l.Record(Entry{Action: "one"})
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Record(Entry{Action: "two"})
	l.Reopen()
	l.Record(Entry{Action: "three"})
	l.Close()
	if old := lines(t, path+".1"); len(old) != 2 || old[1].Action != "two" {
		t.Errorf("the old file has %v", old)
	}
	if now := lines(t, path); len(now) != 1 || now[0].Action != "three" {
		t.Errorf("the new file has %v", now)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	l.Reopen() // after its end: nothing
}

// TestFailedReopenKeepsTheFile: entries continue to go to the file that is open.
func TestFailedReopenKeepsTheFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path, log := filepath.Join(dir, "audit"), new(syncLog)
	l, err := Open(path, nil, log.log())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"-elsewhere"); err != nil {
		t.Fatal(err)
	}
	l.Reopen()
	l.Record(Entry{Action: "after"})
	l.Close()
	if all := lines(t, filepath.Join(dir+"-elsewhere", "audit")); len(all) != 1 {
		t.Errorf("%v", all)
	}
	if !strings.Contains(log.text(), "continues in the old file") {
		t.Error(log.text())
	}
}

// TestAFullDisk: entries that cannot be written are counted and reported, and nobody waits for them.
func TestAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	log := new(syncLog)
	l, err := Open("/dev/full", nil, log.log())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l.Record(Entry{Action: RunCreate})
	}
	clocktest.Until(t, "it is logged", func() bool {
		return strings.Contains(log.text(), "audit entries lost") && strings.Contains(log.text(), "no space left")
	})
	path := filepath.Join(t.TempDir(), "audit")
	f, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if l.lost.Load() != 3 {
		t.Errorf("%d lost, want 3", l.lost.Load())
	}
	// There is room again: the file has the gap.
	l.file = f
	l.add(Entry{Action: "again"})
	l.flush()
	if all := lines(t, path); len(all) != 2 || all[0].Action != Lost || all[0].Count != 3 || all[1].Action != "again" {
		t.Errorf("%+v", all)
	}
	l.add(Entry{Action: "and again"})
	l.flush()
	if all := lines(t, path); len(all) != 3 {
		t.Errorf("the gap is reported again: %+v", all)
	}
	_ = f.Close()
}

// TestFullQueueDropsAndCounts: the queue is bounded, and what does not fit is counted.
func TestFullQueueDropsAndCounts(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "audit"), new(syncLog)
	l, err := Open(path, nil, log.log())
	if err != nil {
		t.Fatal(err)
	}
	const many = 40_000 // several times the queue
	for range many {
		l.Record(Entry{Action: RunCreate})
	}
	l.Close()
	var written, lost uint64
	for _, e := range lines(t, path) {
		if e.Action == Lost {
			lost += e.Count
		} else {
			written++
		}
	}
	if all := written + l.lost.Load(); all != many || lost > l.lost.Load() {
		t.Errorf("%d written + %d lost = %d, want %d; the file tells of %d", written, l.lost.Load(), all, many, lost)
	}
}

func TestUnusablePaths(t *testing.T) {
	for path, want := range map[string]string{
		t.TempDir(): "is not a file", filepath.Join(t.TempDir(), "none", "audit"): "cannot be opened",
	} {
		if _, err := Open(path, nil, nil); err == nil || !strings.Contains(err.Error(), "AO_AUDIT_LOG") ||
			!strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
