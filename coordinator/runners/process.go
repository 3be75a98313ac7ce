package runners

import (
	"context"
	"time"

	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// A worker process proves by its secret that it is the registered one; an older worker by its instance. Where the
// server names credentials, it must also come with the one that registered.

// foreign reports whether a request came with another credential than the one that registered the runner.
func foreign(ctx context.Context, r runnerapi.Runner) bool {
	by := bus.CallerOf(ctx).Credential
	return by != "" && r.CredentialID != "" && r.CredentialID != by
}

// setCredential sets the credential that a runner's commands go to, and refuses one that is not the caller's.
func setCredential(ctx context.Context, r *runnerapi.Runner) error {
	if foreign(ctx, *r) {
		return fault.New(fault.Forbidden, "", "door: commands go to the runner's own NATS credential; leave "+
			"door out, or name that one").With("field", "door")
	}
	if by := bus.CallerOf(ctx).Credential; by != "" {
		r.CredentialID = by
	}
	return nil
}

// checkDeregister refuses to deregister the runner of another process.
func checkDeregister(ctx context.Context, r runnerapi.Runner, f runnerapi.Deregistration) error {
	if f.Instance == "" || !r.IsProcess(f.Instance, f.Secret) || foreign(ctx, r) {
		return fault.New(fault.Forbidden, "", "Only the process that registered this runner may deregister it: send "+
			"its instance and secret, with its NATS credential. "+
			"A runner whose process is gone is removed by itself, or by DELETE /runners/{id}").
			With("runner_id", f.RunnerID)
	}
	return nil
}

// Heartbeat notes a heartbeat. superseded: another process has taken over the runner. A heartbeat that does not prove
// to be from the registered process is refused.
func (r *Registry) Heartbeat(ctx context.Context, b runnerapi.Heartbeat) (m runnerapi.Runner, known, superseded bool,
	err error) {
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
	if known && !superseded {
		at.setUnable(r, b.Unable)
	}
	return m, known, superseded, nil
}

// Heard notes that a process was heard. superseded: another process has taken over the runner.
func (r *Registry) Heard(id, instance string) (m runnerapi.Runner, known, superseded bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heardLocked(id, instance, false)
}

// heardLocked is Heard for a caller that holds mu. A runner that left is unknown, also while it finishes its runs.
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
	before := at.standing(r)
	at.heard, at.reportsDraining = time.Now(), draining
	at.changed(r, before)
	return at.Runner, true, false
}

// setUnable notes what a heartbeat says of the runner's profile. The caller holds mu.
func (m *member) setUnable(r *Registry, u *runnerapi.Unable) {
	before := m.standing(r)
	m.unable = u
	m.changed(r, before)
}

// changed tells others if the runner takes runs again, or no more. The caller holds mu.
func (m *member) changed(r *Registry, before runnerapi.Standing) {
	now := m.standing(r)
	if before.Shown() == now.Shown() {
		return
	}
	r.dropCache()
	if now.TakesRuns() {
		r.changes.Add(1)
		r.cfg.Changed()
	}
}

// Proven reports whether a reply that has the registered process's instance also has its secret. Replies of earlier
// processes count as proven.
func (r *Registry) Proven(id string, reply runnerapi.CommandReply) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.members[id]
	return m == nil || m.Instance != reply.Instance || m.IsReplyOf(reply)
}
