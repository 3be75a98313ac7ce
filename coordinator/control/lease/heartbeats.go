package lease

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"ao/coordinator/projection"
)

// Hearing is when each begun attempt was heard of last, and since when nothing that is said has been missed.
type Heartbeats struct {
	connection connection
	lease      time.Duration
	log        *slog.Logger

	mu    sync.Mutex
	seen  map[string]time.Time // by the attempt's key
	early map[string]time.Time // likewise, of attempts whose claims are not known
	since time.Time            // listening without interruption
	last  time.Time            // the look before
	gen   uint64               // the connection's, and what it dropped
	drops uint64
}

// connection is what attempts are heard over.
type connection interface {
	Reconnects() uint64 // changes when it was renewed
	Dropped() uint64    // messages that nobody took in time
}

// NewHearing makes one that has heard nothing yet.
func NewHeartbeats(over connection, lease time.Duration, log *slog.Logger) *Heartbeats {
	return &Heartbeats{connection: over, lease: lease, log: log, seen: map[string]time.Time{}, early: map[string]time.Time{}}
}

// Heard notes that an attempt is alive; early: its claim is not known.
func (h *Heartbeats) Heard(key string, at time.Time, early bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen[key] = at; early {
		h.early[key] = at
	}
}

// Restart begins the wait anew, at a time: what happened before, while nobody listened, is no sign of death.
func (h *Heartbeats) Restart(why string, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since, h.last = at, time.Now()
	h.gen, h.drops = h.connection.Reconnects(), h.connection.Dropped()
	h.log.Debug("leases: listening anew", "why", why)
}

// interrupted says why something may have been missed since the look before; empty: nothing was.
func (h *Heartbeats) interrupted() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	late := time.Since(h.last) > lateLook
	h.last = time.Now()
	switch {
	case late:
		return "a look came late"
	case h.moved():
		return "the connection was renewed or dropped messages"
	}
	return ""
}

// moved tells whether the connection was renewed, or dropped something. The caller holds mu.
func (h *Heartbeats) moved() bool {
	return h.gen != h.connection.Reconnects() || h.drops != h.connection.Dropped()
}

// Listening is how long everything that is said has been heard without interruption.
func (h *Heartbeats) Listening() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since.IsZero() || h.moved() {
		return 0
	}
	return time.Since(h.since)
}

// lost are those of the attempts under way of which nobody has heard for a lease. What is known of others is forgotten.
func (h *Heartbeats) lost(underway []projection.Active) (lost []projection.Active) {
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
			lost = append(lost, a)
		}
	}
	h.seen = alive
	maps.DeleteFunc(h.early, func(_ string, at time.Time) bool { return now.Sub(at) >= h.lease })
	return lost
}

// Silent tells whether nobody was heard, for a lease of listening, to have an attempt that nobody has begun by the history.
func (h *Heartbeats) NotHeard(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.since
	if heard := h.early[key]; heard.After(at) {
		at = heard
	}
	return time.Since(at) >= h.lease
}

// Of is when a runner named an attempt last, as far as this coordinator heard, and when its lease ends if it stays silent.
func (h *Heartbeats) Of(key string) (heard, ends time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	heard, ok = h.seen[key]
	ends = heard.Add(h.lease)
	if since := h.since.Add(h.lease); since.After(ends) { // it judges after a whole lease of listening only
		ends = since
	}
	return heard.UTC(), ends.UTC(), ok
}

// Every is how often the leases are looked at.
const Every = 250 * time.Millisecond

// lateLook is how long after the one before a look has been late.
const lateLook = Every + time.Second
