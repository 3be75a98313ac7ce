package llm

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/worker/llm/chat"
)

// Pauses between retries if the endpoint names none; they double from the first to the last.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// maxWait is how long a run without a time limit waits for an endpoint.
const maxWait = time.Hour

// retryAfter returns the wait that a response asks for: Retry-After-Ms, or Retry-After in seconds or as a date. 0:
// none.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil && ms > 0 {
		return bounded(ms / 1000)
	}
	text := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.ParseFloat(text, 64); err == nil && n > 0 {
		return bounded(n)
	}
	if t, err := http.ParseTime(text); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 0
}

func bounded(seconds float64) time.Duration {
	if seconds > math.MaxInt64/float64(time.Second) {
		return math.MaxInt64
	}
	return time.Duration(seconds * float64(time.Second))
}

// askModel calls the model and retries while that may help and no text of the answer was emitted. The fault is why it
// failed; nil if ctx ended. A partial answer is returned with it, and was emitted.
func (c *conversation) askModel(ctx context.Context, r chat.Request) (chat.Reply, *fault.Fault) {
	for try := 0; ; try++ {
		s := &messageEmitter{emit: c.host.Emit}
		reply, err := c.model.Ask(ctx, r, s)
		c.usage.Add(reply.Usage)
		if err == nil {
			err = unusable(reply)
		}
		if err == nil {
			s.End()
			c.answeredBy = cmp.Or(reply.Model, c.answeredBy)
			return reply, nil
		}
		var f *fault.Fault
		if ctx.Err() == nil {
			v := c.settings.classify(err, time.Now())
			f = v.Fault
			if !s.emitted && v.retryable && c.mayWait(ctx, &v, try) {
				if pause := v.after; pause >= 5*time.Second {
					c.host.Emit(run.EventMessage, run.TextMessage("system",
						f.Message+"; retrying in "+pause.Round(time.Second).String()))
				}
				c.retries++
				if clock.Sleep(ctx, v.after) {
					continue
				}
				return chat.Reply{}, nil
			}
		}
		s.End()
		return reply, f
	}
}

// mayWait reports whether the call may be retried, and sets v.after; otherwise the message says why not.
func (c *conversation) mayWait(ctx context.Context, v *callError, try int) bool {
	if try >= *c.settings.MaxRetries {
		if try > 0 {
			v.Message += fmt.Sprintf("; tried %d times", try+1)
		}
		return false
	}
	asked := v.after > 0
	if !asked {
		v.after = min(firstPause<<min(try, 10), lastPause)
		v.after -= rand.N(v.after / 4)
	}
	left := maxWait
	if end, ok := ctx.Deadline(); ok {
		left = time.Until(end)
	}
	if v.after < left {
		return true
	}
	what := "the next retry would be in"
	if asked {
		what = "it asks for a retry in"
		v.With("retry_after_seconds", math.Ceil(v.after.Seconds()))
	}
	v.Message += fmt.Sprintf("; %s %s, and the run has %s left", what, v.after.Round(time.Second),
		max(left, 0).Round(time.Second))
	return false
}
