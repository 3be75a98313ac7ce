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
	"ao/shared/tlsroots"
	"ao/shared/trace"
)

// HeaderSession names the session on whose behalf the API is asked.
const HeaderSession = "X-Agent-Session-Id"

// transport is how the API is reached: directly, and its answers may take as long as they do.
func transport(believes *tls.Config) *http.Transport {
	return &http.Transport{
		TLSClientConfig:     believes,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true, DisableCompression: true,
	}
}

// mcp hands a request on to the orchestrator's MCP server.
func (c call) mcp() (any, error) { return c.forward("/mcp") }

// api hands a request on to the orchestrator's API.
func (c call) api() (any, error) { return c.forward("/" + strings.Join(c.path[1:], "/")) }

// spoken are headers that say who somebody is, or where from; the API hears of none but the gateway's own.
var spoken = []string{"Authorization", "Proxy-Authorization", "Cookie", HeaderSession, "Origin", "Referer", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Connection", "Upgrade"}

// forward asks the API as this session, and lets the answer through as it comes.
func (c call) forward(path string) (any, error) {
	base, err := url.Parse(c.run.API())
	if err != nil || base.Host == "" {
		return nil, fault.New(fault.Unavailable, "api_not_known", "Where the orchestrator's API is, is not known here: set AO_API_URL for the worker, for example http://127.0.0.1:8765").After(5 * time.Second)
	}
	proxy := httputil.ReverseProxy{
		Transport:     c.g.out,
		FlushInterval: -1, // streams come through at once
		ErrorLog:      slog.NewLogLogger(c.g.Log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			for _, name := range spoken {
				p.Out.Header.Del(name)
			}
			p.Out.URL = &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/") + path, RawQuery: p.In.URL.RawQuery}
			p.Out.Host = base.Host
			p.Out.Header.Set(HeaderSession, c.run.Invocation.SessionID)
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
				refuse(w, err)
				return
			}
			if why := tlsroots.Explain(err); why != "" {
				c.g.Log.Error("the orchestrator's API is not asked for an executor", "run", c.run.Invocation.RunID, "url", base.Redacted(), "why", why)
				refuse(w, fault.New(fault.Unavailable, "api_untrusted", "The orchestrator's API is not asked: "+why).After(time.Minute))
				return
			}
			c.g.Log.Warn("the orchestrator's API does not answer an executor", "run", c.run.Invocation.RunID, "url", base.Redacted(), "err", err)
			refuse(w, fault.New(fault.Unavailable, "api_unreachable", "The orchestrator's API does not answer; try again in a moment").After(time.Second))
		},
	}
	proxy.ServeHTTP(c.w, c.r.WithContext(c.ctx))
	return nil, nil
}
