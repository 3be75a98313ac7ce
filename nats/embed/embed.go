// Package embed runs nats-server inside this process: JetStream on disk, and unless configured otherwise every
// write is synced before it is acknowledged.
package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ao/nats/disk"
	"ao/nats/users"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"
)

// Config configures the server.
type Config struct {
	StoreDir string       // required: folder of JetStream's files; created if missing
	Listen   string       // AO_NATS_LISTEN, default "127.0.0.1:4222"; "none": in-process connections only
	Sync     string       // AO_NATS_SYNC, default "always"; or a Go duration such as "2m" between syncs
	MaxStore int64        // bytes on disk; default: see disk.StoreUsage.MaxStore
	Users    string       // AO_NATS_USERS: file of the users (users.Config), perhaps with TLS; default: no login
	Staging  string       // AO_NATS_STAGING: "memory" (default), "disk", or a mounted file system in memory
	Log      *slog.Logger // default slog.Default()

	// Name is the server's name in a cluster: required there, and different on each server. Routes are the
	// cluster addresses of all servers; the server's own may be among them.
	Name          string   // default "ao"; required in a cluster, and different on each
	ClusterListen string   // address for the other servers, such as "127.0.0.1:6222"; default: no cluster
	Routes        []string // such as "127.0.0.1:6222"
	// Advertise is the address that the other servers are told instead of ClusterListen. Clients then learn of no
	// further servers.
	Advertise string
}

// cluster is the name of a cluster.
const cluster = "ao"

// Server is a running NATS server. After its disk was full, it restarts by itself once there is space (watch).
type Server struct {
	dir         string
	opts        *server.Options                 // as configured, with the actual port
	credentials map[users.Role]users.Credential // of this process, if a login is required
	tls         bool
	log         *logger
	lock        *os.File

	staging *staging

	restartLock sync.Mutex                    // held while the server is checked and restarted
	ns          atomic.Pointer[server.Server] // the running one, or the last one
	diskErr     atomic.Pointer[error]         // what DiskError returns
	closing     chan struct{}                 // closed by Close
	watcher     sync.WaitGroup                // watch
	once        sync.Once
}

// Start runs a server and returns when it accepts connections.
func Start(c Config) (*Server, error) {
	opts, own, err := c.options()
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(c.StoreDir)
	if err != nil {
		return nil, err
	}
	log := newLogger(cmp.Or(c.Log, slog.Default()))
	s := &Server{dir: c.StoreDir, opts: opts, credentials: own, tls: opts.TLSConfig != nil, log: log, lock: lock,
		closing: make(chan struct{}), staging: newStaging(c, log.log)}
	if err := s.launch(); err != nil {
		lock.Close()
		return nil, err
	}
	if at, ok := s.ns.Load().Addr().(*net.TCPAddr); ok {
		opts.Port = at.Port // a restarted server uses the same port
	}
	s.staging.removeStale()
	if c.ClusterListen == "" {
		s.watcher.Go(s.watch)
	}
	return s, nil
}

// launch starts a server and waits until it accepts connections.
func (s *Server) launch() error {
	select {
	case <-s.log.fatal: // the last message of the server before
	default:
	}
	opts := s.opts.Clone()
	if f, err := disk.StoreUsageOf(s.dir); err == nil && opts.JetStreamMaxStore == 0 { // else the server's own default
		opts.JetStreamMaxStore = f.MaxStore(1)
	}
	if err := s.staging.removeForeignLinks(); err != nil {
		return fmt.Errorf("embedded NATS: staged batches: %w", err)
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("embedded NATS: %w", err)
	}
	ns.SetLoggerV2(s.log, false, false, false)
	started := make(chan struct{})
	go func() {
		defer close(started)
		ns.Start()
	}()
	if err := s.started(ns, started); err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return err
	}
	s.ns.Store(ns)
	s.staging.update()
	return nil
}

func (s *Server) started(ns *server.Server, started <-chan struct{}) error {
	deadline := time.After(2 * time.Minute) // a long history takes time to load
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case text := <-s.log.fatal:
			return fmt.Errorf("embedded NATS: %s", text)
		case <-deadline:
			return errors.New("embedded NATS: not ready after two minutes")
		case <-s.closing:
			return errors.New("embedded NATS: shutting down")
		case <-tick.C:
		}
		select {
		case <-started:
			if ns.ReadyForConnections(5*time.Millisecond) && ns.JetStreamEnabled() {
				return nil
			}
		default:
		}
	}
}

func (c Config) options() (*server.Options, map[users.Role]users.Credential, error) {
	if c.StoreDir == "" {
		return nil, nil, errors.New("embedded NATS: StoreDir is required")
	}
	opts, own := &server.Options{}, map[users.Role]users.Credential(nil)
	if c.Users != "" {
		var err error
		opts, own, err = readUsers(c.Users)
		if err != nil {
			return nil, nil, err
		}
	}
	opts.ServerName, opts.NoSigs, opts.DisableJetStreamBanner = cmp.Or(c.Name, "ao"), true, true
	opts.JetStream, opts.StoreDir, opts.JetStreamMaxStore = true, c.StoreDir, c.MaxStore
	limit(opts)
	switch c.Sync {
	case "", "always":
		opts.SyncAlways = true
	default:
		d, err := time.ParseDuration(c.Sync)
		if err != nil || d <= 0 {
			return nil, nil, fmt.Errorf(`AO_NATS_SYNC %q: use "always" or a duration such as "2m"`, c.Sync)
		}
		opts.SyncInterval = d
	}
	if err := c.join(opts); err != nil {
		return nil, nil, err
	}
	if c.Listen == "none" {
		opts.DontListen = true
		return opts, own, nil
	}
	listen := cmp.Or(c.Listen, "127.0.0.1:4222")
	host, port, err := split(listen)
	if err != nil {
		return nil, nil, fmt.Errorf(`AO_NATS_LISTEN %q: use an address such as "127.0.0.1:4222", or "none"`, listen)
	}
	opts.Host, opts.Port = host, port
	return opts, own, probeListen(listen)
}

