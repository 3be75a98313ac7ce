package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ao/coordinator/budget"
	"ao/coordinator/dashboard"
	"ao/shared/fault"
	"ao/shared/trace"

	"github.com/gin-gonic/gin"
)

// middleware handles every request before its route.
type middleware struct {
	anyHost      bool   // any Host header is allowed
	host, public string // our own names, beside loopback

	guard   *guard
	places  *requests
	memory  *budget.Memory
	trace   *trace.Tracer // nil: no spans
	meter   *meter
	audit   *recorder
	answers *answers
	log     *slog.Logger

	prefix   string // of request ids
	requests atomic.Uint64
	open     atomic.Int64 // requests in progress
}

// handle gives a request an id, refuses foreign pages, authorizes it, recovers from panics, and logs one line without
// payloads.
func (d *middleware) handle(g *gin.Context) {
	began := time.Now()
	d.open.Add(1)
	defer d.open.Add(-1)
	g.Writer.Header()["X-Request-Id"] = []string{d.nameRequest(g.Request)}
	g.Writer.Header()["X-Content-Type-Options"] = noSniff
	g.Writer.Header()["Cache-Control"] = noStore
	g.Writer.Header()["Content-Security-Policy"] = apiPolicy
	span := startTrace(d.trace, g)
	x := newExchange(g)
	defer x.close()
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			d.log.Error("panic", "request", requestID(g), "route", pattern(g), "panic", p, "stack",
				string(debug.Stack()))
			if g.Writer.Written() {
				panic(http.ErrAbortHandler) // the answer is incomplete: abort the connection
			}
			d.answers.write(g, reply{status: http.StatusInternalServerError, body: fault.Of(errPanic)})
		}
		took := time.Since(began)
		d.logRequest(g, took)
		d.meter.measure(g, took)
		endSpan(span, g.Writer.Status())
		d.audit.record(g, g.Writer.Status())
	}()
	err := d.checkOrigin(g.Request)
	if g.Request.URL.Path == "/" {
		g.Writer.Header().Set("Vary", "Accept")
		if err == nil && toDashboard(g.Request) {
			d.answers.write(g, reply{status: http.StatusSeeOther, location: dashboard.Root})
			g.Abort()
			return
		}
	}
	if err == nil {
		err = d.guard.authorize(g)
	}
	if err == nil {
		var leave func()
		leave, err = d.places.enter(g)
		defer leave()
	}
	x.setMemory(d.memory)
	if g.Request.ContentLength != 0 && (err != nil || g.FullPath() == "") { // the body was not read
		g.Writer.Header().Set("Connection", "close")
	}
	if err != nil {
		d.answers.refuse(g, err)
		g.Abort()
		return
	}
	g.Next()
}

var errPanic = errors.New("panic")

// logRequest writes the access log: reads at debug level, changes at info.
func (d *middleware) logRequest(g *gin.Context, took time.Duration) {
	level := slog.LevelInfo
	if g.Request.Method == http.MethodGet || g.Request.Method == http.MethodHead {
		level = slog.LevelDebug
	}
	ctx := context.Background()
	if !d.log.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs, slog.String("request", requestID(g)), slog.String("method", g.Request.Method),
		slog.String("route", pattern(g)),
		slog.Int("status", g.Writer.Status()), slog.Duration("took", took.Round(time.Microsecond)))
	if at := g.Writer.Header().Get("Location"); at != "" {
		attrs = append(attrs, slog.String("location", at))
	} else if id := g.Param("id"); id != "" && len(id) <= 80 {
		attrs = append(attrs, slog.String("id", id))
	}
	switch who := caller(g); {
	case who.Session != "":
		attrs = append(attrs, slog.String("session", who.Session))
	case who.Name != "":
		attrs = append(attrs, slog.String("token", who.Name)) // its name
	}
	d.log.LogAttrs(ctx, level, "http", attrs...)
}

var sane = regexp.MustCompile(`^[0-9A-Za-z._:-]{1,128}$`)

// nameRequest returns the caller's X-Request-Id if it is safe to log, else a new id.
func (d *middleware) nameRequest(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && sane.MatchString(id) {
		return id
	}
	return d.prefix + strconv.FormatUint(d.requests.Add(1), 36)
}

// checkOrigin refuses requests of foreign web pages: a foreign Host may be DNS rebinding, a foreign Origin is another
// page.
func (d *middleware) checkOrigin(r *http.Request) error {
	if !d.anyHost && r.Host != "" && !d.isOwnHost(r.Host) {
		return fault.Newf(fault.Forbidden,
			"Host %.80q is not this coordinator's; use localhost, 127.0.0.1 or [::1], or name it in AO_PUBLIC_URL",
			r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return fault.New(fault.Forbidden, "foreign_origin",
				"Requests from other web pages are refused: the Origin header is not this address")
		}
	}
	// reads are checked too, since they often have no Origin
	if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && !opensPage(r) {
		return fault.New(fault.Forbidden, "foreign_origin",
			"Requests from other web pages are refused: Sec-Fetch-Site is "+site)
	}
	return nil
}

// isOwnHost reports whether a Host header names loopback or our address, at any port.
func (d *middleware) isOwnHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	for _, our := range []string{"localhost", d.host, d.public} {
		if our != "" && strings.EqualFold(name, our) {
			return true
		}
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}
