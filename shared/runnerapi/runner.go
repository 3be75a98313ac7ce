// Package runnerapi is the API between workers and coordinators: what a runner is, which runs it may take, and
// the messages they exchange.
package runnerapi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"ao/shared/agent"
	"ao/shared/run"
)

// Identity makes a runner the same one after a restart.
type Identity struct {
	Hostname        string `json:"hostname"`
	ProjectDir      string `json:"project_dir"`
	ExecutorProfile string `json:"executor_profile"`
	ExecutorType    string `json:"executor_type"`
}

// ID is derived from the identity: a runner that crashed and comes back is the same runner at once.
func (i Identity) ID() string {
	raw, _ := json.Marshal(i)
	sum := sha256.Sum256(raw)
	return "rnr_" + hex.EncodeToString(sum[:12])
}

// Runner is a worker process with one profile, as it registered.
type Runner struct {
	Identity
	Instance string `json:"instance"` // the process; a new one replaces a dead one
	// set by the coordinator; empty for a worker without a secret
	SecretHash string `json:"secret_hash,omitempty"`
	// of its NATS login, if any: its commands go there
	CredentialID        string   `json:"door,omitempty"`
	Tags                []string `json:"tags"`
	RequireMatchingTags bool     `json:"require_matching_tags"`
	MaxConcurrentRuns   int      `json:"max_concurrent_runs"`
	TimeoutSeconds      int      `json:"timeout_seconds,omitempty"` // upper bound of its profile; 0: none
	// that its profile allows agents to name; nil: any
	Models agent.Models      `json:"models,omitzero"`
	Agents []agent.Blueprint `json:"agents"`
	// its own files that could not be used; for people
	Broken []agent.BrokenFile `json:"broken,omitempty"`
	// its own agents' names and hashes; set by the coordinator
	AgentHashes map[string]string `json:"agent_set,omitempty"`
	// it announces changed agents again, and serves their older definitions (decision 0050)
	Updates bool `json:"updates,omitempty"`
	// hashes of older definitions that it still serves, by agent
	OlderHashes map[string][]string `json:"older,omitempty"`
	Version     string              `json:"version,omitempty"` // of the worker's program; for people
	// a secret file of the worker that its programs can read; for people
	ReadableSecret string    `json:"exposes,omitempty"`
	RegisteredAt   time.Time `json:"registered_at"`
	Draining       bool      `json:"draining"`
	// its process is shutting down and finishes its runs; another may replace it
	Leaving bool `json:"leaving,omitempty"`
	// its process is gone; the names of its agents are reserved for a grace period
	LeftAt time.Time `json:"left_at,omitzero"`
}

// AgentSet maps the agents' names to the hashes of their definitions; nil without agents.
func AgentSet(agents []agent.Blueprint) map[string]string {
	if len(agents) == 0 {
		return nil
	}
	set := make(map[string]string, len(agents))
	for _, a := range agents {
		set[a.Name] = a.Hash()
	}
	return set
}

// The statuses of a runner.
const (
	Online = "online"
	// no heartbeat for a lease: its runs are failed, and it gets none
	Unresponsive = "unresponsive"
	StatusUnable = "unable" // its profile cannot work there at the moment (Unable)
	Stale        = "stale"
	Removed      = "removed"
	Draining     = "draining" // takes no more runs, finishes, exits
	Left         = "left"     // gone; its agents' names are reserved; not shown to readers
)

// Thresholds are how long a runner may go without a heartbeat.
type Thresholds struct {
	Stale  time.Duration // default 120 s
	Remove time.Duration // default 600 s
}

// Status returns a runner's status after so long without a heartbeat.
func (p Thresholds) Status(idle time.Duration) string {
	switch {
	case idle >= cmp.Or(p.Remove, 600*time.Second):
		return Removed
	case idle >= cmp.Or(p.Stale, 120*time.Second):
		return Stale
	}
	return Online
}

