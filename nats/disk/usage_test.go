package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"ao/nats/disk"
	"ao/nats/embed"
	"ao/nats/natstest"
)

// TestStoreSize: never less than its streams may hold, and no more than its part of the disk where that
// is possible.
func TestStoreSize(t *testing.T) {
	for _, tt := range []struct {
		name                    string
		has, free, limits, want int64
		sharing                 int
		fits                    bool
	}{
		{"a new disk", 0, 6000, 0, 4500, 1, true},
		{"half full", 3000, 3000, 4500, 5250, 1, true},
		{"full", 4000, 0, 3000, 4000, 1, true},
		{"promised more than there is", 100, 1000, 8750, 8750, 1, false},
		{"three servers on one disk", 0, 6000, 0, 1500, 3, true},
	} {
		f := disk.StoreUsage{Usage: disk.Usage{Free: uint64(tt.free), Total: 1 << 20}, Used: tt.has,
			Reserved: tt.limits}
		if got := f.MaxStore(tt.sharing); got != tt.want || f.Fits(got, tt.sharing) != tt.fits {
			t.Errorf("%s: %d, fits %v, want %d, %v", tt.name, got, f.Fits(got, tt.sharing), tt.want, tt.fits)
		}
	}
	if got := (disk.StoreUsage{Used: 100}).MaxStore(1); got != 0 {
		t.Errorf("a disk that does not say how large it is: %d, want 0", got)
	}
}

// TestFolderOfAServer: its size, and what its streams were promised.
func TestFolderOfAServer(t *testing.T) {
	dir := t.TempDir()
	b := natstest.Bus(t, func(c *embed.Config) { c.StoreDir = dir }, natstest.MaxStore(1<<40))
	s, err := b.ServerHealth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f, err := disk.StoreUsageOf(dir)
	if err != nil || f.Reserved == 0 || f.Reserved != int64(s.Limits()) || f.Total == 0 || f.Device == 0 {
		t.Errorf("%+v, %v; the streams say %d", f, err, s.Limits())
	}
	if err := os.WriteFile(filepath.Join(dir, "more"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if more, err := disk.StoreUsageOf(dir); err != nil || more.Used < f.Used+1<<20 {
		t.Errorf("%+v, %v after a MiB more than %+v", more, err, f)
	}
	if _, err := disk.StoreUsageOf(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a folder that is not there has no error")
	}
}
