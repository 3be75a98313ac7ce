package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"ao/shared/fault"
	"ao/shared/runnerapi"
	"ao/shared/tlsroots"
	"ao/shared/trace"
)

// newTransport returns the transport to the API: no proxy, no response timeout.
func newTransport(believes *tls.Config) *http.Transport {
	return &http.Transport{
		TLSClientConfig:     believes,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		ForceAttemptHTTP2: true, DisableCompression: true,
	}
}

// mcp proxies a request to the orchestrator's MCP server.
func (c call) mcp() (any, error) { return c.forward("/mcp") }

// api proxies a request to the orchestrator's API.
func (c call) api() (any, error) { return c.forward("/" + strings.Join(c.path[1:], "/")) }

// strippedHeaders identify a client or its origin; the API only gets the gateway's own.
var strippedHeaders = []string{"Authorization", "Proxy-Authorization", "Cookie", runnerapi.HeaderSession, "Origin",
	"Referer", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Connection", "Upgrade"}

// forward proxies the request to the API as this session and streams the response.
func (c call) forward(path string) (any, error) {
	base, err := url.Parse(c.run.API())
	if err != nil || base.Host == "" {
		return nil, fault.New(fault.Unavailable, "api_not_known",
			"the URL of the orchestrator's API is unknown: set AO_API_URL for the worker, for example "+
				"http://127.0.0.1:8765").After(5 * time.Second)
	}
	proxy := httputil.ReverseProxy{
		Transport:     c.gateway.transport,
		FlushInterval: -1, // flush streams immediately
		ErrorLog:      slog.NewLogLogger(c.gateway.Log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			for _, name := range strippedHeaders {
				p.Out.Header.Del(name)
			}
			p.Out.URL = &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/") + path,
				RawQuery: p.In.URL.RawQuery}
			p.Out.Host = base.Host
			p.Out.Header.Set(runnerapi.HeaderSession, c.run.Invocation.SessionID)
			p.Out.Header.Set("Authorization", "Bearer "+c.run.Token())
			if p.Out.Header.Get(trace.HeaderParent) == "" {
				trace.InjectTrace(p.Out.Header, c.run.Trace)
			}
			p.Out.Body, p.Out.ContentLength = http.NoBody, int64(len(c.body))
			if len(c.body) > 0 {
				p.Out.Body = io.NopCloser(bytes.NewReader(c.body))
			}
			p.Out.Header.Del("Content-Length")
			p.Out.TransferEncoding = nil
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Set-Cookie")
			if to := r.Header.Get("Location"); strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") {
				r.Header.Set("Location", "/"+c.token+"/api"+to)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if errors.Is(err, context.Canceled) {
				writeError(w, err)
				return
			}
			if why := tlsroots.Explain(err); why != "" {
				c.gateway.Log.Error("the orchestrator's API is not trusted, request refused",
					"run", c.run.Invocation.RunID, "url", base.Redacted(), "why", why)
				writeError(w, fault.New(fault.Unavailable, "api_untrusted",
					"the orchestrator's API is not trusted: "+why).After(time.Minute))
				return
			}
			c.gateway.Log.Warn("the orchestrator's API does not answer", "run", c.run.Invocation.RunID,
				"url", base.Redacted(), "err", err)
			writeError(w, fault.New(fault.Unavailable, "api_unreachable",
				"the orchestrator's API does not answer; retry in a moment").After(time.Second))
		},
	}
	proxy.ServeHTTP(c.w, c.r.WithContext(c.ctx))
	return nil, nil
}
