// Package ao is a client of Agent Orchestrator's HTTP API. It starts runs, waits for them and follows their events,
// also while connections break and coordinators restart. It uses only the standard library.
package ao

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	answerTimeout = 80 * time.Second // of a request, with up to 50 s in which it waits for the end of a run
	idleTimeout   = time.Minute      // of a stream; coordinators send a comment every 15 s
	maxPause      = 5 * time.Second  // between tries, unless the server asks for more
	maxAnswer     = 256 << 20        // bytes of an answer, or of a line of a stream
)

// Config says where the coordinator is. Its zero value is useful.
type Config struct {
	URL      string        // default AO_URL, or http://127.0.0.1:8765
	Token    string        // API token; default AO_TOKEN, or none
	HTTP     *http.Client  // default: one that follows no redirects; streams need one without a Timeout
	RetryFor time.Duration // how long a request or a stream is retried during an outage; default 5 minutes
}

// Client calls one deployment. It is safe for concurrent use.
type Client struct{ conf Config }

// New returns a client. It does not connect.
func New(c Config) *Client {
	own := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.URL = strings.TrimRight(cmp.Or(c.URL, os.Getenv("AO_URL"), "http://127.0.0.1:8765"), "/")
	c.Token = cmp.Or(c.Token, os.Getenv("AO_TOKEN"))
	c.HTTP, c.RetryFor = cmp.Or(c.HTTP, own), cmp.Or(c.RetryFor, 5*time.Minute)
	return &Client{c}
}

// Request is what a run is started with: the body of POST /runs.
type Request struct {
	Type              string          `json:"type,omitempty"` // start_session (default) or resume_session
	AgentName         string          `json:"agent_name,omitempty"`
	SessionID         string          `json:"session_id,omitempty"`
	Parameters        any             `json:"parameters,omitempty"` // or a Prompt
	Prompt            string          `json:"prompt,omitempty"`
	Mode              string          `json:"mode,omitempty"` // async_poll (default) or async_callback
	ParentSessionID   string          `json:"parent_session_id,omitempty"`
	ProjectDir        string          `json:"project_dir,omitempty"`
	TimeoutSeconds    int             `json:"timeout_seconds,omitempty"`
	MaxAttempts       int             `json:"max_attempts,omitempty"`
	CallbackURL       string          `json:"callback_url,omitempty"`
	OutputSchemaName  string          `json:"output_schema_name,omitempty"`
	OutputSchema      json.RawMessage `json:"output_schema,omitempty"`
	AdditionalDemands json.RawMessage `json:"additional_demands,omitempty"`
	Key               string          `json:"-"` // default a new one; the same key is the same run
}

// Run is a run as the API describes it. What Start returns has only the ids and the status.
type Run struct {
	ID        string          `json:"run_id"`
	SessionID string          `json:"session_id"`
	AgentName string          `json:"agent_name"`
	AgentHash string          `json:"agent_hash"` // identifies the agent's definition; empty: unknown
	Status    string          `json:"status"`     // pending, claimed, running, stopping, completed, failed, stopped
	Error     *RunError       `json:"error"`      // of a failed or stopped run
	Result    *Result         `json:"result"`     // of an ended run that Wait returned; nil: it has none
	Document  json.RawMessage `json:"-"`          // all members
}

// Result is what a run has answered.
type Result struct {
	Text string          `json:"result_text"`
	Data json.RawMessage `json:"result_data"`
	Exit *int            `json:"exit_code"` // of a program
	Note string          `json:"note"`      // such as that the answer is invented; empty: none
}

// Ended reports whether the run has completed, failed or been stopped.
func (r Run) Ended() bool {
	return slices.Contains([]string{"completed", "failed", "stopped"}, r.Status)
}

// Start starts a run. It repeats the request under one key until it is answered, so it starts one run.
func (c *Client) Start(ctx context.Context, req Request) (Run, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return Run{}, err
	}
	return c.run(ctx, http.MethodPost, "/runs", body, cmp.Or(req.Key, crand.Text()))
}

// Wait returns the run with its result once it has ended, however it ended. ctx limits the time.
func (c *Client) Wait(ctx context.Context, id string) (Run, error) {
	for {
		r, err := c.run(ctx, http.MethodGet, "/runs/"+url.PathEscape(id)+"/wait?timeout_seconds=50", nil, "")
		if err != nil || r.Ended() {
			return r, err
		}
	}
}

// Run is Start and Wait. Its error is a *RunError if the run does not complete.
func (c *Client) Run(ctx context.Context, req Request) (Run, error) {
	r, err := c.Start(ctx, req)
	if err == nil {
		r, err = c.Wait(ctx, r.ID)
	}
	if err == nil && r.Error != nil {
		return r, r.Error
	}
	return r, err
}

// Get returns a run as it is now, without its result.
func (c *Client) Get(ctx context.Context, id string) (Run, error) {
	return c.run(ctx, http.MethodGet, "/runs/"+url.PathEscape(id), nil, "")
}

// Stop asks for the end of a run and returns it as it is then.
func (c *Client) Stop(ctx context.Context, id string) (Run, error) {
	return c.run(ctx, http.MethodPost, "/runs/"+url.PathEscape(id)+"/stop", nil, "")
}

func (c *Client) run(ctx context.Context, method, path string, body []byte, key string) (r Run, err error) {
	doc, err := c.Call(ctx, method, path, body, key)
	if err == nil && (json.Unmarshal(doc, &r) != nil || r.ID == "") {
		err = c.foreign(doc)
	}
	return r, err
}

func (c *Client) foreign(doc []byte) error {
	return &UnreachableError{URL: c.conf.URL, Err: fmt.Errorf("not a coordinator's answer: %.80q", doc)}
}

