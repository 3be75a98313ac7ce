package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/trace"
)

// Why an attempt's executor is ended.
var (
	errFenced     = errors.New("killed, as heartbeats were not answered for nearly a lease and the run may be attempted again")
	errStopped    = errors.New("stopped")
	errGivenUp    = errors.New("given up by the coordinator")
	errShutdown   = errors.New("the worker ends")
	errSuperseded = errors.New("another process is this runner now (same hostname, project_dir and profile); this one ends")
)

// attempt is one that was handed to this worker. What stands below guarded changes, and is guarded by the lock of attempts.
type attempt struct {
	run.Queued
	partition string
	ctx       context.Context // ends, with a cause, when the executor is to end
	cancel    context.CancelCauseFunc
	killed    context.Context // ends when the executor is to be killed at once, whatever grace it is in
	kill      context.CancelFunc
	unread    *fault.Fault // its input can never be read; the run fails by that
	span      trace.Span
	wanted    context.Context // ends with the worker, or when the coordinator gave the attempt up: no last word is wanted
	unwant    context.CancelCauseFunc

	guarded struct {
		begun   bool       // the claim stands
		started *time.Time // its executor runs since
		over    bool       // its executor has ended
		heard   time.Time  // a coordinator surely knew of it then; zero: not known yet
	}
}

// LogValue keeps keys and parameters out of logs.
func (a *attempt) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", a.ID), slog.String("agent", a.Agent), slog.Int("attempt", a.Attempt))
}

// drop ends the attempt's executor for a reason that makes its last word unwanted. Where the next attempt may have begun, it
// is killed.
func (a *attempt) drop(why error) {
	a.unwant(why)
	a.cancel(why)
	if a.Again(a.Attempt) {
		a.kill()
	}
}

// attempts are those that were handed to this worker and are not forgotten.
type attempts struct {
	mu  sync.Mutex
	all map[string]*attempt // by key
}

// add makes the attempt of a key. Where it is here already it gives nil, and whether that one is begun.
func (s *attempts) add(key string, make func() *attempt) (a *attempt, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := s.all[key]; there != nil {
		return nil, there.guarded.begun
	}
	a = make()
	s.all[key] = a
	return a, false
}

// forget ends what waits for an attempt, and forgets it.
func (s *attempts) forget(a *attempt) {
	a.cancel(nil)
	a.kill()
	a.unwant(nil)
	s.mu.Lock()
	delete(s.all, a.Key)
	s.mu.Unlock()
}

// begin notes that an attempt's claim stands.
func (s *attempts) begin(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.guarded.begun = true
}

// start notes that an attempt's executor runs from now on.
func (s *attempts) start(a *attempt) {
	now := time.Now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	a.guarded.started = &now
}

// started is when an attempt's executor began to run; nil: it never did.
func (s *attempts) started(a *attempt) *time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.guarded.started
}

// done notes that an attempt's executor has ended.
func (s *attempts) done(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.guarded.over = true
}

// alive lists the attempts begun here and not forgotten, for a beat.
func (s *attempts) alive() []runnerapi.Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]runnerapi.Attempt, 0, len(s.all))
	for key, a := range s.all {
		if a.guarded.begun {
			all = append(all, runnerapi.Attempt{RunID: a.ID, SessionID: a.SessionID, Key: key, StartedAt: a.guarded.started})
		}
	}
	return all
}

// running lists some of the runs that are waited for.
func (s *attempts) running() []string {
	var ids []string
	for _, a := range s.alive() {
		ids = append(ids, a.RunID)
	}
	slices.Sort(ids)
	return ids[:min(len(ids), 10)]
}

// has tells whether an attempt is here, begun or about to be.
func (s *attempts) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key] != nil
}

// stop ends an attempt's executor; its last word says that it was stopped, unless it had ended by itself.
func (s *attempts) stop(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.all[key]
	if a == nil {
		return false
	}
	a.cancel(errStopped)
	return true
}

// giveUp kills an attempt that is over for the coordinator; a last word would be refused. One whose executor is done is
// left alone: its last word is on its way, or stands already, and the stream says which. Nil: there was nothing to kill.
func (s *attempts) giveUp(key string) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.all[key]
	if a == nil || a.guarded.over || a.wanted.Err() != nil {
		return nil
	}
	a.drop(errGivenUp)
	return a
}

// heard notes that a coordinator knows of these attempts. sent is when it was told of them, which cannot be later than when
// it heard.
func (s *attempts) heard(named []runnerapi.Attempt, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range named {
		if a := s.all[n.Key]; a != nil && a.guarded.heard.Before(sent) {
			a.guarded.heard = sent
		}
	}
}

// fence kills the attempts that nobody has answered for since so long and whose run may be attempted again, and tells of each.
func (s *attempts) fence(now time.Time, limit time.Duration, tell func(a *attempt, silent time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all {
		silent := now.Sub(a.guarded.heard)
		if !a.Again(a.Attempt) || a.guarded.over || a.guarded.heard.IsZero() || silent < limit || a.wanted.Err() != nil {
			continue
		}
		a.drop(errFenced)
		tell(a, silent)
	}
}

// abandon ends every executor for this reason. wanted: their last words are.
func (s *attempts) abandon(why error, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all {
		if wanted {
			a.cancel(why)
		} else {
			a.drop(why)
		}
	}
}
