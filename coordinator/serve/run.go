package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/audit"
	"ao/coordinator/budget"
	"ao/coordinator/control/webhook"
	"ao/coordinator/health"
	"ao/coordinator/httpapi"
	"ao/coordinator/insight/explain"
	"ao/coordinator/insight/status"
	"ao/coordinator/ledger"
	"ao/coordinator/natsapi"
	"ao/coordinator/rejected"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/shared/clock"
	"ao/shared/config"
	"ao/shared/fault"
	"ao/shared/httpserver"
	"ao/shared/metric"
	"ao/shared/trace/otlp"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"
)

// Run serves until ctx ends, then finishes what is in progress and returns. Unusable addresses are errors at once.
// While NATS is unavailable it waits, and HTTP says so.
func Run(ctx context.Context, cfg Config) error {
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	if cfg.NATS.DataDir != "" {
		_ = config.PrivateDir(cfg.NATS.DataDir) // whoever writes there gets the error
	}
	var opened closers
	defer opened.close()
	shown, err := cfg.open(ctx, &opened)
	if err != nil {
		return err
	}
	door, err := cfg.listen(ctx, shown, &opened)
	if err != nil {
		return err
	}
	link, err := cfg.connect(ctx, &opened)
	if err != nil {
		return err
	}
	c := cfg.newCoordinator(link, door)
	var answers atomic.Bool // whether NATS requests are answered
	door.api.Store(cfg.api(c, link, door, &answers))
	err = serve(ctx, c, door, func(ctx context.Context) error {
		return natsapi.Run(ctx, link.conn, link.bus, natsapi.Config{
			Runs: c, Agents: c.Agents, Temporary: c.Registry.Departed.Temporary, Metadata: c.Metadata(),
			Audit: cfg.HTTP.Audit, Memory: cfg.HTTP.Memory, Trace: cfg.HTTP.Trace, Metrics: cfg.Metrics, Log: cfg.Log,
			Serving: func() {
				answers.Store(true)
				cfg.Log.Info("serving", "http", door.url(), "nats", link.server.URL())
				if cfg.Serving != nil {
					cfg.Serving(door.url())
				}
			},
		})
	})
	cfg.Log.Info("ended")
	return err
}

// closers close what the start has opened.
type closers []func()

func (c *closers) add(f func()) { *c = append(*c, f) }

// close closes everything in reverse order.
func (c *closers) close() {
	for _, f := range slices.Backward(*c) {
		f()
	}
}

// open opens what the process needs from its machine: tokens, certificate, audit log, traces and metrics. The
// certificate is nil without TLS.
func (c *Config) open(ctx context.Context, opened *closers) (shown *certificate, err error) {
	co := &c.Coordinator
	co.Webhooks, err = webhook.New(webhook.Config{Policy: c.Callbacks})
	if err != nil {
		return nil, err
	}
	if c.APITokens != "" {
		c.HTTP.Tokens, err = access.Load(c.APITokens, c.Log)
		if err != nil {
			return nil, err
		}
	}
	shown, err = certificateOf(c.TLSCert, c.TLSKey, c.Log)
	if err != nil {
		return nil, err
	}
	if !c.NoAuditStream {
		c.trail = audit.NewTrail(c.Log)
	}
	record, err := audit.Open(c.AuditLog, c.trail, c.Log)
	if err != nil {
		return nil, err
	}
	opened.add(func() { record.Close() })
	if record.Path() != "" {
		opened.add(onHangup(record.Reopen))
	}
	co.Audit, c.HTTP.Audit = record, record
	spans, flush, err := otlp.Open("ao-coordinator", c.Log)
	if err != nil {
		return nil, err
	}
	opened.add(flush)
	co.Trace, c.HTTP.Trace = spans, spans
	if c.Metrics == nil {
		c.Metrics = metric.New("coordinator")
	}
	registerExpiryMetrics(c.Metrics, shown, c.HTTP.Tokens)
	shut, err := c.Ports.Listen(ctx, c.Metrics, c.Log)
	if err != nil {
		return nil, err
	}
	opened.add(shut)
	return shown, nil
}

