package embed_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/embed"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/nats/users"
)

// TestAServerStartedAnewHasItsUsers: each connection of this process comes back by itself, with its rights, and workers reach
// coordinators across their accounts as before.
func TestAServerStartedAnewHasItsUsers(t *testing.T) {
	t.Parallel()
	var all []users.User
	for _, role := range []users.Role{users.Coordinator, users.Worker, users.Publisher} {
		c, err := users.New("test", role)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, users.User{Role: role, Key: c.Key})
	}
	file := filepath.Join(t.TempDir(), "users.conf")
	if err := os.WriteFile(file, []byte(users.Config(all, users.TLS{})), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := embed.Start(embed.Config{StoreDir: t.TempDir(), Listen: "none", Sync: "2m", Users: file, Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	open := func(role users.Role) *bus.Bus {
		nc, err := s.DialAs(role, bus.Options(string(role), slog.New(slog.DiscardHandler))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		b, err := bus.Open(nc, bus.Config{Confined: role == users.Worker, Disk: s.Disk})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	coordinator := open(users.Coordinator)
	worker := open(users.Worker)
	if err := coordinator.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	go coordinator.Serve(t.Context(), "ao.fleet.register.>", "q", func(context.Context, string, []byte) ([]byte, error) { return []byte("hello"), nil })
	written := func(run string) error { // by the worker, and asks the coordinator
		ctx, done := context.WithTimeout(t.Context(), 5*time.Second)
		defer done()
		if _, err := worker.Request(ctx, "ao.fleet.register.x.y", nil); err != nil {
			return err
		}
		_, err := worker.Append(ctx, bus.Entry{Subject: subject.Ended("01", run, "key"), Body: []byte("{}")})
		return err
	}
	natstest.Until(t, "the coordinator serves", func() bool { return written("first") == nil })
	for range 2 { // the second server is made of what the first was
		s.Restart()
		natstest.Until(t, "what was written is there", func() bool { return errors.Is(written("first"), bus.ErrTaken) })
	}
	if err := written("second"); err != nil || coordinator.Storage() != nil {
		t.Errorf("%v, %v", err, coordinator.Storage())
	}
}
