package coordinator

import (
	"errors"
	"fmt"
	"slices"

	"ao/coordinator/agents"
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

// MayCome tells whether a refusal may be over without anybody's doing: there is no such agent, and a runner that had it left no longer ago
// than a run would wait for it (RUN_NO_MATCH_TIMEOUT), or this process began then, and may have begun before its runners were back.
func (c *Coordinator) MayCome(err error) bool {
	if !errors.Is(err, agents.ErrNone) {
		return false
	}
	return c.fleet.departed.young() || slices.ContainsFunc(fault.Of(err).Fields, func(f fault.Field) bool {
		name, _ := f.Value.(string)
		return f.Name == "agent_name" && c.fleet.departed.had(name)
	})
}
