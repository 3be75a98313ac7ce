package agents

import (
	"encoding/json"
	"slices"

	"ao/shared/agent"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// Resolved is an agent with what its owner adds. Nobody changes one: all runs of the agent share it.
type Resolved struct {
	agent.Blueprint
	Owners         map[string]string // runner-owned: the agent set of the owner; who announced exactly these may run it
	Profile        string            // likewise its profile
	ProfileTimeout int               // and the profile's upper bound, seconds
	Online         bool              // likewise: a runner that has it is online

	file  *ownFile        // that defines it; nil: there is none
	raw   json.RawMessage // the blueprint as a run carries it, where it was made before
	queue string          // of runs that ask for nothing beyond it; likewise
}

// Announced is an agent that a runner announced.
func Announced(b agent.Blueprint, by runnerapi.Runner, id string, online bool) *Resolved {
	b.RunnerID = id
	return (&Resolved{Blueprint: b, Owners: by.AgentHashes, Profile: by.ExecutorProfile, ProfileTimeout: by.TimeoutSeconds,
		Online: online}).precomputed()
}

// defined is an agent of the coordinators' own; file defines it, nil: it came over the API.
func defined(b agent.Blueprint, file *ownFile) *Resolved {
	return (&Resolved{Blueprint: b, file: file}).precomputed()
}

// precomputed works out once what every run of the agent needs of it.
func (k *Resolved) precomputed() *Resolved {
	k.raw, _ = k.Snapshot() // it was read from JSON
	k.queue = k.Want(k.MergedDemands(run.Demands{})).TaskQueue()
	return k
}

// WithRunners is the definition as readers see it, with how many online runners have it.
func (k *Resolved) WithRunners(runners int) agent.Blueprint {
	b := k.Blueprint
	b.Runners = &runners
	return b
}

// Snapshot is the blueprint as a run carries it.
func (k *Resolved) Snapshot() (json.RawMessage, error) {
	if k.raw != nil {
		return k.raw, nil
	}
	return json.Marshal(k.Blueprint)
}

func (k *Resolved) ownerDemands() run.Demands {
	if k.Owners == nil {
		return run.Demands{}
	}
	return run.Demands{ExecutorProfile: k.Profile, ExecutorType: k.Type}
}

// MergedDemands is what a run of the agent demands, which asks for these itself; first are demands that come before the
// agent's own.
func (k *Resolved) MergedDemands(first run.Demands, also ...run.Demands) run.Demands {
	d := run.Merge(k.ownerDemands(), first, run.Demands{ExecutorProfile: k.ExecutorProfile})
	if k.Demands != nil {
		d = run.Merge(d, *k.Demands)
	}
	for _, more := range also {
		d = run.Merge(d, more)
	}
	return d
}

// Want is what a run with these demands wants of a runner.
func (k *Resolved) Want(d run.Demands) runnerapi.RoutingKey {
	return runnerapi.NewRoutingKey(k.Type, d, k.Owners)
}

// QueueOf is the lane of a run that wants this, which is the agent's own where the run asked for nothing.
func (k *Resolved) QueueOf(w runnerapi.RoutingKey, asked ...run.Demands) string {
	if k.queue == "" || slices.ContainsFunc(asked, func(d run.Demands) bool { return !d.Empty() }) {
		return w.TaskQueue()
	}
	return k.queue
}

// OwnerHash is the definition of a runner-owned agent, as its owner announced it; empty for others.
func (k *Resolved) OwnerHash() string { return k.Owners[k.Name] }
