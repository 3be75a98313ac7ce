package worker

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"ao/shared/metric"
	"ao/shared/runnerapi"
	"ao/worker/program"
)

// heartbeater sends heartbeats, which say that the worker is alive and name its attempts.
type heartbeater struct {
	client   *client
	remote   *remoteSettings
	attempts *attempts
	sessions *program.Pool
	shutdown *shutdown
	unable   func() *runnerapi.Unable // why no runs are taken; nil: some are
	obey     func(runnerapi.HeartbeatReply)
	log      *slog.Logger

	wake chan struct{} // send a heartbeat now
}

// sendNow makes the next heartbeat be sent immediately.
func (p *heartbeater) sendNow() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run sends heartbeats until ctx ends. It counts answered and unanswered ones.
func (p *heartbeater) run(ctx context.Context, answered, unanswered *metric.Counter) {
	silent := false
	for {
		t := time.NewTimer(p.remote.heartbeatInterval())
		select {
		case <-t.C:
		case <-p.wake:
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return
		}
		switch err := p.sendAll(ctx); {
		case err == nil:
			answered.Inc()
			silent = false
		case ctx.Err() != nil:
		default:
			unanswered.Inc()
			if !silent {
				silent = true
				p.log.Warn("heartbeat not answered", "err", err)
			}
		}
	}
}

// sendAll names all claimed attempts and obeys the replies.
func (p *heartbeater) sendAll(ctx context.Context) error {
	all := p.attempts.listClaimed()
	if len(all) == 0 {
		return p.send(ctx, nil)
	}
	for some := range slices.Chunk(all, runnerapi.MaxHeartbeatAttempts) {
		if err := p.send(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

func (p *heartbeater) send(ctx context.Context, attempts []runnerapi.Attempt) error {
	ctx, cancel := context.WithTimeout(ctx, max(p.remote.heartbeatInterval(), time.Second))
	defer cancel()
	sent, idle := time.Now(), p.sessions.Sessions()
	r, err := p.client.heartbeat(ctx, runnerapi.Heartbeat{Attempts: attempts,
		Idle: idle[:min(len(idle), runnerapi.MaxHeartbeatIdle)], Draining: p.shutdown.stopping.Load(),
		Unable: p.unable()})
	if err != nil {
		return err
	}
	p.attempts.markAcked(attempts, sent)
	p.remote.applyHeartbeat(r)
	p.obey(r)
	return nil
}

func (w *Worker) obey(r runnerapi.HeartbeatReply) {
	leaving := w.shutdown.stopping.Load() // a successor may be registered already; abandoned attempts are named
	for _, key := range r.Abandoned {
		w.abandon(key)
	}
	for _, key := range r.Stop {
		w.attempts.stop(key)
	}
	w.sessions.Forget(r.Forget)
	w.definitions.dropUnused(r.Unused)
	switch {
	case r.Superseded && !leaving:
		w.shutdown.fail(errSuperseded)
	case r.Drain && r.Known:
		w.shutdown.requestDrain()
	case !r.Known && !leaving:
		w.reregister()
	case r.Known && !r.Superseded && !leaving:
		w.queues.set(r.TaskQueues)
	}
}

// abandon kills an attempt that has ended for the coordinator.
func (w *Worker) abandon(key string) {
	if a := w.attempts.abandon(key); a != nil {
		w.counts.abandoned.Add(1)
		w.log.Warn("attempt abandoned by the coordinator, killing its executor", "run", a)
	}
}
