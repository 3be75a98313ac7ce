// Package gateway is a worker's local HTTP server for the programs of its runs, on 127.0.0.1.
//
// Each run has its own URL, http://127.0.0.1:PORT/TOKEN, valid until the run ends. With that URL alone a program binds
// its session, sends events and its result, and keeps the conversation for the next run. It calls the orchestrator's
// API and MCP server as its session. The URL gives access to nothing else of the worker, and an executor holds no other
// credential.
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
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/tlsroots"
)

// Config configures a Gateway; its zero value works.
type Config struct {
	Rate           float64       // requests of one run per second, on average; default 500
	Burst          int           // requests of one run at once; default 1000
	MaxState       int64         // largest state and largest body proxied to the API, in bytes; default 16 MiB
	RequestTimeout time.Duration // to read a request's header; default 5 s. The body has six times that.
	MaxConnections int           // open connections of all runs; more wait; default 1024
	CA             string        // file of additional certificate authorities for the API (AO_CA)
	Log            *slog.Logger  // default slog.Default()
}

// Fixed limits.
const (
	maxBody       = 1 << 20   // largest body, in bytes, where MaxState does not apply
	maxEvent      = 500 << 10 // largest event, in bytes; with its envelope it fits into a message
	maxConcurrent = 64        // concurrent requests of one run

	maxLargeBodies = 4 // bodies of MaxState bytes that one run may have in memory
)

// Run is what an endpoint serves.
type Run struct {
	Invocation executor.Invocation // as the executor has it

	// OnLine handles a protocol line as if it came from stdout: an event, a bind, a result. It returns when the line
	// is accepted; the error says why not. ctx ends with the request or the run.
	OnLine func(ctx context.Context, l executor.Line) error

	// OnOversized gets the size in bytes of each event refused as too large; may be nil.
	OnOversized func(bytes int)

	// State and Keep are those of executor.Host; nil: the run keeps no state.
	State func(ctx context.Context) ([]byte, error)
	Keep  func(ctx context.Context, state []byte) error

	// API returns the URL of the orchestrator's HTTP API, empty: unknown. Token returns the session token for it; it
	// is called per proxied request.
	API   func() string
	Token func() string

	// Trace is the run's trace. Proxied requests carry it unless the program sets its own. Nil: none.
	Trace *run.Trace

	// URLKey, if not empty, gives all endpoints that are opened with it the same URL, one after the other. So a program
	// may stay for several runs of a session.
	URLKey string
}

// Gateway is the HTTP server.
type Gateway struct {
	Config
	addr      string
	server    *http.Server
	transport *http.Transport
	secret    [32]byte
	served    chan struct{}

	mu sync.Mutex
	// by the hash of their tokens, so that lookup time reveals nothing about a token
	endpoints map[[sha256.Size]byte]*Endpoint
}

// New starts a gateway on a free port of 127.0.0.1; Close stops it.
func New(c Config) (*Gateway, error) {
	c.Rate, c.Burst = cmp.Or(c.Rate, 500), cmp.Or(c.Burst, 1000)
	c.MaxState, c.RequestTimeout, c.MaxConnections = cmp.Or(c.MaxState, 16<<20),
		cmp.Or(c.RequestTimeout, 5*time.Second), cmp.Or(c.MaxConnections, 1024)
	c.Log = cmp.Or(c.Log, slog.Default())
	believes, err := tlsroots.Config(c.CA)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("local gateway for executors: %w", err)
	}
	g := &Gateway{Config: c, addr: l.Addr().String(), transport: newTransport(believes), served: make(chan struct{}),
		endpoints: map[[sha256.Size]byte]*Endpoint{}}
	rand.Read(g.secret[:])
	g.server = &http.Server{
		Handler: g, ReadHeaderTimeout: c.RequestTimeout, ReadTimeout: 6 * c.RequestTimeout,
		IdleTimeout: 6 * c.RequestTimeout, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(g.served)
		if err := g.server.Serve(netutil.LimitListener(l, c.MaxConnections)); !errors.Is(err, http.ErrServerClosed) {
			c.Log.Error("local gateway for executors failed", "err", err)
		}
	}()
	return g, nil
}

// Close ends all requests and frees the port. Runs must have ended before.
func (g *Gateway) Close() {
	g.mu.Lock()
	open := slices.Collect(maps.Values(g.endpoints))
	g.mu.Unlock()
	for _, d := range open {
		d.Close()
	}
	g.server.Close()
	<-g.served
	g.transport.CloseIdleConnections()
}

// Endpoint is the URL of one run.
type Endpoint struct {
	URL string

	run     Run
	gateway *Gateway
	token   string
	key     [sha256.Size]byte // hash of the token
	limiter *rate.Limiter
	ctx     context.Context // ends with the run
	cancel  context.CancelFunc

	mu       sync.Mutex
	closed   bool
	active   int
	reserved int64          // bytes of large bodies in memory
	requests sync.WaitGroup // requests in flight
}

// Open opens a run's endpoint.
func (g *Gateway) Open(r Run) *Endpoint {
	token := rand.Text()
	if r.URLKey != "" {
		m := hmac.New(sha256.New, g.secret[:])
		m.Write([]byte(r.URLKey))
		token = strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(m.Sum(nil)))
	}
	d := &Endpoint{URL: "http://" + g.addr + "/" + token, run: r, gateway: g, token: token,
		key: sha256.Sum256([]byte(token)), limiter: rate.NewLimiter(rate.Limit(g.Rate), g.Burst)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	g.mu.Lock()
	g.endpoints[d.key] = d
	g.mu.Unlock()
	return d
}

// Close invalidates the run's URL, ends the requests in flight and waits for them.
func (d *Endpoint) Close() {
	d.gateway.remove(d)
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel()
	d.requests.Wait()
}

// remove removes the endpoint unless another one has replaced it.
func (g *Gateway) remove(d *Endpoint) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.endpoints[d.key] == d {
		delete(g.endpoints, d.key)
	}
}

func (g *Gateway) lookup(token string) *Endpoint {
	g.mu.Lock()
	d := g.endpoints[sha256.Sum256([]byte(token))]
	g.mu.Unlock()
	if d == nil || subtle.ConstantTimeCompare([]byte(d.token), []byte(token)) != 1 {
		return nil
	}
	return d
}

// acquire registers a request. open: the run has not ended; room: it has fewer than maxConcurrent requests.
func (d *Endpoint) acquire() (open, room bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.active >= maxConcurrent {
		return !d.closed, false
	}
	d.active++
	d.requests.Add(1)
	return true, true
}

func (d *Endpoint) release() {
	d.mu.Lock()
	d.active--
	d.mu.Unlock()
	d.requests.Done()
}

// reserve reserves n bytes of memory for a large body and reports whether there is room. A negative n releases.
func (d *Endpoint) reserve(n int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n > 0 && d.reserved+n > maxLargeBodies*d.gateway.MaxState {
		return false
	}
	d.reserved += n
	return true
}

var errTooManyLarge = fault.New(fault.Busy, "too_many_requests",
	"the run has too many large requests in flight; wait for some to be answered").After(time.Second)
