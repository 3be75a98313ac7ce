package serve

import (
	"cmp"
	"context"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"ao/coordinator/health"
	"ao/coordinator/serve/parts"
	"ao/nats/bus"
	"ao/nats/embed"
	"ao/nats/subject"
	"ao/nats/users"
	"ao/shared/config"
	"ao/shared/version"
)

// process is what a coordinator's process knows about itself.
type process struct {
	cfg    Config
	bus    *bus.Bus
	server *embed.Server // embedded NATS; nil: NATS runs elsewhere
	at     net.Addr
	open   bool // HTTP listens beyond loopback
	shown  *certificate
}

// report makes the report of GET /doctor.
func (p process) report(ctx context.Context, c *parts.Coordinator) health.Report {
	host, _ := os.Hostname() // for people
	r := health.Report{At: time.Now().UTC(), Version: version.Current(), Go: runtime.Version(), Host: host,
		PublicURL: c.PublicURL, Private: p.cfg.PrivateNetwork}
	r.Checks = append(r.Checks, p.http()...)
	if p.server != nil {
		r.Checks = append(r.Checks, p.embedded(ctx)...)
	} else {
		r.Checks = append(r.Checks, p.remote(ctx)...)
	}
	r.Checks = append(r.Checks, p.files()...)
	r.Checks = append(r.Checks, p.agentFolders()...)
	r.Checks = append(r.Checks, c.Doctor.Check(ctx)...)
	return r
}

// agentFolders checks that agents' files can be changed where AO_AGENTS_WRITABLE is on.
func (p process) agentFolders() (all []health.Result) {
	if !p.cfg.Coordinator.AgentsWritable {
		return nil
	}
	const writable = 2
	for _, dir := range p.cfg.Coordinator.AgentsDirs {
		if err := syscall.Access(dir, writable); err != nil {
			all = append(all, health.Warned("agents", "give this user write permission there, or unset "+
				"AO_AGENTS_WRITABLE", "agents in %s cannot be changed, though AO_AGENTS_WRITABLE is on: %v", dir, err))
		}
	}
	return all
}

// http checks who can use HTTP, and whether it is encrypted.
func (p process) http() (all []health.Result) {
	switch {
	case p.cfg.HTTP.Tokens == nil && p.open:
		all = append(all, health.Failed("http", "create tokens with 'ao tokens create', set AO_API_TOKENS to their "+
			"file, and unset AO_INSECURE_LISTEN", "HTTP listens at %s, beyond this machine, and anyone who can "+
			"reach it can do everything", p.at))
	case p.cfg.HTTP.Tokens == nil:
		all = append(all, health.Passed("http", "HTTP listens at %s, for this machine only, without tokens", p.at))
	default:
		all = append(all, health.Passed("http", "HTTP listens at %s and requires tokens", p.at))
	}
	switch {
	case p.shown != nil:
		all = append(all, p.shown.judge())
	case p.open && p.cfg.PrivateNetwork:
		all = append(all, health.Passed("tls", "HTTP is not encrypted, in a private network (AO_PRIVATE_NETWORK)"))
	case p.open:
		all = append(all, health.Warned("tls", "set AO_TLS_CERT and AO_TLS_KEY ('ao init --tls' creates them), or "+
			"listen on 127.0.0.1 behind a proxy with TLS", "HTTP beyond this machine is not encrypted: tokens cross "+
			"the network in plain text"))
	}
	return all
}

// expiryWarning is how long before its end a certificate should be replaced.
const expiryWarning = 14 * 24 * time.Hour

func (c *certificate) judge() health.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	const advice = "replace the file: it is read again without a restart"
	end := c.pair.Leaf.NotAfter
	left := time.Until(end)
	switch {
	case left <= 0:
		return health.Failed("tls", advice, "the certificate %s expired at %s", c.certFile, end.UTC().
			Format(time.RFC3339))
	case left < expiryWarning:
		return health.Warned("tls", advice, "the certificate %s expires in %d days", c.certFile, int(left.Hours()/24))
	}
	return health.Passed("tls", "the certificate %s is valid for %d days", c.certFile, int(left.Hours()/24))
}

// embedded checks the embedded NATS.
func (p process) embedded(ctx context.Context) (all []health.Result) {
	n := p.cfg.NATS
	switch {
	case n.Users != "":
		all = append(all, health.Passed("nats-users", "the embedded NATS requires a login"))
		if text, err := os.ReadFile(n.Users); err == nil && !users.Current(string(text)) {
			all = append(all, health.OutdatedUsers("AO_NATS_USERS "+n.Users))
		}
	case onlyLocal(n.Listen):
		all = append(all, health.Passed("nats-users", "the embedded NATS requires no login; only this machine "+
			"reaches it"))
	default:
		all = append(all, health.Failed("nats-users", "create users with 'ao init', set AO_NATS_USERS to "+
			"nats/users.conf, and unset AO_INSECURE_LISTEN", "the embedded NATS listens at %s, beyond this machine, "+
			"and requires no login", n.Listen))
	}
	if s, err := p.bus.ServerHealth(ctx); err == nil {
		room, _ := p.server.DiskUsage() // 0: unknown
		all = append(all, health.Store(s.Limits(), s.Used(), p.server.MaxStore(), room.Total))
	}
	return append(all, syncResult(cmp.Or(n.Sync, config.NATSSync.Default)), stagingResult(p.server.Staging()))
}

