// Package runnerapi is runners as the coordinator sees them: who they are, whether they are there, which runs they may take, and
// what is said between a worker and the coordinators.
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

// Identity is what makes a runner the same one after a restart.
type Identity struct {
	Hostname        string `json:"hostname"`
	ProjectDir      string `json:"project_dir"`
	ExecutorProfile string `json:"executor_profile"`
	ExecutorType    string `json:"executor_type"`
}

// ID is derived from the identity, so that a runner that crashed and comes back is the same runner at once.
func (i Identity) ID() string {
	raw, _ := json.Marshal(i)
	sum := sha256.Sum256(raw)
	return "rnr_" + hex.EncodeToString(sum[:12])
}

// Runner is a worker process with one profile, as it announced itself.
type Runner struct {
	Identity
	Instance            string            `json:"instance"`              // the process; a new one takes over from a dead one
	SecretHash          string            `json:"secret_hash,omitempty"` // of the process's secret; made by the coordinator, empty for a worker that sent none
	CredentialID        string            `json:"door,omitempty"`        // the token of its NATS user, where it logged in: there it is told commands
	Tags                []string          `json:"tags"`
	RequireMatchingTags bool              `json:"require_matching_tags"`
	MaxConcurrentRuns   int               `json:"max_concurrent_runs"`
	TimeoutSeconds      int               `json:"timeout_seconds,omitempty"` // upper bound of its profile; 0: none
	Models              agent.Models      `json:"models,omitzero"`           // that its profile lets agents name; nil: any
	Agents              []agent.Blueprint `json:"agents"`
	Broken              []agent.Bad       `json:"broken,omitempty"`    // files of its own that could not be used; shown to people
	AgentHashes         map[string]string `json:"agent_set,omitempty"` // its own agents' names and hashes; made by the coordinator
	Version             string            `json:"version,omitempty"`   // of the worker's program; for people
	ReadableSecret      string            `json:"exposes,omitempty"`   // a secret file of the worker's that its programs can read; for people
	RegisteredAt        time.Time         `json:"registered_at"`
	Draining            bool              `json:"draining"`
	Leaving             bool              `json:"leaving,omitempty"` // its process was told to end and finishes its runs: another may be this runner
	LeftAt              time.Time         `json:"left_at,omitzero"`  // its process is gone; the names of its agents are held for a grace
}

// AgentSet is these agents, each with the hash of its definition; nil where there are none.
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
	Online   = "online"
	Stale    = "stale"
	Removed  = "removed"
	Draining = "draining" // takes no more, finishes, goes
	Left     = "left"     // gone, and its agents' names are held; readers are not shown it
)

// Thresholds is how long a runner may be silent.
type Thresholds struct {
	Stale  time.Duration // default 120 s
	Remove time.Duration // default 600 s
}

// Status is where a runner stands after a silence.
func (p Thresholds) Status(silence time.Duration) string {
	switch {
	case silence >= cmp.Or(p.Remove, 600*time.Second):
		return Removed
	case silence >= cmp.Or(p.Stale, 120*time.Second):
		return Stale
	}
	return Online
}

// RoutingKey is what a run needs, in full: what a lane stands for.
type RoutingKey struct {
	Type       string            `json:"type"`
	Profile    string            `json:"profile,omitempty"`
	Hostname   string            `json:"hostname,omitempty"`
	ProjectDir string            `json:"project_dir,omitempty"`
	Tags       []string          `json:"tags,omitempty"`   // sorted
	Agents     map[string]string `json:"agents,omitempty"` // runner-owned: the owner's agent set
}

// NewRoutingKey is what a run with these demands needs; owner is the agent set of a runner-owned agent's owner.
func NewRoutingKey(kind string, d run.Demands, owner map[string]string) RoutingKey {
	return RoutingKey{Type: cmp.Or(d.ExecutorType, kind), Profile: d.ExecutorProfile, Hostname: d.Hostname, ProjectDir: d.ProjectDir, Tags: d.Tags, Agents: owner}
}

// TaskQueue is the name of the queue for all runs that want the same: <type>.<profile>.<match>.
func (w RoutingKey) TaskQueue() string {
	match := "_"
	if w.Hostname != "" || w.ProjectDir != "" || len(w.Tags) > 0 || len(w.Agents) > 0 {
		raw, _ := json.Marshal(w) // struct order and sorted keys: the same want gives the same bytes
		sum := sha256.Sum256(raw)
		match = hex.EncodeToString(sum[:8])
	}
	return w.Type + "." + cmp.Or(w.Profile, "_") + "." + match
}

// IsBase tells whether the want asks for nothing beyond type and profile: its lane needs no entry in `lanes`.
func (w RoutingKey) IsBase() bool {
	return w.Hostname == "" && w.ProjectDir == "" && len(w.Tags) == 0 && len(w.Agents) == 0
}

// Matches tells whether the runner may take runs that want w.
func (r Runner) Matches(w RoutingKey) bool {
	fits := func(want, have string) bool { return want == "" || want == have }
	return w.Type == r.ExecutorType && fits(w.Profile, r.ExecutorProfile) && fits(w.Hostname, r.Hostname) && fits(w.ProjectDir, r.ProjectDir) &&
		r.hasTags(w.Tags) && r.announced(w.Agents)
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

func (r Runner) announced(want map[string]string) bool {
	for name, hash := range want {
		if r.AgentHashes[name] != hash {
			return false
		}
	}
	return true
}

// BaseTaskQueues are the queues a runner takes from without any entry in `lanes`: its type's and its profile's. A runner
// that takes only runs with a tag in common has none.
func (r Runner) BaseTaskQueues() []string {
	if r.RequireMatchingTags {
		return nil
	}
	return []string{RoutingKey{Type: r.ExecutorType}.TaskQueue(), RoutingKey{Type: r.ExecutorType, Profile: r.ExecutorProfile}.TaskQueue()}
}

// OwnRoutingKey is the want of the runner's own agents: who announced exactly these may take their runs.
func (r Runner) OwnRoutingKey() (RoutingKey, bool) {
	return RoutingKey{Type: r.ExecutorType, Profile: r.ExecutorProfile, Agents: r.AgentHashes}, len(r.AgentHashes) > 0
}

// Names are the names in an agent set, sorted.
func Names(set map[string]string) []string { return slices.Sorted(maps.Keys(set)) }
