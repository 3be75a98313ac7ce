// Package serve puts a coordinator together and runs it: NATS, the decisions, the ways in. The program coordinator is its
// main; one process that holds everything uses it too.
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
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ao/coordinator"
	"ao/coordinator/access"
	"ao/coordinator/audit"
	"ao/coordinator/budget"
	"ao/coordinator/checkup"
	"ao/coordinator/httpapi"
	"ao/coordinator/natsapi"
	"ao/coordinator/webhook"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/httpserver"
	"ao/shared/metric"
	"ao/shared/setting"
	"ao/shared/trace/otlp"

	"golang.org/x/sync/errgroup"
)

// Config is what a coordinator process needs to know.
type Config struct {
	Coordinator    coordinator.Config // limits and times; Bus and Log are filled in
	HTTPAddr       string             // default 127.0.0.1:8765
	Callbacks      webhook.Policy     // which callback_url is allowed; default none
	APITokens      string             // file of API tokens; none: whoever reaches the address may do everything
	TLSCert        string             // file of the certificate that HTTP shows; none: it is plain HTTP
	TLSKey         string             // file of its private key
	AuditLog       string             // file of who changed what, or audit.ToLog; none: it is not recorded
	PublicURL      string             // where others reach the HTTP API, default the address that is listened on
	PrivateNetwork bool               // beyond loopback there is only a network of this system's own: it needs no TLS
	InsecureListen bool               // listen beyond loopback although anybody there may do everything
	BodyMemory     int64              // bytes of request bodies under way, and of large answers, default budget.Default
	Connections    int                // to the HTTP API at once, default half of the files that may be open, at most 10,000
	Replicas       int                // of the streams, default 1
	NATS           NATSConfig         // used where Server is nil
	Server         *NATS              // opened by the caller, and closed by it
	HTTP           httpapi.Config     // limits; what it must know of its place is filled in
	Serving        func(url string)   // called once when requests are served
	AlsoReady      func() error       // asked by GET /ready once requests are served: why not yet; default nil: nothing else counts
	Log            *slog.Logger       // default slog.Default()

	Metrics *metric.Registry // what GET /metrics tells; default one of its own
	Ports   metric.Ports     // where the process lets itself be looked at, beside the HTTP API
}

// Settings are the rows of the configuration (contract section 11) that a coordinator reads.
func (c *Config) Settings() []setting.Bound {
	co := &c.Coordinator
	return append([]setting.Bound{
		setting.HTTPAddr.To(&c.HTTPAddr), setting.InsecureListen.To(&c.InsecureListen),
		setting.NATSURL.To(&c.NATS.URL), setting.NATSListen.To(&c.NATS.Listen), setting.NATSSync.To(&c.NATS.Sync), setting.NATSStaging.To(&c.NATS.Staging),
		setting.NATSUsers.To(&c.NATS.Users), setting.NATSCreds.To(&c.NATS.Login.Creds), setting.NATSCA.To(&c.NATS.Login.CA),
		setting.NATSCert.To(&c.NATS.Login.Cert), setting.NATSKey.To(&c.NATS.Login.Key), setting.NATSReplicas.To(&c.Replicas), setting.DataDir.To(&c.NATS.DataDir),
		setting.AgentsDirs.To(&co.AgentsDirs), setting.MaxPending.To(&co.MaxPending), setting.MaxQueues.To(&co.MaxQueues), setting.MaxRunners.To(&co.MaxRunners), setting.Renamed("AO_MAX_LANES", "max-lanes", "AO_MAX_QUEUES"),
		setting.MaxPayload.To(&co.MaxPayload), setting.MaxDepth.To(&co.MaxDepth),
		setting.RunLease.To(&co.Lease), setting.RunNoMatchTimeout.To(&co.NoMatch), setting.RunRetention.To(&co.Retention), setting.RunKeep.To(&co.Keep),
		setting.CallbackHosts.To(&c.Callbacks.Hosts), setting.CallbackNetworks.To(&c.Callbacks.Networks), setting.CallbackSecret.To(&c.Callbacks.Secret),
		setting.SchemaRetries.To(&co.Retries), setting.SchemaWhole.To(&co.WholeOnly),
		setting.RunnerHeartbeat.To(&co.Heartbeat), setting.RunnerStale.To(&co.Patience.Stale), setting.RunnerRemove.To(&co.Patience.Remove),
		setting.APITokens.To(&c.APITokens), setting.PublicURL.To(&c.PublicURL), setting.PrivateNetwork.To(&c.PrivateNetwork),
		setting.TLSCert.To(&c.TLSCert), setting.TLSKey.To(&c.TLSKey), setting.AuditLog.To(&c.AuditLog), setting.MaxConnections.To(&c.Connections), setting.BodyMemory.To(&c.BodyMemory),
	}, c.Ports.Settings()...)
}

