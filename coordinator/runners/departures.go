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

// Departures remembers which runners left, as long as a run may wait for one. It is safe for concurrent use.
type Departures struct {
	within    time.Duration // how long a departure is remembered
	StartedAt time.Time     // of this process; runners may have left before

	mu     sync.Mutex
	hosts  map[[2]string]time.Time // when a runner left, by host and profile
	agents map[string]time.Time    // when a runner left, by the names of its agents
}

// add remembers that a runner left.
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

// justStarted reports whether this process started less than d.within ago.
func (d *Departures) justStarted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.StartedAt) < d.within
}

// announced reports whether a runner that announced an agent left less than d.within ago.
func (d *Departures) announced(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.agents[name]) < d.within
}

// leftHost reports whether a runner with this host and profile left within the given time, or may have done so before
// this process started.
func (d *Departures) leftHost(home run.Demands, within time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	left, ok := d.hosts[[2]string{home.Hostname, home.ExecutorProfile}]
	return ok && time.Since(left) < within || time.Since(d.StartedAt) < within
}

// Temporary reports whether a "no such agent" error may go away by itself. Either a runner that announced the agent
// left less than RUN_NO_MATCH_TIMEOUT ago. Or this process started less than that ago, and its runners may not be back
// yet.
func (d *Departures) Temporary(err error) bool {
	if _, ok := errors.AsType[*agents.None](err); !ok {
		return false
	}
	return d.justStarted() || slices.ContainsFunc(fault.Of(err).Fields, func(f fault.Field) bool {
		name, _ := f.Value.(string)
		return f.Name == "agent_name" && d.announced(name)
	})
}