// listen opens HTTP. Until there is an API it says why there is none.
func (c *Config) listen(ctx context.Context, shown *certificate, opened *closers) (*front, error) {
	l, open, err := listen(ctx, cmp.Or(c.HTTPAddr, "127.0.0.1:8765"), c.HTTP.Tokens != nil || c.InsecureListen)
	if err != nil {
		return nil, err
	}
	if open && c.HTTP.Tokens == nil {
		c.Log.Warn("INSECURE: the HTTP API is reachable from beyond this machine, and anyone who can reach it can "+
			"do everything (AO_INSECURE_LISTEN)", "address", l.Addr().String())
	}
	secure, scheme := shown.config()
	f := &front{log: c.Log, at: l.Addr(), open: open, shown: shown, scheme: scheme, served: make(chan error, 1)}
	f.setReason("connecting to NATS")
	f.server = httpserver.New(f, httpserver.Config{Connections: c.Connections, Always: []string{"/health", "/ready"},
		Log: c.Log})
	opened.add(func() { f.server.Close() })
	go func() { f.served <- f.server.Serve(httpserver.Listen(l, secure)) }()
	return f, nil
}

// natsLink is the connection to NATS.
type natsLink struct {
	server *NATS
	conn   *nats.Conn
	bus    *bus.Bus
}

// connect starts the embedded NATS, or waits for the one elsewhere.
func (c *Config) connect(ctx context.Context, opened *closers) (l natsLink, err error) {
	l.server = c.Server
	if l.server == nil {
		c.NATS.Log, c.NATS.Insecure = c.Log, c.InsecureListen
		l.server, err = OpenNATS(c.NATS)
		if err != nil {
			return l, err
		}
		opened.add(l.server.Close)
	}
	l.server.measure(c.Metrics)
	l.conn, err = l.server.Dial(ctx, "ao-coordinator", c.Log)
	if err != nil {
		return l, err
	}
	opened.add(l.conn.Close)
	l.bus, err = bus.Open(l.conn, bus.Config{
		Replicas: c.Replicas, KeyMaxAge: c.Coordinator.Retention, EventMaxAge: c.Coordinator.Retention,
		Memory: l.server.Memory(), Disk: l.server.Disk(), OnSetup: l.server.made(), Metrics: c.Metrics, Log: c.Log,
	})
	if err != nil {
		return l, err
	}
	if c.Opened != nil {
		c.Opened(l.bus)
	}
	if c.trail != nil {
		opened.add(c.startAuditTrail(ctx, l.bus))
	}
	return l, nil
}

// startAuditTrail writes the audit log into NATS until end is called.
func (c *Config) startAuditTrail(ctx context.Context, to *bus.Bus) (end func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.trail.Run(ctx, to)
	}()
	return func() {
		stop()
		<-ended
	}
}

// newCoordinator makes the coordinator.
func (c *Config) newCoordinator(l natsLink, f *front) *parts.Coordinator {
	co := &c.Coordinator
	co.Bus, co.Metrics, co.Log = l.bus, c.Metrics, c.Log
	if co.AgentsSeed != "" && len(co.AgentsDirs) == 0 {
		dir := filepath.Join(cmp.Or(c.NATS.DataDir, config.DataDir.Default), "agents")
		if whole, err := filepath.Abs(dir); err == nil { // as it is shown
			dir = whole
		}
		co.AgentsDirs = []string{dir}
	}
	co.Sync, _ = time.ParseDuration(c.NATS.Sync) // 0: always
	co.MaxStore = l.server.maxStore
	co.DataDir, co.PublicURL = c.NATS.DataDir, publicURL(c.PublicURL, f.scheme, f.at, c.Log)
	return parts.New(*co)
}

