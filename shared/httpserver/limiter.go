package httpserver

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// bodyTimeout is how long a body may take that no handler reads, and what is left of one after the answer.
const bodyTimeout = 15 * time.Second

// minConnections is the smallest limit that makes sense: some are kept for callers that are answered at once.
const minConnections = 16

// limiter has so many connections at once. One that comes beyond that closes the one that has waited longest without a
// request: idle, or still at its headers. A part is kept for such, so requests under way never take all.
type limiter struct {
	next   http.Handler
	limit  int // connections
	busy   int // of them with a request under way
	always string

	mu      sync.Mutex
	open    map[net.Conn]*conn
	waiting conn // a ring: its next is the one that waits longest
	active  int
}

// conn is one connection.
type conn struct {
	conn       net.Conn
	prev, next *conn // among those that wait; nil: it does not
	active     bool
	closed     bool // by the limiter
}

func newLimiter(next http.Handler, most int, always string) *limiter {
	most = max(most, minConnections)
	l := &limiter{next: next, limit: most, busy: most - most/8, always: always, open: map[net.Conn]*conn{}}
	l.waiting.prev, l.waiting.next = &l.waiting, &l.waiting
	return l
}

type connKey struct{}

// add counts a connection in, and has its requests know it.
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

// hangUp closes a connection. TLS is left without a farewell, which could take seconds.
func hangUp(c net.Conn) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	_ = c.Close() // whoever reads from it sees that
}

// wait puts a connection behind those that wait. The caller holds mu.
func (l *limiter) wait(one *conn) {
	one.prev, one.next = l.waiting.prev, &l.waiting
	one.prev.next, one.next.prev = one, one
}

// unlink takes a connection out of those that wait. The caller holds mu.
func (l *limiter) unlink(one *conn) {
	if one.next != nil {
		one.prev.next, one.next.prev = one.next, one.prev
		one.prev, one.next = nil, nil
	}
}

// stateChanged hears from net/http what becomes of a connection.
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

// idle puts a connection behind those that wait: it is answered, or is so at once. The caller holds mu.
func (l *limiter) idle(one *conn) {
	if one == nil || !one.active || l.open[one.conn] != one {
		return
	}
	one.active = false
	l.active--
	l.unlink(one)
	l.wait(one)
}

// limitBody bounds how long net/http waits for a body that is not read: before the answer, or after it where the
// connection is closed then. What is read has a deadline of its own.
func (l *limiter) limitBody(w http.ResponseWriter, r *http.Request, one *conn) (after func()) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead { // nobody reads it
		w.Header().Set("Connection", "close")
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(bodyTimeout))
	return func() {
		_ = c.SetReadDeadline(time.Now().Add(bodyTimeout))
		l.mu.Lock()
		defer l.mu.Unlock()
		l.idle(one)
	}
}

// ServeHTTP refuses a request while too many are under way. One whose connection was closed meanwhile is not begun: its
// caller knows that it got no answer.
func (l *limiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one, _ := r.Context().Value(connKey{}).(*conn)
	l.mu.Lock()
	closed, full := one != nil && one.closed, l.active > l.busy
	if full && !closed {
		l.idle(one)
	}
	l.mu.Unlock()
	if r.ContentLength != 0 && !closed {
		defer l.limitBody(w, r, one)()
	}
	switch {
	case closed:
		panic(http.ErrAbortHandler)
	case full && r.URL.Path != l.always:
		w.Header().Set("Connection", "close")
		w.Header().Set("Retry-After", "2")
		writeRefusal(w, http.StatusServiceUnavailable, "unavailable",
			"Too many requests are under way (AO_MAX_CONNECTIONS); come again later")
	default:
		l.next.ServeHTTP(w, r)
	}
}
