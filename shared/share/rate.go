package share

import (
	"maps"
	"sync"
	"time"
)

// Rate lets each owner take so much within a time. A limited number of owners have a window of their own; the rest
// share one.
type Rate struct {
	most   int64
	within time.Duration
	owners int
	now    func() time.Time

	mu    sync.Mutex
	of    map[string]*window
	rest  window    // of those who have none of their own
	swept time.Time // when ended windows were removed last
}

// window counts what an owner took since it began.
type window struct {
	began time.Time
	n     int64
}

// NewRate returns a rate of most within a time, for at most owners windows. A nil now is time.Now.
func NewRate(most int64, within time.Duration, owners int, now func() time.Time) *Rate {
	if now == nil {
		now = time.Now
	}
	return &Rate{most: most, within: within, owners: owners, now: now, of: map[string]*window{}}
}

// Take takes n for an owner. If that is too much now, it takes nothing, and wait is how long until the owner's window
// ends.
func (r *Rate) Take(owner string, n int64) (ok bool, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	w := r.window(owner, now)
	if w.n+n > r.most {
		return false, w.began.Add(r.within).Sub(now)
	}
	w.n += n
	return true, 0
}

// window returns an owner's window. The caller holds mu.
func (r *Rate) window(owner string, now time.Time) *window {
	w := r.of[owner]
	if w == nil && len(r.of) >= r.owners && now.Sub(r.swept) >= r.within/10 {
		r.swept = now
		maps.DeleteFunc(r.of, func(_ string, w *window) bool { return now.Sub(w.began) >= r.within })
	}
	switch {
	case w != nil:
	case len(r.of) < r.owners:
		w = &window{}
		r.of[owner] = w
	default:
		w = &r.rest
	}
	if now.Sub(w.began) >= r.within {
		*w = window{began: now}
	}
	return w
}

// Owners returns how many owners have a window of their own.
func (r *Rate) Owners() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of)
}
