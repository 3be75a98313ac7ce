// Package doctor looks over a deployment from where 'ao' runs: what the coordinator says of itself, whether it says that to everybody,
// the clocks between here and there, the files of secrets that this machine has, and NATS with the credentials that are given.
package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"time"

	"ao/coordinator/checkup"
	"ao/coordinator/cmd/ao/client"
	"ao/nats/bus"
	"ao/shared/config"
	"ao/shared/version"
)

// Config is what is looked over. Files and addresses come from the environment of the program that is looked after.
type Config struct {
	URL, Token, CA string
	Env            func(string) string // the environment
	Monitor        string              // URL of a NATS server's monitoring port; empty: it has none
}

// checkTimeout is the time that one question may take.
const checkTimeout = 10 * time.Second

// Check makes every check that can be made from here.
func Check(ctx context.Context, c Config) []checkup.Finding {
	all := []checkup.Finding{checkup.Good("ao", "version %s (%s)", version.Current(), runtime.Version())}
	findings, report := c.coordinator(ctx)
	all = append(all, findings...)
	all = append(all, c.network(ctx, report)...)
	all = append(all, c.files()...)
	all = append(all, c.profiles()...)
	all = append(all, c.nats(ctx)...)
	return append(all, c.monitor(ctx)...)
}

// coordinator asks it what it sees. A nil report: it did not say.
func (c Config) coordinator(ctx context.Context) ([]checkup.Finding, *checkup.Report) {
	cl, err := client.New(client.Config{URL: c.URL, Token: c.Token, CA: c.CA})
	if err != nil {
		return []checkup.Finding{checkup.Bad("coordinator", "mend it", "%v", err)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, err = cl.Get(ctx, nil, "ready") // it makes the connection, too, so that the next answer tells the time
	refused := new(client.APIError)
	if err != nil && !errors.As(err, &refused) {
		return []checkup.Finding{checkup.Bad("coordinator", "start it, or say where it is: --url or AO_URL, --ca or AO_CA", "%v", err)}, nil
	}
	asked := time.Now()
	doc, err := cl.Get(ctx, nil, "doctor")
	took := time.Since(asked)
	if errors.As(err, &refused) && refused.Status == http.StatusUnauthorized && c.Token != "" {
		return []checkup.Finding{checkup.Bad("coordinator", "put a token of this coordinator into AO_TOKEN, one with scope admin; 'ao tokens create' makes one", "it answers, and refuses the token: %v", err)}, nil
	}
	if errors.As(err, &refused) && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden) {
		return []checkup.Finding{checkup.Not("coordinator", "give a token with scope admin in AO_TOKEN", "it answers, and does not tell us how it stands: %v", err)}, nil
	}
	if err != nil {
		return []checkup.Finding{checkup.Bad("coordinator", "look at its log; one of an older version cannot be asked this", "it answers, and does not tell how it stands: %v", err)}, nil
	}
	var r checkup.Report
	if err := json.Unmarshal(doc, &r); err != nil || r.At.IsZero() {
		return []checkup.Finding{checkup.Bad("coordinator", "is it of another version?", "what it says cannot be read: %.200s", doc)}, nil
	}
	all := []checkup.Finding{checkup.Good("coordinator", "version %s (%s) on %s answers in %v", r.Version, r.Go, r.Host, took.Round(time.Millisecond))}
	if r.Version != version.Current() && r.Version != version.Unknown && version.Current() != version.Unknown {
		all = append(all, checkup.Odd("versions", "use the ao that belongs to the coordinator", "ao is of version %s, the coordinator of %s", version.Current(), r.Version))
	}
	all = append(all, checkup.Clock("the coordinator's clock", r.At.Sub(asked.Add(took/2)), took/2))
	return append(all, r.Checks...), &r
}

// network looks who gets in at the addresses.
func (c Config) network(ctx context.Context, r *checkup.Report) (all []checkup.Finding) {
	base := cmp.Or(c.URL, client.DefaultURL)
	if host := hostOf(base); r != nil && !local(host) {
		if anonymous, err := client.New(client.Config{URL: c.URL, CA: c.CA}); err == nil {
			ctx, cancel := context.WithTimeout(ctx, checkTimeout)
			defer cancel()
			if _, err := anonymous.Get(ctx, url.Values{"limit": {"1"}}, "runs"); err == nil {
				all = append(all, checkup.Bad("http", "make tokens with 'ao tokens create' and name their file in AO_API_TOKENS", "%s answers everybody who reaches it, without a token", base))
			}
		}
	}
	here, _ := os.Hostname() // an empty name is nobody's
	if r != nil && r.Private && r.Host != here && local(hostOf(base)) {
		all = append(all, exposed(ctx, base)...)
	}
	if r == nil || r.PublicURL == "" {
		return all
	}
	host := hostOf(r.PublicURL)
	if local(host) && here != r.Host {
		return append(all, checkup.Odd("public-url", "set AO_PUBLIC_URL to an address that workers reach, unless all of them are on the coordinator's machine", "workers are told %s, which only the coordinator's machine reaches", r.PublicURL))
	}
	public, err := client.New(client.Config{URL: r.PublicURL, CA: c.CA})
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		_, err = public.Get(ctx, nil, "health")
	}
	if err != nil && here != r.Host { // a container's name, or one of another network
		return append(all, checkup.Not("public-url", "run ao doctor where a worker or the coordinator runs (compose: 'docker compose exec -e AO_TOKEN coordinator ao doctor')", "whether workers reach AO_PUBLIC_URL %s: this machine is none of theirs, and does not (%v)", r.PublicURL, err))
	}
	if err != nil {
		return append(all, checkup.Odd("public-url", "workers must reach it, this machine perhaps not: mend AO_PUBLIC_URL, the name, the proxy or AO_CA", "AO_PUBLIC_URL %s is not reached from here: %v", r.PublicURL, err))
	}
	return append(all, checkup.Good("public-url", "%s is reached from here", r.PublicURL))
}

