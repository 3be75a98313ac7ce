package worker

import (
	"cmp"
	"sync/atomic"
	"time"

	"ao/shared/run"
	"ao/shared/runnerapi"
)

// terms are what coordinators said last. The zero value has not heard any yet.
type terms struct {
	every   atomic.Int64           // nanoseconds between beats
	waits   atomic.Int64           // the lease, in nanoseconds
	allowed atomic.Int64           // the newest record version
	forms   atomic.Int64           // the newest form of events
	at      atomic.Int64           // when a coordinator last answered a beat of ours, nanoseconds since 1970; 0: never
	where   atomic.Pointer[string] // the HTTP API's URL
}

// What counts before a coordinator has said anything.
const (
	firstBeat  = 3 * time.Second
	firstLease = 15 * time.Second
)

// registered takes what a registration is answered with.
func (t *terms) registered(r runnerapi.Registered) {
	if r.BeatEvery > 0 {
		t.every.Store(int64(r.BeatEvery))
	}
	if r.Lease > 0 {
		t.waits.Store(int64(r.Lease))
	}
	t.said(r.RecordVersion, r.EventVersion, r.APIURL)
}

// answered takes what a beat is answered with.
func (t *terms) answered(r runnerapi.BeatReply) {
	if r.Known && !r.Superseded {
		t.at.Store(time.Now().UnixNano())
	}
	t.said(r.RecordVersion, r.EventVersion, r.APIURL)
}

// said notes what every answer has. Where it names no API, the one before counts: that coordinator had one.
func (t *terms) said(records, events int, api string) {
	t.allowed.Store(int64(records))
	t.forms.Store(int64(events))
	if api != "" {
		t.where.Store(&api)
	}
}

// beat is the time between two heartbeats.
func (t *terms) beat() time.Duration { return cmp.Or(time.Duration(t.every.Load()), firstBeat) }

// lease is how long coordinators wait for a beat that names an attempt.
func (t *terms) lease() time.Duration { return cmp.Or(time.Duration(t.waits.Load()), firstLease) }

// margin is how long before the end of the lease an attempt is fenced off.
func (t *terms) margin() time.Duration { return min(t.lease()/4, 2*time.Second) }

// version is the newest version of records that all coordinators read that are online now.
func (t *terms) version() int { return max(int(t.allowed.Load()), 1) }

// packs tells whether several events may go in one message: all coordinators that are online now read that.
func (t *terms) packs() bool { return t.forms.Load() >= run.EventVersion }

// heard is when a coordinator last answered a heartbeat and knew the runner; the zero time before the first.
func (t *terms) heard() time.Time {
	if at := t.at.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// api is where a coordinator said that the HTTP API is; empty: not known.
func (t *terms) api() string {
	if url := t.where.Load(); url != nil {
		return *url
	}
	return ""
}
