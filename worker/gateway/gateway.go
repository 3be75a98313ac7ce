// Package gateway is the one HTTP door that a worker process has, on 127.0.0.1, for the programs of its runs. Each run has a URL of
// its own, http://127.0.0.1:PORT/TOKEN, which is good as long as the run is: who only knows that URL binds its session there, tells
// events and its result, keeps the conversation for the next run, and reaches the orchestrator's API and MCP server as its session.
// Nothing else of the worker can be reached by it, and an executor holds no other credential.
package gateway

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/tlsroots"
)

// Config is what a Gateway is made of; its zero value works.
type Config struct {
	Rate        float64       // requests of one run per second in the long run; default 500
	Burst       int           // requests of one run at once; default 1000
	MaxState    int64         // largest state, and largest body that is handed on to the API, in bytes; default 16 MiB
	Patience    time.Duration // within which a request's head is to be there; default 5 s. For its body six times that.
	Connections int           // open at once, all runs together; more wait; default 1024
	CA          string        // file of authorities whose certificates the API may have, beside the system's (AO_CA)
	Log         *slog.Logger  // default slog.Default()
}

// Limits that nobody needs to change.
const (
	maxBody  = 1 << 20   // bytes of a request's body, but for those that MaxState is for
	maxEvent = 500 << 10 // bytes of an event: with what is added to it, it fits into a message
	atOnce   = 64        // requests of one run that are under way

	largeAtOnce = 4 // MaxState so many times is what the larger bodies of one run may have together
)

// Run is what a door leads to.
type Run struct {
	Invocation executor.Invocation // as its executor has it

	// Tell takes a line of the protocol as if it stood on stdout: an event, what is bound, a result. It returns once that is taken,
	// and its error says why not. ctx ends with the request or the run.
	Tell func(ctx context.Context, l executor.Line) error

	// LeftOut hears the size of each event that is refused since it is too large, in bytes; nil: nobody does.
	LeftOut func(bytes int)

	// State and Keep are those of executor.Host; nil: nothing can be kept.
	State func(ctx context.Context) ([]byte, error)
	Keep  func(ctx context.Context, state []byte) error

	// API is where the orchestrator's HTTP API is, empty: not known. Token gives what it knows the session by: it is asked for when
	// something is passed on, which few runs do.
	API   func() string
	Token func() string

	// Trace is whose trace the run is a part of: requests to the API and the MCP server go on with it, unless the program that makes
	// them says better. Nil: nobody's.
	Trace *run.Trace

	// Same, if not empty, has all doors that were opened with it, one after the other, at the same URL: for a program that lives through
	// several runs of a session.
	Same string
}

// Gateway is the door of a worker process.
type Gateway struct {
	Config
	addr   string
	server *http.Server
	out    *http.Transport // to the API
	secret [32]byte
	served chan struct{}

	mu    sync.Mutex
	doors map[[sha256.Size]byte]*Door // by the hash of their tokens: how long it takes to look says nothing about a token
}

// New opens the door, on 127.0.0.1 and a port that is free; Close closes it.
func New(c Config) (*Gateway, error) {
	c.Rate, c.Burst = cmp.Or(c.Rate, 500), cmp.Or(c.Burst, 1000)
	c.MaxState, c.Patience, c.Connections = cmp.Or(c.MaxState, 16<<20), cmp.Or(c.Patience, 5*time.Second), cmp.Or(c.Connections, 1024)
	c.Log = cmp.Or(c.Log, slog.Default())
	believes, err := tlsroots.Config(c.CA)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the local gateway for executors: %w", err)
	}
	g := &Gateway{Config: c, addr: l.Addr().String(), out: transport(believes), served: make(chan struct{}), doors: map[[sha256.Size]byte]*Door{}}
	rand.Read(g.secret[:])
	g.server = &http.Server{
		Handler: g, ReadHeaderTimeout: c.Patience, ReadTimeout: 6 * c.Patience, IdleTimeout: 6 * c.Patience, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(g.served)
		if err := g.server.Serve(&limited{Listener: l, slots: make(chan struct{}, c.Connections)}); !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("the local gateway for executors is closed", "err", err)
		}
	}()
	return g, nil
}

// Close ends what is under way and frees the port. Runs are to have ended before.
func (g *Gateway) Close() {
	g.mu.Lock()
	var open []*Door
	for _, d := range g.doors {
		open = append(open, d)
	}
	g.mu.Unlock()
	for _, d := range open {
		d.Close()
	}
	g.server.Close()
	<-g.served
	g.out.CloseIdleConnections()
}

// Door is one run's way in.
type Door struct {
	URL string

	run    Run
	g      *Gateway
	token  string
	key    [sha256.Size]byte // of the token, in the gateway's list
	bucket bucket
	ctx    context.Context // ends with the run
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	inside int
	held   int64          // bytes of larger bodies
	gone   sync.WaitGroup // requests under way
}

// Open makes a run's door.
func (g *Gateway) Open(r Run) *Door {
	token := rand.Text()
	if r.Same != "" {
		m := hmac.New(sha256.New, g.secret[:])
		m.Write([]byte(r.Same))
		token = strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(m.Sum(nil)))
	}
	d := &Door{URL: "http://" + g.addr + "/" + token, run: r, g: g, token: token, key: sha256.Sum256([]byte(token)), bucket: bucket{rate: g.Rate, size: float64(g.Burst)}}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	g.mu.Lock()
	g.doors[d.key] = d
	g.mu.Unlock()
	return d
}

// Close ends the run's way in: from now on its token is nobody's. What is under way is ended, and Close returns when nothing is.
func (d *Door) Close() {
	d.g.remove(d)
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	d.gone.Wait()
}

// remove has the door found no more, unless another has its place.
func (g *Gateway) remove(d *Door) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.doors[d.key] == d {
		delete(g.doors, d.key)
	}
}

// door is the one with this token; nil: there is none.
func (g *Gateway) door(token string) *Door {
	g.mu.Lock()
	d := g.doors[sha256.Sum256([]byte(token))]
	g.mu.Unlock()
	if d == nil || subtle.ConstantTimeCompare([]byte(d.token), []byte(token)) != 1 {
		return nil
	}
	return d
}

// enter counts a request in; false: the run is over, or it has too many under way.
func (d *Door) enter() (open, room bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.inside >= atOnce {
		return !d.closed, false
	}
	d.inside++
	d.gone.Add(1)
	return true, true
}

func (d *Door) leave() {
	d.mu.Lock()
	d.inside--
	d.mu.Unlock()
	d.gone.Done()
}

// hold counts bytes of a larger body in; false: there are too many already. Negative ones go.
func (d *Door) hold(n int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n > 0 && d.held+n > largeAtOnce*d.g.MaxState {
		return false
	}
	d.held += n
	return true
}

var errFull = fault.New(fault.Busy, "too_many_requests", "The run has too many large requests under way; wait for some to be answered").After(time.Second)

// limited has so many connections at once; others wait in the system's queue.
type limited struct {
	net.Listener
	slots chan struct{}
	once  sync.Once
	over  chan struct{}
}

func (l *limited) ended() chan struct{} {
	l.once.Do(func() { l.over = make(chan struct{}) })
	return l.over
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.ended():
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &counted{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

func (l *limited) Close() error {
	select {
	case <-l.ended():
	default:
		close(l.over)
	}
	return l.Listener.Close()
}

type counted struct {
	net.Conn
	free func()
}

func (c *counted) Close() error {
	defer c.free()
	return c.Conn.Close()
}
