package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"ao/shared/fault"
)

// route is one route. In its path * matches one segment, ** at the end one or more.
type route struct {
	method, path string
	do           func(call) (any, error) // nil and nil: the response is written
	large        bool                    // its body may have MaxState bytes
}

// routes are all routes behind a token.
var routes = []route{
	{"POST", "/bind", call.bind, false},
	{"POST", "/events", call.event, true},
	{"PATCH", "/metadata", call.metadata, false},
	{"GET", "/state", call.state, false},
	{"PUT", "/state", call.keep, true},
	{"POST", "/mcp", call.mcp, true},
	{"GET", "/mcp", call.mcp, false},
	{"DELETE", "/mcp", call.mcp, false},
	{"POST", "/api/runs", call.api, true},
	{"GET", "/api/runs/*", call.api, false},
	{"GET", "/api/runs/*/result", call.api, false},
	{"GET", "/api/runs/*/wait", call.api, false},
	{"POST", "/api/runs/*/stop", call.api, false},
	{"GET", "/api/sessions/**", call.api, false},
	{"POST", "/api/sessions/*/stop", call.api, false},
	{"GET", "/api/agents", call.api, false},
	// Paths of the API itself, for executors written for its URL.
	{"GET", "/sessions/*", call.session, false},
	{"POST", "/sessions/*/bind", call.bind, false},
	{"POST", "/sessions/*/events", call.event, true},
	{"PATCH", "/sessions/*/metadata", call.metadata, false},
}

// matches reports whether the route has this path.
func (t route) matches(path []string) bool {
	want := strings.Split(t.path[1:], "/")
	for i, w := range want {
		switch {
		case w == "**":
			return len(path) > i
		case i >= len(path), w != "*" && w != path[i]:
			return false
		}
	}
	return len(path) == len(want)
}

// splitPath returns a path's segments; nil if another parser could read one differently.
func splitPath(r *http.Request) []string {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if len(path) > 1 && path[len(path)-1] == "" {
		path = path[:len(path)-1]
	}
	for _, p := range path {
		if p == "" || p == "." || p == ".." || strings.ContainsAny(p, "%\\?#\x00") {
			return nil
		}
	}
	if r.URL.RawPath != "" {
		return nil
	}
	return path
}

// ServeHTTP serves requests that carry the token of a running run.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	port := g.addr[strings.LastIndexByte(g.addr, ':'):]
	if r.Host != g.addr && r.Host != "localhost"+port || r.Header.Get("Origin") != "" {
		writeError(w, fault.New(fault.Forbidden, "",
			"this gateway serves a worker's own executors; requests for other hosts and from web pages are refused"))
		return
	}
	path := splitPath(r)
	var d *Endpoint
	if len(path) > 0 {
		d = g.lookup(path[0])
	}
	open, room := false, false
	if d != nil {
		open, room = d.acquire()
	}
	switch {
	case !open:
		writeError(w, fault.New(fault.Unauthorized, "",
			"the URL must begin with the token of a running run (AGENT_ORCHESTRATOR_API_URL); it expires when the "+
				"run ends"))
		return
	case !room:
		writeError(w, fault.New(fault.Busy, "too_many_requests", "the run has "+strconv.Itoa(maxConcurrent)+
			" requests in flight; wait for some to be answered").After(time.Second))
		return
	}
	defer d.release()
	if next := d.limiter.Reserve(); next.Delay() > 0 {
		writeError(w, fault.New(fault.Busy, "too_many_requests",
			"the run sends too many requests; wait as long as Retry-After says").
			After((next.Delay() + time.Second - 1).Truncate(time.Second)))
		next.Cancel()
		return
	}
	d.serve(w, r, path[1:])
}

