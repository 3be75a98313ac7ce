package runners

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/share"
	"ao/shared/strictjson"
)

// Registrar registers runners.
type Registrar struct {
	Log               *slog.Logger
	Lease             time.Duration
	Heartbeat         time.Duration // between the HTTP heartbeats of runners
	HeartbeatInterval time.Duration // between the NATS heartbeats of workers
	MaxRunners        int           // most registered runners
	APIURL            string        // told to runners
	Registry          *Registry
	Registered        *Registrations
	Names             *Names
	Pace              *Pace
	Commands          *Commander
	Queues            interface {
		EnsureQueue(ctx context.Context, w runnerapi.RoutingKey, caller string) (string, error) // makes the queue
		// the queues that a runner takes from
		Of(runnerapi.Runner) []string
	}
	Versions func() (records, events int)         // that runners may write
	Attempts func(runner string) []state.Active   // claimed by the runner and not finished by it
	Running  func() map[string]int                // how many such attempts each runner has
	Abandon  func(all []state.Active, why string) // fails attempts in the background
}

// Register registers a runner. Nothing of a refused registration is kept. A registered process that announces changed
// agents (Updates) is refused only those whose names collide.
func (g *Registrar) Register(ctx context.Context, r runnerapi.Runner) (runnerapi.Registered, error) {
	if err := checkRunner(r); err != nil {
		return runnerapi.Registered{}, err
	}
	if err := setCredential(ctx, &r); err != nil {
		return runnerapi.Registered{}, err
	}
	id := r.ID()
	r.AgentHashes, r.RegisteredAt = runnerapi.AgentSet(r.Agents), time.Now().UTC()
	r.Draining, r.Leaving, r.LeftAt = false, false, time.Time{}
	rev, dead, err := g.takeOver(ctx, id, r)
	if err != nil {
		return runnerapi.Registered{}, err
	}
	c := claimant{Runner: r, id: id}
	var refused map[string]string
	if rev != 0 {
		before, _ := g.Registry.Runner(id)
		c.before = before.Runner
		refused, err = g.update(ctx, &c)
		if err != nil {
			return runnerapi.Registered{}, err
		}
	}
	if err := g.store(ctx, c, rev); err != nil {
		return runnerapi.Registered{}, err
	}
	g.Registry.Heard(id, r.Instance) // it is online
	g.abandonOld(ctx, r, dead)
	g.Log.Info("runner registered", "runner", id, "host", r.Hostname, "profile", r.ExecutorProfile, "agents",
		runnerapi.Names(c.AgentHashes), "older", c.Older(), "refused", len(refused))
	records, events := g.Versions()
	return runnerapi.Registered{
		RunnerID: id, HeartbeatInterval: g.HeartbeatInterval, Lease: g.Lease,
		HeartbeatSeconds: int(g.Heartbeat.Seconds()), TaskQueues: g.Queues.Of(c.Runner), APIURL: g.APIURL,
		RecordVersion: records, EventVersion: events, Updates: true, Refused: refused,
	}, nil
}

// update keeps what a registration of the same process does not change, and leaves out the agents whose names collide.
func (g *Registrar) update(ctx context.Context, c *claimant) (refused map[string]string, err error) {
	if c.before.Instance != c.Instance || !c.before.LeftAt.IsZero() || c.before.Leaving {
		return nil, nil
	}
	c.RegisteredAt = c.before.RegisteredAt
	c.Draining = c.before.Draining && c.Instance != "" // without an instance it may be another process
	if !c.Updates {
		return nil, nil
	}
	refused, err = g.Names.refused(ctx, *c)
	if err != nil || len(refused) == 0 {
		return nil, err
	}
	c.Agents = slices.DeleteFunc(slices.Clone(c.Agents), func(a agent.Blueprint) bool { return refused[a.Name] != "" })
	c.AgentHashes = runnerapi.AgentSet(c.Agents)
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if len(c.Broken) < maxBroken && !slices.ContainsFunc(c.Broken, func(b agent.BrokenFile) bool {
			return b.Name == name
		}) {
			c.Broken = append(slices.Clone(c.Broken), agent.BrokenFile{Name: name, Reason: refused[name]})
		}
	}
	return refused, nil
}

