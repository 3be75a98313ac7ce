package serve

import (
	"cmp"
	"context"
	"errors"
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
	Listen  string       // embedded: the address it listens on; "none": in-process only
	Sync    string       // embedded: AO_NATS_SYNC
	Staging string       // embedded: AO_NATS_STAGING
	DataDir string       // embedded: its files are in the folder nats of this one, default .ao
	Users   string       // embedded: file of users (AO_NATS_USERS); empty: no login is required
	Login   bus.Login    // elsewhere: our credentials
	Memory  int64        // of the server in bytes; default: see NATS.Memory
	Log     *slog.Logger // default slog.Default()

	Insecure bool // embedded: listen beyond loopback without users (AO_INSECURE_LISTEN)
}

// NATS is the server that this process uses, embedded or elsewhere.
type NATS struct {
	url    string
	login  []nats.Option
	own    *embed.Server
	memory int64 // as configured, 0: it is not
}

// maxStore returns what an embedded server may store in bytes; 0: unknown.
func (n *NATS) maxStore() int64 {
	if n.own == nil {
		return 0
	}
	return int64(n.own.MaxStore())
}

var errNATSReads = errors.New("NATS reads what it has stored")

// OpenNATS starts the embedded server if one is wanted. It does not connect.
func OpenNATS(cfg NATSConfig) (*NATS, error) {
	address := cmp.Or(cfg.URL, config.NATSURL.Default)
	if address != config.Embed {
		login, err := cfg.Login.Options()
		return &NATS{url: address, login: login, memory: cfg.Memory}, err
	}
	if err := checkListen(cfg); err != nil {
		return nil, err
	}
	stop := tellSlow(cmp.Or(cfg.Log, slog.Default()), func() error { return errNATSReads })
	defer stop()
	s, err := embed.Start(embed.Config{StoreDir: filepath.Join(cmp.Or(cfg.DataDir, config.DataDir.Default), "nats"),
		Listen: cfg.Listen, Sync: cfg.Sync, Staging: cfg.Staging, Users: cfg.Users, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	if cfg.Users != "" && !s.TLS() && !onlyLocal(cfg.Listen) {
		cmp.Or(cfg.Log, slog.Default()).Warn("the embedded NATS is reachable from beyond this machine without TLS: "+
			"anyone on the path can read everything ('ao init --tls' creates certificates)", "address", cfg.Listen)
	}
	return &NATS{url: s.URL(), own: s, memory: cfg.Memory}, nil
}

// Memory returns the server's memory in bytes as configured (AO_NATS_MEMORY). By default it is that of the shipped
// configurations. An embedded server has half of this process's memory.
func (n *NATS) Memory() int64 {
	if n.own != nil {
		return cmp.Or(n.memory, embed.Memory()/2)
	}
	return cmp.Or(n.memory, bus.DefaultMemory)
}

// checkListen refuses an embedded server that everybody could use: without users, every client may do everything.
func checkListen(cfg NATSConfig) error {
	if cfg.Users != "" || onlyLocal(cfg.Listen) {
		return nil
	}
	if !cfg.Insecure {
		return fmt.Errorf("AO_NATS_LISTEN %q is reachable from beyond this machine, but requires no login: create "+
			"users with 'ao init' and name the file nats/users.conf in AO_NATS_USERS, or listen on 127.0.0.1, "+
			"or set AO_INSECURE_LISTEN=yes if anyone who can reach it may do everything", cfg.Listen)
	}
	cmp.Or(cfg.Log, slog.Default()).Warn("INSECURE: the embedded NATS is reachable from beyond this machine, and "+
		"anyone who can reach it can do everything (AO_INSECURE_LISTEN)", "address", cfg.Listen)
	return nil
}

// onlyLocal reports whether only this machine can reach an embedded server.
func onlyLocal(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return listen == "" || listen == "none" || err == nil && loopback(context.Background(), host)
}

// Dial connects to NATS. It waits for the server until ctx ends.
func (n *NATS) Dial(ctx context.Context, name string, log *slog.Logger) (*nats.Conn, error) {
	if n.own != nil {
		return n.own.Dial(bus.Options(name, log)...)
	}
	return bus.Connect(ctx, n.url, name, log, n.login...)
}

// DialWorker is Dial for a worker in this process. An embedded server with users gives it only a worker's rights.
func (n *NATS) DialWorker(ctx context.Context, name string, log *slog.Logger) (*nats.Conn, error) {
	if n.own != nil {
		return n.own.DialAs(users.Worker, bus.Options(name, log)...)
	}
	return n.Dial(ctx, name, log)
}

// URL returns the server's address without credentials; empty where it is in-process only.
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

// Disk returns the field of bus.Config for an embedded server; nil: it is elsewhere.
func (n *NATS) Disk() func() error {
	if n.own == nil {
		return nil
	}
	return n.own.DiskError
}

// made returns the field of bus.Config for an embedded server; nil: it is elsewhere.
func (n *NATS) made() func() {
	if n.own == nil {
		return nil
	}
	return n.own.UpdateStaging
}

// measure reports the disk of an embedded server.
func (n *NATS) measure(r *metric.Registry) {
	free := r.Gauge("ao_nats_disk_free_bytes", "Bytes free on the disk under the embedded NATS.")
	all := r.Gauge("ao_nats_disk_bytes", "Size of the disk under the embedded NATS.")
	memory := r.Gauge("ao_nats_staging_in_memory", "1: the embedded NATS stages batches of records in memory; 0: on "+
		"disk.")
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

// Close stops an embedded server.
func (n *NATS) Close() {
	if n.own != nil {
		n.own.Close()
	}
}

// loopback reports whether all addresses of a host are loopback.
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
