package worker

import (
	"cmp"
	"sync/atomic"
	"time"

	"ao/shared/run"
	"ao/shared/runnerapi"
)

// remoteSettings are the settings that coordinators sent last. The zero value has the defaults.
type remoteSettings struct {
	interval         atomic.Int64           // nanoseconds between heartbeats
	leaseNanos       atomic.Int64           // lease in nanoseconds
	maxRecordVersion atomic.Int64           // newest record version
	eventVersion     atomic.Int64           // newest event version
	lastReply        atomic.Int64           // last answered heartbeat, nanoseconds since 1970; 0: never
	url              atomic.Pointer[string] // URL of the HTTP API
}

// Defaults until a coordinator has answered.
const (
	defaultInterval = 3 * time.Second
	defaultLease    = 15 * time.Second
)

// applyRegistered applies the reply to a registration.
func (t *remoteSettings) applyRegistered(r runnerapi.Registered) {
	if r.HeartbeatInterval > 0 {
		t.interval.Store(int64(r.HeartbeatInterval))
	}
	if r.Lease > 0 {
		t.leaseNanos.Store(int64(r.Lease))
	}
	t.apply(r.RecordVersion, r.EventVersion, r.APIURL)
}

func (t *remoteSettings) applyHeartbeat(r runnerapi.HeartbeatReply) {
	if r.Known && !r.Superseded {
		t.lastReply.Store(time.Now().UnixNano())
	}
	t.apply(r.RecordVersion, r.EventVersion, r.APIURL)
}

// apply applies what every reply has. A reply without an API URL leaves the one before.
func (t *remoteSettings) apply(records, events int, api string) {
	t.maxRecordVersion.Store(int64(records))
	t.eventVersion.Store(int64(events))
	if api != "" {
		t.url.Store(&api)
	}
}

// heartbeatInterval returns the time between two heartbeats.
func (t *remoteSettings) heartbeatInterval() time.Duration {
	return cmp.Or(time.Duration(t.interval.Load()), defaultInterval)
}

// lease returns how long coordinators wait for a heartbeat that names an attempt.
func (t *remoteSettings) lease() time.Duration {
	return cmp.Or(time.Duration(t.leaseNanos.Load()), defaultLease)
}

// fenceMargin returns how long before the end of its lease an attempt is fenced.
func (t *remoteSettings) fenceMargin() time.Duration { return min(t.lease()/4, 2*time.Second) }

// recordVersion returns the newest record version that all online coordinators read.
func (t *remoteSettings) recordVersion() int { return max(int(t.maxRecordVersion.Load()), 1) }

// canPack reports whether several events may share a message: all online coordinators can read that.
func (t *remoteSettings) canPack() bool { return t.eventVersion.Load() >= run.EventVersion }

// lastHeartbeat returns when a coordinator last accepted a heartbeat; the zero time before the first.
func (t *remoteSettings) lastHeartbeat() time.Time {
	if at := t.lastReply.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// apiURL returns the URL of the HTTP API as a coordinator named it; empty: unknown.
func (t *remoteSettings) apiURL() string { return *cmp.Or(t.url.Load(), new(string)) }
