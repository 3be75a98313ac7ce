package httpserver

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// Listen wraps a listener: its connections answer in JSON also where net/http rejects a request itself.
func Listen(l net.Listener, t *tls.Config) net.Listener {
	if t != nil {
		l = tls.NewListener(l, t)
	}
	return listener{l}
}

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if t, ok := c.(*tls.Conn); ok {
		return &jsonTLSConn{t}, nil
	}
	return &jsonConn{c}, nil
}

type jsonConn struct{ net.Conn }

func (p *jsonConn) Write(b []byte) (int, error) { return writeJSON(p.Conn, b) }

// CloseWrite lets net/http end a response before the request is complete.
func (p *jsonConn) CloseWrite() error {
	if c, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

type jsonTLSConn struct{ *tls.Conn }

func (s *jsonTLSConn) Write(b []byte) (int, error) { return writeJSON(s.Conn, b) }

// Read answers a client that speaks plain HTTP to an HTTPS server.
func (s *jsonTLSConn) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if bad, ok := errors.AsType[tls.RecordHeaderError](err); ok && bad.Conn != nil {
		if _, isHTTP := methods[string(bad.RecordHeader[:])]; isHTTP {
			_, _ = bad.Conn.Write(refusal(http.StatusBadRequest, "Client sent an HTTP request to an HTTPS server: use "+
				"https:// (and AO_CA, where its certificate is of an authority of your own)"))
		}
	}
	return n, err
}

// methods are the starts of HTTP requests, in the five bytes of a TLS record's header.
var methods = map[string]struct{}{"GET /": {}, "HEAD ": {}, "POST ": {}, "PUT /": {}, "PATCH": {}, "DELET": {},
	"OPTIO": {}}

// unread is the start of net/http's own responses; their text follows.
const unread = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// writeJSON writes b, or the same error in JSON. Responses of handlers have other headers.
func writeJSON(c net.Conn, b []byte) (int, error) {
	const begin = "HTTP/1.1 "
	if len(b) > 1<<10 || !bytes.HasPrefix(b, []byte(begin)) {
		return c.Write(b)
	}
	head, text, found := bytes.Cut(b, []byte(unread))
	if !found || len(head) < len(begin)+3 || bytes.IndexByte(head, '\n') >= 0 {
		return c.Write(b)
	}
	code, err := strconv.Atoi(string(head[len(begin) : len(begin)+3]))
	if err != nil {
		return c.Write(b)
	}
	if _, err := c.Write(refusal(code, messageFor(code, string(text)))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// messageFor returns the message for net/http's text.
func messageFor(code int, text string) string {
	_, detail, more := strings.Cut(text, ": ")
	switch {
	case code == http.StatusRequestHeaderFieldsTooLarge:
		return fmt.Sprintf("The request's first line and headers are longer than %d bytes", headerBytes)
	case code == http.StatusNotImplemented:
		return "The request's Transfer-Encoding is not understood; send chunked, or Content-Length"
	case more:
		return "The request cannot be read: " + detail
	}
	return "The request cannot be read: its first line or a header is malformed, or its path is not escaped with %XX"
}

var codes = map[int]string{
	http.StatusRequestHeaderFieldsTooLarge: "headers_too_large", http.StatusNotImplemented: "not_implemented",
	http.StatusHTTPVersionNotSupported: "http_version_not_supported",
}

// refusal returns a complete response.
func refusal(code int, message string) []byte {
	name := cmp.Or(codes[code], "invalid_request")
	body := problem(name, message)
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nCache-Control: no-store\r\nConnection: close\r\nContent-Length: %d\r\n"+
		"Content-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n\r\n",
		code, http.StatusText(code), len(body))
	return append([]byte(head), body...)
}

// problem returns the body of every error.
func problem(code, message string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(struct { // strings can always be encoded
		Error   string `json:"error"`
		Message string `json:"message"`
	}{code, message})
	return b.Bytes()
}

// writeRefusal answers a request that was read.
func writeRefusal(w http.ResponseWriter, code int, name, message string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(problem(name, message))
}
