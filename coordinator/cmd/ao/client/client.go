// Package client is a client of the coordinator's HTTP API. It returns the API's documents unchanged, classifies
// errors by what can be done about them, and follows events across lost connections.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/tlsroots"
	"ao/shared/trace"
)

// Config says where the coordinator is.
type Config struct {
	URL        string        // default http://127.0.0.1:8765
	Token      string        // API token, if the coordinator requires one
	CA         string        // file of certificate authorities to trust besides the system's (AO_CA)
	Name       string        // name that its certificate must cover; default the host of URL
	RetryPause time.Duration // before the first retry, doubled up to twenty times itself; default 250 ms
	RetryFor   time.Duration // how long a request is retried during an outage; default DefaultRetryFor
	Notice     func(string)  // called with messages for the user during an outage; default: dropped
}

// DefaultURL is the address of a coordinator with default settings.
const DefaultURL = "http://127.0.0.1:8765"

// DefaultRetryFor is how long a request is retried while the coordinator is unreachable or unavailable.
const DefaultRetryFor = 5 * time.Minute

const (
	answerTimeout = 30 * time.Second // for an answer without a wait
	maxAnswer     = 256 << 20        // bytes of one answer
)

// Client calls one coordinator over HTTP.
type Client struct {
	base, token          string
	http                 *http.Client
	reached              *atomic.Bool // a server has answered before: no answer means an outage, not a wrong address
	retryPause, retryFor time.Duration
	notice               func(string)
}

// New returns a client. It checks the address but does not connect.
func New(c Config) (*Client, error) {
	raw := cmp.Or(c.URL, DefaultURL)
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("url %q: write it like %s (--url or AO_URL)", c.URL, DefaultURL)
	}
	// the error must not show the token: it may be valid except for a line break
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token has invalid characters, such as spaces; use it exactly as 'ao tokens " +
			"create' printed it (AO_TOKEN or --token)")
	}
	tlsConfig, err := tlsroots.Config(c.CA)
	if err != nil {
		return nil, err
	}
	tlsConfig.ServerName = c.Name
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = tlsConfig
	notice := c.Notice
	if notice == nil {
		notice = func(string) {}
	}
	return &Client{
		base: strings.TrimRight(raw, "/"), token: c.Token,
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		reached: new(atomic.Bool), notice: notice,
		retryPause: cmp.Or(c.RetryPause, 250*time.Millisecond), retryFor: cmp.Or(c.RetryFor, DefaultRetryFor),
	}, nil
}

// URL returns the coordinator's address.
func (c *Client) URL() string { return c.base }

// WithNotice returns a copy that gives its notices to another function.
func (c *Client) WithNotice(notice func(string)) *Client {
	other := *c
	other.notice = notice
	return &other
}

// Answer is a document of the API with its HTTP status.
type Answer struct {
	Status   int
	Doc      json.RawMessage
	Position string // of the history behind the answer; empty if it depends on none
}

// positionHeader holds a position of the history, in requests and answers.
const positionHeader = "Ao-Position"

// Call is one request.
type Call struct {
	Method  string // default GET
	Path    []string
	Query   url.Values
	Body    []byte
	Key     string        // Idempotency-Key
	AtLeast string        // position of the history that the answer must include
	Wait    time.Duration // how much longer than usual the answer may take
}

