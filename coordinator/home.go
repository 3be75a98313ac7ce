package coordinator

import (
	"errors"
	"fmt"
	"maps"
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

// errNoAgent is the cause of the refusal of a run whose agent is not known at all.
var errNoAgent = errors.New("no such agent")

// MayCome tells whether a refusal may be over without anybody's doing: there is no such agent, and a runner that had it left no longer ago
// than a run would wait for it (RUN_NO_MATCH_TIMEOUT), or this process began then, and may have begun before its runners were back.
func (c *Coordinator) MayCome(err error) bool {
	if !errors.Is(err, errNoAgent) {
		return false
	}
	return time.Since(c.fleet.began) < c.NoMatch || slices.ContainsFunc(fault.Of(err).Fields, func(f fault.Field) bool {
		name, _ := f.Value.(string)
		return f.Name == "agent_name" && c.fleet.had(name, c.NoMatch)
	})
}

// leaves notes that a runner left; its host and profile, and its agents, are remembered for as long as a run may wait for it.
func (r *roster) leaves(m *member) {
	now := time.Now()
	maps.DeleteFunc(r.left, func(_ [2]string, at time.Time) bool { return now.Sub(at) > r.c.NoMatch })
	maps.DeleteFunc(r.gone, func(_ string, at time.Time) bool { return now.Sub(at) > r.c.NoMatch })
	for name := range m.Set {
		r.gone[name] = now
	}
	r.left[[2]string{m.Hostname, m.ExecutorProfile}] = now
}

// had tells whether a runner that announced an agent left within the time before.
func (r *roster) had(name string, within time.Duration) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return time.Since(r.gone[name]) < within
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
