package health

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestVerdicts(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		name string
		got  Result
		want Verdict
		say  string
	}{
		{"a new server", NATS("2.15.2"), OK, "2.15.2"},
		{"the oldest that works", NATS("2.12.0"), OK, ""},
		{"too old", NATS("2.11.9"), Fail, "2.11.9 is too old"},
		{"much too old", NATS("1.4.1"), Fail, "too old"},
		{"of years to come", NATS("v3.0.0-beta.1"), OK, ""},
		{"no version", NATS("dev"), Warn, "reports no version"},
		{"clocks that agree", Clock("x", 300*time.Millisecond, 100*time.Millisecond), OK, "x agrees"},
		{"a slow answer", Clock("x", 3*time.Second, 2*time.Second), OK, "x agrees"},
		{"ahead", Clock("x", 5*time.Second, 0), Warn, "x is 5s ahead"},
		{"behind", Clock("x", -2*time.Minute, 0), Fail, "x is 2m0s behind"},
		{"room", judgeSpace("d", 50*gib, 100*gib), OK, "50.0 GiB free of 100.0 GiB"},
		{"little room", judgeSpace("d", 9*gib, 100*gib), Warn, ""},
		{"a small disk", judgeSpace("d", gib, 3*gib), OK, ""},
		{"none", judgeSpace("d", gib, 100*gib), Fail, ""},
		{"hardly any", judgeSpace("d", 200<<20, 500<<20), Fail, "200.0 MiB free"},
		{"streams that fit", Store(9*gib, gib, 10*gib, 20*gib), OK,
			"9.0 GiB in total, NATS stores at most 10.0 GiB (max_file_store), 1.0 GiB of it are used, its disk has " +
				"20.0 GiB"},
		{"streams that fit, as far as is known", Store(9*gib, gib, 0, 0), OK, "9.0 GiB in total"},
		{"a store that fills up", Store(9*gib, 8*gib, 10*gib, 20*gib), Warn, "8.0 GiB of it are used"},
		{"a store that is nearly full", Store(9*gib, 9*gib, 10*gib, 20*gib), Fail, ""},
		{"streams larger than the store", Store(9*gib, gib, 8*gib, 20*gib), Warn, ""},
		{"streams larger than the disk", Store(9*gib, gib, 10*gib, 8*gib), Warn, ""},
		{"a store larger than the disk", Store(7*gib, gib, 10*gib, 8*gib), Warn, ""},
		{"who knows", judgeSpace("d", 0, 0), Skip, "does not report"},
	} {
		if tt.got.Verdict != tt.want || !strings.Contains(tt.got.Message, tt.say) ||
			(tt.want == OK) != (tt.got.Advice == "") {
			t.Errorf("%s: %+v, want %s %s", tt.name, tt.got, tt.want, tt.say)
		}
	}
}

func TestSecret(t *testing.T) {
	top := t.TempDir()
	at := func(path string, mode os.FileMode) string {
		path = filepath.Join(top, path)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.MkdirAll(filepath.Join(top, "dir", "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "dir", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	at("..", 0o755)
	at("", 0o755)
	if !reachable(filepath.Join(top, "x")) {
		t.Skip("temporary files of this machine are closed to others already")
	}
	for _, tt := range []struct {
		name string
		dir  os.FileMode // of the folder
		file os.FileMode
		path string
		want Verdict
		say  string
	}{
		{"its owner's", 0o755, 0o600, "dir/file", OK, "is closed"},
		{"its group's", 0o755, 0o640, "dir/file", OK, "is closed"},
		{"everybody's", 0o755, 0o644, "dir/file", Fail, "dir/file is open to every user"},
		{"everybody's, in a closed folder", 0o700, 0o644, "dir/file", OK, "is closed"},
		{"a closed folder", 0o700, 0o644, "dir", OK, "is closed"},
		{"an open folder of closed files", 0o755, 0o600, "dir", OK, "its files are closed"},
		{"an open folder of open files", 0o755, 0o604, "dir", Fail, "dir/file is open"},
		{"nothing", 0o755, 0o600, "dir/none", Fail, "cannot be read: no such file"},
	} {
		at("dir", tt.dir)
		if tt.dir&0o100 != 0 {
			at("dir/file", tt.file)
		}
		if f := Secret("AO_X", filepath.Join(top, tt.path)); f.Verdict != tt.want || !strings.Contains(f.Message,
			tt.say) || !strings.HasPrefix(f.Message, "AO_X "+top) {
			t.Errorf("%s: %+v, want %s %s", tt.name, f, tt.want, tt.say)
		}
	}
}

// TestDisk looks at a folder that is there, and at one that is yet to be made.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	a, b := Disk("AO_DATA_DIR", dir), Disk("AO_DATA_DIR", filepath.Join(dir, "to", "come"))
	if a.Verdict == Skip || b.Verdict != a.Verdict || !strings.Contains(b.Message, "free of") {
		t.Errorf("%+v, %+v", a, b)
	}
}
