package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// trackedRun is what a client knows about one of its runs. Only that client changes it, under the tracker's lock.
type trackedRun struct {
	client      int
	round       int
	key         string
	kind, mode  string
	body        []byte // the request's body
	session     string
	run         string // from the first answer
	turn        int    // position among the turns of its session, in the order of their answers; 0: a start
	attempts    int    // max_attempts
	sum         string // SHA-256 of the prompt that its executor must get
	bytes       int    // that agent weigh must have counted
	posted      time.Time
	answered    time.Time
	tries       int
	stop        bool   // its client has requested a stop
	finalStatus string // final status that was seen first
}

// tracker collects the runs of all clients and the violations found.
type tracker struct {
	mu      sync.Mutex
	entries []*trackedRun
	wrong   []violation
	posts   int           // requests sent to start runs
	repeats int           // how many of those were repeats
	stale   int           // reads that missed an end that another coordinator had shown
	longest time.Duration // longest wait of a client for the answer of one run, repeats included
}

// violation is a broken promise.
type violation struct {
	what    string
	ids     []string
	repeats int // how often it was found again
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

// accepted returns the runs with an answer.
func (b *tracker) accepted() []*trackedRun {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.entries), func(e *trackedRun) bool { return e.run == "" })
}

// outcome returns the final status seen of a run; empty: none, or taken back by forgetEnds.
func (b *tracker) outcome(e *trackedRun) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return e.finalStatus
}

// observe records the status of a run. A final status must never change. A coordinator may learn it later than
// another one; such reads are counted.
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
