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

// Refused is the API's own refusal.
type Refused struct {
	Status     int
	Fault      *fault.Fault
	Doc        json.RawMessage // as it came
	RetryAfter time.Duration   // 0: it did not say
}

func (r *Refused) Error() string { return r.Fault.Message }

// Unreachable is nobody at the address.
type Unreachable struct {
	URL   string
	Cause error
}

func (u *Unreachable) Error() string {
	return fmt.Sprintf("No coordinator answers at %s: %s", u.URL, fault.Plain(u.Cause))
}
func (u *Unreachable) Unwrap() error { return u.Cause }

// Lost is a connection that broke, or stayed silent, before the answer was whole.
type Lost struct {
	URL   string
	Cause error
}

func (l *Lost) Error() string {
	if errors.Is(l.Cause, context.DeadlineExceeded) {
		return fmt.Sprintf("%s took too long to answer", l.URL)
	}
	return fmt.Sprintf("The connection to %s was lost before the answer was whole: %s", l.URL, fault.Plain(l.Cause))
}
func (l *Lost) Unwrap() error { return l.Cause }

// Untrusted is somebody at the address who does not prove to be whom we asked for, or does not speak TLS.
type Untrusted struct {
	URL   string
	Why   string // and what to do
	Cause error
}

func (u *Untrusted) Error() string { return fmt.Sprintf("%s is not asked: %s", u.URL, u.Why) }
func (u *Untrusted) Unwrap() error { return u.Cause }

// Stranger is an answer that no coordinator gives.
type Stranger struct {
	URL    string
	Status int    // 0: it is none of HTTP
	Type   string // media type
	Start  string // of the body
}

func (s *Stranger) Error() string {
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

// Passing tells whether the trouble may be gone at another try.
func Passing(err error) bool {
	switch e := err.(type) {
	case *Unreachable, *Lost:
		return true
	case *Refused:
		return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
	case *Stranger: // somebody between us and the coordinator
		return slices.Contains([]int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, e.Status)
	}
	return false
}

const reminder = 30 * time.Second // between two notices of one outage, at least

// tries is a row of new tries after trouble that passes.
type tries struct {
	c     *Client
	since time.Time // of the outage; zero: none
	said  time.Time // when somebody was told of it last
	pause time.Duration
	least time.Duration // the server asks for that much between two connections
}

// pauseAtLeast is what the server asks for; 0 asks nothing.
func (t *tries) pauseAtLeast(d time.Duration) { t.least = max(d, t.least) }

func (c *Client) tries() *tries { return &tries{c: c} }

// well ends an outage.
func (t *tries) well() { t.since, t.pause = time.Time{}, 0 }

// again waits until it is time for another try; its error is the one to give up with.
func (t *tries) again(ctx context.Context, err error) error {
	if _, nobody := errors.AsType[*Unreachable](err); nobody && !t.c.reached.Load() {
		return err
	}
	now := time.Now()
	first := t.since.IsZero()
	if first {
		t.since, t.pause = now, t.c.pause
	}
	pause := max(t.pause, t.least)
	if r, ok := errors.AsType[*Refused](err); ok {
		pause = max(pause, r.RetryAfter)
	}
	left := t.c.patience - now.Sub(t.since)
	switch {
	case pause > left && first:
		return err
	case pause > left:
		t.c.notice(fmt.Sprintf("No better after %v; giving up", now.Sub(t.since).Round(time.Second)))
		return err
	case first:
		t.c.notice(fmt.Sprintf("%v; trying again for up to %v", err, left))
		t.said = now
	case now.Sub(t.said) >= reminder:
		t.c.notice(fmt.Sprintf("%v; still trying, for another %v", err, left.Round(time.Second)))
		t.said = now
	}
	t.pause = min(2*t.pause, 20*t.c.pause)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}
