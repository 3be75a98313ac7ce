package httpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"ao/shared/httpserver"
)

// pipes is a listener whose connections are pipes, so that time can be virtual.
type pipes struct{ to chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.to; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p.to); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestTheDeadlineOfABody: a body has 15 seconds to arrive. Once it has, its handler may take longer.
func TestTheDeadlineOfABody(t *testing.T) {
	for _, tt := range []struct {
		name, sent string
		handler    func(r *http.Request) error
		want       string
		after      time.Duration
	}{
		{"a handler waits after the body", "Content-Length: 2\r\n\r\n{}", readThenWait, "200 OK: <nil>", time.Minute},
		{"a handler waits after a chunked body", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
			readThenWait, "200 OK: <nil>", time.Minute},
		{"a body stops", "Content-Length: 2\r\n\r\n{", readThenWait,
			"200 OK: read pipe: i/o timeout", 15 * time.Second},
		{"nobody reads a body that stops", "Content-Length: 2\r\n\r\n{", func(*http.Request) error { return nil },
			"200 OK: <nil>", 15 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := pipes{make(chan net.Conn, 1)}
				s := httpserver.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					fmt.Fprint(w, tt.handler(r))
				}), httpserver.Config{})
				go s.Serve(l)
				client, server := net.Pipe()
				l.to <- server
				began := time.Now()
				go io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\n"+tt.sent)
				res, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil {
					t.Fatal(err)
				}
				response, _ := io.ReadAll(res.Body)
				if got := res.Status + ": " + string(response); got != tt.want || time.Since(began) != tt.after {
					t.Errorf("%s after %v; want %s after %v", got, time.Since(began), tt.want, tt.after)
				}
				client.Close()
				s.Close()
			})
		})
	}
}

// TestACallerCanReadARefusal: a connection whose body is refused stays open for a moment. A caller that still sends
// would else see a reset instead of the answer.
func TestACallerCanReadARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := pipes{make(chan net.Conn, 1)}
		s := httpserver.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}), httpserver.Config{})
		go s.Serve(l)
		client, server := net.Pipe()
		l.to <- server
		began := time.Now()
		go io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{")
		got, _ := io.ReadAll(client)
		if !bytes.HasPrefix(got, []byte("HTTP/1.1 413 ")) || time.Since(began) < 100*time.Millisecond {
			t.Errorf("%.40q, closed after %v", got, time.Since(began))
		}
		client.Close()
		s.Close()
	})
}

// readThenWait reads a body and waits a minute, unless the connection is lost.
func readThenWait(r *http.Request) error {
	if _, err := io.ReadAll(r.Body); err != nil {
		return err
	}
	select {
	case <-r.Context().Done():
		return context.Cause(r.Context())
	case <-time.After(time.Minute):
		return nil
	}
}
