package coordinator

import (
	"fmt"
	"slices"
	"time"

	"ao/shared/fault"
	"ao/shared/run"
)

// affinity is what the session's next run demands of its own (contract section 5): the folder, and where the executor keeps the
// session on one host alone, that host and profile.
func (c *Coordinator) affinity(session, dir string) run.Demands {
	home := c.Journal.Home(session)
	home.ProjectDir = dir
	return home
}

// atHome tells, before a resume is accepted, whether there is any runner where the session can go on. One that was there a moment
// ago may come back, so that the run may wait for it; waitingFor says so.
func (c *Coordinator) atHome(session string) error {
	home := c.Journal.Home(session)
	if home.Hostname == "" || c.fleet.seen(home, c.NoMatch) {
		return nil
	}
	return fault.New(fault.Conflict, "session_host_gone", fmt.Sprintf("The model side of session %s is on host %q (profile %q) alone, and no runner has been there for %s; "+
		"start a worker with that profile there and send this again, or start a new session", session, home.Hostname, home.ExecutorProfile, c.NoMatch)).
		With("session_id", session).With("hostname", home.Hostname).With("executor_profile", home.ExecutorProfile)
}

// MayCome tells whether a refusal may be over without anybody's doing: an agent is not there, and not so long ago that a run would not wait
// for it a runner left that may be back with it, or this process began, before its runners were back.
func (c *Coordinator) MayCome(err error) bool {
	f := fault.Of(err)
	unknown := f.Kind == fault.NotFound && slices.ContainsFunc(f.Fields, func(f fault.Field) bool { return f.Name == "agent_name" })
	return err != nil && unknown && !c.fleet.calm(c.NoMatch)
}

// calm tells whether no runner has left for a time, nor this process begun.
func (r *roster) calm(since time.Duration) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, left := range r.left {
		if time.Since(left) < since {
			return false
		}
	}
	return time.Since(r.began) >= since
}

// leaves notes that a runner left; its host and profile are remembered for as long as a run may wait for it.
func (r *roster) leaves(m *member) {
	now := time.Now()
	for at, left := range r.left {
		if now.Sub(left) > r.c.NoMatch {
			delete(r.left, at)
		}
	}
	r.left[[2]string{m.Hostname, m.ExecutorProfile}] = now
}

// seen tells whether a runner is on this host with this profile, or was within the time before, as far as this process can know.
func (r *roster) seen(home run.Demands, within time.Duration) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, m := range r.members {
		if m.Hostname == home.Hostname && m.ExecutorProfile == home.ExecutorProfile {
			return true
		}
	}
	left, ok := r.left[[2]string{home.Hostname, home.ExecutorProfile}]
	return ok && time.Since(left) < within || time.Since(r.began) < within
}