// Call sends any request of the API, such as GET /runs?status=failed, and returns the document of the answer. It
// retries during an outage, so a request that must not be repeated needs an idempotency key.
func (c *Client) Call(ctx context.Context, method, path string, body []byte, key string) (json.RawMessage, error) {
	out := outage{c: c}
	for {
		doc, err := c.once(ctx, method, path, body, key)
		if err == nil {
			return doc, nil
		}
		if err := out.wait(ctx, err, 0); err != nil {
			return nil, err
		}
	}
}

func (c *Client) once(ctx context.Context, method, path string, body []byte, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	res, err := c.send(ctx, method, path, body, "Idempotency-Key", key)
	if err != nil {
		return nil, err
	}
	return c.read(res)
}

// send returns the answer to a request with a further header, or an APIError.
func (c *Client) send(ctx context.Context, method, path string, body []byte, k, v string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.conf.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.conf.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.conf.Token)
	}
	if v != "" {
		req.Header.Set(k, v)
	}
	res, err := c.conf.HTTP.Do(req)
	if err != nil {
		return nil, &UnreachableError{URL: c.conf.URL, Err: err}
	}
	if res.StatusCode/100 != 2 {
		doc, err := c.read(res)
		return nil, cmp.Or(err, error(newAPIError(res, doc)))
	}
	return res, nil
}

func (c *Client) read(res *http.Response) ([]byte, error) {
	defer res.Body.Close()
	doc, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		err = &UnreachableError{URL: c.conf.URL, Err: err}
	}
	return doc, err
}

// APIError is a refusal: an answer with a status from 300 on.
type APIError struct {
	Status     int             `json:"-"`
	Code       string          `json:"error"` // such as invalid_request; empty: another server's answer
	Field      string          `json:"field"` // what to correct, if one field is wrong
	Message    string          `json:"message"`
	RetryAfter time.Duration   `json:"-"`
	Document   json.RawMessage `json:"-"` // all members
}

func (e *APIError) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Message) }

// Temporary reports whether the same request may succeed later.
func (e *APIError) Temporary() bool { return slices.Contains([]int{429, 502, 503, 504}, e.Status) }

func newAPIError(res *http.Response, doc []byte) *APIError {
	e := &APIError{Status: res.StatusCode, Document: doc}
	if json.Unmarshal(doc, e) != nil || e.Code == "" {
		e.Message = fmt.Sprintf("not a coordinator's answer: %.80q", doc)
	}
	e.RetryAfter, _ = time.ParseDuration(res.Header.Get("Retry-After") + "s")
	return e
}

// UnreachableError means that there was no complete answer during the whole outage, or that another server answered.
type UnreachableError struct {
	URL string
	Err error
}

func (e *UnreachableError) Error() string { return fmt.Sprintf("no answer from %s: %v", e.URL, e.Err) }
func (e *UnreachableError) Unwrap() error { return e.Err }

// RunError is why a run failed or was stopped.
type RunError struct {
	Code    string `json:"error"` // such as timeout or command_failed
	Message string `json:"message"`
}

func (e *RunError) Error() string { return e.Code + ": " + e.Message }

// outage spaces the retries of a request or a stream.
type outage struct {
	c     *Client
	since time.Time // zero: none
	pause time.Duration
}

// wait waits before the next try, at least as long as the server asks. It returns err if another try is useless.
func (o *outage) wait(ctx context.Context, err error, least time.Duration) error {
	refused, _ := err.(*APIError)
	if _, lost := err.(*UnreachableError); ctx.Err() != nil || !lost && (refused == nil || !refused.Temporary()) {
		return cmp.Or(ctx.Err(), err)
	}
	if refused != nil {
		least = max(least, refused.RetryAfter)
	}
	if o.since.IsZero() {
		o.since, o.pause = time.Now(), maxPause/20
	}
	pause := max(least, o.pause/2+rand.N(o.pause/2)) // callers of one outage come back apart
	if pause > o.c.conf.RetryFor-time.Since(o.since) {
		return err
	}
	o.pause = min(2*o.pause, maxPause)
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
	return ctx.Err()
}

// SignatureError says why a webhook is not accepted.
type SignatureError struct{ Message string }

func (e *SignatureError) Error() string { return "webhook: " + e.Message }

// Webhook is the end of a run, as sent to its callback_url.
type Webhook struct {
	ID   string `json:"-"`    // the same for all deliveries of one end
	Type string `json:"type"` // run.completed, run.failed or run.stopped
	Run  Run    `json:"data"`
}

// VerifyWebhook checks the signature of a request to a callback_url and returns what it says. The secrets are those of
// AO_CALLBACK_SECRET; one that fits is enough. A receiver may see a delivery twice: it compares the ID.
func VerifyWebhook(body []byte, header http.Header, secrets ...string) (w Webhook, err error) {
	id, at := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if age := time.Since(time.Unix(seconds, 0)).Abs(); err != nil || id == "" || age > 5*time.Minute {
		return w, &SignatureError{"its id or time is missing, or more than five minutes off"}
	}
	for _, secret := range secrets {
		key, err := base64.RawStdEncoding.DecodeString(strings.Trim(strings.TrimPrefix(secret, "whsec_"), "="))
		if err != nil || len(key) == 0 {
			return w, &SignatureError{"a secret is not whsec_ and base64"}
		}
		h := hmac.New(sha256.New, key)
		h.Write([]byte(id + "." + at + "." + string(body)))
		want := "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
		for _, got := range strings.Fields(header.Get("webhook-signature")) {
			if hmac.Equal([]byte(got), []byte(want)) {
				w.ID, err = id, json.Unmarshal(body, &w)
				return w, err
			}
		}
	}
	return w, &SignatureError{"no signature is by one of the secrets"}
}
