// Package endpoint is the HTTP side of a model's API, whatever its provider: how long it may be silent, how much it may
// send, and what its refusals are. It never shows a credential: requests and their headers are in none of its errors.
package endpoint

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ao/shared/fault"
)

const (
	maxRefusal = 64 << 10  // bytes read of an answer that is an error
	maxStream  = 256 << 20 // bytes of one streamed answer, with all that is around its text
	maxWhole   = 16 << 20  // bytes of one that comes whole
	maxQuote   = 600       // bytes of an endpoint's own words in a message
)

// Refusal is an answer of the endpoint that is an error.
type Refusal struct {
	Status  int         // HTTP; that of the error's type where it came within a stream
	Header  http.Header // of the answer; nil within a stream
	Code    string      // the API's own code or type, or empty
	Message string      // the API's own words, or empty
	API     bool        // the body is an error as the API writes them
}

func (r *Refusal) Error() string {
	if r.Message != "" {
		return fmt.Sprintf("HTTP %d: %s", r.Status, r.Message)
	}
	return fmt.Sprintf("HTTP %d %s", r.Status, http.StatusText(r.Status))
}

// Broken is an answer that was cut off, stalled, grew without an end, or cannot be read.
type Broken struct{ Why string }

func (b *Broken) Error() string { return b.Why }

// Stranger is an answer of something that is not the API: a web page, a redirect.
type Stranger struct{ Why string }

func (s *Stranger) Error() string { return s.Why }

// NewClient gives a client for one run. Idle is how long it waits for the next byte, the answer's first one included. Close
// ends its connections.
func NewClient(idle time.Duration) *Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	return &Client{
		http: &http.Client{
			Transport:     &door{next: t, idle: idle},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a credential goes nowhere else
		},
		close: t.CloseIdleConnections,
	}
}

// Client is an HTTP client for a model's API.
type Client struct {
	http  *http.Client
	close func()
}

// HTTP is the client for an SDK.
func (c *Client) HTTP() *http.Client { return c.http }

// Close ends the connections that wait for another request.
func (c *Client) Close() { c.close() }

// door is where requests leave and answers come in.
type door struct {
	next http.RoundTripper
	idle time.Duration
}

func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	silence := &Broken{fmt.Sprintf("the endpoint sent nothing for %s", d.idle)}
	watch := time.AfterFunc(d.idle, func() { cancel(silence) })
	stop := func() { watch.Stop(); cancel(nil) }
	res, err := d.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		stop()
		if context.Cause(ctx) == silence {
			return nil, silence
		}
		return nil, err
	}
	res.Body = &body{ReadCloser: res.Body, ctx: ctx, watch: watch, stop: stop, idle: d.idle, left: maxStream}
	if err := accept(res); err != nil {
		res.Body.Close()
		return nil, err
	}
	return res, nil
}

// accept lets streams pass, and answers that come whole: they become a stream of one event. Any other answer is an error.
func accept(res *http.Response) error {
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		to := "another address"
		if u, err := res.Location(); err == nil {
			to = u.Scheme + "://" + u.Host + u.Path
		}
		return &Stranger{"it redirects to " + to}
	}
	if res.StatusCode >= 300 {
		raw, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
		code, message, api := Words(raw)
		return &Refusal{Status: res.StatusCode, Header: res.Header, Code: code, Message: message, API: api}
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch kind {
	case "text/event-stream":
		return nil
	case "application/json", "text/html":
		return whole(res, kind)
	}
	body := bufio.NewReader(res.Body) // some servers name another type, or none
	first, err := body.Peek(1)
	res.Body = &peeked{body, res.Body}
	if err != nil || first[0] != '{' {
		return nil
	}
	return whole(res, kind)
}

// peeked is a body of which the beginning was looked at.
type peeked struct {
	io.Reader
	io.Closer
}

