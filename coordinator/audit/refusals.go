package audit

import (
	"net/http"
	"sync"
	"time"
)

// How many refusals of each kind of actor the trail and the file have one by one: so many at once, then one each pause.
// Who floods a door cannot wash away what others did, nor fill a disk.
const (
	refusalsAtOnce = 1000
	refusalEach    = 3 * time.Second
	omittedEach    = time.Minute // between two entries that tell how many were only counted
)

// refusals bounds how much of the trail, or of the file, tells of what came to nothing.
type refusals struct {
	mu sync.Mutex
	of map[refusing]*allowance
}

// refusing is who is refused what: guesses at logins are told apart, so that no other flood hides them.
type refusing struct {
	kind  string // of actor
	login bool
}

// allowance is what one kind of actor has left.
type allowance struct {
	spent   time.Duration // of refusalsAtOnce times refusalEach
	at      time.Time
	omitted uint64 // since it was told last
	last    time.Time
	told    time.Time
}

// takes reports whether an entry has a place. One that has none is counted.
func (r *refusals) takes(e *Entry) bool {
	kind := Unknown
	if e.Actor != nil {
		kind = e.Actor.Kind
	}
	if e.Status < http.StatusBadRequest && (kind != Unknown || e.Actor == nil) {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	who := refusing{kind, e.Action == Login}
	a := r.of[who]
	if a == nil {
		if r.of == nil {
			r.of = map[refusing]*allowance{}
		}
		a = &allowance{at: e.Time}
		r.of[who] = a
	}
	if passed := e.Time.Sub(a.at); passed > 0 {
		a.spent, a.at = max(0, a.spent-passed), e.Time
	}
	if a.spent+refusalEach > refusalsAtOnce*refusalEach {
		a.omitted, a.last = a.omitted+1, e.Time
		return false
	}
	a.spent += refusalEach
	return true
}

// omitted are entries that tell how many were only counted; all: also of kinds that were told of a moment ago.
func (r *refusals) omitted(now time.Time, all bool) (told []Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for who, a := range r.of {
		if a.omitted == 0 || !all && now.Sub(a.told) < omittedEach {
			continue
		}
		told = append(told, Entry{Time: a.last, Actor: &Actor{Kind: who.kind}, Action: Omitted, Count: a.omitted})
		a.omitted, a.told = 0, now
	}
	return told
}
