package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// trackedRun is what a client knows of one of its runs. Only its client changes it, under the book's lock.
type trackedRun struct {
	client      int
	round       int
	key         string
	kind        string
	body        []byte // the request's body
	session     string
	run         string // from the first answer
	mode        string
	parent      string
	turn        int    // place among the turns of its session, in the order in which they were answered; 0: a start
	attempts    int    // max_attempts
	sum         string // of the prompt that its executor must get
	bytes       int    // that agent weigh must have weighed
	posted      time.Time
	answered    time.Time
	tries       int
	refused     string // the answer that said it is not taken
	stop        bool   // its client has asked to stop it
	finalStatus string // the end that was seen first
}

// tracker is what all clients know, and what they found wrong.
type tracker struct {
	mu      sync.Mutex
	entries []*trackedRun
	wrong   []violation
	posts   int           // requests that were sent to have a run
	repeats int           // of those, how many were repeats
	stale   int           // readings that did not know yet of an end that another coordinator had told
	longest time.Duration // a client waited for the answer of one run, repeats included
}

// violation is something that must not be.
type violation struct {
	what    string
	ids     []string
	repeats int // how often it was found once more
}

func (b *tracker) add(e *trackedRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, e)
}

func (b *tracker) addViolation(ids []string, format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	what := fmt.Sprintf(format, args...)
	if i := slices.IndexFunc(b.wrong, func(f violation) bool { return f.what == what }); i >= 0 {
		b.wrong[i].repeats++
		return
	}
	b.wrong = append(b.wrong, violation{what: what, ids: ids})
}

// accepted are the runs that were answered.
func (b *tracker) accepted() []*trackedRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.entries), func(e *trackedRun) bool { return e.run == "" })
}

// outcome is how a run ended, as far as it was seen; empty: it was not, or that was taken back (judge.forget).
func (b *tracker) outcome(e *trackedRun) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.finalStatus
}

// observe notes the status of a run; an end never changes. A coordinator may hear of it a moment later than another one did: that
// is counted.
func (b *tracker) observe(e *trackedRun, status, where string) {
	b.mu.Lock()
	before := e.finalStatus
	switch {
	case isFinal(status) && before == "":
		e.finalStatus = status
	case !isFinal(status) && before != "":
		b.stale++
	}
	b.mu.Unlock()
	if before != "" && isFinal(status) && before != status {
		b.addViolation([]string{e.run}, "%s was %q before and is %q at %s", e.kind, before, status, where)
	}
}
