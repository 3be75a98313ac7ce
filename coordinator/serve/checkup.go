package serve

import (
	"cmp"
	"context"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"ao/coordinator/checkup"
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
func (p process) report(ctx context.Context, c *parts.Coordinator) checkup.Report {
	host, _ := os.Hostname() // for people
	r := checkup.Report{At: time.Now().UTC(), Version: version.Current(), Go: runtime.Version(), Host: host,
		PublicURL: c.PublicURL, Private: p.cfg.PrivateNetwork}
	r.Checks = append(r.Checks, p.http()...)
	if p.server != nil {
		r.Checks = append(r.Checks, p.embedded(ctx)...)
	} else {
		r.Checks = append(r.Checks, p.remote(ctx)...)
	}
	r.Checks = append(r.Checks, p.files()...)
	r.Checks = append(r.Checks, p.agentFolders()...)
	r.Checks = append(r.Checks, c.Doctor.Checkup(ctx)...)
	return r
}

// agentFolders checks that agents' files can be changed where AO_AGENTS_WRITABLE is on.
func (p process) agentFolders() (all []checkup.Finding) {
	if !p.cfg.Coordinator.AgentsWritable {
		return nil
	}
	const writable = 2
	for _, dir := range p.cfg.Coordinator.AgentsDirs {
		if err := syscall.Access(dir, writable); err != nil {
			all = append(all, checkup.Warned("agents", "let this user write there, or switch AO_AGENTS_WRITABLE off",
				"agents in %s cannot be changed, though AO_AGENTS_WRITABLE is on: %v", dir, err))
		}
	}
	return all
}

// http checks who can use HTTP, and whether it is encrypted.
func (p process) http() (all []checkup.Finding) {
	switch {
	case p.cfg.HTTP.Tokens == nil && p.open:
		all = append(all, checkup.Failed("http", "make tokens with 'ao tokens create', name their file in "+
			"AO_API_TOKENS, and take AO_INSECURE_LISTEN away",
			"HTTP listens at %s, beyond this machine, and whoever gets there may do everything", p.at))
	case p.cfg.HTTP.Tokens == nil:
		all = append(all, checkup.Passed("http", "HTTP listens at %s, for this machine alone, and asks nobody for "+
			"a token", p.at))
	default:
		all = append(all, checkup.Passed("http", "HTTP listens at %s and asks everybody for a token", p.at))
	}
	switch {
	case p.shown != nil:
		all = append(all, p.shown.judge())
	case p.open && p.cfg.PrivateNetwork:
		all = append(all, checkup.Passed("tls", "HTTP is not encrypted, in a network of its own (AO_PRIVATE_NETWORK)"))
	case p.open:
		all = append(all, checkup.Warned("tls", "set AO_TLS_CERT and AO_TLS_KEY ('ao init --tls' makes them), "+
			"or put a "+
			"proxy that speaks TLS before it and listen on 127.0.0.1",
			"HTTP beyond this machine is not encrypted: tokens cross the network as they are"))
	}
	return all
}

// expiryWarning is how long before its end a certificate should be replaced.
const expiryWarning = 14 * 24 * time.Hour

func (c *certificate) judge() checkup.Finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	const advice = "put a new one into its place: it is read again without a restart"
	end := c.pair.Leaf.NotAfter
	left := time.Until(end)
	switch {
	case left <= 0:
		return checkup.Failed("tls", advice, "the certificate %s has expired at %s", c.certFile, end.UTC().
			Format(time.RFC3339))
	case left < expiryWarning:
		return checkup.Warned("tls", advice, "the certificate %s ends in %d days", c.certFile, int(left.Hours()/24))
	}
	return checkup.Passed("tls", "the certificate %s is good for %d days", c.certFile, int(left.Hours()/24))
}

// embedded checks the embedded NATS.
func (p process) embedded(ctx context.Context) (all []checkup.Finding) {
	n := p.cfg.NATS
	switch {
	case n.Users != "":
		all = append(all, checkup.Passed("nats-users", "the embedded NATS asks for a login"))
		if text, err := os.ReadFile(n.Users); err == nil && !users.Named(string(text)) {
			all = append(all, checkup.OutdatedUsers("AO_NATS_USERS "+n.Users))
		}
	case onlyLocal(n.Listen):
		all = append(all, checkup.Passed("nats-users", "the embedded NATS asks nobody who they are; only this machine "+
			"reaches it"))
	default:
		all = append(all, checkup.Failed("nats-users", "make users with 'ao init' and name nats/users.conf in "+
			"AO_NATS_USERS, and take AO_INSECURE_LISTEN away",
			"the embedded NATS listens at %s, beyond this machine, and lets in everybody", n.Listen))
	}
	if s, err := p.bus.ServerHealth(ctx); err == nil {
		room, _ := p.server.DiskUsage() // 0: unknown
		all = append(all, checkup.Store(s.Limits(), p.server.MaxStore(), room.Total))
	}
	return append(all, syncFinding(cmp.Or(n.Sync, config.NATSSync.Default)), stagingFinding(p.server.Staging()))
}

