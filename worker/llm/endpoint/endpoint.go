// Package endpoint is the HTTP side of a model's API, for any provider: idle timeouts, size limits, and errors. No
// error contains a request or its headers, and so no credential.
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
	maxRefusal = 64 << 10  // bytes read of an error response
	maxStream  = 256 << 20 // bytes of a streamed response, with its framing
	maxWhole   = 16 << 20  // bytes of a response that is not streamed
	maxQuote   = 600       // bytes quoted of an endpoint's message
)

// APIError is an error response of the endpoint.
type APIError struct {
	Status  int         // HTTP status; within a stream that of the error's type
	Header  http.Header // of the response; nil within a stream
	Code    string      // the API's code or type, or empty
	Message string      // the API's message, or empty
	API     bool        // the body has the API's error format
}

func (r *APIError) Error() string {
	if r.Message != "" {
		return fmt.Sprintf("HTTP %d: %s", r.Status, r.Message)
	}
	return fmt.Sprintf("HTTP %d %s", r.Status, http.StatusText(r.Status))
}

// BrokenResponse is a response that was cut off, stalled, too long, or unreadable.
type BrokenResponse struct{ Reason string }

func (b *BrokenResponse) Error() string { return b.Reason }

// NotAnAPI is a response of something else than the API: a web page, a redirect.
type NotAnAPI struct{ Reason string }

func (s *NotAnAPI) Error() string { return s.Reason }

// NewClient returns a client for one run. Idle is how long it waits for the next byte, including the first one. Close
// closes its connections.
func NewClient(idle time.Duration) *Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	return &Client{
		http: &http.Client{
			Transport: &transport{next: t, idle: idle},
			// never send a credential elsewhere
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		close: t.CloseIdleConnections,
	}
}

// Client is an HTTP client for a model's API.
type Client struct {
	http  *http.Client
	close func()
}

// HTTP returns the client for an SDK.
func (c *Client) HTTP() *http.Client { return c.http }

// Close closes idle connections.
func (c *Client) Close() { c.close() }

// transport applies the timeouts and limits to requests and responses.
type transport struct {
	next http.RoundTripper
	idle time.Duration
}

func (d *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	silence := &BrokenResponse{fmt.Sprintf("the endpoint sent nothing for %s", d.idle)}
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

// accept passes streams, and converts complete answers into a stream of one event. Any other response is an error.
func accept(res *http.Response) error {
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		to := "another address"
		if u, err := res.Location(); err == nil {
			to = u.Scheme + "://" + u.Host + u.Path
		}
		return &NotAnAPI{"it redirects to " + to}
	}
	if res.StatusCode >= 300 {
		raw, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
		code, message, api := ParseError(raw)
		return &APIError{Status: res.StatusCode, Header: res.Header, Code: code, Message: message, API: api}
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // some servers send another one, or none
	body := bufio.NewReader(res.Body)
	if first, _ := body.Peek(3); string(first) == "\ufeff" {
		_, _ = body.Discard(3)
	}
	first, _ := body.Peek(1)
	res.Body = &peeked{body, res.Body}
	isStream := len(first) == 1 && strings.ContainsRune("de:", rune(first[0])) // data:, event:, a comment
	if string(first) == "{" || !isStream && (kind == "application/json" || kind == "text/html") {
		return convertWhole(res, kind)
	}
	res.Header.Set("Content-Type", "text/event-stream")
	return nil
}

// peeked is a body whose start was read.
type peeked struct {
	io.Reader
	io.Closer
}

// convertWhole converts a response that is no stream: the complete answer, or an error with status 200, as some
// servers send.
func convertWhole(res *http.Response, kind string) error {
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxWhole+1))
	switch {
	case err != nil && len(raw) == 0:
		return err
	case err != nil || len(raw) > maxWhole:
		return &BrokenResponse{fmt.Sprintf("the response, which is not streamed, was cut off or has more than %d MiB",
			maxWhole>>20)}
	}
	var answer struct {
		Choices []json.RawMessage `json:"choices"` // Chat Completions
		Content []json.RawMessage `json:"content"` // Messages
	}
	var event bytes.Buffer
	event.WriteString("event: message_start\ndata: ") // an event type whose data is always read
	if json.Unmarshal(raw, &answer) == nil && (len(answer.Choices) > 0 || answer.Content != nil) &&
		json.Compact(&event, raw) == nil {
		event.WriteString("\n\n")
		res.Body = &peeked{&event, res.Body}
		res.Header.Set("Content-Type", "text/event-stream")
		return nil
	}
	if code, message, api := ParseError(raw); api {
		return &APIError{Status: http.StatusBadRequest, Header: res.Header, Code: code, Message: message, API: true}
	}
	return &NotAnAPI{fmt.Sprintf("it sent %s instead of an event stream", cmp.Or(kind, "something"))}
}

// ParseError decodes an API's error: {"error":{"message","code","type"}}, {"error":"…"}, {"message":…}, {"detail":…}.
// If it is none of them, ok is false and message is the text itself, if that is short and no markup.
func ParseError(raw []byte) (code, message string, ok bool) {
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

// Quote makes an endpoint's text fit into a message: one line of limited length.
func Quote(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) > maxQuote {
		s = strings.ToValidUTF8(s[:maxQuote], "") + "…"
	}
	return s
}

// body is a response body with an idle timeout and a size limit.
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
	b.left -= int64(n)
	if b.left < 0 {
		return n, &BrokenResponse{fmt.Sprintf("the response has more than %d MiB", maxStream>>20)}
	}
	if err != nil && err != io.EOF {
		if silence, ok := errors.AsType[*BrokenResponse](context.Cause(b.ctx)); ok {
			return n, silence
		}
	}
	return n, err
}

func (b *body) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}

// Describe returns a connection error without the address, which may contain secrets.
func Describe(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "unknown host " + dns.Name
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u
	}
	return Quote(fault.Describe(err))
}

// Unreachable means that there is no connection to the endpoint.
type Unreachable struct{ Reason string }

func (u *Unreachable) Error() string { return u.Reason }

// Classify turns an SDK's error into one of this package: *APIError, *NotAnAPI, *Unreachable or *BrokenResponse; or
// the cause of ctx's end.
func Classify(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*APIError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*NotAnAPI](err); ok {
		return e
	}
	if e, ok := errors.AsType[*BrokenResponse](err); ok {
		return e
	}
	if e, ok := errors.AsType[*Unreachable](err); ok {
		return e
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return &Unreachable{Describe(err)}
	}
	return &BrokenResponse{"the response is unreadable: " + Describe(err)}
}
