package ao

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// APIError is a refusal: an answer with a status from 300 on.
type APIError struct {
	Status     int             `json:"-"`
	Code       string          `json:"error"` // such as invalid_request; empty: another server's answer
	Field      string          `json:"field"` // what to correct, if one field is wrong
	Message    string          `json:"message"`
	RetryAfter time.Duration   `json:"-"` // at most an hour; 0: not given
	Document   json.RawMessage `json:"-"` // all members
}

func (e *APIError) Error() string { return e.Message }

// Temporary reports whether the same request may succeed later.
func (e *APIError) Temporary() bool { return slices.Contains([]int{429, 502, 503, 504}, e.Status) }

// refusal returns the error of an answer that is none of success.
func (c *Client) refusal(a Answer, retryAfter string) error {
	var e APIError
	if json.Unmarshal(a.Document, &e) != nil || e.Code == "" {
		e = APIError{Message: c.foreign(a).Error()}
	}
	e.Status, e.Document = a.Status, a.Document
	if n, err := strconv.Atoi(retryAfter); err == nil {
		e.RetryAfter = time.Duration(max(0, min(n, 3600))) * time.Second
	} else if at, err := http.ParseTime(retryAfter); err == nil {
		e.RetryAfter = max(0, min(time.Until(at), time.Hour))
	}
	return &e
}

// Reason says why there is no answer of a coordinator.
type Reason string

const (
	NotConnected Reason = "not connected" // nothing accepts connections at the address: nothing was sent
	Lost         Reason = "lost"          // the connection broke, or the answer took too long: it may have been sent
	Untrusted    Reason = "untrusted"     // the server's certificate is not trusted, or it speaks no TLS
	Foreign      Reason = "foreign"       // another server has answered
)

// UnreachableError means that there was no complete answer of a coordinator, for as long as it was retried. A Transport
// of yours may return one, with a Reason and an Err that it knows better.
type UnreachableError struct {
	URL    string
	Reason Reason
	Err    error
}

func (e *UnreachableError) Error() string {
	switch {
	case e.Reason == NotConnected:
		return fmt.Sprintf("no coordinator answers at %s: %v", e.URL, e.Err)
	case e.Reason == Untrusted:
		return fmt.Sprintf("%s is not trusted: %v", e.URL, e.Err)
	case e.Reason == Foreign:
		return fmt.Sprintf("%s %v", e.URL, e.Err)
	case errors.Is(e.Err, context.DeadlineExceeded):
		return e.URL + " took too long to answer"
	}
	return fmt.Sprintf("connection to %s lost before the answer was complete: %v", e.URL, e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// Temporary reports whether the same request may succeed later.
func (e *UnreachableError) Temporary() bool { return e.Reason == NotConnected || e.Reason == Lost }

// Temporary reports whether the same request may succeed later: after an outage, or when less waits.
func Temporary(err error) bool {
	switch e := err.(type) { // the context's errors are not: they have such a method of their own
	case *APIError:
		return e.Temporary()
	case *UnreachableError:
		return e.Temporary()
	}
	return false
}

// unreachable returns why there is no answer, or the error of ctx.
func (c *Client) unreachable(ctx context.Context, err error) error {
	var known *UnreachableError
	var op *net.OpError
	e := &UnreachableError{URL: c.conf.URL, Reason: Lost, Err: err}
	if outer, ok := err.(*url.Error); ok {
		e.Err = outer.Err
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &known):
		e.Reason, e.Err = known.Reason, known.Err
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(tls.RecordHeaderError)),
		errors.Is(err, http.ErrSchemeMismatch):
		e.Reason = Untrusted
	case errors.As(err, &op) && op.Op == "dial", errors.As(err, new(*net.DNSError)):
		e.Reason = NotConnected
	case strings.Contains(err.Error(), "malformed HTTP"): // net/http has no type for it
		e.Reason, e.Err = Foreign, errors.New("does not speak HTTP; check that the address is a coordinator's")
	}
	if e.Reason == Lost || e.Reason == Foreign {
		c.reached.Store(true)
	}
	return e
}

// foreign is the error of an answer that no coordinator gives.
func (c *Client) foreign(a Answer) error {
	return &UnreachableError{URL: c.conf.URL, Reason: Foreign, Err: fmt.Errorf("answered %d, but not as a coordinator "+
		"does (%s: %.80q); check that the address is a coordinator's", a.Status, cmp.Or(a.kind, "no content type"),
		a.Document[:min(len(a.Document), 80)])}
}

// malformed is the error of a message that no coordinator sends. It counts as a broken connection.
func (c *Client) malformed(doc []byte) error {
	return &UnreachableError{URL: c.conf.URL, Reason: Lost, Err: fmt.Errorf("not a coordinator's: %.80q", doc)}
}

// RunError is why a run failed or was stopped.
type RunError struct {
	Code    string `json:"error"` // such as timeout or command_failed
	Message string `json:"message"`
}

func (e *RunError) Error() string { return e.Code + ": " + e.Message }