// store makes a runner's queues, claims its agents' names, and writes its registration over revision rev. One that is
// stored already, and whose names nobody else took, costs nothing.
func (g *Registrar) store(ctx context.Context, c claimant, rev uint64) error {
	value, err := strictjson.Encode(c.Runner)
	if err != nil {
		return err
	}
	if rev != 0 {
		stored, err := strictjson.Encode(c.before)
		if err != nil || bytes.Equal(stored, value) && g.Names.kept(c.Runner) {
			return err
		}
		if err := g.Pace.allow(c.id); err != nil {
			return err
		}
	}
	if err := g.admit(c.id, c.Identity, len(value)); err != nil {
		return err
	}
	var queues []runnerapi.RoutingKey
	if w, ok := c.OwnRoutingKey(); ok {
		queues = append(queues, w)
	}
	if !c.RequireMatchingTags {
		queues = append(queues, runnerapi.RoutingKey{Type: c.ExecutorType},
			runnerapi.RoutingKey{Type: c.ExecutorType, Profile: c.ExecutorProfile})
	}
	for _, w := range queues {
		if _, err := g.Queues.EnsureQueue(ctx, w, ""); err != nil {
			return err
		}
	}
	if err := g.Names.claim(ctx, c); err != nil { // last, since it stores something
		return err
	}
	return g.Registered.write(ctx, c.id, value, rev)
}

// MaxAgents is the most agents that a runner may announce.
const MaxAgents = 1000

// The most broken files, and older definitions of all its agents, that a runner may announce.
const (
	maxBroken = 100
	maxOlder  = 1000
)

func checkRunner(r runnerapi.Runner) error {
	for _, f := range []struct {
		field   string
		bad     bool
		message string
	}{
		{"hostname", r.Hostname == "" || len(r.Hostname) > 255, "hostname is required, at most 255 characters"},
		{"project_dir", len(r.ProjectDir) > 4096, "project_dir must be at most 4096 characters"},
		{"executor_type", r.ExecutorType != run.Autonomous && r.ExecutorType != run.Procedural,
			"executor_type must be autonomous or procedural"},
		{"tags", len(r.Tags) > 64 || slices.Contains(r.Tags, ""), "tags: at most 64, none empty"},
		{"max_concurrent_runs", r.MaxConcurrentRuns < 0 || r.MaxConcurrentRuns > 10_000,
			"max_concurrent_runs must be from 1 to 10000"},
		{"timeout_seconds", r.TimeoutSeconds < 0 || r.TimeoutSeconds > run.MaxTimeout,
			"timeout_seconds must be from 1 to 2592000"},
		{"exposes", len(r.ReadableSecret) > 4096, "exposes must be at most 4096 characters"},
		{"instance", len(r.Instance) > 64, "instance must be at most 64 characters"},
		{"door", r.CredentialID != "" && (subject.Check(r.CredentialID) != nil || len(r.CredentialID) > 64),
			"door must be 1 to 64 letters, digits, '-' or '_'"},
		{"agents", len(r.Agents) > MaxAgents, "agents: at most 1000"},
		{"broken", len(r.Broken) > maxBroken, "broken: at most 100"},
		{"older", r.Older() > maxOlder || slices.ContainsFunc(slices.Collect(maps.Values(r.OlderHashes)), notHashes),
			"older: at most 1000 hashes of 16 hexadecimal digits"},
	} {
		if f.bad {
			return fault.New(fault.Invalid, "", f.message).With("field", f.field)
		}
	}
	if err := agent.CheckName("executor_profile", r.ExecutorProfile); err != nil {
		return err
	}
	if err := r.Models.Check(); err != nil {
		return err
	}
	return checkAgents(r)
}

// notHashes reports whether one of these is no hash of a definition.
func notHashes(all []string) bool {
	return slices.ContainsFunc(all, func(h string) bool {
		raw, err := hex.DecodeString(h)
		return err != nil || len(raw) != 8
	})
}

// checkAgents refuses agents that a runner cannot announce.
func checkAgents(r runnerapi.Runner) error {
	seen := map[string]bool{}
	for _, a := range r.Agents {
		switch err := a.Check(); {
		case err != nil:
			return fault.Of(err).With("agent_name", a.Name)
		case a.Type != r.ExecutorType:
			return fault.Newf(fault.Invalid, "agent %q is %s, its runner %s", a.Name, a.Type, r.ExecutorType).
				With("agent_name", a.Name)
		case seen[a.Name]:
			return fault.Newf(fault.Invalid, "agent %q is announced twice", a.Name).With("agent_name", a.Name)
		}
		seen[a.Name] = true
	}
	return nil
}

// takeOver checks that a runner's identity is free: a live process that has it is asked. It returns the revision of the
// stored registration, 0 where there is none, and the instance of the dead process that had it. A reply that does not
// prove to be from the registered process counts as none.
func (g *Registrar) takeOver(ctx context.Context, id string, r runnerapi.Runner) (rev uint64, dead string, err error) {
	rev, err = g.Registered.Refresh(ctx, id)
	if err != nil {
		return 0, "", bus.WriteUnanswered(err)
	}
	there, ok := g.Registry.Runner(id)
	silent := time.Since(there.LastHeartbeat)
	if !ok || there.Leaving || !there.LeftAt.IsZero() || there.Instance == r.Instance &&
		(there.SecretHash == "" || there.SecretHash == r.SecretHash) && !foreign(ctx, there.Runner) {
		return rev, "", nil
	}
	reply, err := g.Commands.commandWithRetry(ctx, id, there.RegisteredAt,
		runnerapi.Command{Type: runnerapi.CommandPing})
	alive := err == nil && there.IsReplyOf(reply)
	switch {
	case errors.Is(err, bus.ErrNoResponders):
		return rev, there.Instance, nil
	// no answer, or a process that hangs past its leases
	case alive && there.SecretHash == "" && reply.Instance == r.Instance, !alive && silent >= g.Lease:
		return rev, "", nil
	}
	return 0, "", fault.New(fault.Conflict, "runner_already_online", "A live process is already runner "+
		id+" (same hostname, project_dir and profile); stop it, or start this one in another project_dir").
		With("runner_id", id)
}

