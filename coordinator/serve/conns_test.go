package serve_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/coordinator/serve"
	"ao/nats/natstest"
)

// dial opens a connection that ends with the test, and sends this much of a request.
func (s *stack) dial(sent string) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.url[strings.LastIndex(s.url, "/")+1:])
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, sent); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// anew makes a GET on a connection of its own, within a time.
func (s *stack) anew(path string, headers ...string) (status int, body string, err error) {
	t := &http.Transport{DisableKeepAlives: true}
	defer t.CloseIdleConnections()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		return 0, "", err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := (&http.Client{Transport: t, Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return res.StatusCode, string(raw), err
}

// TestConnectionsHaveALimit: who holds connections without a request, or all that there may be with one, keeps nobody
// else out.
func TestConnectionsHaveALimit(t *testing.T) {
	t.Parallel()
	const most = 64
	s := start(t, func(c *serve.Config) { c.Connections = most })
	s.post("/agents", `{"name":"plain"}`).want(201)
	acc := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	for name, sent := range map[string]string{
		"idle":         "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"silent":       "",
		"slow headers": "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
	} {
		var conns []net.Conn
		for range 3 * most {
			conns = append(conns, s.dial(sent))
		}
		for range 5 {
			for _, path := range []string{"/health", "/runs/" + acc.RunID} {
				if status, body, err := s.anew(path); status != 200 {
					t.Errorf("%s: %s: %d %s %v", name, path, status, body, err)
				}
			}
		}
		natstest.Until(t, name+": the connections over the limit are closed", func() bool {
			conns = slices.DeleteFunc(conns, func(c net.Conn) bool {
				_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
				_, err := io.Copy(io.Discard, c)
				return err == nil || !isTimeout(err)
			})
			return len(conns) <= most
		})
	}
	for range 2 * most {
		s.dial("GET /runs/" + acc.RunID + "/wait?timeout_seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	for range 5 {
		if status, body, err := s.anew("/health"); status != 200 {
			t.Errorf("all wait: /health: %d %s %v", status, body, err)
		}
		status, body, err := s.anew("/runs/" + acc.RunID)
		if status != 429 || !strings.Contains(body, `"error":"too_many_requests"`) {
			t.Errorf("all wait: %d %s %v", status, body, err)
		}
	}
}

// TestBodiesThatNeverArrive: a caller that announces a body and never sends it holds no connection that others need,
// and not for long.
func TestBodiesThatNeverArrive(t *testing.T) {
	t.Parallel()
	const most = 64
	s := secure(t, func(c *serve.Config) { c.Connections = most })
	heads := map[string]string{"refused": "POST /runs", "unknown": "PUT /nothing", "not wanted": "GET /health"}
	for name, request := range heads {
		heads[name] = request + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
		for range 3 * most {
			s.dial(heads[name])
		}
		for range 5 {
			for _, path := range []string{"/health", "/runs"} {
				if status, body, err := s.anew(path, s.read); status != 200 {
					t.Errorf("%s: %s: %d %s %v", name, path, status, body, err)
				}
			}
		}
	}
	heads["waited for"] = "POST /runs/validate HTTP/1.1\r\nHost: localhost\r\n" +
		s.read + "\r\nContent-Length: 9\r\n\r\n"
	conns := map[string]net.Conn{}
	for name, head := range heads {
		conns[name] = s.dial(head)
	}
	for name, c := range conns {
		_ = c.SetDeadline(time.Now().Add(60 * time.Second))
		if _, err := io.Copy(io.Discard, c); isTimeout(err) {
			t.Errorf("%s: the connection stays open", name)
		}
	}
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error)
	return ok && n.Timeout()
}

// TestRefusalsBeforeTheRouter: what net/http refuses by itself is JSON as every other error, over plain HTTP and https.
func TestRefusalsBeforeTheRouter(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	ca.sign(cert, key)
	bare, secured := start(t), start(t, func(c *serve.Config) { c.TLSCert, c.TLSKey = cert, key })
	const host = "Host: localhost\r\n\r\n"
	for _, tt := range []struct {
		sent   string
		status int
		code   string
	}{
		{"GET /% HTTP/1.1\r\n" + host, 400, "invalid_request"},
		{"GET /runs/%zz HTTP/1.1\r\n" + host, 400, "invalid_request"},
		{"GET\r\n" + host, 400, "invalid_request"},
		{"GET / HTTP/1.1\r\n\r\n", 400, "invalid_request"},
		{"GET / HTTP/1.1\r\nA b: c\r\n" + host, 400, "invalid_request"},
		{"GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n" + host, 431, "headers_too_large"},
		{"POST /runs HTTP/1.1\r\nTransfer-Encoding: gzip\r\n" + host, 501, "not_implemented"},
		{"GET / HTTP/3.0\r\n" + host, 505, "http_version_not_supported"},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0, ""},
		{"OPTIONS * HTTP/1.1\r\n" + host, 404, "not_found"},
		{"GET nonsense HTTP/1.1\r\n" + host, 400, "invalid_request"},
		{"GET /nothing HTTP/1.1\r\n" + host, 404, "not_found"},
		{"PUT /runs HTTP/1.1\r\n" + host, 405, "method_not_allowed"},
	} {
		t.Run(fmt.Sprintf("%.30q", tt.sent), func(t *testing.T) {
			for _, s := range []*stack{bare, secured} {
				c := s.dial("")
				if s == secured {
					c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
				}
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				go func() { _, _ = io.WriteString(c, tt.sent) }()
				isProblem(t, c, tt.status, tt.code)
			}
		})
	}
	c := secured.dial("GET /health HTTP/1.1\r\n" + host)
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	isProblem(t, c, 400, "invalid_request")
	c = bare.dial("HEAD /nothing HTTP/1.1\r\n" + host)
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodHead})
	if err != nil || res.StatusCode != 404 || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("HEAD: %v %v", res, err)
	}
}

