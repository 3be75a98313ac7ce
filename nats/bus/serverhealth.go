package bus

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"ao/nats/subject"

	"github.com/nats-io/nats.go/jetstream"
)

// ServerHealth is the state of the server that we talk to, and of the streams.
type ServerHealth struct {
	Version     string        // of the server
	URL         string        // of the server, without credentials; empty: it runs in this process
	Cluster     string        // its name; empty: a single server
	Open        bool          // no login is required
	TLS         bool          // the connection is encrypted
	ClockOffset time.Duration // how far the server's clock is ahead of ours
	ClockError  time.Duration // the uncertainty of ClockOffset
	Streams     []StreamHealth

	Memory   int64  // of the server in bytes, as configured
	MaxStore uint64 // the account's limit in bytes; 0: the server's own, which it does not report
}

// Limits returns what the streams may hold in all, replicas included.
func (s ServerHealth) Limits() (sum uint64) {
	for _, one := range s.Streams {
		sum += one.MaxBytes * uint64(max(one.Replicas, 1))
	}
	return sum
}

// Used returns what the streams hold in all, replicas included.
func (s ServerHealth) Used() (sum uint64) {
	for _, one := range s.Streams {
		sum += one.Bytes * uint64(max(one.Replicas, 1))
	}
	return sum
}

// StreamHealth is the state of a stream.
type StreamHealth struct {
	Name            string
	Bytes           uint64
	MaxBytes        uint64 // 0: no limit
	Msgs            uint64
	LastTime        time.Time // of the newest message
	MaxMsgs         uint64    // 0: no limit
	Rollups         bool      // a message may replace others: RUNS then does not refuse a second one
	RejectsWhenFull bool      // a full stream rejects messages; else it discards the oldest
	Replicas        int       // as configured

	Behind []string // servers whose copy is incomplete, or that are offline
}

// ServerHealth asks the server for its state and that of the streams.
func (b *Bus) ServerHealth(ctx context.Context) (s ServerHealth, err error) {
	ctx, done := b.withConnection(ctx)
	defer done()
	s = ServerHealth{
		Version: b.nc.ConnectedServerVersion(), URL: address(b.nc.ConnectedUrlRedacted()),
		Cluster: b.nc.ConnectedClusterName(), Memory: b.cfg.Memory,
		Open: !b.nc.AuthRequired(), TLS: b.nc.TLSRequired(),
	}
	if account, err := b.js.AccountInfo(ctx); err == nil { // needs a permission
		s.MaxStore = uint64(max(account.Limits.MaxStore, 0))
	}
	for _, name := range StreamNames() {
		asked := time.Now()
		stream, err := b.js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) && name == subject.Audit {
			continue // it may be missing
		}
		if err != nil {
			return s, asFault(ctx, wrap("stream "+name, err))
		}
		info := stream.CachedInfo()
		half := time.Since(asked) / 2
		if !info.TimeStamp.IsZero() && (s.ClockError == 0 || half < s.ClockError) {
			s.ClockError = half
			s.ClockOffset = info.TimeStamp.Sub(asked.Add(half))
		}
		one := StreamHealth{
			Name: name, Bytes: info.State.Bytes, MaxBytes: uint64(max(info.Config.MaxBytes, 0)),
			Msgs: info.State.Msgs, LastTime: info.State.LastTime, MaxMsgs: uint64(max(info.Config.MaxMsgs, 0)),
			RejectsWhenFull: info.Config.Discard == jetstream.DiscardNew,
			Rollups:         info.Config.AllowRollup, Replicas: info.Config.Replicas,
		}
		if c := info.Cluster; c != nil {
			for _, r := range c.Replicas {
				if r.Offline || !r.Current {
					one.Behind = append(one.Behind, r.Name)
				}
			}
		}
		s.Streams = append(s.Streams, one)
	}
	return s, nil
}

// address returns a URL without credentials, empty for a server in this process.
func address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || strings.HasPrefix(u.Host, "pipe") {
		return ""
	}
	u.User = nil
	return u.String()
}

// Local reports whether only this machine can reach the server's address.
func (s ServerHealth) Local() bool {
	u, err := url.Parse(s.URL)
	if s.URL == "" || err != nil {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