// registryBytes bounds the bytes of all registrations, which are mostly agents.
const registryBytes = 256 << 20

// admit checks that there is room for a registration of this size: a profile may have as many runners and bytes as are
// free. A registered runner keeps its place.
func (g *Registrar) admit(id string, who runnerapi.Identity, size int) error {
	var all, mine, bytes, own int
	there := false
	for _, m := range g.Registry.list(nil) {
		if m.ID == id {
			there = true
			continue
		}
		place := 1
		if !m.LeftAt.IsZero() { // it left, and only its agents' names are kept
			place = 0
		}
		all, bytes = all+place, bytes+m.RegistrationBytes
		if m.ExecutorProfile == who.ExecutorProfile && m.ExecutorType == who.ExecutorType {
			mine, own = mine+place, own+m.RegistrationBytes
		}
	}
	kind, hint := fault.Busy, "a profile may have as many as are free"
	if all >= g.MaxRunners {
		kind, hint = fault.Unavailable, "that is the maximum"
	}
	switch {
	case !there && !share.Free(int64(g.MaxRunners), int64(all), int64(mine), 1):
		return fault.Newf(kind, "the share of profile %s.%s is used up: %d runners of it are registered, %d of all, "+
			"and %d places are free (AO_MAX_RUNNERS); %s. End runners that are not needed; those without heartbeats "+
			"are removed",
			who.ExecutorType, who.ExecutorProfile, mine, all, max(g.MaxRunners-all, 0), hint).After(30 * time.Second)
	case !share.Free(registryBytes, int64(bytes), int64(own), int64(size)):
		return fault.Newf(fault.Busy, "the share of profile %s.%s is used up: what its runners announced has %d "+
			"bytes, %d of %d are free, and a profile may have as many as are free. Announce fewer agents, or end "+
			"runners", who.ExecutorType, who.ExecutorProfile, own, max(registryBytes-bytes, 0), registryBytes).After(
			30 * time.Second)
	}
	return nil
}

// abandonOld fails the attempts of a runner's earlier process, where it is dead. Where it may still finish them or
// reconnect, the leases decide. It runs after the new process was registered, so that this one is not taken for dead.
func (g *Registrar) abandonOld(ctx context.Context, r runnerapi.Runner, dead string) {
	id := r.ID()
	old := slices.DeleteFunc(g.Attempts(id), func(a state.Active) bool {
		// with a credential of its own, the earlier process may still listen
		return a.Claim.Instance == r.Instance || r.CredentialID != "" && a.Claim.Instance != dead
	})
	if len(old) == 0 {
		return
	}
	if dead == "" {
		_, err := g.Commands.Command(ctx, id, runnerapi.Command{Type: runnerapi.CommandPing})
		if !errors.Is(err, bus.ErrNoResponders) || g.Commands.ListeningFor() < 2*reconnectTime {
			return
		}
	}
	g.Abandon(old, "its runner was restarted")
}

// View is a runner as the API shows it.
type View struct {
	ID string `json:"runner_id"`
	runnerapi.Identity
	Tags                []string  `json:"tags"`
	RequireMatchingTags bool      `json:"require_matching_tags"`
	MaxConcurrentRuns   int       `json:"max_concurrent_runs"`
	Agents              []string  `json:"agents"`
	Status              string    `json:"status"`
	Why                 string    `json:"why,omitempty"` // it takes no runs
	Running             int       `json:"running"`
	RegisteredAt        time.Time `json:"registered_at"`
	LastHeartbeat       time.Time `json:"last_heartbeat"`

	Unable *runnerapi.Unable `json:"unable,omitempty"`
}

// Runners lists the registered runners, without those that left.
func (g *Registrar) Runners() []View {
	running, all := g.Running(), g.Registry.list(nil)
	list := make([]View, 0, len(all))
	for _, m := range all {
		if m.Status == runnerapi.Left {
			continue
		}
		list = append(list, View{m.ID, m.Identity, append([]string{}, m.Tags...), m.RequireMatchingTags,
			m.MaxConcurrentRuns, runnerapi.Names(m.AgentHashes), m.Shown(), m.Why(), running[m.ID], m.RegisteredAt,
			m.LastHeartbeat.UTC(), m.Unable})
	}
	return list
}
