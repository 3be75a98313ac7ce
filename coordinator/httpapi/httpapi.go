// Package httpapi serves the HTTP API. It parses requests strictly, calls one small interface per noun, and writes
// answers in one place. It makes no decisions.
package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/audit"
	"ao/coordinator/budget"
	"ao/coordinator/health"
	"ao/coordinator/mcpapi"
	"ao/shared/config"
	"ao/shared/metric"
	"ao/shared/trace"

	"github.com/gin-gonic/gin"
)

// Config has what the API needs. The first fields are required. By default only loopback names are served.
type Config struct {
	Runs        Runs
	Bulk        Bulk
	Definitions Definitions
	Callbacks   Callbacks
	Sessions    Sessions
	Agents      Agents
	Drafts      Drafts
	Schemas     Schemas
	Previews    Previews
	Runners     Runners
	Insight     Insight
	History     History
	Positions   Positions
	Ready       func() error                        // answers GET /ready
	Refused     func() []string                     // what is refused although it is ready
	Registries  func() error                        // why agents and runners are not known yet
	Doctor      func(context.Context) health.Report // answers GET /doctor

	Host       string         // of the listener's address; an own name beside those of loopback
	AnyHost    bool           // any Host header is allowed: listening beyond loopback
	Public     string         // host of the public URL
	Tokens     *access.Tokens // nil: everybody may do everything
	Logins     Logins         // logins, and the deployment's name
	Secure     bool           // browsers use TLS, so cookies need it
	NATSURL    string         // for runners that register over HTTP
	MaxPayload int64          // bytes of parameters with their agent, default 16 MiB: a body may have BodyOverhead more
	Audit      *audit.Log     // nil: nothing is recorded
	Trace      *trace.Tracer  // default none
	Memory     *budget.Memory // for bodies, default budget.For
	Rejected   Rejected
	Trail      Trail
	Settings   []config.EffectiveSetting
	Requests   int           // most in progress, default 8192
	Streams    int           // most live streams, default 256
	KeepAlive  time.Duration // interval of comments on a quiet stream, default 15 s
	Log        *slog.Logger  // default slog.Default()

	Metrics *metric.Registry // for GET /metrics; nil: nothing is measured
}

// loginBody limits the body of POST /login, which needs no token.
const loginBody = 4 << 10

// BodyOverhead is how many bytes a body may have beyond its parameters.
const BodyOverhead = 1 << 20

func (c Config) withDefaults() Config {
	c.MaxPayload = cmp.Or(c.MaxPayload, 16<<20)
	c.Requests = cmp.Or(c.Requests, 8192)
	c.Streams = cmp.Or(c.Streams, 256)
	c.KeepAlive = cmp.Or(c.KeepAlive, 15*time.Second)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Memory == nil {
		c.Memory = budget.NewMemory(0, c.MaxPayload+BodyOverhead)
	}
	return c
}

// API answers HTTP requests for one coordinator.
type API struct {
	engine     *gin.Engine
	routes     []route
	middleware *middleware
	streams    *places // live ones
	ends       *shutdown
}

// New makes the API of a coordinator.
func New(cfg Config) *API {
	cfg = cfg.withDefaults()
	a := &API{streams: newStreams(cfg.Streams), ends: newEnds()}
	audited := &recorder{to: cfg.Audit}
	answers := &answers{audit: audited, log: cfg.Log}
	guard := &guard{tokens: cfg.Tokens, logins: cfg.Logins, secure: cfg.Secure, runs: cfg.Runs, sessions: cfg.Sessions,
		history: cfg.History}
	a.middleware = &middleware{
		anyHost: cfg.AnyHost, host: cfg.Host, public: cfg.Public, prefix: "req-" + rand.Text()[:8] + "-",
		guard: guard, places: newRequests(cfg.Requests), memory: cfg.Memory, trace: cfg.Trace,
		audit: audited, answers: answers, log: cfg.Log,
	}
	a.middleware.meter = newMeter(cfg.Metrics, a.Open) // not behind the middleware's limits
	h := a.handlers(cfg, guard, audited)
	a.routes = h.routes()
	h.service.routes = a.routes
	h.service.document = sync.OnceValue(func() []byte { return described(a.routes) }) // few ask for it
	a.engine = a.router(cfg, answers)
	return a
}

