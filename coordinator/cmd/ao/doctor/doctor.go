// Package doctor checks a deployment from where 'ao' runs. It has the coordinator's own checks, who can reach it, and
// the clocks. It also checks the secret files of this machine, and NATS with the given credentials.
package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"slices"
	"time"

	"ao/coordinator/cmd/ao/connection"
	"ao/coordinator/health"
	"ao/nats/bus"
	client "ao/shared/clients/go"
	"ao/shared/config"
	"ao/shared/version"
)

// Config says what to check. Files and addresses come from the environment of the coordinator or worker to check.
type Config struct {
	URL, Token, CA string
	Env            func(string) string // the environment
	Monitor        string              // URL of a NATS server's monitoring port; empty: not checked
}

// results are those of one or several checks.
type results = []health.Result

// checkTimeout is how long one request may take.
const checkTimeout = 10 * time.Second

// Check runs every check that is possible from here.
func Check(ctx context.Context, c Config) []health.Result {
	all := results{health.Passed("ao", "version %s (%s)", version.Current(), runtime.Version())}
	findings, report := c.coordinator(ctx)
	return slices.Concat(all, findings, c.network(ctx, report), c.files(), c.profiles(), c.nats(ctx), c.monitor(ctx))
}

// client returns a client that sends each request once.
func (c Config) client(url, token string) (*client.Client, error) {
	cl, err := connection.New(connection.Config{URL: url, Token: token, CA: c.CA})
	if err != nil {
		return nil, err
	}
	return cl.Once(), nil
}

// coordinator fetches the coordinator's own report; nil: there is none.
func (c Config) coordinator(ctx context.Context) (results, *health.Report) {
	cl, err := c.client(c.URL, c.Token)
	if err != nil {
		return results{health.Failed("coordinator", "correct AO_URL, AO_TOKEN or AO_CA", "%v", err)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, err = cl.Read(ctx, nil, "ready") // this connects, so the next answer measures the clock without that delay
	if _, refused := connection.Refusal(err); err != nil && !refused {
		return results{health.Failed("coordinator", "start it, or set its address: --url or AO_URL, --ca or AO_CA",
			"%v", err)}, nil
	}
	asked := time.Now()
	doc, err := cl.Read(ctx, nil, "doctor")
	took := time.Since(asked)
	refused, ok := connection.Refusal(err)
	if ok && refused.Status == http.StatusUnauthorized && c.Token != "" {
		return results{health.Failed("coordinator", "set AO_TOKEN to a token of this coordinator with scope admin; "+
			"'ao tokens create' creates one", "the coordinator refuses the token: %v", err)}, nil
	}
	if ok && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden) {
		return results{health.Skipped("coordinator", "set AO_TOKEN to a token with scope admin",
			"the coordinator answers, but its report needs another token: %v", err)}, nil
	}
	if err != nil {
		return results{health.Failed("coordinator", "check its log; an older version has no report",
			"the coordinator answers, but gives no report: %v", err)}, nil
	}
	var r health.Report
	if err := json.Unmarshal(doc, &r); err != nil || r.At.IsZero() {
		return results{health.Failed("coordinator", "use the ao of the coordinator's version",
			"the coordinator's report cannot be read: %.200s", doc)}, nil
	}
	all := results{health.Passed("coordinator", "version %s (%s) on %s answers in %v", r.Version, r.Go,
		r.Host, took.Round(time.Millisecond))}
	if r.Version != version.Current() && r.Version != version.Unknown && version.Current() != version.Unknown {
		all = append(all, health.Warned("versions", "use the ao of the coordinator's version",
			"ao has version %s, the coordinator %s", version.Current(), r.Version))
	}
	all = append(all, health.Clock("the coordinator's clock", r.At.Sub(asked.Add(took/2)), took/2))
	return append(all, r.Checks...), &r
}

// network checks who can reach the coordinator at its addresses.
func (c Config) network(ctx context.Context, r *health.Report) (all results) {
	base := cmp.Or(c.URL, client.DefaultURL)
	if host := hostOf(base); r != nil && !local(host) {
		if anonymous, err := c.client(c.URL, ""); err == nil {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			if _, err := anonymous.Read(ctx, url.Values{"limit": {"1"}}, "runs"); err == nil {
				all = append(all, health.Failed("http", "create tokens with 'ao tokens create' and set "+
					"AO_API_TOKENS to their file", "%s answers everyone who can reach it, without a token", base))
			}
		}
	}
	here, _ := os.Hostname() // an empty name matches no host
	if r != nil && r.Private && r.Host != here && local(hostOf(base)) {
		all = append(all, exposed(ctx, base)...)
	}
	if r == nil || r.PublicURL == "" {
		return all
	}
	host := hostOf(r.PublicURL)
	if local(host) && here != r.Host {
		return append(all, health.Warned("public-url", "set AO_PUBLIC_URL to an address that workers can reach, "+
			"unless all of them are on the coordinator's machine", "workers get the address %s, which only the "+
			"coordinator's machine can reach", r.PublicURL))
	}
	public, err := c.client(r.PublicURL, "")
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		_, err = public.Read(ctx, nil, "health")
	}
	if err != nil && here != r.Host { // the name of a container, or of another network
		return append(all, health.Skipped("public-url", "run ao doctor where a worker or the coordinator runs "+
			"(compose: 'docker compose exec -e AO_TOKEN coordinator ao doctor')", "whether workers can reach "+
			"AO_PUBLIC_URL %s: this machine cannot, but it may not be a worker's (%v)", r.PublicURL, err))
	}
	if err != nil {
		return append(all, health.Warned("public-url", "workers must reach it, this machine need not: correct "+
			"AO_PUBLIC_URL, the name, the proxy or AO_CA", "AO_PUBLIC_URL %s cannot be reached from here: %v",
			r.PublicURL, err))
	}
	return append(all, health.Passed("public-url", "%s can be reached from here", r.PublicURL))
}