// RoutingKey is everything that a run requires of a runner: it decides the task queue.
type RoutingKey struct {
	Type       string            `json:"type"`
	Profile    string            `json:"profile,omitempty"`
	Hostname   string            `json:"hostname,omitempty"`
	ProjectDir string            `json:"project_dir,omitempty"`
	Tags       []string          `json:"tags,omitempty"`   // sorted
	Agents     map[string]string `json:"agents,omitempty"` // runner-owned: the owner's agent hashes
}

// NewRoutingKey returns the routing key of a run with these demands. owner is the agent hashes of a runner-owned
// agent's owner.
func NewRoutingKey(kind string, d run.Demands, owner map[string]string) RoutingKey {
	return RoutingKey{Type: cmp.Or(d.ExecutorType, kind), Profile: d.ExecutorProfile, Hostname: d.Hostname,
		ProjectDir: d.ProjectDir, Tags: d.Tags, Agents: owner}
}

// TaskQueue returns the name of the task queue for all runs with this key: <type>.<profile>.<match>.
func (w RoutingKey) TaskQueue() string {
	match := "_"
	if w.Hostname != "" || w.ProjectDir != "" || len(w.Tags) > 0 || len(w.Agents) > 0 {
		raw, _ := json.Marshal(w) // struct order and sorted map keys: equal keys give equal bytes
		sum := sha256.Sum256(raw)
		match = hex.EncodeToString(sum[:8])
	}
	return w.Type + "." + cmp.Or(w.Profile, "_") + "." + match
}

// IsBase reports whether only type and profile are required. Then the task queue needs no entry in the bucket.
func (w RoutingKey) IsBase() bool {
	return w.Hostname == "" && w.ProjectDir == "" && len(w.Tags) == 0 && len(w.Agents) == 0
}

// Matches reports whether the runner may take runs with this key.
func (r Runner) Matches(w RoutingKey) bool {
	fits := func(want, have string) bool { return want == "" || want == have }
	return w.Type == r.ExecutorType && fits(w.Profile, r.ExecutorProfile) && fits(w.Hostname, r.Hostname) &&
		fits(w.ProjectDir, r.ProjectDir) && r.hasTags(w.Tags) && r.servesAll(w.Agents)
}

func (r Runner) hasTags(want []string) bool {
	common := 0
	for _, t := range want {
		if !slices.Contains(r.Tags, t) {
			return false
		}
		common++
	}
	return common > 0 || !r.RequireMatchingTags
}

func (r Runner) servesAll(want map[string]string) bool {
	for name, hash := range want {
		if !r.Serves(name, hash) {
			return false
		}
	}
	return true
}

// Serves reports whether the runner has this definition of its agent, current or older.
func (r Runner) Serves(name, hash string) bool {
	return r.AgentHashes[name] == hash || slices.Contains(r.OlderHashes[name], hash)
}

// Older returns how many older definitions the runner serves.
func (r Runner) Older() (n int) {
	for _, hashes := range r.OlderHashes {
		n += len(hashes)
	}
	return n
}

// BaseTaskQueues returns the task queues that a runner always pulls from: its type's and its profile's. A runner
// that requires matching tags has none.
func (r Runner) BaseTaskQueues() []string {
	if r.RequireMatchingTags {
		return nil
	}
	return []string{RoutingKey{Type: r.ExecutorType}.TaskQueue(),
		RoutingKey{Type: r.ExecutorType, Profile: r.ExecutorProfile}.TaskQueue()}
}

// OwnRoutingKey returns the key of the runner's own agents: runners that announced exactly these may take their runs.
func (r Runner) OwnRoutingKey() (RoutingKey, bool) {
	return RoutingKey{Type: r.ExecutorType, Profile: r.ExecutorProfile, Agents: r.AgentHashes}, len(r.AgentHashes) > 0
}

// Names returns the names of an agent set, sorted.
func Names(set map[string]string) []string { return slices.Sorted(maps.Keys(set)) }
