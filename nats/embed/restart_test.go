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

// TestRestartedServerHasItsUsers: each connection of this process comes back by itself, with its rights, and
// workers reach coordinators across their accounts as before.
func TestRestartedServerHasItsUsers(t *testing.T) {
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
	s, err := embed.Start(embed.Config{StoreDir: t.TempDir(), Listen: "none", Sync: "2m", Users: file,
		Log: natstest.Log(t)})
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
		b, err := bus.Open(nc, bus.Config{Confined: role == users.Worker, Disk: s.DiskError})
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
	go coordinator.Serve(t.Context(), "ao.fleet.register.>", "q",
		func(context.Context, string, []byte) ([]byte, error) { return []byte("hello"), nil })
	written := func(run string) error { // by the worker, and asks the coordinator
		ctx, done := context.WithTimeout(t.Context(), 5*time.Second)
		defer done()
		if _, err := worker.Request(ctx, "ao.fleet.register.x.y", nil); err != nil {
			return err
		}
		_, err := worker.Append(ctx, bus.Entry{Subject: subject.Ended("01", run, "key"), Body: []byte("{}")})
		return err
	}
	natstest.Until(t, "the coordinator serves", func() bool {
		err := written("first")
		return err == nil || errors.Is(err, bus.ErrTaken) // a try before was not answered in time
	})
	for range 2 { // the second server is made of what the first was
		s.Restart()
		natstest.Until(t, "what was written is there", func() bool { return errors.Is(written("first"), bus.ErrTaken) })
	}
	if err := written("second"); err != nil || coordinator.Storage() != nil {
		t.Errorf("%v, %v", err, coordinator.Storage())
	}
}

// TestFailedRestartIsRepeated: by itself, as often as it takes.
func TestFailedRestartIsRepeated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := embed.Start(embed.Config{StoreDir: dir, Listen: "none", Sync: "2m", Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	store, away := filepath.Join(dir, "jetstream"), filepath.Join(dir, "away")
	if err := errors.Join(os.Rename(store, away), os.WriteFile(store, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	if nc, err := s.Dial(); err == nil {
		nc.Close()
		t.Fatal("it runs")
	}
	if err := errors.Join(os.Remove(store), os.Rename(away, store)); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "it runs again", func() bool {
		nc, err := s.Dial()
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
}

// TestRestartsBackOff: twice as long each time, at most five minutes, and not for ever.
func TestRestartsBackOff(t *testing.T) {
	t.Parallel()
	var r embed.Rest
	now := time.Unix(1e9, 0)
	if !r.Over(now) {
		t.Error("the first start waits")
	}
	start := func() (pause time.Duration) {
		r.Start(now, now.Add(2*time.Minute)) // as long as one may take that fails
		now = now.Add(2 * time.Minute)
		began := now
		for !r.Over(now) {
			now = now.Add(time.Second)
		}
		return now.Sub(began)
	}
	for _, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second,
		160 * time.Second, 5 * time.Minute, 5 * time.Minute} {
		if got := start(); got != want {
			t.Errorf("a pause of %v, want %v", got, want)
		}
	}
	now = now.Add(time.Hour)
	if got := start(); got != 10*time.Second {
		t.Errorf("after an hour that went well: %v", got)
	}
}
