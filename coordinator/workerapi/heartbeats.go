package workerapi

import (
	"context"
	"sync"
	"time"

	"ao/coordinator/projection"
	"ao/shared/runnerapi"
)

// Heartbeats answers the heartbeats of workers.
type Heartbeats struct {
	History interface {
		Active(id string) (projection.Active, bool)
		Ended(id string) bool
		IsDeleted(session string) bool
		Idle(runner string, sessions []string)
		Started(run, key string, at time.Time)
		Confirmed() bool
	}
	Hearing interface {
		Heard(key string, at time.Time, early bool)
	}
	// that it was heard is noted
	Runner func(ctx context.Context, b runnerapi.Heartbeat) (r runnerapi.Runner, known, superseded bool, err error)
	// what its clock says
	Tick func(runner string, at time.Time)
	// reads a registration anew
	Refresh   func(ctx context.Context, runner string) (rev uint64, err error)
	Queues    func(r runnerapi.Runner) []string
	AttemptOf func(a projection.Active, key string) int
	CatchUp   func(ctx context.Context) error // waits until the fold has what NATS has
	Versions  func() (records, events int)    // that workers may write
	APIURL    string
}

// Beat notes the attempts alive, and tells the worker what it does not know. Who only says to be that worker is
// refused.
func (b *Heartbeats) Beat(ctx context.Context, beat runnerapi.Heartbeat) (runnerapi.HeartbeatReply, error) {
	now := time.Now()
	r, known, superseded, err := b.runner(ctx, beat)
	if err != nil {
		return runnerapi.HeartbeatReply{}, err
	}
	records, events := b.Versions()
	reply := runnerapi.HeartbeatReply{
		Known: known || beat.Draining, Superseded: superseded, Drain: r.Draining, APIURL: b.APIURL,
		RecordVersion: records, EventVersion: events,
	}
	if known && !superseded { // of others nothing is kept but the attempts that they prove to have
		b.Tick(beat.RunnerID, beat.At)
		reply.TaskQueues = b.Queues(r)
		b.History.Idle(beat.RunnerID, beat.Idle)
		for _, session := range beat.Idle {
			if b.History.IsDeleted(session) {
				reply.Forget = append(reply.Forget, session)
			}
		}
	}
	current := sync.OnceValue(func() bool { // has the fold what NATS has?
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return b.CatchUp(ctx) == nil
	})
	for _, at := range beat.Attempts {
		switch abandoned, stop := b.attempt(at, beat.Instance, now, current); {
		case abandoned:
			reply.Abandoned = append(reply.Abandoned, at.Key)
		case stop:
			reply.Stop = append(reply.Stop, at.Key)
		}
	}
	return reply, nil
}

// runner looks for whose heartbeat it is. One that seems superseded may be the successor, and that is not known here
// yet: who is sent away wrongly ends.
func (b *Heartbeats) runner(ctx context.Context, beat runnerapi.Heartbeat) (r runnerapi.Runner, known, superseded bool,
	err error) {
	r, known, superseded, err = b.Runner(ctx, beat)
	if !superseded {
		return r, known, false, err
	}
	if _, unread := b.Refresh(ctx, beat.RunnerID); unread != nil {
		return r, known, false, err
	}
	return b.Runner(ctx, beat)
}

// attempt notes one that is alive, and says what its worker is to do with it.
func (b *Heartbeats) attempt(at runnerapi.Attempt, instance string, now time.Time, current func() bool) (abandoned,
	stop bool) {
	a, ok := b.History.Active(at.RunID)
	if !ok {
		return b.History.Ended(at.RunID), false
	}
	switch n := b.AttemptOf(a, at.Key); {
	case n > 0 && n < a.AttemptNumber(), b.heldByOther(at, instance, current):
		return true, false
	case n == 0: // a key that nobody was handed: nothing is kept of it
		return false, false
	}
	b.Hearing.Heard(at.Key, now, a.Claim == nil)
	if at.StartedAt != nil {
		b.History.Started(at.RunID, at.Key, *at.StartedAt)
	}
	return false, a.Stopping && a.UnverifiedSeq == 0
}

// heldByOther tells whether a run has been begun under another key, or by another process, by the history as NATS has it
// now: a fold that is behind may not have read yet what a worker has begun.
func (b *Heartbeats) heldByOther(at runnerapi.Attempt, instance string, current func() bool) bool {
	is := func() bool {
		a, ok := b.History.Active(at.RunID)
		return ok && a.Claim != nil && (a.Key != at.Key || a.Claim.Instance != instance)
	}
	return is() && current() && is() && b.History.Confirmed()
}
