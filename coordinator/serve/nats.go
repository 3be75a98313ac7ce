package serve

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"

	"ao/nats/bus"
	"ao/nats/embed"
	"ao/shared/setting"

	"github.com/nats-io/nats.go"
)

// NATSConfig says where NATS is.
type NATSConfig struct {
	URL     string       // default nats://127.0.0.1:4222; "embed": in this process
	Listen  string       // embedded: where it listens; "none": in-process only
	Sync    string       // embedded: AO_NATS_SYNC
	DataDir string       // embedded: its files lie in the folder nats of this one, default .ao
	Log     *slog.Logger // default slog.Default()
}

// NATS is the server that this process uses: its own, or another's.
type NATS struct {
	url string
	own *embed.Server
}

// OpenNATS starts the embedded server where one is wanted. It connects to nothing yet.
func OpenNATS(cfg NATSConfig) (*NATS, error) {
	address := cmp.Or(cfg.URL, setting.NATSURL.Default)
	if address != setting.Embed {
		return &NATS{url: address}, nil
	}
	s, err := embed.Start(embed.Config{StoreDir: filepath.Join(cmp.Or(cfg.DataDir, setting.DataDir.Default), "nats"), Listen: cfg.Listen, Sync: cfg.Sync, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	return &NATS{url: s.URL(), own: s}, nil
}

// Dial makes a connection of its own; it waits for a server that isn't there yet, until ctx ends.
func (n *NATS) Dial(ctx context.Context, name string, log *slog.Logger) (*nats.Conn, error) {
	if n.own != nil {
		return n.own.Dial(bus.Options(name, log)...)
	}
	return bus.Connect(ctx, n.url, name, log)
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

// Close ends an embedded server; another's goes on.
func (n *NATS) Close() {
	if n.own != nil {
		n.own.Close()
	}
}
