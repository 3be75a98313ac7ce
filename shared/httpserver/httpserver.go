// Package httpserver is what every public HTTP server of ours shares: time limits, a limit of connections under which
// new callers are still answered, and errors in JSON also where net/http refuses a request before any handler sees it.
package httpserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Config is how a server behaves; its zero value works.
type Config struct {
	Connections int          // open at once; default defaultConnections
	Always      string       // a path that is answered also while too many requests are under way; empty: none
	TLS         *tls.Config  // nil: plain HTTP
	Log         *slog.Logger // default slog.Default()
}

// headerBytes is how long a request's first line and headers may be.
const headerBytes = 64 << 10

// New makes a server. Its Serve takes connections from Listen, which says more about them than net/http does.
func New(h http.Handler, c Config) *http.Server {
	l := newLimiter(h, cmp.Or(c.Connections, defaultConnections()), c.Always)
	return &http.Server{
		Handler: l, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: headerBytes,
		DisableGeneralOptionsHandler: true,
		ConnContext:                  func(ctx context.Context, c net.Conn) context.Context { return l.add(ctx, c) },
		ConnState:                    l.stateChanged,
		ErrorLog:                     slog.NewLogLogger(cmp.Or(c.Log, slog.Default()).Handler(), slog.LevelDebug),
	}
}

// maxConnections is more than a coordinator is known to need, and takes about 200 MiB where all of them are idle.
const maxConnections = 10_000

// defaultConnections is half of the files that this process may open, at most mostConnections.
func defaultConnections() int {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return 512
	}
	return int(max(minConnections, min(files.Cur/2, maxConnections)))
}