// serve dispatches a request to its route.
func (d *Endpoint) serve(w http.ResponseWriter, r *http.Request, path []string) {
	var methods []string
	for _, t := range routes {
		if !t.matches(path) {
			continue
		}
		if t.method != r.Method {
			methods = append(methods, t.method)
			continue
		}
		d.handle(w, r, path, t)
		return
	}
	if methods != nil {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		writeJSON(w, http.StatusMethodNotAllowed, fault.New(fault.Invalid, "method_not_allowed",
			"/"+strings.Join(path, "/")+" takes "+strings.Join(methods, ", ")))
		return
	}
	var there []string
	for _, t := range routes {
		if s := t.method + " " + t.path; !strings.HasPrefix(t.path, "/sessions") && !slices.Contains(there, s) {
			there = append(there, s)
		}
	}
	writeError(w, fault.New(fault.NotFound, "", "unknown path; known paths: "+strings.Join(there, ", ")))
}

func (d *Endpoint) handle(w http.ResponseWriter, r *http.Request, path []string, t route) {
	conn := http.NewResponseController(w)
	body, free, err := d.readBody(w, r, t)
	defer free()
	if err != nil {
		w.Header().Set("Connection", "close")
		writeError(w, err)
		return
	}
	conn.SetReadDeadline(time.Time{})  // or its expiry would look like a disconnect
	conn.SetWriteDeadline(time.Time{}) // set by an earlier request of the connection
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer d.onEnd(func() { // do not wait long for a client that does not read
		cancel()
		conn.SetWriteDeadline(time.Now().Add(finalWriteTimeout))
	})()
	c := call{Endpoint: d, w: w, r: r, ctx: ctx, path: path, body: body}
	v, err := t.do(c)
	switch {
	case err != nil:
		if f := fault.Of(err); f.Kind == fault.Internal && ctx.Err() == nil {
			d.gateway.Log.Error("gateway request failed", "run", d.run.Invocation.RunID, "path", t.path, "err", err)
		}
		c.setWriteDeadline()
		writeError(w, err)
	case v != nil:
		c.setWriteDeadline()
		writeJSON(w, http.StatusOK, v)
	}
}

// readBody reads a request's body. free releases what the body reserves; it is never nil.
//
// The end of the run sets the connection's read deadline, and only here. Afterwards net/http itself reads from the
// connection and takes an expired deadline for a lost client, which would cancel every later request of that
// connection.
func (d *Endpoint) readBody(w http.ResponseWriter, r *http.Request, t route) (body []byte, free func(), err error) {
	free = func() {}
	conn := http.NewResponseController(w)
	defer d.onEnd(func() { conn.SetReadDeadline(expired) })()
	limit := int64(maxBody)
	if t.large {
		limit = d.gateway.MaxState
	}
	from := http.MaxBytesReader(w, r.Body, limit)
	body, err = io.ReadAll(io.LimitReader(from, maxBody+1))
	if err == nil && len(body) > maxBody {
		if !d.reserve(limit) { // reserve the limit, not the size
			return nil, free, errTooManyLarge
		}
		free = func() { d.reserve(-limit) }
		var more []byte
		more, err = io.ReadAll(from)
		body = append(body, more...)
	}
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, free, fault.Newf(fault.TooLarge, "the body may have at most %d bytes", over.Limit)
	}
	if err != nil {
		return nil, free, fault.Wrap(fault.Invalid, "", "the body was incomplete or came too late", err)
	}
	return body, free, d.ctx.Err() // of a run that ended meanwhile: its read deadline has expired
}

// onEnd calls f in its own goroutine when the run ends. After stop returns, f is not running and will not be called.
func (d *Endpoint) onEnd(f func()) (stop func()) {
	done := make(chan struct{})
	unhook := context.AfterFunc(d.ctx, func() {
		defer close(done)
		f()
	})
	return func() {
		if !unhook() {
			<-done
		}
	}
}

// expired is a deadline in the past.
var expired = time.Unix(1, 0)

// finalWriteTimeout is how long a client may take to read its response after the end of the run.
const finalWriteTimeout = time.Second
