package httpapi

import (
	"bytes"
	"cmp"
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
	"time"

	"ao/shared/fault"

	"github.com/gin-gonic/gin"
)

// door is what every request passes, known route or not: it gets an id, foreign pages are turned away, a panic becomes an
// answer, and the log gets one line without any payload.
func (a *API) door(g *gin.Context) {
	began := time.Now()
	a.open.Add(1)
	defer a.open.Add(-1)
	g.Writer.Header()["X-Request-Id"] = []string{a.nameRequest(g.Request)}
	g.Writer.Header()["X-Content-Type-Options"] = noSniff
	g.Writer.Header()["Cache-Control"] = noStore
	span := a.traced(g)
	x := enter(g)
	defer x.close()
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			a.log.Error("panic", "request", requestID(g), "route", pattern(g), "panic", p, "stack", string(debug.Stack()))
			if g.Writer.Written() {
				panic(http.ErrAbortHandler) // half an answer: let the caller see that it is none
			}
			a.write(g, reply{status: http.StatusInternalServerError, body: fault.Of(errPanic)})
		}
		took := time.Since(began)
		a.tell(g, took)
		a.measure(g, took)
		answered(span, g.Writer.Status())
		a.record(g, g.Writer.Status())
	}()
	err := a.admit(g.Request)
	if err == nil {
		err = a.authorize(g)
	}
	x.lend(a.cfg.Memory)
	if g.Request.ContentLength != 0 && (err != nil || g.FullPath() == "") { // nobody reads the body, nor waits for it
		g.Writer.Header().Set("Connection", "close")
	}
	if err != nil {
		a.refuse(g, err)
		g.Abort()
		return
	}
	g.Next()
}

var (
	errPanic = errors.New("panic")
	noSniff  = []string{"nosniff"}
	noStore  = []string{"no-store"}
)

// tell writes the access log: reads are for debugging, writes are news.
func (a *API) tell(g *gin.Context, took time.Duration) {
	level := slog.LevelInfo
	if g.Request.Method == http.MethodGet || g.Request.Method == http.MethodHead {
		level = slog.LevelDebug
	}
	ctx := context.Background()
	if !a.log.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs, slog.String("request", requestID(g)), slog.String("method", g.Request.Method), slog.String("route", pattern(g)),
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
	a.log.LogAttrs(ctx, level, "http", attrs...)
}

// pattern is the route that matched, never what the caller sent.
func pattern(g *gin.Context) string { return cmp.Or(g.FullPath(), "unknown") }

func requestID(g *gin.Context) string { return g.Writer.Header().Get("X-Request-Id") }

var sane = regexp.MustCompile(`^[0-9A-Za-z._:-]{1,128}$`)

// nameRequest takes the caller's X-Request-Id where it is harmless in logs, else makes one.
func (a *API) nameRequest(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && sane.MatchString(id) {
		return id
	}
	return a.prefix + strconv.FormatUint(a.requests.Add(1), 36)
}

// admit turns away what a web page of somebody else would send: a foreign Host is what DNS rebinding looks like, a foreign
// Origin is a page that is not ours (design section 6).
func (a *API) admit(r *http.Request) error {
	if !a.cfg.AnyHost && r.Host != "" && !a.ours(r.Host) {
		return fault.Newf(fault.Forbidden, "Host %.80q is not this coordinator's; use localhost, 127.0.0.1 or [::1], or name it in AO_PUBLIC_URL", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return fault.New(fault.Forbidden, "foreign_origin", "Requests from other web pages are refused: the Origin header is not this address")
		}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" { // reads too: their Origin is often left out
		return fault.New(fault.Forbidden, "foreign_origin", "Requests from other web pages are refused: Sec-Fetch-Site is "+site)
	}
	return nil
}

// ours tells whether a Host header names this machine's loopback or the address we listen on, at any port: a forwarded port
// has another number.
func (a *API) ours(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	for _, our := range []string{"localhost", a.cfg.Host, a.cfg.Public} {
		if our != "" && strings.EqualFold(name, our) {
			return true
		}
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

// noBody refuses a body where a route takes none; an empty object is none.
func (a *API) noBody(g *gin.Context) error {
	if g.Request.ContentLength == 0 {
		return nil
	}
	raw, err := a.body(g)
	if err != nil {
		return err
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "{}" {
		return nil
	}
	return fault.New(fault.Invalid, "", "This route takes no body; leave it out")
}
