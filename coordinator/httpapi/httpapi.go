// Package httpapi is the coordinator's HTTP side (contract sections 2 to 5 and 9). It reads requests strictly, asks the
// coordinator, and answers in one place. It decides nothing itself.
package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"ao/coordinator"
	"ao/coordinator/access"
	"ao/coordinator/audit"
	"ao/coordinator/budget"
	"ao/coordinator/checkup"
	"ao/coordinator/mcpapi"
	"ao/shared/fault"
	"ao/shared/metric"

	"github.com/gin-gonic/gin"
)

// Config is how the API behaves; its zero value listens to loopback names only.
type Config struct {
	Host    string                               // the host part of the address that is listened on: its name is ours beside those of loopback
	AnyHost bool                                 // listening beyond loopback: any Host header is welcome, foreign pages are not
	Public  string                               // the host in the address that others are told: ours too
	Tokens  *access.Tokens                       // who may do what; nil: whoever reaches the address may do everything
	NATSURL string                               // told to runners that register over HTTP
	Audit   *audit.Log                           // who changed what; nil: it is not recorded
	Ready   func() error                         // what /ready says, default that of the coordinator
	Checkup func(context.Context) checkup.Report // what /doctor says, default what the coordinator sees
	Memory  *budget.Memory                       // for bodies, default budget.For
	Streams int                                  // live streams at a time, default 256
	Beat    time.Duration                        // rhythm of comments on a quiet stream, default 15 s
	Log     *slog.Logger                         // default slog.Default()

	Metrics *metric.Registry // what GET /metrics tells; nil: nothing is counted
}

// API answers HTTP requests for one coordinator.
type API struct {
	c      *coordinator.Coordinator
	cfg    Config
	log    *slog.Logger
	engine *gin.Engine
	mcp    *mcpapi.API
	limit  int64  // bytes of a body
	prefix string // of the ids of requests

	document []byte // openapi.json

	requests atomic.Uint64
	open     atomic.Int64                               // requests under way
	seats    *seats                                     // of live streams
	took     *metric.Cells[answerOf, *metric.Histogram] // nil: nobody counts
	endless  map[string]bool                            // routes that are live streams
	audits   chan struct{}                              // holds one for the audit under way

	streaming, waiting      context.Context // ended by Drain: streams at once, waits when the grace is over
	endStreams, endTheWaits context.CancelFunc
}

// Slack is what a body may have beyond its parameters, in bytes.
const Slack = 1 << 20

// New makes the API of a coordinator.
func New(c *coordinator.Coordinator, cfg Config) *API {
	cfg.Streams = cmp.Or(cfg.Streams, 256)
	if cfg.Memory == nil {
		cfg.Memory = budget.For(0, c.MaxPayload+Slack)
	}
	cfg.Beat = cmp.Or(cfg.Beat, 15*time.Second)
	if cfg.Checkup == nil {
		cfg.Checkup = func(ctx context.Context) checkup.Report { return checkup.Report{Checks: c.Checkup(ctx)} }
	}
	if cfg.Ready == nil {
		cfg.Ready = c.Ready
	}
	a := &API{c: c, cfg: cfg, log: cmp.Or(cfg.Log, slog.Default()), limit: c.MaxPayload + Slack, prefix: "req-" + rand.Text()[:8] + "-", audits: make(chan struct{}, 1)}
	a.seats = newSeats(cfg.Streams)
	a.streaming, a.endStreams = context.WithCancel(context.Background())
	a.waiting, a.endTheWaits = context.WithCancel(context.Background())
	a.mcp = mcpapi.New(mcpapi.Config{Runs: c, Sessions: c, Agents: c, Schemas: c, History: c.Journal, Waiting: a.waiting, Seat: a.seats.take, Beat: cfg.Beat, Audit: cfg.Audit, Log: a.log})
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	e.UseRawPath, e.UnescapePathValues = true, true // an escaped slash stays in its id, and is refused there
	_ = e.SetTrustedProxies(nil)                    // fails for addresses only
	e.Use(a.door)
	a.took, a.endless = a.meters(cfg.Metrics), map[string]bool{}
	a.document = described(a.routes())
	for _, r := range a.routes() {
		a.endless[r.Path] = r.live
		e.Handle(r.Method, r.Path, a.answer(r.ok, a.knowing(r)))
		if r.Method == http.MethodGet && !r.live {
			e.HEAD(r.Path, a.answer(r.ok, a.knowing(r)))
		}
	}
	e.NoRoute(a.noRoute)
	e.NoMethod(a.noMethod)
	a.engine = e
	return a
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.engine.ServeHTTP(w, r) }

// Drain ends the live streams at once, for their readers know how to go on elsewhere, and what waits for a run's end after
// a grace: it answers that the run goes on.
func (a *API) Drain(grace time.Duration) {
	a.endStreams()
	time.AfterFunc(grace, a.endTheWaits)
}

// Open is how many requests are under way, and how many of them are live streams.
func (a *API) Open() (requests, streams int64) { return a.open.Load(), a.seats.taken() }

func (a *API) noRoute(g *gin.Context) {
	a.refuse(g, fault.Newf(fault.NotFound, "There is no %.80q here; GET / lists what there is", g.Request.URL.Path))
}

func (a *API) noMethod(g *gin.Context) {
	say := fmt.Sprintf("%.10s is not possible here; possible: %s", g.Request.Method, g.Writer.Header().Get("Allow"))
	a.write(g, reply{status: http.StatusMethodNotAllowed, body: fault.New(fault.Invalid, "method_not_allowed", say)})
}