// Do sends one request. The error is an *APIError, *Unreachable, *ConnectionLost, *NotCoordinator or *Untrusted, or
// the context's.
func (c *Client) Do(ctx context.Context, call Call) (Answer, error) {
	limited, cancel := context.WithTimeout(ctx, answerTimeout+call.Wait)
	defer cancel()
	req, err := c.request(limited, call)
	if err != nil {
		return Answer{}, err
	}
	res, err := c.send(req)
	if err != nil {
		return Answer{}, c.classify(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	doc, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return Answer{}, c.classify(ctx, err)
	}
	return c.parse(res, doc)
}

// Get is Do for a GET request.
func (c *Client) Get(ctx context.Context, query url.Values, path ...string) (json.RawMessage, error) {
	a, err := c.Do(ctx, Call{Path: path, Query: query})
	return a.Doc, err
}

// Copy streams an answer that is not JSON to w, however long it takes. An interrupted answer is a *ConnectionLost.
func (c *Client) Copy(ctx context.Context, w io.Writer, query url.Values, path ...string) error {
	req, err := c.request(ctx, Call{Path: path, Query: query})
	if err != nil {
		return err
	}
	res, err := c.send(req)
	if err != nil {
		return c.classify(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		doc, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		if err != nil {
			return c.classify(ctx, err)
		}
		_, err = c.parse(res, doc)
		return err
	}
	source := &errorRecorder{r: res.Body}
	_, err = io.Copy(w, source)
	if source.err != nil {
		return c.classify(ctx, source.err)
	}
	return err
}

// errorRecorder records its reader's error, to distinguish it from a writer's.
type errorRecorder struct {
	r   io.Reader
	err error
}

func (f *errorRecorder) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

// send sends every request of the client.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	res, err := c.http.Do(req)
	if err == nil {
		c.reached.Store(true)
	}
	return res, err
}

func (c *Client) request(ctx context.Context, call Call) (*http.Request, error) {
	target := c.base
	for _, p := range call.Path {
		target += "/" + url.PathEscape(p)
	}
	if len(call.Query) > 0 {
		target += "?" + call.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(call.Method, http.MethodGet), target, bytes.NewReader(call.Body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if call.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if call.Key != "" {
		req.Header.Set("Idempotency-Key", call.Key)
	}
	if call.AtLeast != "" {
		req.Header.Set(positionHeader, call.AtLeast)
	}
	// the trace of the calling script
	trace.Inject(trace.ContextWith(ctx, &run.Trace{Parent: os.Getenv("TRACEPARENT"), State: os.Getenv("TRACESTATE")}),
		req.Header)
	return req, nil
}

// parse returns the answer, an *APIError, or a *NotCoordinator if another server answered.
func (c *Client) parse(res *http.Response, doc []byte) (Answer, error) {
	doc = bytes.TrimSpace(doc)
	a := Answer{Status: res.StatusCode, Doc: doc, Position: res.Header.Get(positionHeader)}
	good := res.StatusCode >= 200 && res.StatusCode < 300
	if good && (len(doc) == 0 && res.StatusCode == http.StatusNoContent || json.Valid(doc)) && len(doc) <= maxAnswer {
		return a, nil
	}
	var f fault.Fault
	if !good && json.Unmarshal(doc, &f) == nil && f.Code != "" {
		return a, &APIError{Status: res.StatusCode, Fault: &f, Doc: doc, RetryAfter: retryAfter(res)}
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return a, &NotCoordinator{URL: c.base, Status: res.StatusCode, Type: kind, Start: string(doc[:min(len(doc), 80)])}
}

func retryAfter(res *http.Response) time.Duration {
	s := res.Header.Get("Retry-After")
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		return time.Duration(min(n, 3600)) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, min(time.Until(at), time.Hour))
	}
	return 0
}

// DoWithRetry is Do for a request that may be sent twice. It retries temporary errors and gives a notice at the first
// and then every 30 s. It gives up after RetryFor, or at once if no server has ever answered.
func (c *Client) DoWithRetry(ctx context.Context, call Call) (Answer, error) {
	t := c.newRetrier()
	for {
		a, err := c.Do(ctx, call)
		if err == nil || !Temporary(err) {
			return a, err
		}
		if again := t.wait(ctx, err); again != nil {
			return a, again
		}
	}
}

// NewKey returns a new idempotency key.
func NewKey() string { return "ao-" + rand.Text() }

// classify turns an error of the transport into one of this package.
func (c *Client) classify(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if why := tlsroots.Explain(err); why != "" {
		return &Untrusted{URL: c.base, Why: why, Cause: err}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return &Unreachable{URL: c.base, Cause: op.Err}
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return &Unreachable{URL: c.base, Cause: err}
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	c.reached.Store(true)                                // a connection existed
	if strings.Contains(err.Error(), "malformed HTTP") { // net/http has no typed error for this
		return &NotCoordinator{URL: c.base}
	}
	return &ConnectionLost{URL: c.base, Cause: err}
}
