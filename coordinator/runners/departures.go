package runners

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"ao/coordinator/agents"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Departures is which runners left, for as long as a run may wait for one.
type Departures struct {
	within    time.Duration // so long
	StartedAt time.Time     // this process did, and may have before its runners were back

	mu     sync.Mutex
	hosts  map[[2]string]time.Time // by host and profile: when a runner left
	agents map[string]time.Time    // by the names of its agents: likewise
}

// add notes that a runner left, with its host and profile, and its agents.
func (d *Departures) add(r runnerapi.Runner) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(d.hosts, func(_ [2]string, at time.Time) bool { return now.Sub(at) > d.within })
	maps.DeleteFunc(d.agents, func(_ string, at time.Time) bool { return now.Sub(at) > d.within })
	for name := range r.AgentHashes {
		d.agents[name] = now
	}
	d.hosts[[2]string{r.Hostname, r.ExecutorProfile}] = now
}

// justStarted tells whether this process began a moment ago.
func (d *Departures) justStarted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.StartedAt) < d.within
}

// announced tells whether a runner that announced an agent left a moment ago.
func (d *Departures) announced(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.agents[name]) < d.within
}

// leftHost tells whether a runner left this host with this profile within the time before, or may have before this process
// knew.
func (d *Departures) leftHost(home run.Demands, within time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	left, ok := d.hosts[[2]string{home.Hostname, home.ExecutorProfile}]
	return ok && time.Since(left) < within || time.Since(d.StartedAt) < within
}

// Temporary tells whether a refusal may be over without anybody's doing: there is no such agent, and a runner that had it
// left no longer ago than a run would wait for it (RUN_NO_MATCH_TIMEOUT), or this process began then, and may have
// begun before its runners were back.
func (d *Departures) Temporary(err error) bool {
	if !errors.Is(err, agents.ErrNone) {
		return false
	}
	return d.justStarted() || slices.ContainsFunc(fault.Of(err).Fields, func(f fault.Field) bool {
		name, _ := f.Value.(string)
		return f.Name == "agent_name" && d.announced(name)
	})
}
