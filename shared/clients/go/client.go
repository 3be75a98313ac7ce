// Package ao is a client of Agent Orchestrator's HTTP API. It starts runs, waits for them and follows their events,
// also while connections break and coordinators restart. It uses only the standard library.
package ao

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// DefaultURL is the address of a coordinator with default settings.
	DefaultURL = "http://127.0.0.1:8765"
	// DefaultRetryFor is how long a request or a stream is retried during an outage.
	DefaultRetryFor = 5 * time.Minute
)

// Config says where the coordinator is. Its zero value is useful.
type Config struct {
	URL       string        // default AO_URL, or DefaultURL
	Token     string        // API token; default AO_TOKEN, or none
	Anonymous bool          // send no token
	HTTP      *http.Client  // default: one that follows no redirects; streams need one without a Timeout
	RetryFor  time.Duration // how long a request or a stream is retried during an outage; default DefaultRetryFor
	FailFast  bool          // no retry while no server has ever answered at the address: it may be wrong
	Notice    func(Outage)  // hears of each outage when it begins, every 30 s, and when it is given up
}

// Client calls one deployment. It is safe for concurrent use.
type Client struct {
	conf       Config
	reached    *atomic.Bool  // a server has answered
	firstPause time.Duration // before the first retry, doubled up to maxPauses times itself
}

// New returns a client. It does not connect.
func New(c Config) *Client {
	own := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.URL = strings.TrimRight(cmp.Or(c.URL, os.Getenv("AO_URL"), DefaultURL), "/")
	if !strings.Contains(c.URL, "://") {
		c.URL = "http://" + c.URL
	}
	c.Token = cmp.Or(c.Token, os.Getenv("AO_TOKEN"))
	if c.Anonymous {
		c.Token = ""
	}
	c.HTTP, c.RetryFor = cmp.Or(c.HTTP, own), cmp.Or(c.RetryFor, DefaultRetryFor)
	return &Client{conf: c, reached: new(atomic.Bool), firstPause: 250 * time.Millisecond}
}

// URL returns the coordinator's address.
func (c *Client) URL() string { return c.conf.URL }

// Once returns a client that sends each request once, for requests that must not be repeated.
func (c *Client) Once() *Client {
	once := *c
	once.conf.RetryFor = -1
	return &once
}

// WithNotice returns a client whose outages another function hears of; nil: nobody does.
func (c *Client) WithNotice(notice func(Outage)) *Client {
	other := *c
	other.conf.Notice = notice
	return &other
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

// NewKey returns a new idempotency key.
func NewKey() string { return "ao-" + rand.Text() }

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
	return c.run(ctx, Call{Method: http.MethodPost, Path: []string{"runs"}, Body: body, Key: cmp.Or(req.Key, NewKey())})
}

// Wait returns the run with its result once it has ended, however it ended. ctx limits the time.
func (c *Client) Wait(ctx context.Context, id string) (Run, error) {
	poll := Call{Path: []string{"runs", id, "wait"}, Query: url.Values{"timeout_seconds": {"50"}},
		Wait: 50 * time.Second}
	for {
		r, err := c.run(ctx, poll)
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
	return c.run(ctx, Call{Path: []string{"runs", id}})
}

// Stop asks for the end of a run and returns it as it is then.
func (c *Client) Stop(ctx context.Context, id string) (Run, error) {
	return c.run(ctx, Call{Method: http.MethodPost, Path: []string{"runs", id, "stop"}})
}

func (c *Client) run(ctx context.Context, call Call) (r Run, err error) {
	a, err := c.Do(ctx, call)
	if err == nil && (json.Unmarshal(a.Document, &r) != nil || r.ID == "") {
		err = c.foreign(a)
	}
	r.Document = a.Document
	return r, err
}
