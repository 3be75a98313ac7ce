package agents

import (
	"encoding/json"
	"errors"
	"slices"

	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

// Resolved is an agent with what its owner adds. It is immutable and shared by all runs of the agent.
type Resolved struct {
	agent.Blueprint
	// runner-owned: the owner's agent set; only runners that announced this set may run it
	Owners         map[string]string
	Profile        string // runner-owned: the owner's profile
	ProfileTimeout int    // runner-owned: the profile's upper bound of the timeout, in seconds
	Online         bool   // runner-owned: a runner that has it is online
	Current        bool   // runner-owned: it is the newest definition; false: its runner is late, others are away

	file  *ownFile        // that defines it; nil: none
	raw   json.RawMessage // Snapshot, computed once
	hash  string          // Hash, computed once
	queue string          // the task queue of runs that demand nothing themselves, computed once
}

// Announced returns an agent that a runner announced.
func Announced(b agent.Blueprint, by runnerapi.Runner, id string, online bool) *Resolved {
	b.RunnerID = id
	return (&Resolved{Blueprint: b, Owners: by.AgentHashes, Profile: by.ExecutorProfile,
		ProfileTimeout: by.TimeoutSeconds,
		Online:         online}).precomputed()
}

// defined returns an agent of the coordinators; file is nil where it came over the API.
func defined(b agent.Blueprint, file *ownFile) *Resolved {
	return (&Resolved{Blueprint: b, file: file}).precomputed()
}

// precomputed computes what every run of the agent needs.
func (k *Resolved) precomputed() *Resolved {
	k.raw, _ = k.Snapshot() // cannot fail: it was read from JSON
	k.hash = k.Hash()
	k.queue = k.RoutingKey(k.MergedDemands(run.Demands{})).TaskQueue()
	return k
}

// WithRunners returns the definition with how many online runners have it.
func (k *Resolved) WithRunners(runners int) agent.Blueprint {
	b := k.Blueprint
	b.Runners = &runners
	return b
}

// Snapshot returns the definition that runs carry.
func (k *Resolved) Snapshot() (json.RawMessage, error) {
	if k.raw != nil {
		return k.raw, nil
	}
	return strictjson.Encode(k.Blueprint)
}

func (k *Resolved) ownerDemands() run.Demands {
	if k.Owners == nil {
		return run.Demands{}
	}
	return run.Demands{ExecutorProfile: k.Profile, ExecutorType: k.Type}
}

// MergedDemands returns the demands of a run. first comes before the agent's own demands, also after them.
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

// RoutingKey returns the routing key of a run with these demands.
func (k *Resolved) RoutingKey(d run.Demands) runnerapi.RoutingKey {
	return runnerapi.NewRoutingKey(k.Type, d, k.Owners)
}

// QueueOf returns the task queue of a run with this routing key. asked is what the run demands itself.
func (k *Resolved) QueueOf(w runnerapi.RoutingKey, asked ...run.Demands) string {
	if k.queue == "" || slices.ContainsFunc(asked, func(d run.Demands) bool { return !d.Empty() }) {
		return w.TaskQueue()
	}
	return k.queue
}

// SchemaError returns what a caller of the agent is told about a fault of the agent's own schemas. Only its owner can
// mend it.
func (k *Resolved) SchemaError(err error) error {
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || f.Kind != fault.Invalid && f.Kind != fault.NotFound {
		return err
	}
	return fault.Newf(fault.Conflict, "Agent %q is broken: %s", k.Name, f.Reason()).With("agent_name", k.Name)
}

// Hash identifies what runs of the agent carry, as agent.Blueprint.Hash does: its definition while it is active.
func (k *Resolved) Hash() string {
	switch {
	case k.hash != "":
		return k.hash
	case k.OwnerHash() != "" && k.Status == agent.Active:
		return k.OwnerHash()
	}
	b := k.Blueprint
	b.Status = agent.Active
	return b.Hash()
}

// OwnerHash returns the hash of a runner-owned agent's definition; empty for others.
func (k *Resolved) OwnerHash() string { return k.Owners[k.Name] }