// exposed checks whether a coordinator in a private network can also be reached at this machine's other addresses.
func exposed(ctx context.Context, base string) results {
	u, err := url.Parse(base)
	addrs, listed := net.InterfaceAddrs()
	if err != nil || listed != nil || u.Scheme != "http" {
		return nil
	}
	// no proxy: this is the same machine
	httpClient := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLoopback() || n.IP.IsLinkLocalUnicast() {
			continue
		}
		at := *u
		at.Host = net.JoinHostPort(n.IP.String(), cmp.Or(u.Port(), "80"))
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath("health").String(), nil)
		if err != nil {
			return nil
		}
		if res, err := httpClient.Do(req); err == nil {
			_ = res.Body.Close()
			return results{health.Warned("tls", "publish its port on 127.0.0.1 only, or set AO_TLS_CERT and "+
				"AO_TLS_KEY and unset AO_PRIVATE_NETWORK", "unencrypted HTTP can be reached at %s, outside the "+
				"private network that AO_PRIVATE_NETWORK promises", at.Host)}
		}
	}
	return nil
}

// local reports whether a host is only this machine's own.
func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// hostOf returns the host of an address; a scheme may be missing.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		if host, _, err := net.SplitHostPort(raw); err == nil {
			return host
		}
		return raw
	}
	return u.Hostname()
}

// files checks the secret files and the data folder that the environment names.
func (c Config) files() (all results) {
	for _, name := range []string{"AO_API_TOKENS", "AO_NATS_CREDS", "AO_NATS_KEY", "AO_TLS_KEY"} {
		if path := c.Env(name); path != "" {
			all = append(all, health.Secret(name, path))
		}
	}
	if dir := c.Env("AO_DATA_DIR"); dir != "" {
		if _, err := os.Stat(dir); err == nil {
			all = append(all, health.Secret("AO_DATA_DIR", dir))
		}
		all = append(all, health.Disk("AO_DATA_DIR", dir))
	}
	if len(all) == 0 {
		all = append(all, health.Skipped("files", "run ao doctor with the environment of a coordinator or worker, "+
			"on its machine", "secret files and data folder: the environment names none (AO_API_TOKENS, "+
			"AO_NATS_CREDS, AO_TLS_KEY, AO_DATA_DIR)"))
	}
	return all
}

// nats connects to NATS with the given credentials, and without any.
func (c Config) nats(ctx context.Context) (all results) {
	address, creds := c.Env("AO_NATS_URL"), c.Env("AO_NATS_CREDS")
	switch {
	case address == config.Embed:
		return nil // the coordinator reports it
	case address == "" && creds == "":
		return results{health.Skipped("nats", "set AO_NATS_URL and AO_NATS_CREDS as a worker or coordinator has them",
			"NATS and the permissions of its users: the environment names no server")}
	}
	login := bus.Login{Creds: creds, CA: c.Env("AO_NATS_CA"), Cert: c.Env("AO_NATS_CERT"), Key: c.Env("AO_NATS_KEY")}
	return checkNATS(ctx, cmp.Or(address, config.NATSURL.Default), login)
}

// monitor asks a NATS server's monitoring port how it syncs to disk.
func (c Config) monitor(ctx context.Context) results {
	if c.Monitor == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var v struct {
		Version   string `json:"version"`
		JetStream struct {
			Config *struct {
				Always   bool          `json:"sync_always"`
				Interval time.Duration `json:"sync_interval"`
				MaxStore uint64        `json:"max_storage"`
			} `json:"config"`
			Stats struct {
				Used     uint64 `json:"storage"`
				Reserved uint64 `json:"reserved_storage"`
			} `json:"stats"`
		} `json:"jetstream"`
	}
	cl, err := c.client(c.Monitor, "")
	if err == nil {
		var doc json.RawMessage
		doc, err = cl.Read(ctx, nil, "varz")
		if err == nil {
			err = json.Unmarshal(doc, &v)
		}
	}
	switch {
	case err != nil:
		return results{health.Failed("nats-sync", "name the monitoring port of a nats-server (http_port), such as "+
			"http://127.0.0.1:8222", "%s/varz: %v", c.Monitor, err)}
	case v.JetStream.Config == nil:
		return results{health.Failed("nats-sync", "start it with JetStream (nats-server -js)",
			"the NATS server at %s has no JetStream", c.Monitor)}
	}
	stats := v.JetStream.Stats
	all := results{health.NATS(v.Version), health.Store(stats.Reserved, stats.Used, v.JetStream.Config.MaxStore, 0)}
	if j := v.JetStream.Config; !j.Always {
		return append(all, health.Warned("nats-sync", "set sync_interval: always in its configuration, as "+
			"nats/server.conf has", "NATS syncs to disk every %v: a power failure loses what was accepted since the "+
			"last sync", cmp.Or(j.Interval, 2*time.Minute)))
	}
	return append(all, health.Passed("nats-sync", "every record is on disk before it is acknowledged"))
}

// Format returns a finding on one line and its advice on the next.
func Format(f health.Result) string {
	line := fmt.Sprintf("%-4s  %-12s  %s", f.Verdict, f.Check, f.Message)
	if f.Advice != "" {
		line += "\n      → " + f.Advice
	}
	return line
}
