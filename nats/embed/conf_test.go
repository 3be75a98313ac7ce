package embed_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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
		checkLimits(t, name, opts)
	}
}

// checkLimits: a configuration that we ship has the limits of an embedded server.
func checkLimits(t *testing.T, name string, opts *server.Options) {
	t.Helper()
	most, workers := opts.MaxConn, 4096+64
	own := &server.Options{}
	embed.Limit(own)
	if most <= workers || opts.MaxSubs != own.MaxSubs || opts.MaxPending != own.MaxPending ||
		opts.MaxControlLine != own.MaxControlLine || !opts.NoFastProducerStall ||
		opts.WriteDeadline != own.WriteDeadline {
		t.Errorf("%s: %d connections, %d subscriptions, %d bytes pending, lines of %d bytes, %s, stall %t; want "+
			"more than %d, and as embedded %d, %d, %d, %s", name, most, opts.MaxSubs, opts.MaxPending,
			opts.MaxControlLine, opts.WriteDeadline, !opts.NoFastProducerStall, workers,
			own.MaxSubs, own.MaxPending, own.MaxControlLine, own.WriteDeadline)
	}
}

// TestShippedConfigurationsLimitConnections: every configuration of a NATS server that we ship has the limits.
func TestShippedConfigurationsLimitConnections(t *testing.T) {
	shipped := map[string]string{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") {
			return cmp.Or(err, filepath.SkipDir)
		}
		if e := filepath.Ext(path); e != ".conf" && e != ".yml" && e != ".yaml" {
			return nil
		}
		text, err := os.ReadFile(path)
		if regexp.MustCompile(`(?m)^ *(write_deadline|ping_interval):`).Match(text) { // the options of a server
			shipped[strings.TrimPrefix(path, "../../")] = string(text)
		}
		return err
	})
	if err != nil || len(shipped) < 3 {
		t.Fatalf("found %d configurations: %v", len(shipped), err)
	}
	for name, text := range shipped {
		var lines []string
		for _, option := range []string{"max_connections", "max_subscriptions", "max_pending", "max_control_line",
			"no_fast_producer_stall", "write_deadline"} {
			line := regexp.MustCompile(`(?m)^ *` + option + `: .*$`).FindString(text)
			lines = append(lines, strings.NewReplacer("<<", "", ">>", "").Replace(strings.TrimSpace(line)))
		}
		file := filepath.Join(t.TempDir(), "nats.conf")
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		opts, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatal(name, err)
		}
		checkLimits(t, name, opts)
	}
}
