package workerapi

import (
	"context"
	"sync"
	"time"

	"ao/coordinator/audit"
	"ao/coordinator/projection/state"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

// Heartbeats answers the heartbeats of workers.
type Heartbeats struct {
	History interface {
		Active(id string) (state.Active, bool)
		Ended(id string) bool
		IsDeleted(session string) bool
		Idle(runner string, sessions []string)
		Started(run, key string, at time.Time)
		Confirmed() bool
	}
	Hearing interface {
		Heard(key string, at time.Time, early bool)
	}
	// notes the heartbeat
	Runner func(ctx context.Context, b runnerapi.Heartbeat) (r runnerapi.Runner, known, superseded bool, err error)
	// notes the runner's clock
	Tick func(runner string, at time.Time)
	// reads a registration again
	Refresh   func(ctx context.Context, runner string) (rev uint64, err error)
	Queues    func(r runnerapi.Runner) []string
	Unused    func(r runnerapi.Runner) []string // older definitions that no accepted run carries
	AttemptOf func(a state.Active, key string) int
	CatchUp   func(ctx context.Context) error // waits until the projection has what NATS has
	Versions  func() (records, events int)    // that workers may write
	APIURL    string
}

// Heartbeat notes the attempts that are alive, and returns what the worker should know. A heartbeat that does not prove
// its process is refused.
func (b *Heartbeats) Heartbeat(ctx context.Context, beat runnerapi.Heartbeat) (runnerapi.HeartbeatReply, error) {
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
	if known && !superseded { // of other processes only their attempts count
		b.Tick(beat.RunnerID, beat.At)
		reply.TaskQueues, reply.Unused = b.Queues(r), b.Unused(r)
		b.History.Idle(beat.RunnerID, beat.Idle)
		for _, session := range beat.Idle {
			if b.History.IsDeleted(session) {
				reply.Forget = append(reply.Forget, session)
			}
		}
	}
	current := sync.OnceValue(func() bool { // whether the projection has what NATS has
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

// runner notes whose heartbeat it is. A process that seems superseded may be the successor, so the registration is read
// again: a worker that is told so ends.
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

// attempt notes an attempt as alive. abandoned or stop say what its worker must do.
func (b *Heartbeats) attempt(at runnerapi.Attempt, instance string, now time.Time, current func() bool) (abandoned,
	stop bool) {
	a, ok := b.History.Active(at.RunID)
	if !ok {
		return b.History.Ended(at.RunID), false
	}
	switch n := b.AttemptOf(a, at.Key); {
	case n > 0 && n < a.AttemptNumber(), b.heldByOther(at, instance, current):
		return true, false
	case n == 0: // a key that was never handed out
		return false, false
	}
	b.Hearing.Heard(at.Key, now, a.Claim == nil)
	if at.StartedAt != nil {
		b.History.Started(at.RunID, at.Key, *at.StartedAt)
	}
	return false, a.Stopping && a.UnverifiedSeq == 0
}

// heldByOther reports whether a run was claimed under another key or by another process. The projection must be current
// to say so, since it may not have read this worker's claim yet.
func (b *Heartbeats) heldByOther(at runnerapi.Attempt, instance string, current func() bool) bool {
	is := func() bool {
		a, ok := b.History.Active(at.RunID)
		return ok && a.Claim != nil && (a.Key != at.Key || a.Claim.Instance != instance)
	}
	return is() && current() && is() && b.History.Confirmed()
}

// handleHeartbeat answers a heartbeat. It must come on its runner's own subject.
func (s *Service) handleHeartbeat(ctx context.Context, subj string, body []byte) ([]byte, error) {
	b, err := runnerapi.ReadHeartbeat(body)
	if err != nil {
		return nil, err
	}
	reply, err := s.heartbeat(ctx, subj, b)
	if fault.KindOf(err) == fault.Forbidden {
		s.record(ctx, audit.Heartbeat, "", claimedIdentity{runner: b.RunnerID}, err)
	}
	if err != nil {
		return nil, err
	}
	return strictjson.Encode(reply)
}

func (s *Service) heartbeat(ctx context.Context, subj string, b runnerapi.Heartbeat) (runnerapi.HeartbeatReply, error) {
	if err := runnerapi.CheckID(b.RunnerID); err != nil {
		return runnerapi.HeartbeatReply{}, err
	}
	if subj != subject.Heartbeats(b.RunnerID) {
		return runnerapi.HeartbeatReply{}, fault.Newf(fault.Forbidden, "A heartbeat of this runner is sent to %s",
			subject.Heartbeats(b.RunnerID))
	}
	return s.Heartbeats.Heartbeat(ctx, b)
}
