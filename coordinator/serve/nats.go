package serve

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"ao/nats/bus"
	"ao/nats/embed"
	"ao/nats/users"
	"ao/shared/config"
	"ao/shared/metric"

	"github.com/nats-io/nats.go"
)

// NATSConfig says where NATS is.
type NATSConfig struct {
	URL     string       // default nats://127.0.0.1:4222; "embed": in this process
	Listen  string       // embedded: where it listens; "none": in-process only
	Sync    string       // embedded: AO_NATS_SYNC
	Staging string       // embedded: AO_NATS_STAGING
	DataDir string       // embedded: its files lie in the folder nats of this one, default .ao
	Users   string       // embedded: who may log in (AO_NATS_USERS); none: nobody has to
	Login   bus.Login    // elsewhere: who we are
	Log     *slog.Logger // default slog.Default()

	Insecure bool // embedded: listen beyond loopback although nobody has to log in there (AO_INSECURE_LISTEN)
}

// NATS is the server that this process uses: its own, or another's.
type NATS struct {
	url   string
	login []nats.Option
	own   *embed.Server
}

// OpenNATS starts the embedded server where one is wanted. It connects to nothing yet.
func OpenNATS(cfg NATSConfig) (*NATS, error) {
	address := cmp.Or(cfg.URL, config.NATSURL.Default)
	if address != config.Embed {
		login, err := cfg.Login.Options()
		return &NATS{url: address, login: login}, err
	}
	if err := checkListen(cfg); err != nil {
		return nil, err
	}
	s, err := embed.Start(embed.Config{StoreDir: filepath.Join(cmp.Or(cfg.DataDir, config.DataDir.Default), "nats"),
		Listen: cfg.Listen, Sync: cfg.Sync, Staging: cfg.Staging, Users: cfg.Users, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	if cfg.Users != "" && !s.TLS() && !onlyLocal(cfg.Listen) {
		cmp.Or(cfg.Log, slog.Default()).Warn("the embedded NATS is reachable from beyond this machine without TLS: "+
			"who is on the way can read everything ('ao init --tls' makes certificates)", "address", cfg.Listen)
	}
	return &NATS{url: s.URL(), own: s}, nil
}

// checkListen refuses an embedded server that everybody could use: who reaches a NATS without users may do everything, as
// over HTTP.
func checkListen(cfg NATSConfig) error {
	if cfg.Users != "" || onlyLocal(cfg.Listen) {
		return nil
	}
	if !cfg.Insecure {
		return fmt.Errorf("AO_NATS_LISTEN %q is reachable from beyond this machine, and nobody has to log in there: "+
			"make users with 'ao init' and name the file nats/users.conf in AO_NATS_USERS, or listen on 127.0.0.1, "+
			"or set AO_INSECURE_LISTEN=yes if everybody who gets there may do everything", cfg.Listen)
	}
	cmp.Or(cfg.Log, slog.Default()).Warn("INSECURE: the embedded NATS is reachable from beyond this machine, and "+
		"whoever reaches it may do everything (AO_INSECURE_LISTEN)", "address", cfg.Listen)
	return nil
}

// onlyLocal tells whether only this machine reaches an embedded server.
func onlyLocal(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return listen == "" || listen == "none" || err == nil && loopback(context.Background(), host)
}

// Dial makes a connection of its own; it waits for a server that isn't there yet, until ctx ends.
func (n *NATS) Dial(ctx context.Context, name string, log *slog.Logger) (*nats.Conn, error) {
	if n.own != nil {
		return n.own.Dial(bus.Options(name, log)...)
	}
	return bus.Connect(ctx, n.url, name, log, n.login...)
}

// DialWorker is Dial for a worker in this process: at an embedded server with users it has a worker's rights and no
// more.
func (n *NATS) DialWorker(ctx context.Context, name string, log *slog.Logger) (*nats.Conn, error) {
	if n.own != nil {
		return n.own.DialAs(users.Worker, bus.Options(name, log)...)
	}
	return n.Dial(ctx, name, log)
}

// URL is where others find the server, without credentials; empty where it is in-process only.
func (n *NATS) URL() string {
	all := strings.Split(n.url, ",")
	for i, one := range all {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil {
			u.User = nil
			all[i] = u.String()
		}
	}
	return strings.Join(all, ",")
}

// Disk is what bus.Config wants of an embedded server; nil: it is elsewhere.
func (n *NATS) Disk() func() error {
	if n.own == nil {
		return nil
	}
	return n.own.DiskError
}

// Made is what an embedded server wants to be told by bus.Config; nil: it is elsewhere.
func (n *NATS) Made() func() {
	if n.own == nil {
		return nil
	}
	return n.own.UpdateStaging
}

// measure shows the disk of an embedded server.
func (n *NATS) measure(r *metric.Registry) {
	free := r.Gauge("ao_nats_disk_free_bytes", "Bytes free on the disk under the embedded NATS.")
	all := r.Gauge("ao_nats_disk_bytes", "Size of the disk under the embedded NATS.")
	memory := r.Gauge("ao_nats_staging_in_memory", "1: the embedded NATS puts batches of records aside in memory, 0: "+
		"on disk.")
	if n.own == nil {
		return
	}
	r.AtScrape(func(s *metric.Scrape) {
		in := 0.0
		if n.own.Staging().Dir != "" {
			in = 1
		}
		s.Set(memory, in)
		if room, err := n.own.DiskUsage(); err == nil && room.Total > 0 {
			s.Set(free, float64(room.Free))
			s.Set(all, float64(room.Total))
		}
	})
}

// Close ends an embedded server; another's goes on.
func (n *NATS) Close() {
	if n.own != nil {
		n.own.Close()
	}
}

// loopback tells whether every address of a host is this machine's own.
func loopback(ctx context.Context, host string) bool {
	if host == "" {
		return false
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", strings.Trim(host, "[]"))
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() {
			return false
		}
	}
	return err == nil && len(ips) > 0
}