// isProblem reads an answer that is a well-formed error.
func isProblem(t *testing.T, c net.Conn, status int, code string) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Errorf("no answer: %v", err)
		return
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	var body struct{ Error, Message string }
	if json.Unmarshal(raw, &body) != nil || err != nil || res.Header.Get("Content-Type") != "application/json" ||
		body.Message == "" {
		t.Errorf("%d %v %v %s", res.StatusCode, err, res.Header, raw)
		return
	}
	if status != 0 && (res.StatusCode != status || body.Error != code) {
		t.Errorf("%d %s, want %d %s", res.StatusCode, raw, status, code)
	}
}

// TestAccessIsCheckedBeforeTheBodyIsRead: a caller without the right gets the answer while the body has yet to come.
func TestAccessIsCheckedBeforeTheBodyIsRead(t *testing.T) {
	t.Parallel()
	s := secure(t)
	for _, tt := range []struct {
		request, token string
		status         int
		code           string
	}{
		{"POST /runs", "", 401, "unauthorized"},
		{"POST /runs", s.read + "\r\n", 403, "forbidden"},
		{"POST /mcp", "", 401, "unauthorized"},
		{"POST /agents", s.run + "\r\n", 403, "forbidden"},
	} {
		c := s.dial(tt.request + " HTTP/1.1\r\nHost: localhost\r\n" + tt.token + "Content-Length: 16000000\r\n\r\n{")
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		isProblem(t, c, tt.status, tt.code)
	}
}

// TestMCPRefusesInJSON: also what the protocol's library refuses. What is no message gets the protocol's own error.
func TestMCPRefusesInJSON(t *testing.T) {
	t.Parallel()
	s := start(t)
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, tt := range []struct {
		name, body string
		headers    []string
		status     int
	}{
		{"no JSON", "{", nil, 400},
		{"no body", "", nil, 400},
		{"no message", "[]", nil, 400},
		{"another type", ping, []string{"Content-Type: text/plain"}, 415},
		{"takes no streams", ping, []string{"Accept: application/json"}, 400},
	} {
		headers := map[string]string{"Content-Type": "application/json",
			"Accept": "application/json, text/event-stream"}
		for _, h := range tt.headers {
			name, value, _ := strings.Cut(h, ": ")
			headers[name] = value
		}
		var all []string
		for name, value := range headers {
			all = append(all, name+": "+value)
		}
		g := s.post("/mcp", tt.body, all...)
		var body struct{ Error any }
		if err := json.Unmarshal([]byte(g.body), &body); g.status != tt.status || err != nil || body.Error == nil ||
			!strings.Contains(g.body, `"message":"`) || g.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %q %s", tt.name, g.status, g.header.Get("Content-Type"), g.body)
		}
	}
}
