package worker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"ao/shared/clock"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// The pauses before what cannot work is tried again: they double from the first to the last.
const (
	firstRest = 10 * time.Second
	lastRest  = 5 * time.Minute
)

// trialTimeout is after how long a run that tries the profile has shown that it works. Until then it runs alone.
const trialTimeout = time.Minute

// lookEvery is how often files are looked at: of what rests each time, of what works each eighth time.
const lookEvery = 250 * time.Millisecond

// rest is why something takes no runs: the profile, or one of its agents. After its pause, or when a file changes, it
// is tried again. It works when a run has shown that, or the check that had found the cause.
type rest struct {
	cause *fault.Fault // nil: it works, or is tried
	found bool         // a check found the cause, and finds when it is over; otherwise only a run can tell
	since time.Time
	pause time.Duration // the last one; 0: it works
	next  time.Time     // when it is tried
	files string        // the state of the files when it began
}

func (r *rest) fail(f *fault.Fault, found bool, files string, now time.Time) (changed bool) {
	if r.cause != nil { // another run of that time
		return false
	}
	if r.pause == 0 {
		r.since = now
	}
	r.cause, r.found, r.files = f, found, files
	r.postpone(now)
	return true
}

// postpone begins the next pause.
func (r *rest) postpone(now time.Time) {
	r.pause = min(max(2*r.pause, firstRest), lastRest)
	r.next = now.Add(r.pause)
}

func (r *rest) resting() bool { return r != nil && r.cause != nil }

// tried reports whether a run is to show whether it works again.
func (r *rest) tried() bool { return r != nil && r.cause == nil && r.pause > 0 }

// rests keeps runs from a profile that cannot work here, and from its agents that cannot. It is safe for concurrent
// use.
type rests struct {
	checker checker                  // nil: nothing can be checked
	agents  func() map[string]string // the current hashes of the runner's own agents
	changed func(paused bool)        // is called when runs are to be taken no more, or again
	log     *slog.Logger

	mu      sync.Mutex
	profile rest
	own     map[string]*rest // by agent
	trial   bool             // a run tries the profile
	since   time.Time        // when it was admitted
	begun   time.Time        // when the profile was last tried
	paused  bool
}

// admit reports whether a run may be claimed. Where the profile is tried, only one may until done.
func (r *rests) admit(agent, hash string) (ok, trial bool) {
	var bad *fault.Fault
	if r.checker != nil {
		bad = r.checker.Check(agent, hash)
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if bad != nil {
		r.failLocked(r.scope(agent), bad, true, now)
	}
	if r.profile.resting() || r.profile.tried() && r.trial {
		return false, false
	}
	if own := r.own[agent]; own.resting() {
		if now.Before(own.next) {
			return false, false
		}
		own.postpone(now) // this run shows whether it works: it may be this runner that it needs
	}
	if r.profile.tried() {
		r.trial, r.since = true, now
		return true, true
	}
	return true, false
}

// done ends the trial of a run.
func (r *rests) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trial = false
}

// limit returns how many of the free slots may be used: one while the profile is tried.
func (r *rests) limit(free int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.paused, r.profile.tried() && r.trial:
		return 0
	case r.profile.tried():
		return min(free, 1)
	}
	return free
}

// scope returns what an inability of an agent concerns: the agent if it is one of the runner's own, else "", the
// profile.
func (r *rests) scope(agent string) string {
	if len(r.agents()) == 0 {
		return ""
	}
	return agent
}

// note notes what an outcome shows, and reports whether runs of this kind cannot be done here. started is when the
// executor started, nil: never.
func (r *rests) note(executor, agent string, o run.Outcome, started *time.Time) (unable bool) {
	ofAgent, unable := inability(executor, o.Error)
	switch {
	case o.Status == run.Failed && unable:
		r.fail(agent, ofAgent, o.Error)
		return true
	case started != nil && o.Status != run.Stopped:
		r.works(agent, *started)
	}
	return false
}

// fail notes that a run could not be done. ofAgent: only the agent is concerned.
func (r *rests) fail(agent string, ofAgent bool, f *fault.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ofAgent {
		agent = ""
	}
	r.failLocked(r.scope(agent), f, false, time.Now())
}

