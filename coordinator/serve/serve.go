// Package serve runs a coordinator: NATS, the coordinator's parts and its APIs. The program coordinator uses it, and
// the process that has everything.
package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"ao/coordinator/audit"
	"ao/coordinator/control/webhook"
	"ao/coordinator/httpapi"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/shared/config"
	"ao/shared/metric"
)

// Config configures a coordinator process.
type Config struct {
	Coordinator    parts.Config   // limits and times; Bus and Log are filled in
	HTTPAddr       string         // default 127.0.0.1:8765
	Callbacks      webhook.Policy // which callback_url is allowed; default none
	APITokens      string         // file of API tokens; empty: no token is required
	TLSCert        string         // certificate file; empty: plain HTTP
	TLSKey         string         // file of its private key
	AuditLog       string         // audit log file, or audit.ToLog; empty: no file
	NoAuditStream  bool           // the audit log is not kept in NATS
	PublicURL      string         // URL of the HTTP API for others, default the listen address
	PrivateNetwork bool           // beyond loopback there is only our own network: it needs no TLS
	InsecureListen bool           // listen beyond loopback without tokens
	BodyMemory     int64          // most bytes of request bodies and large answers in memory, default budget.Default
	// to the HTTP API at once, default half of the files that may be open, at most 10,000
	Connections int
	Replicas    int            // of the streams, default 1
	NATS        NATSConfig     // used where Server is nil
	Server      *NATS          // opened and closed by the caller
	HTTP        httpapi.Config // limits; what it must know of its place is filled in
	// called once with the coordinator's own, before Serving: a worker of this process may write with it
	// (bus.Config.With)
	Opened  func(*bus.Bus)
	Serving func(url string) // called once when requests are served
	// asked by GET /ready once requests are served; default: always ready
	AlsoReady func() error
	Log       *slog.Logger // default slog.Default()

	Metrics *metric.Registry // what GET /metrics tells; default one of its own
	Ports   metric.Endpoints // further endpoints for metrics and profiles

	trail *audit.Trail // nil: the audit log is not kept in NATS
}

// Settings returns the settings of a coordinator.
func (c *Config) Settings() []config.Bound {
	co := &c.Coordinator
	return append([]config.Bound{
		config.HTTPAddr.To(&c.HTTPAddr), config.InsecureListen.To(&c.InsecureListen),
		config.NATSURL.To(&c.NATS.URL), config.NATSListen.To(&c.NATS.Listen), config.NATSSync.To(&c.NATS.Sync),
		config.NATSStaging.To(&c.NATS.Staging),
		config.NATSUsers.To(&c.NATS.Users), config.NATSCreds.To(&c.NATS.Login.Creds),
		config.NATSCA.To(&c.NATS.Login.CA),
		config.NATSCert.To(&c.NATS.Login.Cert), config.NATSKey.To(&c.NATS.Login.Key),
		config.NATSReplicas.To(&c.Replicas), config.DataDir.To(&c.NATS.DataDir),
		config.AgentsDirs.To(&co.AgentsDirs), config.AgentsWritable.To(&co.AgentsWritable),
		config.AgentsSeed.To(&co.AgentsSeed), config.SchemasDir.To(&co.SchemasDir),
		config.MaxPending.To(&co.MaxPending), config.MaxQueues.To(&co.MaxQueues),
		config.MaxRunners.To(&co.MaxRunners), config.Renamed("AO_MAX_LANES", "max-lanes", "AO_MAX_QUEUES"),
		config.MaxPayload.To(&co.MaxPayload), config.MaxDepth.To(&co.MaxDepth),
		config.RunLease.To(&co.Lease), config.RunNoMatchTimeout.To(&co.NoMatch), config.RunRetention.To(&co.Retention),
		config.RunKeep.To(&co.Keep),
		config.CallbackHosts.To(&c.Callbacks.Hosts), config.CallbackNetworks.To(&c.Callbacks.Networks),
		config.CallbackSecret.To(&c.Callbacks.Secret),
		config.SchemaRetries.To(&co.Retries), config.SchemaWhole.To(&co.WholeOnly),
		config.RunnerHeartbeat.To(&co.Heartbeat), config.RunnerStale.To(&co.Patience.Stale),
		config.RunnerRemove.To(&co.Patience.Remove),
		config.APITokens.To(&c.APITokens), config.PublicURL.To(&c.PublicURL),
		config.PrivateNetwork.To(&c.PrivateNetwork),
		config.TLSCert.To(&c.TLSCert), config.TLSKey.To(&c.TLSKey), config.AuditLog.To(&c.AuditLog),
		config.AuditStream.To(&c.NoAuditStream), config.MaxConnections.To(&c.Connections),
		config.BodyMemory.To(&c.BodyMemory), config.NATSMemory.To(&c.NATS.Memory),
	}, c.Ports.Settings()...)
}

// The steps of a shutdown: waits for runs end after grace, and requests are cut off after patience.
const (
	grace    = 3 * time.Second
	patience = 20 * time.Second
)

// publicURL returns the URL of the HTTP API for workers. Listening on all addresses, it falls back to loopback, which
// works for workers on this machine.
func publicURL(configured, scheme string, at net.Addr, log *slog.Logger) string {
	if configured != "" {
		return configured
	}
	if a, ok := at.(*net.TCPAddr); ok && a.IP.IsUnspecified() {
		log.Warn("AO_PUBLIC_URL is not set: only workers on this machine can reach the HTTP API for their agents",
			"address", at.String())
		return scheme + "://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(a.Port))
	}
	return scheme + "://" + at.String()
}

// listen opens the address. Beyond loopback it requires tokens or an explicit permission.
func listen(ctx context.Context, addr string, allowed bool) (l net.Listener, open bool, err error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, false, fmt.Errorf("AO_HTTP_ADDR %q: use an address such as 127.0.0.1:8765", addr)
	}
	open = !loopback(ctx, host)
	if open && !allowed {
		return nil, true, fmt.Errorf("AO_HTTP_ADDR %q is reachable from beyond this machine, but there are no API "+
			"tokens: create some with 'ao tokens create' and name their file in AO_API_TOKENS, or listen on "+
			"127.0.0.1, "+
			"or set AO_INSECURE_LISTEN=yes if anyone who can reach it may do everything", addr)
	}
	l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, open, fmt.Errorf("AO_HTTP_ADDR %q cannot be used: %w; set another one, perhaps another "+
			"coordinator runs there", addr, err)
	}
	return l, open, nil
}
