package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"ao/nats/embed"
	"ao/nats/natstest"
	"ao/scripts/try"

	"github.com/nats-io/nats.go"
)

// envNATS turns this program into a NATS server; its value is the server's configuration.
const envNATS = "AO_CHAOS_NATS"

// serveNATS runs that server until SIGTERM.
func serveNATS(config string) (err error) {
	defer try.Catch(&err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c embed.Config
	try.Check(json.Unmarshal([]byte(config), &c))
	// Debug: reports about damaged files are notices, which our programs log at level debug.
	c.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := try.Must(embed.Start(c))
	<-ctx.Done()
	s.Close()
	return nil
}

// addNATS prepares n servers without starting them.
func (s *stack) addNATS(n int) (err error) {
	defer try.Catch(&err)
	configs := make([]embed.Config, n)
	var routes []string
	for i := range configs {
		c := embed.Config{StoreDir: s.path("nats", fmt.Sprint(i+1)), Sync: s.fsync}
		c.Listen = try.Must(natstest.Address())
		if n > 1 {
			c.Name = fmt.Sprintf("n%d", i+1)
			c.ClusterListen = try.Must(natstest.Address())
			c.Advertise = c.ClusterListen
			if s.mode == "proxy" {
				c.Advertise = try.Must(s.link(fmt.Sprintf("nats-%d", i+1), c.ClusterListen))[0]
			}
			routes = append(routes, c.Advertise)
		}
		configs[i] = c
	}
	for i, c := range configs {
		c.Routes = routes
		raw := try.Must(json.Marshal(c))
		s.nats = append(s.nats, s.program(fmt.Sprintf("nats-%d", i+1), "chaos", envNATS+"="+string(raw)))
		s.natsURLs, s.natsAddresses = append(s.natsURLs, "nats://"+c.Listen), append(s.natsAddresses, c.Listen)
	}
	return nil
}

// waitForNATS waits until a server answers, and in a cluster until its replicas of our streams are current.
func (s *stack) waitForNATS(ctx context.Context, i int) error {
	return waitUntil(ctx, s.natsURLs[i]+" answers", func() bool {
		nc, err := nats.Connect(s.natsURLs[i], nats.Timeout(time.Second), nats.NoReconnect())
		if err != nil {
			return false
		}
		defer nc.Close()
		js, err := nc.JetStream(nats.MaxWait(2 * time.Second))
		if err != nil {
			return false
		}
		if _, err := js.AccountInfo(); err != nil {
			return false
		}
		if len(s.nats) == 1 {
			return true
		}
		for _, name := range []string{"RUNS", "EVENTS"} {
			info, err := js.StreamInfo(name)
			if err == nats.ErrStreamNotFound { // not created yet
				continue
			}
			if err != nil || info.Cluster == nil || info.Cluster.Leader == "" {
				return false
			}
			for _, r := range info.Cluster.Replicas {
				if !r.Current || r.Offline {
					return false
				}
			}
		}
		return true
	})
}
