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

// Why an attempt's executor was ended.
var (
	errFenced     = errors.New("heartbeats were not answered for nearly a lease and the run may be attempted again")
	errStopped    = errors.New("stopped")
	errAbandoned  = errors.New("abandoned by the coordinator")
	errShutdown   = errors.New("the worker shuts down")
	errSuperseded = errors.New("another process has registered as this runner (same hostname, project_dir and profile)")
)

// attempt is an attempt delivered to this worker. The lock of attempts guards the fields of guarded.
type attempt struct {
	run.Queued
	partition     string
	ctx           context.Context // ends, with a cause, when the executor must end
	cancel        context.CancelCauseFunc
	killed        chan struct{} // closed when the executor must be killed without grace
	killing       sync.Once
	inputErr      *fault.Fault // the input can never be read; fails the run
	span          trace.Span
	recordCtx     context.Context // ends with the worker, or when the attempt is abandoned: no more records
	cancelRecords context.CancelCauseFunc

	guarded struct {
		claimed   bool       // its claim is committed
		started   *time.Time // when its executor started
		finished  bool       // its executor has returned
		lastAcked time.Time  // when a coordinator last acknowledged it; zero: never
	}
}

// LogValue keeps keys and parameters out of logs.
func (a *attempt) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", a.ID), slog.String("agent", a.Agent), slog.Int("attempt", a.Attempt))
}

// kill ends the attempt's executor without grace.
func (a *attempt) kill() { a.killing.Do(func() { close(a.killed) }) }

// discard ends the attempt's executor and all its records. Where the next attempt may have started, the executor is
// killed.
func (a *attempt) discard(why error) {
	a.cancelRecords(why)
	a.cancel(why)
	if a.AllowsRetry(a.Attempt) {
		a.kill()
	}
}

type attempts struct {
	mu  sync.Mutex
	all map[string]*attempt // by key
}

// add makes the attempt of a key. If it exists already, add returns nil and whether that attempt is claimed.
func (s *attempts) add(key string, make func() *attempt) (a *attempt, claimed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := s.all[key]; there != nil {
		return nil, there.guarded.claimed
	}
	a = make()
	s.all[key] = a
	return a, false
}

// forget releases an attempt and everything that waits for it.
func (s *attempts) forget(a *attempt) {
	a.cancel(nil)
	a.kill()
	a.cancelRecords(nil)
	s.mu.Lock()
	delete(s.all, a.Key)
	s.mu.Unlock()
}

// markClaimed records that the attempt's claim is committed.
func (s *attempts) markClaimed(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.guarded.claimed = true
}

// markStarted records that the attempt's executor starts now.
func (s *attempts) markStarted(a *attempt) {
	now := time.Now().UTC()
	s.mu.Lock()
	defer s.mu.Unlock()
	a.guarded.started = &now
}

// startedAt returns when the attempt's executor started; nil: never.
func (s *attempts) startedAt(a *attempt) *time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.guarded.started
}

// markFinished records that the attempt's executor has returned.
func (s *attempts) markFinished(a *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.guarded.finished = true
}

func (s *attempts) listClaimed() []runnerapi.Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]runnerapi.Attempt, 0, len(s.all))
	for key, a := range s.all {
		if a.guarded.claimed {
			all = append(all, runnerapi.Attempt{RunID: a.ID, SessionID: a.SessionID, Key: key,
				StartedAt: a.guarded.started})
		}
	}
	return all
}

// runIDs lists the ids of at most 10 running runs.
func (s *attempts) runIDs() []string {
	var ids []string
	for _, a := range s.listClaimed() {
		ids = append(ids, a.RunID)
	}
	slices.Sort(ids)
	return ids[:min(len(ids), 10)]
}

// has reports whether an attempt is here, claimed or about to be.
func (s *attempts) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key] != nil
}

// stop ends an attempt's executor. Its end record says that it was stopped, unless it had ended by itself.
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

// abandon kills an attempt that has ended for the coordinator, which would refuse its end record. An attempt whose
// executor has returned is left alone: its end record is under way, and the stream decides. Nil: there was nothing to
// kill.
func (s *attempts) abandon(key string) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.all[key]
	if a == nil || a.guarded.finished || a.recordCtx.Err() != nil {
		return nil
	}
	a.discard(errAbandoned)
	return a
}

// markAcked records that a coordinator knows these attempts. sent is when the heartbeat was sent, never later than
// its receipt.
func (s *attempts) markAcked(named []runnerapi.Attempt, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range named {
		if a := s.all[n.Key]; a != nil && a.guarded.lastAcked.Before(sent) {
			a.guarded.lastAcked = sent
		}
	}
}

// fence kills the attempts that no coordinator acknowledged within limit and whose run may be attempted again. It
// reports each.
func (s *attempts) fence(now time.Time, limit time.Duration, report func(a *attempt, silent time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all {
		silent := now.Sub(a.guarded.lastAcked)
		if !a.AllowsRetry(a.Attempt) || a.guarded.finished || a.guarded.lastAcked.IsZero() || silent < limit ||
			a.recordCtx.Err() != nil {
			continue
		}
		a.discard(errFenced)
		report(a, silent)
	}
}

// endAll ends every executor for this reason. wanted: their end records are still appended.
func (s *attempts) endAll(why error, wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.all {
		if wanted {
			a.cancel(why)
		} else {
			a.discard(why)
		}
	}
}