// exposed looks whether a coordinator that says it is in a network of its own is handed on beyond this machine: at its other addresses.
func exposed(ctx context.Context, base string) []checkup.Finding {
	u, err := url.Parse(base)
	addrs, listed := net.InterfaceAddrs()
	if err != nil || listed != nil || u.Scheme != "http" {
		return nil
	}
	httpClient := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}} // no proxy: it is this machine
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
			return []checkup.Finding{checkup.Odd("tls", "publish its port on 127.0.0.1 alone, or set AO_TLS_CERT and AO_TLS_KEY and take AO_PRIVATE_NETWORK away",
				"HTTP is not encrypted, and is reached at %s, beyond the network of its own that AO_PRIVATE_NETWORK promises", at.Host)}
		}
	}
	return nil
}

// local tells whether a host is only this machine's own.
func local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// hostOf is the host of an address; a scheme may be missing.
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

// files looks at the secrets that the environment names, and at the disk.
func (c Config) files() (all []checkup.Finding) {
	for _, name := range []string{"AO_API_TOKENS", "AO_NATS_CREDS", "AO_NATS_KEY", "AO_TLS_KEY"} {
		if path := c.Env(name); path != "" {
			all = append(all, checkup.Secret(name, path))
		}
	}
	if dir := c.Env("AO_DATA_DIR"); dir != "" {
		if _, err := os.Stat(dir); err == nil {
			all = append(all, checkup.Secret("AO_DATA_DIR", dir))
		}
		all = append(all, checkup.Disk("AO_DATA_DIR", dir))
	}
	if len(all) == 0 {
		all = append(all, checkup.Not("files", "run ao doctor with the environment of a coordinator or worker, on its machine", "files of secrets and data of this machine: the environment names none (AO_API_TOKENS, AO_NATS_CREDS, AO_TLS_KEY, AO_DATA_DIR)"))
	}
	return all
}

// nats connects with the credentials that are given, and without.
func (c Config) nats(ctx context.Context) (all []checkup.Finding) {
	address, creds := c.Env("AO_NATS_URL"), c.Env("AO_NATS_CREDS")
	switch {
	case address == config.Embed:
		return nil // the coordinator tells of it
	case address == "" && creds == "":
		return []checkup.Finding{checkup.Not("nats", "set AO_NATS_URL and AO_NATS_CREDS as a worker or coordinator has them", "NATS from here, and what its users may do: the environment names none")}
	}
	login := bus.Login{Creds: creds, CA: c.Env("AO_NATS_CA"), Cert: c.Env("AO_NATS_CERT"), Key: c.Env("AO_NATS_KEY")}
	return checkNATS(ctx, cmp.Or(address, config.NATSURL.Default), login)
}

// monitor asks a NATS server's monitoring port when it writes to disk.
func (c Config) monitor(ctx context.Context) []checkup.Finding {
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
				Reserved uint64 `json:"reserved_storage"`
			} `json:"stats"`
		} `json:"jetstream"`
	}
	cl, err := client.New(client.Config{URL: c.Monitor, CA: c.CA})
	if err == nil {
		var doc json.RawMessage
		if doc, err = cl.Get(ctx, nil, "varz"); err == nil {
			err = json.Unmarshal(doc, &v)
		}
	}
	switch {
	case err != nil:
		return []checkup.Finding{checkup.Bad("nats-sync", "name the monitoring port of a nats-server (http_port), such as http://127.0.0.1:8222", "%s/varz: %v", c.Monitor, err)}
	case v.JetStream.Config == nil:
		return []checkup.Finding{checkup.Bad("nats-sync", "start it with JetStream (nats-server -js)", "the NATS server at %s has no JetStream", c.Monitor)}
	}
	all := []checkup.Finding{checkup.NATS(v.Version), checkup.Store(v.JetStream.Stats.Reserved, v.JetStream.Config.MaxStore, 0)}
	if j := v.JetStream.Config; !j.Always {
		return append(all, checkup.Odd("nats-sync", "set sync_interval: always in its configuration, as nats/server.conf has", "NATS writes to disk every %v: what was accepted since then is lost when the power fails", cmp.Or(j.Interval, 2*time.Minute)))
	}
	return append(all, checkup.Good("nats-sync", "every record is on disk before it is acknowledged"))
}

// Format is a finding on a line of its own, and its advice on the next.
func Format(f checkup.Finding) string {
	line := fmt.Sprintf("%-4s  %-12s  %s", f.Verdict, f.Check, f.Say)
	if f.Advice != "" {
		line += "\n      → " + f.Advice
	}
	return line
}
