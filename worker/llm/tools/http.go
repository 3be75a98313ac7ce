package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// client returns the server's HTTP client. Its requests end with ctx, whatever the SDK's own contexts are. Its
// responses are limited, and the blueprint's headers go to this server only.
func (s Server) client(ctx context.Context) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	context.AfterFunc(ctx, t.CloseIdleConnections)
	host := ""
	if u, err := url.Parse(s.URL); err == nil {
		host = u.Host
	}
	return &http.Client{
		Transport: &transport{ctx: ctx, next: t, host: host, headers: s.Headers},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Host != host || len(via) > 3 {
				return errors.New("it redirects elsewhere")
			}
			return nil
		},
	}
}

type transport struct {
	ctx     context.Context
	next    http.RoundTripper
	host    string
	headers map[string]string
}

func (d *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(d.ctx, func() { cancel(context.Cause(d.ctx)) })
	end := func() { stop(); cancel(nil) }
	r = r.Clone(ctx)
	if r.URL.Host == d.host {
		for name, value := range d.headers {
			r.Header.Set(name, value)
		}
	}
	res, err := d.next.RoundTrip(r)
	if err != nil {
		end()
		return nil, err
	}
	res.Body = &body{ReadCloser: res.Body, end: end, left: maxBytes}
	return res, nil
}

// body is a response of limited length.
type body struct {
	io.ReadCloser
	end  func()
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n, fmt.Errorf("the response has more than %d MiB", maxBytes>>20)
	}
	return n, err
}

func (b *body) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
