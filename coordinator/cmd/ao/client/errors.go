package client

import (
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

// APIError is the API's own refusal.
type APIError struct {
	Status     int
	Fault      *fault.Fault
	Doc        json.RawMessage // as it came
	RetryAfter time.Duration   // 0: it did not say
}

func (r *APIError) Error() string { return r.Fault.Message }

// Unreachable is nobody at the address.
type Unreachable struct {
	URL   string
	Cause error
}

func (u *Unreachable) Error() string {
	return fmt.Sprintf("No coordinator answers at %s: %s", u.URL, fault.Describe(u.Cause))
}
func (u *Unreachable) Unwrap() error { return u.Cause }

// ConnectionLost is a connection that broke, or stayed silent, before the answer was whole.
type ConnectionLost struct {
	URL   string
	Cause error
}

func (l *ConnectionLost) Error() string {
	if errors.Is(l.Cause, context.DeadlineExceeded) {
		return fmt.Sprintf("%s took too long to answer", l.URL)
	}
	return fmt.Sprintf("The connection to %s was lost before the answer was whole: %s", l.URL, fault.Describe(l.Cause))
}
func (l *ConnectionLost) Unwrap() error { return l.Cause }

// Untrusted is somebody at the address who does not prove to be whom we asked for, or does not speak TLS.
type Untrusted struct {
	URL   string
	Why   string // and what to do
	Cause error
}

func (u *Untrusted) Error() string { return fmt.Sprintf("%s is not asked: %s", u.URL, u.Why) }
func (u *Untrusted) Unwrap() error { return u.Cause }

// NotCoordinator is an answer that no coordinator gives.
type NotCoordinator struct {
	URL    string
	Status int    // 0: it is none of HTTP
	Type   string // media type
	Start  string // of the body
}

func (s *NotCoordinator) Error() string {
	if strings.HasPrefix(s.Start, "Client sent an HTTP request to an HTTPS server") {
		return fmt.Sprintf("%s speaks TLS: use https:// (and AO_CA, where its certificate is of an authority of your own)", s.URL)
	}
	if s.Status == 0 {
		return fmt.Sprintf("%s does not speak HTTP; does the address lead to a coordinator?", s.URL)
	}
	what := s.Type
	if what == "" {
		what = "no content type"
	}
	return fmt.Sprintf("%s answered %d with something that no coordinator says (%s: %.80q); does the address lead to one?", s.URL, s.Status, what, s.Start)
}

// Temporary tells whether the trouble may be gone at another try.
func Temporary(err error) bool {
	switch e := err.(type) {
	case *Unreachable, *ConnectionLost:
		return true
	case *APIError:
		return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
	case *NotCoordinator: // somebody between us and the coordinator
		return slices.Contains([]int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, e.Status)
	}
	return false
}

const noticeInterval = 30 * time.Second // between two notices of one outage, at least

// retrier is a row of new tries after trouble that passes.
type retrier struct {
	c        *Client
	since    time.Time // of the outage; zero: none
	noticed  time.Time // when somebody was told of it last
	pause    time.Duration
	minPause time.Duration // the server asks for that much between two connections
}

// setMinPause is what the server asks for; 0 asks nothing.
func (t *retrier) setMinPause(d time.Duration) { t.minPause = max(d, t.minPause) }

func (c *Client) newRetrier() *retrier { return &retrier{c: c} }

// reset ends an outage.
func (t *retrier) reset() { t.since, t.pause = time.Time{}, 0 }

// wait waits until it is time for another try; its error is the one to give up with.
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
		t.c.notice(fmt.Sprintf("No better after %v; giving up", now.Sub(t.since).Round(time.Second)))
		return err
	case first:
		t.c.notice(fmt.Sprintf("%v; trying again for up to %v", err, left))
		t.noticed = now
	case now.Sub(t.noticed) >= noticeInterval:
		t.c.notice(fmt.Sprintf("%v; still trying, for another %v", err, left.Round(time.Second)))
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