// handlers makes the handlers of each noun.
func (a *API) handlers(cfg Config, guard *guard, audited *recorder) handlers {
	streams := &streamsAPI{cfg.History, cfg.Runs, guard, a.streams, a.ends, cfg.KeepAlive, cfg.Log}
	mcp := mcpapi.New(mcpapi.Config{
		Runs: cfg.Runs, Sessions: cfg.Sessions, Agents: cfg.Agents, Schemas: cfg.Schemas, History: cfg.History,
		Waiting: a.ends.waiting, ReserveStream: a.streams.reserve, KeepAlive: cfg.KeepAlive, Audit: cfg.Audit,
		Log: cfg.Log,
	})
	return handlers{
		login:   newLoginAPI(guard),
		service: &serviceAPI{readiness: cfg.Ready, refused: cfg.Refused, registry: cfg.Metrics, inForce: cfg.Settings},
		runs: &runsAPI{runs: cfg.Runs, more: cfg.Bulk, definitions: cfg.Definitions, sessions: cfg.Sessions,
			streams: streams, audit: audited, ends: a.ends, exports: newExports()},
		bulk:      &bulkAPI{cfg.Bulk, audited},
		callbacks: cfg.Callbacks,
		sessions:  &sessionsAPI{cfg.Sessions, audited},
		streams:   streams,
		agents:    &agentsAPI{cfg.Agents, cfg.Drafts, audited},
		drafts:    &draftsAPI{cfg.Drafts},
		schemas:   &schemasAPI{cfg.Schemas, audited},
		previews:  &previewAPI{cfg.Previews, newValidations()},
		runners:   &runnersAPI{cfg.Runners, cfg.NATSURL, audited},
		insight:   &insightAPI{cfg.Insight, cfg.Doctor, cfg.Trail, cfg.Rejected, make(slot, 1), make(slot, 1)},
		mcp:       &mcpAPI{mcp, audited},
	}
}

// router registers the routes.
func (a *API) router(cfg Config, answers *answers) *gin.Engine {
	in, at := &intake{cfg.MaxPayload + BodyOverhead, " (AO_MAX_PAYLOAD)"}, positions{cfg.Positions}
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	e.UseRawPath, e.UnescapePathValues = true, true // an escaped slash stays in its id, and is refused there
	_ = e.SetTrustedProxies(nil)                    // fails for addresses only
	e.Use(a.middleware.handle)
	for _, r := range a.routes {
		a.middleware.meter.endless[r.Path] = r.live()
		h := answers.of(r.ok, at.wrap(r, r.handler(cfg.Registries, in)))
		e.Handle(r.Method, r.Path, h)
		if r.Method == http.MethodGet && !r.live() {
			e.HEAD(r.Path, h)
		}
	}
	for _, path := range []string{uiBare, uiRoute} {
		e.GET(path, answers.pages)
		e.HEAD(path, answers.pages)
	}
	e.NoRoute(answers.noRoute)
	e.NoMethod(answers.noMethod)
	return e
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.engine.ServeHTTP(w, r) }

// Drain ends live streams at once, since readers can resume elsewhere, and waits for runs after a grace.
func (a *API) Drain(grace time.Duration) { a.ends.drain(grace) }

// Open returns the requests in progress, and how many of them are live streams.
func (a *API) Open() (requests, streams int64) {
	return a.middleware.open.Load(), a.streams.Taken()
}

// shutdown ends long requests: live streams, and waits for runs.
type shutdown struct {
	streaming, waiting      context.Context
	endStreams, endTheWaits context.CancelFunc
}

func newEnds() *shutdown {
	e := &shutdown{}
	e.streaming, e.endStreams = context.WithCancel(context.Background())
	e.waiting, e.endTheWaits = context.WithCancel(context.Background())
	return e
}

// drain ends the streams at once, and the waits after a grace.
func (e *shutdown) drain(grace time.Duration) {
	e.endStreams()
	time.AfterFunc(grace, e.endTheWaits)
}
