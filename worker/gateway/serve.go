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

// statuses is what a fault is over HTTP.
var statuses = map[fault.Kind]int{
	fault.Invalid: 400, fault.Unauthorized: 401, fault.Forbidden: 403, fault.NotFound: 404, fault.Conflict: 409, fault.TooLarge: 413, fault.Busy: 429, fault.Unavailable: 503, fault.Internal: 500,
}

// route is something there is. In its path * stands for one segment, ** at the end for one or more.
type route struct {
	method, path string
	do           func(call) (any, error) // nil and nil: it has answered
	large        bool                    // its body may have MaxState bytes
}

// routes are all that there is behind a token.
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
	// As the API itself had them: for executors that know its URL, not a gateway's.
	{"GET", "/sessions/*", call.session, false},
	{"POST", "/sessions/*/bind", call.bind, false},
	{"POST", "/sessions/*/events", call.event, true},
	{"PATCH", "/sessions/*/metadata", call.metadata, false},
}

// fits tells whether a path is the route's.
func (t route) fits(path []string) bool {
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

// split gives a path's segments; nil where it has any that could mean something else to somebody else.
func split(r *http.Request) []string {
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

// ServeHTTP lets in who has the token of a run that is going on.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	port := g.addr[strings.LastIndexByte(g.addr, ':'):]
	if r.Host != g.addr && r.Host != "localhost"+port || r.Header.Get("Origin") != "" {
		refuse(w, fault.New(fault.Forbidden, "", "This is the gateway of a worker's own executors; requests for other hosts and from web pages are refused"))
		return
	}
	path := split(r)
	var d *Door
	if len(path) > 0 {
		d = g.door(path[0])
	}
	open, room := false, false
	if d != nil {
		open, room = d.enter()
	}
	switch {
	case !open:
		refuse(w, fault.New(fault.Unauthorized, "", "The URL must begin with the token of a run that is going on (AGENT_ORCHESTRATOR_API_URL); with the run's end it ends"))
		return
	case !room:
		refuse(w, fault.New(fault.Busy, "too_many_requests", "The run has "+strconv.Itoa(atOnce)+" requests under way; wait for some to be answered").After(time.Second))
		return
	}
	defer d.leave()
	if wait, ok := d.bucket.take(time.Now()); !ok {
		refuse(w, fault.New(fault.Busy, "too_many_requests", "The run asks too often; wait as long as Retry-After says").After(time.Duration(wait)*time.Second))
		return
	}
	d.serve(w, r, path[1:])
}

// serve does what a request of the run asks for.
func (d *Door) serve(w http.ResponseWriter, r *http.Request, path []string) {
	var methods []string
	for _, t := range routes {
		if !t.fits(path) {
			continue
		}
		if t.method != r.Method {
			methods = append(methods, t.method)
			continue
		}
		d.do(w, r, path, t)
		return
	}
	if methods != nil {
		w.Header().Set("Allow", strings.Join(methods, ", "))
		answer(w, http.StatusMethodNotAllowed, fault.New(fault.Invalid, "method_not_allowed", "/"+strings.Join(path, "/")+" takes "+strings.Join(methods, ", ")))
		return
	}
	var there []string
	for _, t := range routes {
		if s := t.method + " " + t.path; !strings.HasPrefix(t.path, "/sessions") && !slices.Contains(there, s) {
			there = append(there, s)
		}
	}
	refuse(w, fault.New(fault.NotFound, "", "There is no such path here; there is "+strings.Join(there, ", ")))
}

func (d *Door) do(w http.ResponseWriter, r *http.Request, path []string, t route) {
	conn := http.NewResponseController(w)
	body, free, err := d.read(w, r, t)
	defer free()
	if err != nil {
		w.Header().Set("Connection", "close")
		refuse(w, err)
		return
	}
	conn.SetReadDeadline(time.Time{})  // or its end would look like the client's
	conn.SetWriteDeadline(time.Time{}) // that of an earlier request of the connection
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer d.onEnd(func() { // a client that does not read is not waited for long
		cancel()
		conn.SetWriteDeadline(time.Now().Add(lastAnswer))
	})()
	c := call{Door: d, w: w, r: r, ctx: ctx, path: path, body: body}
	v, err := t.do(c)
	switch {
	case err != nil:
		if f := fault.Of(err); f.Kind == fault.Internal && ctx.Err() == nil {
			d.g.Log.Error("the gateway could not do what a run asked for", "run", d.run.Invocation.RunID, "path", t.path, "err", err)
		}
		c.hurry()
		refuse(w, err)
	case v != nil:
		c.hurry()
		answer(w, http.StatusOK, v)
	}
}

// read reads a request's body. free returns what the body holds of the run's memory; it is never nil.
//
// The end of the run sets the connection's read deadline, and only here: afterwards net/http itself reads from the connection, and
// takes an expired deadline for the loss of the client. Every later request of that connection would be canceled.
func (d *Door) read(w http.ResponseWriter, r *http.Request, t route) (body []byte, free func(), err error) {
	free = func() {}
	conn := http.NewResponseController(w)
	defer d.onEnd(func() { conn.SetReadDeadline(past) })()
	limit := int64(maxBody)
	if t.large {
		limit = d.g.MaxState
	}
	from := http.MaxBytesReader(w, r.Body, limit)
	body, err = io.ReadAll(io.LimitReader(from, maxBody+1))
	if err == nil && len(body) > maxBody {
		if !d.hold(limit) { // what it can have
			return nil, free, errFull
		}
		free = func() { d.hold(-limit) }
		var more []byte
		more, err = io.ReadAll(from)
		body = append(body, more...)
	}
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, free, fault.Newf(fault.TooLarge, "The body may have %d bytes", over.Limit)
	}
	if err != nil {
		return nil, free, fault.Wrap(fault.Invalid, "", "The body did not come in time, or not whole", err)
	}
	return body, free, d.ctx.Err() // the connection of a run that ended meanwhile is closed: its deadline has expired
}

// onEnd has f called when the run ends, in a goroutine of its own. After stop returns, f is not running and will not be called.
func (d *Door) onEnd(f func()) (stop func()) {
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

// past is a deadline that is over.
var past = time.Unix(1, 0)

// lastAnswer is how long a client may take to read its answer after the end of the run.
const lastAnswer = time.Second
