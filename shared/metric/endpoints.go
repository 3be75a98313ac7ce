package metric

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"

	"ao/shared/config"
	"ao/shared/httpserver"
)

// Endpoints are the addresses of a process's metrics and profiles. Empty: none.
type Endpoints struct {
	Metrics string // AO_METRICS_ADDR: GET /metrics without a token
	Pprof   string // AO_PPROF_ADDR: Go's profiles, on loopback only
}

// Settings are its rows of the configuration.
func (p *Endpoints) Settings() []config.Bound {
	return []config.Bound{config.MetricsAddr.To(&p.Metrics), config.PprofAddr.To(&p.Pprof)}
}

// Listen serves the configured addresses until close is called. The error for an unusable address names its setting.
func (p Endpoints) Listen(ctx context.Context, r *Registry, log *slog.Logger) (close func(), err error) {
	if p.Pprof != "" { // it may not have been read from a setting
		if _, err := config.Loopback(p.Pprof); err != nil {
			return nil, fmt.Errorf("AO_PPROF_ADDR %q %w", p.Pprof, err)
		}
	}
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", r.Handler())
	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)

	var open []*http.Server
	close = func() {
		for _, s := range open {
			_ = s.Close()
		}
	}
	for _, at := range []struct {
		setting, addr, path string
		handler             http.Handler
	}{{"AO_METRICS_ADDR", p.Metrics, "/metrics", metrics},
		{"AO_PPROF_ADDR", p.Pprof, "/debug/pprof/", sameMachineOnly(profiles)}} {
		if at.addr == "" {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.addr)
		if err != nil {
			close()
			return nil, fmt.Errorf("%s %q cannot be used: %w; set another one, perhaps another process uses it",
				at.setting, at.addr, err)
		}
		s := httpserver.New(at.handler, httpserver.Config{Connections: maxConnections, Log: log})
		open = append(open, s)
		go func() {
			if err := s.Serve(httpserver.Listen(l, nil)); !errors.Is(err, http.ErrServerClosed) {
				log.Error("server of metrics or profiles failed", "setting", at.setting, "err", err)
			}
		}()
		log.Info("serving metrics or profiles", "setting", at.setting, "url", "http://"+l.Addr().String()+at.path)
	}
	return close, nil
}

// maxConnections is how many connections an endpoint has at once.
const maxConnections = 256

// sameMachineOnly rejects web pages whose host name resolves to this machine (DNS rebinding).
func sameMachineOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(host, "0")
		}
		site := r.Header.Get("Sec-Fetch-Site")
		foreign := r.Header.Get("Origin") != "" || site == "cross-site" || site == "same-site"
		if _, err := config.Loopback(host); err != nil || foreign {
			http.Error(w, "only requests from this machine, by its own name, are allowed", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
