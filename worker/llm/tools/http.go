package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// client is the server's HTTP client: its requests end with ctx, whatever the SDK's own contexts are, its answers are bounded,
// and the blueprint's headers go to the server and to nobody else.
func (s Server) client(ctx context.Context) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	context.AfterFunc(ctx, t.CloseIdleConnections)
	host := ""
	if u, err := url.Parse(s.URL); err == nil {
		host = u.Host
	}
	return &http.Client{
		Transport: &door{ctx: ctx, next: t, host: host, headers: s.Headers},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Host != host || len(via) > 3 {
				return errors.New("it redirects elsewhere")
			}
			return nil
		},
	}
}

type door struct {
	ctx     context.Context
	next    http.RoundTripper
	host    string
	headers map[string]string
}

func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
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

// body is an answer of bounded length.
type body struct {
	io.ReadCloser
	end  func()
	left int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n, fmt.Errorf("the answer has more than %d MiB", maxBytes>>20)
	}
	return n, err
}

func (b *body) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
