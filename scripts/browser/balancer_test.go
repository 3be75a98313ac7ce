package browser

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// balancer is a load balancer for several coordinators.
type balancer struct {
	*stack
	coordinators []*url.URL
	turn         atomic.Int64
	streams      atomic.Int32 // that are read now
	perTurn      atomic.Int32 // that were read at once

	mu        sync.Mutex
	open      context.Context // ends when the listener is closed
	closeFunc context.CancelFunc
}

func newBalancer(t *testing.T, coordinators ...*stack) *balancer {
	t.Helper()
	d := &balancer{}
	d.open, d.closeFunc = context.WithCancel(context.Background())
	for _, c := range coordinators {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		d.coordinators = append(d.coordinators, u)
	}
	server := httptest.NewUnstartedServer(d)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it logs each stream that is cut
	server.Start()
	t.Cleanup(func() { d.close(); server.CloseClientConnections(); server.Close() })
	d.stack = &stack{url: server.URL}
	return d
}

// close answers every request with 503 and cuts the streams.
func (d *balancer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closeFunc()
}

// reopen forwards requests again.
func (d *balancer) reopen() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open, d.closeFunc = context.WithCancel(context.Background())
}

func (d *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	open := d.open
	d.mu.Unlock()
	if open.Err() != nil {
		http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(open, cancel)()
	if strings.HasPrefix(r.URL.Path, "/sse/") {
		n := d.streams.Add(1)
		defer d.streams.Add(-1)
		for most := d.perTurn.Load(); n > most && !d.perTurn.CompareAndSwap(most, n); most = d.perTurn.Load() {
		}
	}
	to := d.coordinators[int(d.turn.Add(1))%len(d.coordinators)]
	proxy := httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.Out.Host = p.In.Host
		}}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}