// join adds the server to a cluster, if configured.
func (c Config) join(opts *server.Options) error {
	if c.ClusterListen == "" {
		return nil
	}
	if c.Name == "" {
		return errors.New("embedded NATS: a server of a cluster needs a Name that no other has")
	}
	host, port, err := split(c.ClusterListen)
	if err != nil {
		return fmt.Errorf(`embedded NATS: ClusterListen %q: use an address such as "127.0.0.1:6222"`, c.ClusterListen)
	}
	opts.Cluster = server.ClusterOpts{Name: cluster, Host: host, Port: port, Advertise: c.Advertise,
		NoAdvertise: c.Advertise != ""}
	for _, r := range c.Routes {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: r})
	}
	return nil
}

// split parses an address; port 0 means any free one.
func split(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if n == 0 {
		return host, server.RANDOM_PORT, err
	}
	return host, int(n), err
}

// probeListen tries the address, since the server would only log that it is in use.
func probeListen(listen string) error {
	l, err := net.Listen("tcp", listen)
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf(`embedded NATS: %s is in use, perhaps by another stack; `+
			`set AO_NATS_LISTEN to another address `+
			`such as "127.0.0.1:4322", or to "none" when no other process needs it`, listen)
	default:
		return fmt.Errorf(`embedded NATS: cannot listen on %s (%w); set AO_NATS_LISTEN to another address `+
			`such as "127.0.0.1:4222", or to "none"`, listen, err)
	}
}

// lockDir keeps two servers from using the same directory.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded NATS: data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("embedded NATS: data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("embedded NATS: the data directory %s is in use by another process; "+
			"set AO_DATA_DIR to another one", dir)
	}
	return f, nil
}

// Dial connects in-process, without a socket, with the permissions of a coordinator. It works with Listen "none" too.
func (s *Server) Dial(opts ...nats.Option) (*nats.Conn, error) {
	return s.DialAs(users.Coordinator, opts...)
}

// URL returns the server's address for other processes; empty with Listen "none".
func (s *Server) URL() string {
	at := s.ns.Load().Addr()
	if at == nil {
		return ""
	}
	scheme := "nats://"
	if s.TLS() {
		scheme = "tls://"
	}
	return scheme + at.String()
}

// SyncAlways reports whether the running server syncs every write before it acknowledges it.
func (s *Server) SyncAlways() bool {
	js := s.ns.Load().JetStreamConfig()
	return js != nil && js.SyncAlways
}

// Close stops the server and waits until its files are closed. It may be called twice.
func (s *Server) Close() {
	s.once.Do(func() {
		close(s.closing)
		s.watcher.Wait()
		s.stop()
		s.log.close()
		s.staging.close()
		s.lock.Close()
	})
}

// stop ends the running server.
func (s *Server) stop() {
	ns := s.ns.Load()
	ns.Shutdown()
	ns.WaitForShutdown()
}

// logger writes the server's messages to slog. Of those that clients cause it writes a bounded number: no client fills
// a disk by what it is refused.
type logger struct {
	log     *slog.Logger
	fatal   chan string
	clients *rate.Limiter
	omitted atomic.Uint64 // messages about clients, since the last one that was written
}

func newLogger(log *slog.Logger) *logger {
	return &logger{log: log, fatal: make(chan string, 1), clients: rate.NewLimiter(rate.Every(3*time.Second), 1000)}
}

func (l *logger) logf(level slog.Level, format string, v []any) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	text := fmt.Sprintf(format, v...)
	attrs := []any{"text", text}
	if strings.Contains(text, " - cid:") { // the server names the client
		if !l.clients.Allow() {
			l.omitted.Add(1)
			return
		}
		if n := l.omitted.Swap(0); n > 0 {
			attrs = append(attrs, "omitted", n)
		}
	}
	l.log.Log(context.Background(), level, "nats-server", attrs...)
}

// close says how many of the last messages were left out.
func (l *logger) close() {
	if n := l.omitted.Swap(0); n > 0 {
		l.log.Warn("nats-server", "text", "messages about clients were left out", "omitted", n)
	}
}

func (l *logger) Noticef(format string, v ...any) { l.logf(slog.LevelDebug, format, v) }
func (l *logger) Debugf(format string, v ...any)  { l.logf(slog.LevelDebug, format, v) }
func (l *logger) Tracef(format string, v ...any)  { l.logf(slog.LevelDebug, format, v) }
func (l *logger) Warnf(format string, v ...any)   { l.logf(slog.LevelWarn, format, v) }
func (l *logger) Errorf(format string, v ...any)  { l.logf(slog.LevelError, format, v) }
func (l *logger) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}