// stagingFinding reports where batches are staged. On disk is slower, but no mistake.
func stagingFinding(g embed.Staging) checkup.Finding {
	if g.Dir == "" {
		return checkup.Passed("nats-staging", "batches of records are put aside on disk, which is slower than in "+
			"memory (%s)", g.Why)
	}
	return checkup.Passed("nats-staging", "batches of records are put aside in memory (%s)", g.Dir)
}

// syncFinding reports when acknowledged records are on disk.
func syncFinding(how string) checkup.Finding {
	if how != config.NATSSync.Default {
		return checkup.Warned("nats-sync", "set AO_NATS_SYNC=always, unless that is meant",
			"NATS writes to disk every %s: what was accepted since then is lost when the power fails", how)
	}
	return checkup.Passed("nats-sync", "every record is on disk before it is acknowledged")
}

// remote checks the connection to a NATS elsewhere.
func (p process) remote(ctx context.Context) []checkup.Finding {
	s, err := p.bus.ServerHealth(ctx)
	if err != nil {
		return nil // reported with the other findings about NATS
	}
	return []checkup.Finding{
		checkup.Skipped("nats-sync", "look that its configuration has sync_interval: always, as nats/server.conf has; "+
			"where it has a monitoring port: ao doctor --nats-monitor http://HOST:8222",
			"a NATS server does not tell its clients when it writes to disk"),
		remoteStaging(s),
		remoteAccess(s, p.cfg.PrivateNetwork),
	}
}

// remoteStaging reports where a NATS elsewhere stages batches, as far as it can be known: with replicas always in
// memory.
func remoteStaging(s bus.ServerHealth) checkup.Finding {
	const check = "nats-staging"
	for _, stream := range s.Streams {
		if stream.Name == subject.Runs && stream.Replicas > 1 {
			return checkup.Passed(check, "NATS puts batches of records aside in memory, as it does with %d replicas",
				stream.Replicas)
		}
	}
	return checkup.Skipped(check, "look whether memory is mounted there: docker inspect -f '{{.HostConfig.Tmpfs}}' of "+
		"the container names it (docker-compose.yml does); "+
		"without Docker: findmnt -T STORE_DIR/jetstream/ACCOUNT/streams/RUNS/batches",
		"a NATS server does not tell its clients whether it puts batches of records aside in memory or on disk")
}

// remoteAccess checks who can use a NATS elsewhere and whether it is encrypted. private: the network is our own.
func remoteAccess(s bus.ServerHealth, private bool) checkup.Finding {
	const check = "nats-users"
	switch {
	case s.Open && !s.Local():
		return checkup.Failed(check, "make users with 'ao init', include nats/users.conf in the server's "+
			"configuration, "+
			"and set AO_NATS_CREDS for coordinators and workers",
			"NATS at %s lets in everybody who reaches it, and they may do everything", s.URL)
	case s.Open:
		return checkup.Passed(check, "NATS at %s asks nobody who they are; see that only this machine reaches it",
			s.URL)
	case !s.TLS && !s.Local() && private:
		return checkup.Passed(check, "NATS at %s asks for a login, in a network of its own (AO_PRIVATE_NETWORK)", s.URL)
	case !s.TLS && !s.Local():
		return checkup.Warned(check, "'ao init --tls' makes certificates; set AO_NATS_CA for coordinators and workers",
			"NATS at %s asks for a login and speaks no TLS: who is on the way can read everything", s.URL)
	}
	return checkup.Passed(check, "NATS at %s asks for a login", s.URL)
}

// files checks who can read our secrets, and free space.
func (p process) files() (all []checkup.Finding) {
	dir := cmp.Or(p.cfg.NATS.DataDir, config.DataDir.Default)
	for _, s := range []struct{ setting, path string }{
		{"AO_API_TOKENS", p.cfg.APITokens}, {"AO_TLS_KEY", p.cfg.TLSKey}, {"AO_NATS_CREDS", p.cfg.NATS.Login.Creds},
		{"AO_NATS_KEY", p.cfg.NATS.Login.Key},
	} {
		if s.path != "" {
			all = append(all, checkup.Secret(s.setting, s.path))
		}
	}
	if _, err := os.Stat(dir); err == nil {
		all = append(all, checkup.Secret("AO_DATA_DIR", dir))
	}
	return append(all, checkup.Disk("AO_DATA_DIR", dir))
}
