package lease

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"ao/coordinator/projection/state"
)

// Heartbeats knows when each claimed attempt was last named by a heartbeat, and since when no heartbeat was missed.
type Heartbeats struct {
	connection connection
	lease      time.Duration
	log        *slog.Logger

	mu         sync.Mutex
	seen       map[string]time.Time // by the attempt's key
	unclaimed  map[string]time.Time // likewise, of attempts whose claim is unknown
	since      time.Time            // listening without interruption
	checkedAt  time.Time            // time of the last check
	reconnects uint64               // the connection's counters at the last Restart
	drops      uint64
}

// connection is what heartbeats arrive on.
type connection interface {
	Reconnects() uint64 // counts reconnects
	Dropped() uint64    // counts messages that were dropped because nobody took them in time
}

// NewHeartbeats returns one that has heard nothing yet.
func NewHeartbeats(over connection, lease time.Duration, log *slog.Logger) *Heartbeats {
	return &Heartbeats{connection: over, lease: lease, log: log, seen: map[string]time.Time{},
		unclaimed: map[string]time.Time{}}
}

// Heard notes a heartbeat for an attempt; unclaimed: its claim is unknown.
func (h *Heartbeats) Heard(key string, at time.Time, unclaimed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen[key] = at
	if unclaimed {
		h.unclaimed[key] = at
	}
}

// Restart starts listening anew at a time. Silence before that proves nothing, because nobody listened.
func (h *Heartbeats) Restart(why string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.checkedAt = at, time.Now()
	h.reconnects, h.drops = h.connection.Reconnects(), h.connection.Dropped()
	h.log.Debug("leases: listening starts over", "why", why)
}

// interrupted returns why a heartbeat may have been missed since the last check; empty: none was.
func (h *Heartbeats) interrupted() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	late := time.Since(h.checkedAt) > maxCheckGap
	h.checkedAt = time.Now()
	switch {
	case late:
		return "a check came late"
	case h.changed():
		return "the connection was renewed or dropped messages"
	}
	return ""
}

// changed reports whether the connection was renewed or dropped messages. The caller holds mu.
func (h *Heartbeats) changed() bool {
	return h.reconnects != h.connection.Reconnects() || h.drops != h.connection.Dropped()
}

// Listening returns for how long heartbeats were heard without interruption.
func (h *Heartbeats) Listening() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() || h.changed() {
		return 0
	}
	return time.Since(h.since)
}

// expired returns the attempts without a heartbeat for a lease. It forgets all attempts that are not in open.
func (h *Heartbeats) expired(underway []state.Active) (expired []state.Active) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	alive := make(map[string]time.Time, len(underway))
	for _, a := range underway {
		at, ok := h.seen[a.Key]
		if !ok {
			at = now
		}
		alive[a.Key] = at
		if at.Before(h.since) {
			at = h.since
		}
		if now.Sub(at) >= h.lease {
			expired = append(expired, a)
		}
	}
	h.seen = alive
	maps.DeleteFunc(h.unclaimed, func(_ string, at time.Time) bool { return now.Sub(at) >= h.lease })
	return expired
}

// NotHeard reports whether, during a lease of listening, no heartbeat named an attempt that is unclaimed in the
// projection.
func (h *Heartbeats) NotHeard(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.since
	if heard := h.unclaimed[key]; heard.After(at) {
		at = heard
	}
	return time.Since(at) >= h.lease
}

// Named reports whether a heartbeat named an attempt that is unclaimed in the projection, within a lease.
func (h *Heartbeats) Named(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.unclaimed[key].IsZero()
}

// Of returns when a heartbeat last named an attempt, as far as this coordinator heard, and when its lease ends.
func (h *Heartbeats) Of(key string) (heard, ends time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	heard, ok = h.seen[key]
	ends = heard.Add(h.lease)
	if since := h.since.Add(h.lease); since.After(ends) { // attempts expire only after a whole lease of listening
		ends = since
	}
	return heard.UTC(), ends.UTC(), ok
}

// Every is how often leases are checked.
const Every = 250 * time.Millisecond

// maxCheckGap is the time since the last check after which a check is late.
const maxCheckGap = Every + time.Second
