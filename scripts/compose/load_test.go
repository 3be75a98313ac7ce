//go:build compose

package compose

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"
)

// load runs callers that start runs continuously. Each repeats an unanswered request with its Idempotency-Key.
type load struct {
	t       *testing.T
	s       *stack
	stop    context.CancelFunc
	callers sync.WaitGroup

	mu       sync.Mutex
	accepted map[string]string // run id by key
}

func (s *stack) load(t *testing.T) *load {
	ctx, stop := context.WithCancel(t.Context())
	l := &load{t: t, s: s, stop: stop, accepted: map[string]string{}}
	t.Cleanup(l.callers.Wait)
	t.Cleanup(stop)
	for caller := range 4 {
		l.callers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("%s-%d-%d", t.Name(), caller, n)
				id, err := s.createRun(t.Context(), key)
				if err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
				l.mu.Lock()
				l.accepted[key] = id
				l.mu.Unlock()
				pause(ctx, 500*time.Millisecond)
			}
		})
	}
	return l
}

func (l *load) total() int { return len(l.runs()) }

// runs returns what was accepted so far.
func (l *load) runs() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.accepted)
}

// more waits until further runs are accepted.
func (l *load) more(what string) {
	l.t.Helper()
	before := l.total()
	l.s.until(l.t, time.Minute, "runs are accepted "+what, func() error {
		if l.total() < before+20 {
			return fmt.Errorf("%d more since", l.total()-before)
		}
		return nil
	})
}

// settle stops the callers; all accepted runs must be distinct and complete. How long the worker takes for what waits
// depends on the machine, so the wait is for the next one.
func (l *load) settle(what string) {
	l.t.Helper()
	l.stop()
	l.callers.Wait()
	ids := map[string]string{}
	for key, id := range l.accepted {
		if other, twice := ids[id]; twice {
			l.t.Errorf("%s and %s were answered with one run, %s", key, other, id)
		}
		ids[id] = key
	}
	for total, left := len(ids), len(ids); left > 0; left = len(ids) {
		l.s.until(l.t, time.Minute, fmt.Sprintf("another of %d runs completes", total), func() (err error) {
			maps.DeleteFunc(ids, func(id, _ string) bool {
				not := l.s.completed(id)
				err = cmp.Or(not, err)
				return not == nil
			})
			if len(ids) < left {
				return nil
			}
			return err
		})
	}
	l.t.Logf("%d runs accepted and completed during %s", l.total(), what)
}

// createRun repeats a request until the run is accepted or the request is invalid. The caller gives the session's id,
// which is written in one batch with the run.
func (s *stack) createRun(ctx context.Context, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	session := fmt.Sprintf("ses_%x", sha256.Sum224([]byte(key)))
	for {
		var r result
		err := s.post(ctx, key, map[string]any{"agent_name": "text-stats", "parameters": map[string]any{"file": story},
			"session_id": session}, &r)
		var refused refusal
		switch {
		case err == nil:
			return r.RunID, nil
		case errors.As(err, &refused) && refused.code != http.StatusServiceUnavailable &&
			refused.code != http.StatusTooManyRequests:
			return "", err
		case !pause(ctx, 100*time.Millisecond):
			return "", fmt.Errorf("not accepted within a minute: %w", err)
		}
	}
}
