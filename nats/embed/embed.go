// Package embed is nats-server inside this process: JetStream on disk, every write synced before it is
// acknowledged unless the configuration says otherwise.
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ao/nats/users"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Config says how the server runs.
type Config struct {
	StoreDir string       // required: where JetStream keeps its files; made when it is missing
	Listen   string       // AO_NATS_LISTEN, default "127.0.0.1:4222"; "none": in-process connections only
	Sync     string       // AO_NATS_SYNC, default "always"; or a Go duration such as "2m" between syncs
	MaxStore int64        // bytes on disk, default what it has and three quarters of what is free, and as much as its streams may hold
	Users    string       // AO_NATS_USERS: file of the users and their rights (users.Config), perhaps with TLS; default: nobody has to log in
	Staging  string       // AO_NATS_STAGING: where batches are put aside before they are committed, default "memory"; or "disk", or a file system in memory that is mounted there
	Log      *slog.Logger // default slog.Default()

	// One of several servers that make a cluster. Each is given the addresses at which the others listen for servers; its own
	// may be among them.
	Name          string   // default "ao"; required in a cluster, and different on each
	ClusterListen string   // where the others of the cluster connect, such as "127.0.0.1:6222"; default: no cluster
	Routes        []string // such as "127.0.0.1:6222"
}

// cluster is the name that the servers of a cluster have in common.
const cluster = "ao"

// Server is a running NATS server. Where its disk was full it is started anew by itself as soon as there is room (watch).
type Server struct {
	dir  string
	opts *server.Options                 // as they were asked for, with the port that was found
	own  map[users.Role]users.Credential // of this process, where others have to log in
	tls  bool
	log  *logger
	lock *os.File

	staging *staging

	anew sync.Mutex                    // held by who judges the server and starts it anew
	ns   atomic.Pointer[server.Server] // the one that runs, or ran last
	sick atomic.Pointer[error]         // what Disk says
	end  chan struct{}                 // closed by Close
	over sync.WaitGroup                // watch
	once sync.Once
}

// Start runs a server and returns when it takes connections.
func Start(c Config) (*Server, error) {
	opts, own, err := c.options()
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(c.StoreDir)
	if err != nil {
		return nil, err
	}
	log := &logger{log: cmp.Or(c.Log, slog.Default()), fatal: make(chan string, 1)}
	s := &Server{dir: c.StoreDir, opts: opts, own: own, tls: opts.TLSConfig != nil, log: log, lock: lock, end: make(chan struct{}), staging: newStaging(c, log.log)}
	if err := s.launch(); err != nil {
		lock.Close()
		return nil, err
	}
	if at, ok := s.ns.Load().Addr().(*net.TCPAddr); ok {
		opts.Port = at.Port // the next one is found where this one was
	}
	s.staging.sweep()
	if c.ClusterListen == "" {
		s.over.Go(s.watch)
	}
	return s, nil
}

// launch starts a server and waits until it takes connections.
func (s *Server) launch() error {
	select {
	case <-s.log.fatal: // what the server before said last
	default:
	}
	opts := s.opts.Clone()
	if opts.JetStreamMaxStore == 0 {
		opts.JetStreamMaxStore = storeFor(s.dir)
	}
	if err := s.staging.doubt(); err != nil {
		return fmt.Errorf("embedded NATS: batches put aside: %w", err)
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
	s.staging.tend()
	return nil
}

func (s *Server) started(ns *server.Server, started <-chan struct{}) error {
	deadline := time.After(2 * time.Minute) // a long history is read first
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case text := <-s.log.fatal:
			return fmt.Errorf("embedded NATS: %s", text)
		case <-deadline:
			return errors.New("embedded NATS: not ready after two minutes")
		case <-s.end:
			return errors.New("embedded NATS: it is being ended")
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

// connections is how many connections the server takes: a quarter of the files that this process may open. The HTTP API has half of
// them, and NATS would take them all.
func connections() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0 // the server's own limit
	}
	return int(min(max(files.Cur/4, 64), 64<<10))
}

func (c Config) options() (*server.Options, map[users.Role]users.Credential, error) {
	if c.StoreDir == "" {
		return nil, nil, errors.New("embedded NATS: StoreDir is required")
	}
	opts, own := &server.Options{}, map[users.Role]users.Credential(nil)
	if c.Users != "" {
		var err error
		if opts, own, err = admitted(c.Users); err != nil {
			return nil, nil, err
		}
	}
	opts.ServerName = cmp.Or(c.Name, "ao")
	opts.JetStream = true
	opts.StoreDir = c.StoreDir
	opts.JetStreamMaxStore = c.MaxStore
	opts.NoSigs = true
	opts.DisableJetStreamBanner = true
	if opts.MaxConn <= 0 {
		opts.MaxConn = connections()
	}
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
	return opts, own, probe(listen)
}

// join makes the server one of a cluster, where it is to be.
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
	opts.Cluster = server.ClusterOpts{Name: cluster, Host: host, Port: port}
	for _, r := range c.Routes {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: r})
	}
	return nil
}

// split takes an address apart; port 0 is any that is free.
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

// probe tries the address, since the server itself would only log that it is taken.
func probe(listen string) error {
	l, err := net.Listen("tcp", listen)
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf(`embedded NATS: %s is in use, perhaps by another stack; set AO_NATS_LISTEN to another address such as "127.0.0.1:4322", or to "none" when no other process needs it`, listen)
	default:
		return fmt.Errorf(`embedded NATS: cannot listen on %s (%w); set AO_NATS_LISTEN to another address such as "127.0.0.1:4222", or to "none"`, listen, err)
	}
}

// lockDir keeps two servers from writing into one directory.
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
		return nil, fmt.Errorf("embedded NATS: the data directory %s is in use by another process; set AO_DATA_DIR to another one", dir)
	}
	return f, nil
}

// Dial connects in-process, without a socket; where others have to log in, as a coordinator. It works with Listen "none" too.
func (s *Server) Dial(opts ...nats.Option) (*nats.Conn, error) {
	return s.DialAs(users.Coordinator, opts...)
}

// URL is where other processes find the server; empty with Listen "none".
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

// SyncAlways says whether every write is on disk before it is acknowledged, as the running server has it.
func (s *Server) SyncAlways() bool {
	js := s.ns.Load().JetStreamConfig()
	return js != nil && js.SyncAlways
}

// Close stops the server cleanly and waits until its files are closed. It may be called twice.
func (s *Server) Close() {
	s.once.Do(func() {
		close(s.end)
		s.over.Wait()
		s.stop()
		s.staging.close()
		s.lock.Close()
	})
}

// stop ends the server that runs.
func (s *Server) stop() {
	ns := s.ns.Load()
	ns.Shutdown()
	ns.WaitForShutdown()
}

// logger hands the server's lines to slog.
type logger struct {
	log   *slog.Logger
	fatal chan string
}

func (l *logger) say(level slog.Level, format string, v []any) {
	l.log.Log(context.Background(), level, "nats-server", "text", fmt.Sprintf(format, v...))
}

func (l *logger) Noticef(format string, v ...any) { l.say(slog.LevelDebug, format, v) }
func (l *logger) Debugf(format string, v ...any)  { l.say(slog.LevelDebug, format, v) }
func (l *logger) Tracef(format string, v ...any)  { l.say(slog.LevelDebug, format, v) }
func (l *logger) Warnf(format string, v ...any)   { l.say(slog.LevelWarn, format, v) }
func (l *logger) Errorf(format string, v ...any)  { l.say(slog.LevelError, format, v) }
func (l *logger) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
	}
}
