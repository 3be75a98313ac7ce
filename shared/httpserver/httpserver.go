// Package httpserver is the common part of all our HTTP servers. It has timeouts, and a limit of connections under
// which new callers still get an answer. Errors are JSON also where net/http rejects a request before any handler.
package httpserver

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Config configures a server. Its zero value works.
type Config struct {
	Connections int          // maximum number; default defaultConnections
	Always      []string     // paths that are served even while too many requests are in progress
	Log         *slog.Logger // default slog.Default()
}

// Requests returns how many requests a server with so many connections (0: the default) handles at a time.
func Requests(connections int) int {
	most := max(cmp.Or(connections, defaultConnections()), minConnections)
	return most - most/8
}

// headerBytes is the size limit of a request's first line and headers.
const headerBytes = 64 << 10

// bodyTimeout is the time limit for a body. net/http lifts it once the body has arrived; a handler may set a later one
// while it reads.
const bodyTimeout = 15 * time.Second

// New makes a server. Its Serve needs connections from Listen.
func New(h http.Handler, c Config) *http.Server {
	l := newLimiter(h, cmp.Or(c.Connections, defaultConnections()), c.Always)
	return &http.Server{
		Handler: l, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: bodyTimeout, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes:               headerBytes,
		DisableGeneralOptionsHandler: true,
		ConnContext:                  func(ctx context.Context, c net.Conn) context.Context { return l.add(ctx, c) },
		ConnState:                    l.stateChanged,
		ErrorLog:                     slog.NewLogLogger(cmp.Or(c.Log, slog.Default()).Handler(), slog.LevelDebug),
	}
}

// maxConnections is more than a coordinator is known to need; idle, they take about 200 MiB.
const maxConnections = 10_000

// defaultConnections is half of the open-file limit, at most maxConnections.
func defaultConnections() int {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return 512
	}
	return int(max(minConnections, min(files.Cur/2, maxConnections)))
}
