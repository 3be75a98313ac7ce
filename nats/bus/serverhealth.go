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

// ServerHealth is how the server that we talk to, and the streams, stand.
type ServerHealth struct {
	Version     string        // of the server
	URL         string        // of the server, without credentials; empty: it is in this process
	Cluster     string        // its name; empty: a single server
	Open        bool          // nobody has to log in
	TLS         bool          // the connection is encrypted
	ClockOffset time.Duration // by how much the server's clock is before ours
	ClockError  time.Duration // and how little that is certain
	Streams     []StreamHealth

	MaxStore uint64 // what the account may store at most, in bytes; 0: as much as the server stores, which it does not tell
}

// Limits is what the streams may hold in all.
func (s ServerHealth) Limits() (sum uint64) {
	for _, one := range s.Streams {
		sum += one.MaxBytes * uint64(max(one.Replicas, 1))
	}
	return sum
}

// StreamHealth is how a stream stands.
type StreamHealth struct {
	Name            string
	Bytes           uint64
	MaxBytes        uint64 // 0: no limit
	RejectsWhenFull bool   // it takes no more when it is full; else the oldest give way
	Replicas        int    // as configured
	Leader          string
	Behind          []string // servers whose copy is not complete, or that are away
}

// ServerHealth asks how everything stands.
func (b *Bus) ServerHealth(ctx context.Context) (s ServerHealth, err error) {
	ctx, done := b.linked(ctx)
	defer done()
	s = ServerHealth{
		Version: b.nc.ConnectedServerVersion(), URL: address(b.nc.ConnectedUrlRedacted()), Cluster: b.nc.ConnectedClusterName(),
		Open: !b.nc.AuthRequired(), TLS: b.nc.TLSRequired(),
	}
	if account, err := b.js.AccountInfo(ctx); err == nil { // who may not ask knows less
		s.MaxStore = uint64(max(account.Limits.MaxStore, 0))
	}
	for _, name := range []string{subject.Runs, subject.Events, subject.Inbox, subject.Rejected, subject.Audit} {
		asked := time.Now()
		stream, err := b.js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) && name == subject.Audit {
			continue // it is the one that may be missing
		}
		if err != nil {
			return s, away(ctx, wrap("stream "+name, err))
		}
		info := stream.CachedInfo()
		if took := time.Since(asked); !info.TimeStamp.IsZero() && (s.ClockError == 0 || took/2 < s.ClockError) {
			s.ClockError = took / 2
			s.ClockOffset = info.TimeStamp.Sub(asked.Add(took / 2))
		}
		one := StreamHealth{Name: name, Bytes: info.State.Bytes, MaxBytes: uint64(max(info.Config.MaxBytes, 0)), RejectsWhenFull: info.Config.Discard == jetstream.DiscardNew, Replicas: info.Config.Replicas}
		if c := info.Cluster; c != nil {
			one.Leader = c.Leader
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

// address is a URL's host and port, for people.
func address(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || strings.HasPrefix(u.Host, "pipe") {
		return ""
	}
	u.User = nil
	return u.String()
}

// Local tells whether only this machine reaches the server's address.
func (s ServerHealth) Local() bool {
	u, err := url.Parse(s.URL)
	if s.URL == "" || err != nil {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