func (r *rests) failLocked(scope string, f *fault.Fault, found bool, now time.Time) {
	at := &r.profile
	if scope != "" {
		if r.own[scope] == nil {
			r.own[scope] = &rest{}
		}
		at = r.own[scope]
	}
	if at.fail(f, found, r.files(scope), now) {
		r.log.Warn("cannot work here, taking no such runs", "agent", scope, "code", f.Code, "message", f.Message)
		r.update()
	}
}

// works notes that a run of an agent that started then could be done.
func (r *rests) works(agent string, started time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.profile.tried() && !started.Before(r.begun) {
		r.end("")
	}
	if own := r.own[agent]; own != nil && (own.tried() || own.resting() && !started.Before(own.next.Add(-own.pause))) {
		r.end(agent)
	}
}

// end ends a rest. The caller holds mu.
func (r *rests) end(scope string) {
	if scope == "" {
		r.profile = rest{}
	} else {
		delete(r.own, scope)
	}
	r.log.Info("works again", "agent", scope)
	r.update()
}

// unable returns why no runs are taken; nil: some are.
func (r *rests) unable() *runnerapi.Unable {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unableLocked()
}

func (r *rests) unableLocked() *runnerapi.Unable {
	if r.profile.resting() {
		return r.profile.unable()
	}
	var first *runnerapi.Unable
	for agent := range r.agents() {
		own := r.own[agent]
		if !own.resting() {
			return nil
		}
		if u := own.unable(); first == nil || u.Since.Before(first.Since) {
			first = u
		}
	}
	return first
}

// broken returns the agents that rest while others do not, and why.
func (r *rests) broken() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]string{}
	for agent, own := range r.own {
		if own.resting() {
			all[agent] = own.cause.Message
		}
	}
	return all
}

func (r *rest) unable() *runnerapi.Unable {
	u := &runnerapi.Unable{Code: r.cause.Code, Message: r.cause.Message, Since: r.since.UTC()}
	if !r.found {
		u.NextLook = r.next.UTC()
	}
	return u
}

// update pauses or resumes taking. The caller holds mu.
func (r *rests) update() {
	paused := r.unableLocked() != nil
	if paused != r.paused {
		r.paused = paused
		r.changed(paused)
	}
}

// run looks at short intervals until ctx ends.
func (r *rests) run(ctx context.Context) {
	for n := 1; clock.Sleep(ctx, lookEvery); n++ {
		r.look(n%8 == 0)
	}
}

// look checks what rests, and all: everything that a run might need.
func (r *rests) look(all bool) {
	r.endTrial()
	agents := r.agents()
	if len(agents) == 0 {
		r.lookAt("", "", "", all)
		return
	}
	r.lookAt("", "", "", false)
	for agent, hash := range agents {
		r.lookAt(agent, agent, hash, all)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for agent := range r.own {
		if _, ok := agents[agent]; !ok {
			delete(r.own, agent)
		}
	}
	r.update() // agents may have come
}

// endTrial ends a rest if the run that tries the profile has been running for long, and has shown nothing.
func (r *rests) endTrial() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trial && r.profile.tried() && time.Since(r.since) > trialTimeout {
		r.end("")
	}
}

// lookAt looks at the profile (scope "") or an agent.
func (r *rests) lookAt(scope, agent, hash string, all bool) {
	r.mu.Lock()
	at := &r.profile
	if scope != "" {
		at = r.own[scope]
	}
	resting, found := at.resting(), at.resting() && at.found
	r.mu.Unlock()
	if !resting && !all {
		return
	}
	var bad *fault.Fault
	if r.checker != nil && (found || !resting) {
		bad = r.checker.Check(agent, hash)
	}
	files, now := r.files(scope), time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if scope != "" {
		at = r.own[scope]
	}
	switch {
	case bad != nil:
		r.failLocked(scope, bad, true, now)
	case !at.resting():
	case at.found:
		r.end(scope)
	case now.After(at.next) || files != at.files:
		at.cause = nil
		if scope == "" {
			r.trial, r.begun = false, now
		}
		r.update()
	}
}

// files returns the state of the files that may end a rest.
func (r *rests) files(scope string) string {
	if r.checker == nil {
		return ""
	}
	return stateOf(r.checker.Files(scope)...)
}

// stateOf returns a text that changes when one of the files does.
func stateOf(files ...string) string {
	var b strings.Builder
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintln(&b, file, info.ModTime(), info.Mode(), info.Size())
		}
	}
	return b.String()
}
