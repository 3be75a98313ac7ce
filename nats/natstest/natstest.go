// Package natstest provides a real NATS server for each test. It runs in this process without a port (Server, Bus), or
// as a process that can be killed and restarted (Proc).
package natstest

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/embed"
	"ao/shared/clock/clocktest"

	"github.com/nats-io/nats.go"
)

// Option changes the server's configuration.
type Option func(*embed.Config)

// SyncAlways syncs every write to disk, as in production. Tests are faster without it.
func SyncAlways(c *embed.Config) { c.Sync = "always" }

// MaxStore limits the bytes that the server stores.
func MaxStore(bytes int64) Option { return func(c *embed.Config) { c.MaxStore = bytes } }

// Staging stages batches below a folder, or on "disk".
func Staging(where string) Option { return func(c *embed.Config) { c.Staging = where } }

// StoreDir sets the folder of the server's files.
func StoreDir(dir string) Option { return func(c *embed.Config) { c.StoreDir = dir } }

// Listen makes the server listen on an address such as "127.0.0.1:0".
func Listen(address string) Option { return func(c *embed.Config) { c.Listen = address } }

// Server starts a new server that ends with the test.
func Server(t testing.TB, opts ...Option) *embed.Server {
	t.Helper()
	c := embed.Config{StoreDir: t.TempDir(), Listen: "none", Sync: "2m", Log: Log(t)}
	for _, o := range opts {
		o(&c)
	}
	s, err := embed.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Conn returns an in-process connection that ends with the test.
func Conn(t testing.TB, s *embed.Server) *nats.Conn {
	t.Helper()
	nc, err := s.Dial(bus.Options(t.Name(), Log(t))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// connect returns a connection to servers with our options; it ends with the test.
func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := bus.Connect(t.Context(), url, t.Name(), Log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// setUp returns a bus after Setup.
func setUp(t testing.TB, nc *nats.Conn, c bus.Config) *bus.Bus {
	t.Helper()
	b := open(t, nc, c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it waits for space: a disk may be nearly full
	defer cancel()
	if err := b.Setup(ctx); err != nil {
		t.Fatal("setting up a bus: ", err)
	}
	return b
}

func open(t testing.TB, nc *nats.Conn, c bus.Config) *bus.Bus {
	t.Helper()
	c.Log = Log(t)
	b, err := bus.Open(nc, c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Open returns a bus on its own connection to a server, without Setup.
func Open(t testing.TB, s *embed.Server) *bus.Bus {
	t.Helper()
	return open(t, Conn(t, s), bus.Config{OnSetup: s.UpdateStaging})
}

// Bus returns a bus on a new server, after Setup.
func Bus(t testing.TB, opts ...Option) *bus.Bus {
	t.Helper()
	s := Server(t, opts...)
	return setUp(t, Conn(t, s), bus.Config{OnSetup: s.UpdateStaging})
}

// Log writes to the test's output, and discards what is logged after the test.
func Log(t testing.TB) *slog.Logger {
	w := &output{t: t}
	t.Cleanup(w.end)
	return slog.New(slog.NewTextHandler(w, nil))
}

type output struct {
	mu sync.Mutex
	t  testing.TB
}

func (o *output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.t == nil {
		return len(line), nil
	}
	return o.t.Output().Write(line)
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.t = nil
}

// Until polls a condition and fails the test if it is not true within a minute.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	clocktest.Until(t, what, ok)
}

// Poll is clocktest.Poll.
func Poll(limit time.Duration, ok func() bool) bool { return clocktest.Poll(limit, ok) }

// Load returns how much of something a test does: little, which is enough to show the behaviour. If AO_TEST_LOAD is
// "full", as in scripts/nightly, it is all of it.
func Load(little, full int) int {
	if os.Getenv("AO_TEST_LOAD") == "full" {
		return full
	}
	return little
}

// Payloads counts the stored parts of each payload, by the payload's name.
func Payloads(t testing.TB, b *bus.Bus) map[string]int {
	t.Helper()
	parts := map[string]int{}
	err := b.DropPayloads(t.Context(), func(name string, _ uint64, _ time.Time) bool {
		parts[name]++
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	return parts
}