// stagingResult reports where batches are staged. On disk is slower, but no mistake.
func stagingResult(g embed.Staging) health.Result {
	if g.Dir == "" {
		return health.Passed("nats-staging", "batches of records are staged on disk, which is slower than memory (%s)",
			g.Why)
	}
	return health.Passed("nats-staging", "batches of records are staged in memory (%s)", g.Dir)
}

// syncResult reports when acknowledged records are on disk.
func syncResult(how string) health.Result {
	if how != config.NATSSync.Default {
		return health.Warned("nats-sync", "set AO_NATS_SYNC=always, unless this is intended",
			"NATS syncs to disk every %s: a power failure loses what was accepted since the last sync", how)
	}
	return health.Passed("nats-sync", "every record is on disk before it is acknowledged")
}

// remote checks an external NATS.
func (p process) remote(ctx context.Context) []health.Result {
	s, err := p.bus.ServerHealth(ctx)
	if err != nil {
		return nil // reported with the other checks of NATS
	}
	return []health.Result{
		health.Skipped("nats-sync", "check that its configuration has sync_interval: always, as nats/server.conf has; "+
			"with a monitoring port: ao doctor --nats-monitor http://HOST:8222",
			"a NATS server does not report to clients when it syncs to disk"),
		remoteStaging(s),
		remoteAccess(s, p.cfg.PrivateNetwork),
	}
}

// remoteStaging reports where an external NATS stages batches: with replicas in memory, otherwise unknown.
func remoteStaging(s bus.ServerHealth) health.Result {
	const check = "nats-staging"
	for _, stream := range s.Streams {
		if stream.Name == subject.Runs && stream.Replicas > 1 {
			return health.Passed(check, "NATS stages batches of records in memory, as always with %d replicas",
				stream.Replicas)
		}
	}
	return health.Skipped(check, "check that memory is mounted there, as in docker-compose.yml: docker inspect -f "+
		"'{{.HostConfig.Tmpfs}}' CONTAINER; without Docker: findmnt -T "+
		"STORE_DIR/jetstream/ACCOUNT/streams/RUNS/batches", "a NATS server does not report to clients whether it "+
		"stages batches of records in memory or on disk")
}

// remoteAccess checks who can use an external NATS, and whether it is encrypted. private: AO_PRIVATE_NETWORK is set.
func remoteAccess(s bus.ServerHealth, private bool) health.Result {
	const check = "nats-users"
	switch {
	case s.Open && !s.Local():
		return health.Failed(check, "create users with 'ao init', include nats/users.conf in the server's "+
			"configuration, and set AO_NATS_CREDS for coordinators and workers", "NATS at %s requires no login, and "+
			"anyone who can reach it can do everything", s.URL)
	case s.Open:
		return health.Passed(check, "NATS at %s requires no login; make sure that only this machine reaches it", s.URL)
	case !s.TLS && !s.Local() && private:
		return health.Passed(check, "NATS at %s requires a login, in a private network (AO_PRIVATE_NETWORK)", s.URL)
	case !s.TLS && !s.Local():
		return health.Warned(check, "create certificates with 'ao init --tls', and set AO_NATS_CA for coordinators "+
			"and workers", "NATS at %s requires a login but has no TLS: others on the network can read everything",
			s.URL)
	}
	return health.Passed(check, "NATS at %s requires a login", s.URL)
}

// files checks who can read our secrets, and free space.
func (p process) files() (all []health.Result) {
	dir := cmp.Or(p.cfg.NATS.DataDir, config.DataDir.Default)
	for _, s := range []struct{ setting, path string }{
		{"AO_API_TOKENS", p.cfg.APITokens}, {"AO_TLS_KEY", p.cfg.TLSKey}, {"AO_NATS_CREDS", p.cfg.NATS.Login.Creds},
		{"AO_NATS_KEY", p.cfg.NATS.Login.Key},
	} {
		if s.path != "" {
			all = append(all, health.Secret(s.setting, s.path))
		}
	}
	if _, err := os.Stat(dir); err == nil {
		all = append(all, health.Secret("AO_DATA_DIR", dir))
	}
	return append(all, health.Disk("AO_DATA_DIR", dir))
}