// api makes the HTTP API. It is ready when the coordinator is, NATS requests are answered, and c.Ready agrees.
func (c *Config) api(co *parts.Coordinator, l natsLink, f *front, answers *atomic.Bool) *httpapi.API {
	h := &c.HTTP
	h.Runs, h.Callbacks, h.Sessions, h.Agents, h.Schemas, h.Runners, h.History, h.Positions = co, co, co, co.Agents,
		co.Schemas, co, co.History, co.History
	h.Logins, h.Secure = co.Logins, f.shown != nil || strings.HasPrefix(c.PublicURL, "https://")
	h.Bulk, h.Definitions = co.Bulk, co.Definitions
	h.Trail, h.Rejected = audit.NewReader(l.bus), rejected.NewReader(l.bus)
	h.Insight = struct {
		*explain.Explainer
		*status.Overview
		*ledger.Auditor
	}{co.Explainer, co.Overview, co.Auditor}
	h.Previews, h.Drafts = co.Preview, co.Drafts
	h.MaxPayload, h.Registries = co.MaxPayload, co.Registries
	h.Memory = budget.NewMemory(c.BodyMemory, co.MaxPayload+httpapi.BodyOverhead)
	h.Requests = httpserver.Requests(c.Connections)
	h.Host, _, _ = net.SplitHostPort(c.HTTPAddr)
	if u, err := url.Parse(c.PublicURL); err == nil {
		h.Public = u.Hostname()
	}
	h.AnyHost, h.NATSURL, h.Metrics, h.Log = f.open, l.server.URL(), c.Metrics, c.Log
	h.Refused = co.Refused
	h.Ready = func() error {
		switch err := co.Ready(); {
		case err != nil:
			return err
		case !answers.Load():
			return fault.New(fault.Unavailable, "", "starting: the NATS service is being registered").After(time.Second)
		case c.AlsoReady != nil:
			return c.AlsoReady()
		}
		return nil
	}
	p := process{cfg: *c, bus: l.bus, server: l.server.own, at: f.at, open: f.open, shown: f.shown}
	h.Doctor = func(ctx context.Context) health.Report { return p.report(ctx, co) }
	return httpapi.New(*h)
}

// serve runs the coordinator and its APIs until ctx ends or one of them fails. The coordinator stops last, when every
// request has been answered.
func serve(ctx context.Context, c *parts.Coordinator, f *front, serveNATS func(context.Context) error) error {
	core, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	decided := make(chan error, 1)
	go func() { decided <- c.Run(core) }()
	g, gone := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case err := <-decided:
			decided <- nil
			return fmt.Errorf("coordinator: %w", err)
		case err := <-f.served:
			return fmt.Errorf("http: %w", err)
		case <-gone.Done():
			return f.end()
		}
	})
	g.Go(func() error {
		if !ready(gone, c, f.log) {
			return nil
		}
		return serveNATS(gone)
	})
	err := g.Wait()
	stop()
	if last := <-decided; !errors.Is(last, context.Canceled) {
		err = errors.Join(err, last)
	}
	return err
}

// ready waits until the coordinator is ready; false: ctx ended before.
func ready(ctx context.Context, c *parts.Coordinator, log *slog.Logger) bool {
	defer tellSlow(log, c.Ready)()
	for c.Ready() != nil {
		if !clock.Sleep(ctx, 5*time.Millisecond) {
			return false
		}
	}
	return true
}

// front is the HTTP listener. Before there is an API, it answers why.
type front struct {
	api atomic.Pointer[httpapi.API]
	why atomic.Pointer[string]
	log *slog.Logger

	at     net.Addr
	open   bool         // beyond loopback
	shown  *certificate // nil: plain HTTP
	scheme string
	server *http.Server
	served chan error // receives why serving stopped
}

func (f *front) url() string { return f.scheme + "://" + f.at.String() }

func (f *front) setReason(why string) { f.why.Store(&why) }

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if api := f.api.Load(); api != nil {
		api.ServeHTTP(w, r)
		return
	}
	httpapi.Starting(w, r, fault.Newf(fault.Unavailable, "Starting: %s; try again in a moment", *f.why.Load()).
		After(time.Second))
}

// end accepts no more requests and waits for those in progress.
func (f *front) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	api := f.api.Load()
	if api != nil {
		api.Drain(grace)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		over := make(chan struct{})
		defer close(over)
		go func() {
			for {
				if requests, streams := api.Open(); requests > 0 {
					f.log.Info("shutting down: waiting for requests in "+
						"progress", "requests", requests, "streams", streams,
						"longest", patience)
				}
				select {
				case <-tick.C:
				case <-over:
					return
				}
			}
		}()
	}
	if err := f.server.Shutdown(ctx); err != nil {
		f.log.Warn("requests aborted by the shutdown", "err", err)
		_ = f.server.Close()
	}
	return nil
}
