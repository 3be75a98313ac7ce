package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ao/shared/fault"
	"ao/shared/wire"
)

// statuses is what a fault is over HTTP.
var statuses = map[fault.Kind]int{
	fault.Invalid: 400, fault.Unauthorized: 401, fault.Forbidden: 403, fault.NotFound: 404, fault.Conflict: 409, fault.TooLarge: 413, fault.Busy: 429, fault.Unavailable: 503, fault.Internal: 500,
}

// call is a request of a run, with its body read.
type call struct {
	*Door
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context // ends with the request and with the run
	path []string        // without the token
	body []byte
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
	{"POST", "/events", call.event, false},
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
	{"POST", "/sessions/*/events", call.event, false},
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
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	conn.SetWriteDeadline(time.Time{}) // that of an earlier request of the connection
	var mu sync.Mutex
	reading := true // the body; the server reads on behind it, and a deadline there cancels all later requests of the connection
	hooked := make(chan struct{})
	unhook := context.AfterFunc(d.ctx, func() { // nobody is waited for any more, not even one who does not read
		defer close(hooked)
		cancel()
		mu.Lock()
		defer mu.Unlock()
		if reading {
			conn.SetReadDeadline(past)
		}
		conn.SetWriteDeadline(past)
	})
	defer func() {
		if !unhook() {
			<-hooked // else it may meet the connection's next request, which may be another run's
		}
	}()
	limit := int64(maxBody)
	if t.large {
		limit = d.g.MaxState
	}
	from := http.MaxBytesReader(w, r.Body, limit)
	body, err := io.ReadAll(io.LimitReader(from, maxBody+1))
	if err == nil && len(body) > maxBody {
		if !d.hold(limit) { // what it can have
			w.Header().Set("Connection", "close")
			refuse(w, errFull)
			return
		}
		defer d.hold(-limit)
		var more []byte
		more, err = io.ReadAll(from)
		body = append(body, more...)
	}
	if err != nil {
		if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
			err = fault.Newf(fault.TooLarge, "The body may have %d bytes", over.Limit)
		} else {
			err = fault.Wrap(fault.Invalid, "", "The body did not come in time, or not whole", err)
		}
		w.Header().Set("Connection", "close")
		refuse(w, err)
		return
	}
	mu.Lock()
	reading = false
	mu.Unlock()
	if d.ctx.Err() == nil {
		conn.SetReadDeadline(time.Time{}) // or its end would look like the client's
	} else {
		w.Header().Set("Connection", "close") // its read deadline may be over
	}
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

// past is a deadline that is over.
var past = time.Unix(1, 0)

// hurry has a client that does not read its answer not waited for long, and after the run's end not at all.
func (c call) hurry() {
	conn := http.NewResponseController(c.w)
	conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
	if c.Door.ctx.Err() != nil {
		conn.SetWriteDeadline(past)
	}
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	f := fault.Of(err)
	if errors.Is(err, context.Canceled) {
		f = fault.New(fault.Unavailable, "", "The run ended meanwhile")
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
	}
	answer(w, statuses[f.Kind], f)
}

// answer writes JSON.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := wire.Encode(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"internal"}`)
	}
	send(w, status, "application/json", body)
}

func send(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body)
}