// whole takes an answer that is no stream: an error with status 200, as some servers send them, or the whole answer.
func whole(res *http.Response, kind string) error {
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxWhole+1))
	switch {
	case err != nil && len(raw) == 0:
		return err
	case err != nil || len(raw) > maxWhole:
		return &Broken{fmt.Sprintf("the answer, which is not streamed, was cut off or has more than %d MiB", maxWhole>>20)}
	}
	var answer struct {
		Choices []json.RawMessage `json:"choices"` // Chat Completions
		Content []json.RawMessage `json:"content"` // Messages
	}
	var event bytes.Buffer
	event.WriteString("event: message_start\ndata: ") // one whose data is read, whatever it holds
	if json.Unmarshal(raw, &answer) == nil && (len(answer.Choices) > 0 || answer.Content != nil) && json.Compact(&event, raw) == nil {
		event.WriteString("\n\n")
		res.Body = &peeked{&event, res.Body}
		res.Header.Set("Content-Type", "text/event-stream")
		return nil
	}
	if code, message, api := Words(raw); api {
		return &Refusal{Status: http.StatusBadRequest, Header: res.Header, Code: code, Message: message, API: true}
	}
	return &Stranger{fmt.Sprintf("it sent %s instead of an event stream", cmp.Or(kind, "something"))}
}

// Words reads an API's error: {"error":{"message","code","type"}}, {"error":"…"}, {"message":…}, {"detail":…}. ok is false
// where it is none of them; then message is the text itself where it is short and no markup.
func Words(raw []byte) (code, message string, ok bool) {
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(raw, &outer) == nil {
		var inner struct {
			Message string          `json:"message"`
			Code    json.RawMessage `json:"code"`
			Type    string          `json:"type"`
		}
		if json.Unmarshal(outer.Error, &inner) == nil && inner.Message != "" {
			if json.Unmarshal(inner.Code, &code) != nil || code == "" {
				code = inner.Type
			}
			return code, Quote(inner.Message), true
		}
		for _, m := range []json.RawMessage{outer.Error, outer.Detail} {
			if json.Unmarshal(m, &message) == nil && message != "" {
				return "", Quote(message), true
			}
		}
		if outer.Message != "" {
			return "", Quote(outer.Message), true
		}
	}
	if text := bytes.TrimSpace(raw); len(text) <= maxQuote && !bytes.ContainsAny(text, "<{") {
		return "", Quote(string(text)), false
	}
	return "", "", false
}

// Quote is an endpoint's text as it may stand in a message: one line, bounded.
func Quote(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) > maxQuote {
		s = strings.ToValidUTF8(s[:maxQuote], "") + "…"
	}
	return s
}

// body is an answer as it comes: silence and excess end it.
type body struct {
	io.ReadCloser
	ctx   context.Context
	watch *time.Timer
	stop  func()
	idle  time.Duration
	left  int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watch.Reset(b.idle)
	}
	if b.left -= int64(n); b.left < 0 {
		return n, &Broken{fmt.Sprintf("the answer has more than %d MiB", maxStream>>20)}
	}
	if err != nil && err != io.EOF {
		if silence, ok := errors.AsType[*Broken](context.Cause(b.ctx)); ok {
			return n, silence
		}
	}
	return n, err
}

func (b *body) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}

// Trouble says what a connection's error was, without the address it went to and whatever that might hold.
func Trouble(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "the host " + dns.Name + " is not known"
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u
	}
	return Quote(fault.Describe(err))
}

// Unreachable is an endpoint to which there is no connection.
type Unreachable struct{ Why string }

func (u *Unreachable) Error() string { return u.Why }

// Explain makes one of this package's errors of what an SDK returned: *Refusal, *Stranger, *Unreachable or *Broken; or the
// cause of ctx's end.
func Explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*Refusal](err); ok {
		return e
	}
	if e, ok := errors.AsType[*Stranger](err); ok {
		return e
	}
	if e, ok := errors.AsType[*Broken](err); ok {
		return e
	}
	if e, ok := errors.AsType[*Unreachable](err); ok {
		return e
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return &Unreachable{Trouble(err)}
	}
	return &Broken{"the answer cannot be read: " + Trouble(err)}
}