// The steps of an end: waits for runs are answered when grace is over, and what is not answered after patience is cut off.
const (
	grace    = 3 * time.Second
	patience = 20 * time.Second
)

// Run serves until ctx ends, then takes no more, finishes what is under way, and returns. Addresses that cannot be used are
// told at once; a NATS that is not there is waited for, with HTTP saying so.
func Run(ctx context.Context, cfg Config) error {
	log := cmp.Or(cfg.Log, slog.Default())
	callbacks, err := webhook.New(webhook.Config{Policy: cfg.Callbacks})
	if err != nil {
		return err
	}
	if cfg.APITokens != "" {
		if cfg.HTTP.Tokens, err = access.Load(cfg.APITokens, log); err != nil {
			return err
		}
	}
	shown, err := certificateOf(cfg.TLSCert, cfg.TLSKey, log)
	if err != nil {
		return err
	}
	record, err := audit.Open(cfg.AuditLog, log)
	if err != nil {
		return err
	}
	defer record.Close()
	if record.Path() != "" {
		defer onHangup(record.Reopen)()
	}
	spans, flush, err := otlp.Open("ao-coordinator", log)
	if err != nil {
		return err
	}
	defer flush()
	cfg.Coordinator.Trace = spans
	if cfg.Metrics == nil {
		cfg.Metrics = metric.New("coordinator")
	}
	tellEnds(cfg.Metrics, shown, cfg.HTTP.Tokens)
	shut, err := cfg.Ports.Open(ctx, cfg.Metrics, log)
	if err != nil {
		return err
	}
	defer shut()
	l, open, err := listen(ctx, cmp.Or(cfg.HTTPAddr, "127.0.0.1:8765"), cfg.HTTP.Tokens != nil || cfg.InsecureListen)
	if err != nil {
		return err
	}
	if open && cfg.HTTP.Tokens == nil {
		log.Warn("INSECURE: the HTTP API is reachable from beyond this machine, and whoever reaches it may do everything (AO_INSECURE_LISTEN)", "address", l.Addr().String())
	}
	f := &front{log: log}
	f.say("NATS is being looked for")
	server := httpserver.New(f, httpserver.Config{Connections: cfg.Connections, Always: "/health", Log: log})
	defer server.Close()
	served := make(chan error, 1)
	secure, scheme := shown.config()
	go func() { served <- server.Serve(httpserver.Listen(l, secure)) }()

	n := cfg.Server
	if n == nil {
		cfg.NATS.Log, cfg.NATS.Insecure = log, cfg.InsecureListen
		if n, err = OpenNATS(cfg.NATS); err != nil {
			return err
		}
		defer n.Close()
	}
	n.measure(cfg.Metrics)
	nc, err := n.Dial(ctx, "ao-coordinator", log)
	if err != nil {
		return err
	}
	defer nc.Close()
	b, err := bus.Open(nc, bus.Config{Replicas: cfg.Replicas, KeyMaxAge: cfg.Coordinator.Retention, EventMaxAge: cfg.Coordinator.Retention, Disk: n.Disk(), Made: n.Made(), Metrics: cfg.Metrics, Log: log})
	if err != nil {
		return err
	}
	cfg.Coordinator.Bus, cfg.Coordinator.Webhooks, cfg.Coordinator.Audit, cfg.Coordinator.Log = b, callbacks, record, log
	cfg.Coordinator.DataDir, cfg.Coordinator.PublicURL = cfg.NATS.DataDir, publicURL(cfg.PublicURL, scheme, l.Addr(), log)
	cfg.Coordinator.Metrics, cfg.HTTP.Metrics = cfg.Metrics, cfg.Metrics
	c := coordinator.New(cfg.Coordinator)
	cfg.HTTP.Memory = budget.For(cfg.BodyMemory, c.MaxPayload+httpapi.Slack)
	cfg.HTTP.Host, _, _ = net.SplitHostPort(cfg.HTTPAddr)
	if u, err := url.Parse(cfg.PublicURL); err == nil {
		cfg.HTTP.Public = u.Hostname()
	}
	cfg.HTTP.AnyHost, cfg.HTTP.NATSURL, cfg.HTTP.Audit, cfg.HTTP.Log = open, n.URL(), record, log
	var answers atomic.Bool // over NATS too
	cfg.HTTP.Ready = func() error {
		switch err := c.Ready(); {
		case err != nil:
			return err
		case !answers.Load():
			return fault.New(fault.Unavailable, "", "starting: the NATS service is being registered").After(time.Second)
		case cfg.AlsoReady != nil:
			return cfg.AlsoReady()
		}
		return nil
	}
	p := process{cfg: cfg, bus: b, own: n.own, at: l.Addr(), open: open, shown: shown}
	cfg.HTTP.Checkup = func(ctx context.Context) checkup.Report { return p.look(ctx, c) }
	f.api.Store(httpapi.New(c, cfg.HTTP))

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
		case err := <-served:
			return fmt.Errorf("http: %w", err)
		case <-gone.Done():
			return f.end(server, log)
		}
	})
	g.Go(func() error {
		if !ready(gone, c) {
			return nil
		}
		return natsapi.Run(gone, nc, b, c, natsapi.Config{Audit: record, Memory: cfg.HTTP.Memory, Metrics: cfg.Metrics, Log: log, Serving: func() {
			answers.Store(true)
			url := scheme + "://" + l.Addr().String()
			log.Info("serving", "http", url, "nats", n.URL())
			if cfg.Serving != nil {
				cfg.Serving(url)
			}
		}})
	})
	err = g.Wait()
	stop()
	if last := <-decided; !errors.Is(last, context.Canceled) {
		err = errors.Join(err, last)
	}
	log.Info("ended")
	return err
}

