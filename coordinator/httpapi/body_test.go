package httpapi

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ao/coordinator/budget"

	"github.com/gin-gonic/gin"
)

// TestARequestWithoutABodyCostsLittle: what the server keeps with it is one piece, beside the request that carries it.
func TestARequestWithoutABodyCostsLittle(t *testing.T) {
	m := budget.NewMemory(0, 1<<20)
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
	g := &gin.Context{}
	if got := testing.AllocsPerRun(100, func() {
		g.Request = r
		x := newExchange(g)
		x.setMemory(m)
		if exchangeOf(g) != x || budget.Read(g.Request.Context(), budget.Small) != nil {
			t.Error("the request does not know what is its")
		}
		x.close()
	}); got > 2 {
		t.Errorf("%.0f allocations", got)
	}
}

// once is a listener with one connection.
type once chan net.Conn

func (o once) Accept() (net.Conn, error) {
	if c, ok := <-o; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (o once) Close() error { close(o); return nil }

func (o once) Addr() net.Addr { return &net.TCPAddr{} }

// TestALargeBodyLeavesNoDeadline: a large body gets more time while it arrives. Its handler may then wait for longer.
func TestALargeBodyLeavesNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := strings.Repeat(" ", bodyRate)
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, err := receive(nil, w, r.Body, r.ContentLength, 1<<20)
			if err != nil || len(raw) != len(body) {
				t.Errorf("%d bytes received, %v", len(raw), err)
			}
			select {
			case <-r.Context().Done():
				t.Errorf("the caller is taken for gone: %v", context.Cause(r.Context()))
			case <-time.After(time.Minute):
			}
		})}
		l := make(once, 1)
		go s.Serve(l)
		client, server := net.Pipe()
		l <- server
		req := httptest.NewRequest(http.MethodPost, "http://localhost/", io.NopCloser(strings.NewReader(body)))
		req.ContentLength = int64(len(body))
		go req.Write(client)
		res, err := http.ReadResponse(bufio.NewReader(client), req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		client.Close()
		s.Close()
	})
}
