package embed_test

import (
	"net"
	"strings"
	"testing"

	"ao/nats/embed"
	"ao/nats/natstest"
)

func TestSyncSetting(t *testing.T) {
	for _, tt := range []struct {
		sync string
		want bool
	}{{"", true}, {"always", true}, {"2m", false}} {
		t.Run(tt.sync, func(t *testing.T) {
			s, err := embed.Start(embed.Config{StoreDir: t.TempDir(), Listen: "none", Sync: tt.sync,
				Log: natstest.Log(t)})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := s.SyncAlways(); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestStartErrorsSayWhatToDo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	s, err := embed.Start(embed.Config{StoreDir: dir, Listen: "127.0.0.1:0", Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tt := range []struct {
		name string
		c    embed.Config
		want string
	}{
		{"port in use", embed.Config{StoreDir: t.TempDir(), Listen: taken.Addr().String()}, "AO_NATS_LISTEN"},
		{"no address", embed.Config{StoreDir: t.TempDir(), Listen: "4222"}, "AO_NATS_LISTEN"},
		{"not our address", embed.Config{StoreDir: t.TempDir(), Listen: "192.0.2.1:4222"}, "AO_NATS_LISTEN"},
		{"directory in use", embed.Config{StoreDir: dir, Listen: "none"}, "AO_DATA_DIR"},
		{"no directory", embed.Config{Listen: "none"}, "StoreDir"},
		{"bad sync", embed.Config{StoreDir: t.TempDir(), Listen: "none", Sync: "often"}, "AO_NATS_SYNC"},
		{"no name in a cluster", embed.Config{StoreDir: t.TempDir(), Listen: "none", ClusterListen: "127.0.0.1:0"},
			"Name"},
		{"no address for the cluster", embed.Config{StoreDir: t.TempDir(), Listen: "none", Name: "a",
			ClusterListen: "here"}, "ClusterListen"},
		{"negative sync", embed.Config{StoreDir: t.TempDir(), Listen: "none", Sync: "-1s"}, "AO_NATS_SYNC"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := embed.Start(tt.c)
			if err == nil {
				s.Close()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want it to name %s", err, tt.want)
			}
		})
	}
	if !strings.HasPrefix(s.URL(), "nats://127.0.0.1:") {
		t.Errorf("URL %q", s.URL())
	}
}

func TestRestartKeepsTheStore(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		s, err := embed.Start(embed.Config{StoreDir: dir, Listen: "none", Log: natstest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		nc, err := s.Dial()
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
		s.Close()
		s.Close()
	}
}
