package embed_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ao/nats/disk"
	"ao/nats/embed"
	"ao/nats/natstest"

	"github.com/nats-io/nats-server/v2/server"
)

// TestTheStoreOfOurConfigurationHasRoomForAllStreams: what compose's NATS may store is what 'ao init' computed for
// its volume, which is no less than what the streams there may hold.
func TestTheStoreOfOurConfigurationHasRoomForAllStreams(t *testing.T) {
	data := t.TempDir()
	// as large as they are where there is room
	b := natstest.Bus(t, natstest.MaxStore(1<<40), func(c *embed.Config) { c.StoreDir = data })
	s, err := b.ServerHealth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f, err := disk.StoreUsageOf(data)
	if err != nil {
		t.Fatal(err)
	}
	size := f.MaxStore(1)
	if limits := int64(s.Limits()); limits < 8<<30 || size < limits {
		t.Errorf("NATS stores %d bytes at most, the streams may hold %d", size, limits)
	}
	// The container's folders.
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"server.conf", "compose.conf", "cluster.conf"} {
		text, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		write("etc/nats/"+name, string(text))
	}
	write("etc/nats/keys/users.conf", "")
	write("data/store.conf", fmt.Sprintf("# Made by 'ao init'.\nmax_file_store: %d\n", size))
	t.Setenv("NATS_NAME", "nats-1")
	t.Setenv("NATS_ROUTE_LISTEN", "127.0.0.1:6222")
	for _, name := range []string{"server.conf", "compose.conf", "cluster.conf"} {
		opts, err := server.ProcessConfigFile(filepath.Join(root, "etc/nats", name))
		if err != nil {
			t.Fatal(err)
		}
		if opts.JetStreamMaxStore != size || opts.StoreDir != "/data" || !opts.SyncAlways {
			t.Errorf("%s: %d bytes in %s, want %d in /data", name, opts.JetStreamMaxStore, opts.StoreDir, size)
		}
	}
}
