package httpserver

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// minConnections is the smallest limit: some are reserved for callers that are answered at once.
const minConnections = 16

// limiter limits the number of connections. A connection beyond the limit closes the one that has waited
// longest without a request: idle, or still sending headers. Some are reserved for these, so that requests in
// progress never take all.
type limiter struct {
	next   http.Handler
	limit  int // connections
	busy   int // of them with a request in progress
	always []string

	mu      sync.Mutex
	open    map[net.Conn]*conn
	waiting conn // a ring: its next has waited longest
	active  int
}

type conn struct {
	conn       net.Conn
	prev, next *conn // among those that wait; nil: it does not
	active     bool
	closed     bool // by the limiter
}

func newLimiter(next http.Handler, most int, always []string) *limiter {
	most = max(most, minConnections)
	l := &limiter{next: next, limit: most, busy: Requests(most), always: always, open: map[net.Conn]*conn{}}
	l.waiting.prev, l.waiting.next = &l.waiting, &l.waiting
	return l
}

type connKey struct{}

// add counts a connection, and puts it into the context of its requests.
func (l *limiter) add(ctx context.Context, c net.Conn) context.Context {
	one := &conn{conn: c}
	l.mu.Lock()
	l.open[c] = one
	l.wait(one)
	var over *conn
	if len(l.open) > l.limit {
		over = l.waiting.next
		l.unlink(over)
		over.closed = true
		delete(l.open, over.conn)
	}
	l.mu.Unlock()
	if over != nil {
		hangUp(over.conn)
	}
	return context.WithValue(ctx, connKey{}, one)
}

// hangUp closes a connection, of TLS the one below: a close_notify could take seconds.
func hangUp(c net.Conn) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	_ = c.Close() // whoever reads from it sees that
}

// wait puts a connection at the end of the ring. The caller holds mu.
func (l *limiter) wait(one *conn) {
	one.prev, one.next = l.waiting.prev, &l.waiting
	one.prev.next, one.next.prev = one, one
}

// unlink takes a connection out of the ring. The caller holds mu.
func (l *limiter) unlink(one *conn) {
	if one.next != nil {
		one.prev.next, one.next.prev = one.next, one.prev
		one.prev, one.next = nil, nil
	}
}

// stateChanged is net/http's hook for the state of connections.
func (l *limiter) stateChanged(c net.Conn, s http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.open[c]
	if one == nil {
		return
	}
	active := s == http.StateActive
	if active != one.active {
		one.active = active
		if active {
			l.active++
		} else {
			l.active--
		}
	}
	l.unlink(one)
	switch s {
	case http.StateClosed, http.StateHijacked:
		delete(l.open, c)
	case http.StateIdle, http.StateNew:
		l.wait(one)
	}
}

// idle puts a connection into the ring once it is answered. The caller holds mu.
func (l *limiter) idle(one *conn) {
	if one == nil || !one.active || l.open[one.conn] != one {
		return
	}
	one.active = false
	l.active--
	l.unlink(one)
	l.wait(one)
}

// answered counts a connection as idle after a response: net/http reads what is left of a body, and closes it.
func (l *limiter) answered(one *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle(one)
}

// ServeHTTP rejects a request while too many are in progress. It drops a request whose connection was closed
// meanwhile: its caller knows that there is no response.
func (l *limiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one, _ := r.Context().Value(connKey{}).(*conn)
	l.mu.Lock()
	closed, full := one != nil && one.closed, l.active > l.busy
	if full && !closed {
		l.idle(one)
	}
	l.mu.Unlock()
	if r.ContentLength != 0 && !closed {
		if r.Method == http.MethodGet || r.Method == http.MethodHead { // nobody reads its body
			w.Header().Set("Connection", "close")
		}
		defer l.answered(one)
	}
	switch {
	case closed:
		panic(http.ErrAbortHandler)
	case full && !slices.Contains(l.always, r.URL.Path):
		w.Header().Set("Connection", "close")
		w.Header().Set("Retry-After", "2")
		writeRefusal(w, http.StatusServiceUnavailable, "unavailable",
			"Too many requests are in progress (AO_MAX_CONNECTIONS); try again later")
	default:
		l.next.ServeHTTP(w, r)
	}
}
