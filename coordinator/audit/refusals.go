package audit

import (
	"net/http"
	"sync"
	"time"
)

// How many refusals of each kind of actor are recorded at once, and the pause between further ones. So a flood of
// refusals can neither hide other entries nor fill a disk.
const (
	refusalsAtOnce = 1000
	refusalEvery   = 3 * time.Second
	omittedEvery   = time.Minute // between two entries that say how many were only counted
)

// refusals bounds how much of the trail or the file is about refusals.
type refusals struct {
	mu sync.Mutex
	of map[refusalKey]*quota
}

// refusalKey is who is refused what. Guesses at logins are counted apart, so that no other flood hides them.
type refusalKey struct {
	kind  string // of actor
	login bool
}

// quota is what one kind of actor has left.
type quota struct {
	spent   time.Duration // of refusalsAtOnce times refusalEvery
	at      time.Time
	omitted uint64 // since the last summary
	last    time.Time
	told    time.Time
}

// allow reports whether an entry is recorded. One that is not is counted.
func (r *refusals) allow(e *Entry) bool {
	kind := Unknown
	if e.Actor != nil {
		kind = e.Actor.Kind
	}
	if e.Status < http.StatusBadRequest && (kind != Unknown || e.Actor == nil) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	who := refusalKey{kind, e.Action == Login}
	a := r.of[who]
	if a == nil {
		if r.of == nil {
			r.of = map[refusalKey]*quota{}
		}
		a = &quota{at: e.Time}
		r.of[who] = a
	}
	if passed := e.Time.Sub(a.at); passed > 0 {
		a.spent, a.at = max(0, a.spent-passed), e.Time
	}
	if a.spent+refusalEvery > refusalsAtOnce*refusalEvery {
		a.omitted, a.last = a.omitted+1, e.Time
		return false
	}
	a.spent += refusalEvery
	return true
}

// omitted returns entries that say how many were only counted; all: also for kinds reported a moment ago.
func (r *refusals) omitted(now time.Time, all bool) (summaries []Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for who, a := range r.of {
		if a.omitted == 0 || !all && now.Sub(a.told) < omittedEvery {
			continue
		}
		summaries = append(summaries,
			Entry{Time: a.last, Actor: &Actor{Kind: who.kind}, Action: Omitted, Count: a.omitted})
		a.omitted, a.told = 0, now
	}
	return summaries
}
