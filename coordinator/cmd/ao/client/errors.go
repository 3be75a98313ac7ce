package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ao/shared/fault"
)

// APIError is an error answer of the API.
type APIError struct {
	Status     int
	Fault      *fault.Fault
	Doc        json.RawMessage // unchanged
	RetryAfter time.Duration   // 0: not given
}

func (r *APIError) Error() string { return r.Fault.Message }

// Unreachable means that nothing accepts connections at the address.
type Unreachable struct {
	URL   string
	Cause error
}

func (u *Unreachable) Error() string {
	return fmt.Sprintf("no coordinator answers at %s: %s", u.URL, fault.Describe(u.Cause))
}
func (u *Unreachable) Unwrap() error { return u.Cause }

// ConnectionLost means that the connection broke or timed out before the answer was complete.
type ConnectionLost struct {
	URL   string
	Cause error
}

func (l *ConnectionLost) Error() string {
	if errors.Is(l.Cause, context.DeadlineExceeded) {
		return fmt.Sprintf("%s took too long to answer", l.URL)
	}
	return fmt.Sprintf("connection to %s lost before the answer was complete: %s", l.URL, fault.Describe(l.Cause))
}
func (l *ConnectionLost) Unwrap() error { return l.Cause }

// Untrusted means that the server's certificate is not trusted, or that it does not speak TLS.
type Untrusted struct {
	URL   string
	Why   string // with advice
	Cause error
}

func (u *Untrusted) Error() string { return fmt.Sprintf("%s is not trusted: %s", u.URL, u.Why) }
func (u *Untrusted) Unwrap() error { return u.Cause }

// NotCoordinator is an answer of something else than a coordinator.
type NotCoordinator struct {
	URL    string
	Status int    // 0: not HTTP
	Type   string // media type
	Start  string // beginning of the body
}

func (s *NotCoordinator) Error() string {
	if strings.HasPrefix(s.Start, "Client sent an HTTP request to an HTTPS server") {
		return fmt.Sprintf("%s uses TLS: write https:// (and set AO_CA if its certificate is from your own authority)",
			s.URL)
	}
	if s.Status == 0 {
		return fmt.Sprintf("%s does not speak HTTP; check that the address is a coordinator's", s.URL)
	}
	what := cmp.Or(s.Type, "no content type")
	return fmt.Sprintf("%s answered %d, but not as a coordinator does (%s: %.80q); check that the address is a "+
		"coordinator's", s.URL, s.Status, what, s.Start)
}

// Temporary reports whether a retry may succeed.
func Temporary(err error) bool {
	switch e := err.(type) {
	case *Unreachable, *ConnectionLost:
		return true
	case *APIError:
		return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
	case *NotCoordinator: // a proxy in front of the coordinator
		return slices.Contains([]int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout},
			e.Status)
	}
	return false
}

const noticeInterval = 30 * time.Second // shortest time between two notices of one outage

// retrier spaces the retries of a request.
type retrier struct {
	c        *Client
	since    time.Time // of the outage; zero: none
	noticed  time.Time // time of the last notice
	pause    time.Duration
	minPause time.Duration // minimum pause requested by the server
}

// setMinPause sets the pause requested by the server; 0: none.
func (t *retrier) setMinPause(d time.Duration) { t.minPause = max(d, t.minPause) }

func (c *Client) newRetrier() *retrier { return &retrier{c: c} }

// reset marks the end of an outage.
func (t *retrier) reset() { t.since, t.pause = time.Time{}, 0 }

// wait waits until the next retry. It returns an error if the caller must give up.
func (t *retrier) wait(ctx context.Context, err error) error {
	if _, nobody := errors.AsType[*Unreachable](err); nobody && !t.c.reached.Load() {
		return err
	}
	now := time.Now()
	first := t.since.IsZero()
	if first {
		t.since, t.pause = now, t.c.retryPause
	}
	pause := max(t.pause, t.minPause)
	if r, ok := errors.AsType[*APIError](err); ok {
		pause = max(pause, r.RetryAfter)
	}
	left := t.c.retryFor - now.Sub(t.since)
	switch {
	case pause > left && first:
		return err
	case pause > left:
		t.c.notice(fmt.Sprintf("still failing after %v; giving up", now.Sub(t.since).Round(time.Second)))
		return err
	case first:
		t.c.notice(fmt.Sprintf("%v; retrying for up to %v", err, left))
		t.noticed = now
	case now.Sub(t.noticed) >= noticeInterval:
		t.c.notice(fmt.Sprintf("%v; still retrying, for another %v", err, left.Round(time.Second)))
		t.noticed = now
	}
	t.pause = min(2*t.pause, 20*t.c.retryPause)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}
