package runners

import (
	"context"
	"time"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// What a worker process may do to a registration: it proves to be the registered process by its secret, an older one by
// its instance, and comes with the credential that registered, where the server says whose that is.

// foreign reports whether a request came with another credential than the runner registered with, as the server says
// it.
func foreign(ctx context.Context, r runnerapi.Runner) bool {
	by := bus.CallerOf(ctx).Credential
	return by != "" && r.CredentialID != "" && r.CredentialID != by
}

// setCredential refuses a registration that wants its commands sent to another credential, and fills in its own where it
// names none.
func setCredential(ctx context.Context, r *runnerapi.Runner) error {
	if foreign(ctx, *r) {
		return fault.New(fault.Forbidden, "", "door: a runner is told its commands at its own NATS credential; leave "+
			"door out, or name that").With("field", "door")
	}
	if by := bus.CallerOf(ctx).Credential; by != "" {
		r.CredentialID = by
	}
	return nil
}

// checkDeregister refuses who deregisters another's runner.
func checkDeregister(ctx context.Context, r runnerapi.Runner, f runnerapi.Deregistration) error {
	if f.Instance == "" || !r.IsProcess(f.Instance, f.Secret) || foreign(ctx, r) {
		return fault.New(fault.Forbidden, "", "Only the process that registered this runner may deregister it: send "+
			"its instance and secret, with its NATS credential. "+
			"A runner whose process is gone is removed by itself, or by DELETE /runners/{id}").
			With("runner_id", f.RunnerID)
	}
	return nil
}

// Heartbeat notes that a runner's process was heard. Superseded: another process is that runner. A request that says to be
// the registered process, and does not prove it, is refused.
func (r *Registry) Heartbeat(ctx context.Context, b runnerapi.Heartbeat) (m runnerapi.Runner, known, superseded bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.members[b.RunnerID]
	if ok && at.Instance == b.Instance {
		if !at.IsProcess(b.Instance, b.Secret) || foreign(ctx, at.Runner) {
			return m, true, false, fault.New(fault.Forbidden, "", "Only the process that registered this runner may "+
				"send its heartbeats: with its secret, and its NATS credential").With("runner_id", b.RunnerID)
		}
		at.unnamed = bus.CallerOf(ctx).Unnamed
	}
	m, known, superseded = r.heardLocked(b.RunnerID, b.Instance, b.Draining)
	return m, known, superseded, nil
}

// Heard notes that a runner's process was heard. Superseded: another process is that runner.
func (r *Registry) Heard(id, instance string) (m runnerapi.Runner, known, superseded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heardLocked(id, instance, false)
}

// heardLocked is heard for who holds mu. A runner that left is known no more, also where it still finishes.
func (r *Registry) heardLocked(id, instance string, draining bool) (m runnerapi.Runner, known, superseded bool) {
	at, ok := r.members[id]
	switch {
	case !ok:
		return m, false, false
	case at.Instance != instance:
		return at.Runner, at.LeftAt.IsZero(), at.LeftAt.IsZero()
	case !at.LeftAt.IsZero():
		if draining {
			at.heard = time.Now()
		}
		return at.Runner, false, false
	}
	if at.status(r) != runnerapi.Online || draining != at.reportsDraining {
		r.dropCache()
	}
	at.heard, at.reportsDraining = time.Now(), draining
	return at.Runner, true, false
}

// Proven reports whether a reply that has the registered process's instance has its secret, too. What an earlier
// process of the runner says cannot be proven any more.
func (r *Registry) Proven(id string, reply runnerapi.CommandReply) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.members[id]
	return m == nil || m.Instance != reply.Instance || m.IsReplyOf(reply)
}