// ready waits until the coordinator is; false: ctx ended before.
func ready(ctx context.Context, c *coordinator.Coordinator) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for c.Ready() != nil {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// front is the HTTP side from the first moment: before there is a coordinator it says why.
type front struct {
	api atomic.Pointer[httpapi.API]
	why atomic.Pointer[string]
	log *slog.Logger
}

func (f *front) say(why string) { f.why.Store(&why) }

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if api := f.api.Load(); api != nil {
		api.ServeHTTP(w, r)
		return
	}
	httpapi.Starting(w, r, fault.Newf(fault.Unavailable, "Starting: %s; try again in a moment", *f.why.Load()).After(time.Second))
}

// end takes no more requests and waits for those under way, saying what it waits for.
func (f *front) end(server *http.Server, log *slog.Logger) error {
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
					log.Info("ending: waiting for requests under way", "requests", requests, "streams", streams, "longest", patience)
				}
				select {
				case <-tick.C:
				case <-over:
					return
				}
			}
		}()
	}
	if err := server.Shutdown(ctx); err != nil {
		log.Warn("requests were cut off", "err", err)
		_ = server.Close()
	}
	return nil
}

// publicURL is where workers are told that the HTTP API is. Who listens everywhere has no address to tell; a worker on this machine
// finds it all the same.
func publicURL(said, scheme string, at net.Addr, log *slog.Logger) string {
	if said != "" {
		return said
	}
	if a, ok := at.(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		log.Warn("AO_PUBLIC_URL is not set: only workers on this machine can reach the HTTP API for their agents", "address", at.String())
		return scheme + "://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(a.Port))
	}
	return scheme + "://" + at.String()
}

// listen opens the address; beyond loopback only where somebody looks after who may do what, or that was said explicitly.
func listen(ctx context.Context, addr string, allowed bool) (l net.Listener, open bool, err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, false, fmt.Errorf("AO_HTTP_ADDR %q: use an address such as 127.0.0.1:8765", addr)
	}
	if open = !loopback(ctx, host); open && !allowed {
		return nil, true, fmt.Errorf("AO_HTTP_ADDR %q is reachable from beyond this machine, and there are no API tokens: make some with 'ao tokens create' and name their file in AO_API_TOKENS, or listen on 127.0.0.1, or set AO_INSECURE_LISTEN=yes if everybody who gets there may do everything", addr)
	}
	l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, open, fmt.Errorf("AO_HTTP_ADDR %q cannot be used: %w; set another one, perhaps another coordinator runs there", addr, err)
	}
	return l, open, nil
}

// loopback tells whether every address of a host is this machine's own.
func loopback(ctx context.Context, host string) bool {
	if host == "" {
		return false
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", strings.Trim(host, "[]"))
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() {
			return false
		}
	}
	return err == nil && len(ips) > 0
}
