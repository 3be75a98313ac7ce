package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"ao/coordinator/audit"
	"ao/coordinator/journal"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"
)

// owner is who a runner-owned agent's name belongs to, in the table that all registrations compare and set.
type owner struct {
	Hash    string    `json:"hash"`
	Type    string    `json:"executor_type,omitempty"`
	Profile string    `json:"profile"`
	Runner  string    `json:"runner_id"`
	At      time.Time `json:"at"`
}

// Register takes a runner in, or says why not; nothing of a refused one is kept (contract sections 2 and 5).
func (c *Coordinator) Register(ctx context.Context, r fleet.Runner) (fleet.Registered, error) {
	if err := checkRunner(r); err != nil {
		return fleet.Registered{}, err
	}
	if err := ownDoor(ctx, &r); err != nil {
		return fleet.Registered{}, err
	}
	id := r.ID()
	r.Set, r.RegisteredAt = fleet.AgentSet(r.Agents), time.Now().UTC()
	r.Draining, r.Leaving, r.LeftAt = false, false, time.Time{}
	value, err := json.Marshal(r)
	if err != nil {
		return fleet.Registered{}, err
	}
	if err := c.fleet.admit(id, r.Identity, len(value)); err != nil {
		return fleet.Registered{}, err
	}
	rev, dead, err := c.takeOver(ctx, id, r)
	if err != nil {
		return fleet.Registered{}, err
	}
	if w, ok := r.OwnWant(); ok {
		if _, err := c.queues.lane(ctx, w, ""); err != nil {
			return fleet.Registered{}, err
		}
	}
	if !r.RequireMatchingTags {
		for _, w := range []fleet.Want{{Type: r.ExecutorType}, {Type: r.ExecutorType, Profile: r.ExecutorProfile}} {
			if _, err := c.queues.lane(ctx, w, ""); err != nil {
				return fleet.Registered{}, err
			}
		}
	}
	if err := c.claimNames(ctx, id, r); err != nil { // after all else that may be refused
		return fleet.Registered{}, err
	}
	if err := c.fleet.write(ctx, id, value, rev); err != nil {
		return fleet.Registered{}, err
	}
	c.fleet.heard(id, r.Instance) // it is there
	c.endOld(ctx, r, dead)
	c.log.Info("runner registered", "runner", id, "host", r.Hostname, "profile", r.ExecutorProfile, "agents", fleet.Names(r.Set))
	return fleet.Registered{RunnerID: id, BeatEvery: c.beatEvery(), Lease: c.Lease, HeartbeatSeconds: int(c.Heartbeat.Seconds()), Lanes: c.queues.of(r), APIURL: c.PublicURL, RecordVersion: c.versions.Told(), EventVersion: c.versions.EventsTold()}, nil
}

// beatEvery is the rhythm of beats: five of them in a lease, so that a lost one or two cost nothing.
func (c *Coordinator) beatEvery() time.Duration { return min(c.Lease/5, c.Heartbeat) }

// maxAgents is how many agents a runner may announce.
const maxAgents = 1000

func checkRunner(r fleet.Runner) error {
	for _, f := range []struct {
		field string
		bad   bool
		say   string
	}{
		{"hostname", r.Hostname == "" || len(r.Hostname) > 255, "hostname is required, at most 255 characters"},
		{"project_dir", len(r.ProjectDir) > 4096, "project_dir must be at most 4096 characters"},
		{"executor_type", r.ExecutorType != run.Autonomous && r.ExecutorType != run.Procedural, "executor_type must be autonomous or procedural"},
		{"tags", len(r.Tags) > 64 || slices.Contains(r.Tags, ""), "tags: at most 64, none empty"},
		{"max_concurrent_runs", r.MaxConcurrentRuns < 0 || r.MaxConcurrentRuns > 10_000, "max_concurrent_runs must be from 1 to 10000"},
		{"timeout_seconds", r.TimeoutSeconds < 0 || r.TimeoutSeconds > run.MaxTimeout, "timeout_seconds must be from 1 to 2592000"},
		{"exposes", len(r.Exposes) > 4096, "exposes must be at most 4096 characters"},
		{"instance", len(r.Instance) > 64, "instance must be at most 64 characters"},
		{"door", r.Door != "" && (subject.Check(r.Door) != nil || len(r.Door) > 64), "door must be 1 to 64 letters, digits, '-' or '_'"},
		{"agents", len(r.Agents) > maxAgents, "agents: at most 1000"},
		{"broken", len(r.Broken) > 100, "broken: at most 100"},
	} {
		if f.bad {
			return fault.New(fault.Invalid, "", f.say).With("field", f.field)
		}
	}
	if err := agent.CheckName("executor_profile", r.ExecutorProfile); err != nil {
		return err
	}
	if err := r.Models.Check(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, a := range r.Agents {
		switch err := a.Check(); {
		case err != nil:
			return fault.Of(err).With("agent_name", a.Name)
		case a.Type != r.ExecutorType:
			return fault.Newf(fault.Invalid, "agent %q is %s, its runner %s", a.Name, a.Type, r.ExecutorType).With("agent_name", a.Name)
		case seen[a.Name]:
			return fault.Newf(fault.Invalid, "agent %q is announced twice", a.Name).With("agent_name", a.Name)
		}
		seen[a.Name] = true
	}
	return nil
}

// takeOver tells whether this identity is free: a live process that has it is asked. It gives the revision of what was registered, 0
// where nothing was, and the instance of the process that was it and is dead. A reply that the registered process has not proved to be
// its own counts as silence: neither does it keep an identity for ever, nor free it.
func (c *Coordinator) takeOver(ctx context.Context, id string, r fleet.Runner) (rev uint64, dead string, err error) {
	if rev, err = c.fleet.refresh(ctx, id); err != nil {
		return 0, "", unavailable(err)
	}
	there, ok := c.fleet.of(id)
	silent := time.Since(there.Heard)
	if !ok || there.Leaving || !there.LeftAt.IsZero() || there.Instance == r.Instance && (there.Proof == "" || there.Proof == r.Proof) && !foreign(ctx, there.Runner) {
		return rev, "", nil
	}
	reply, err := c.insistent(ctx, id, there.RegisteredAt, fleet.Command{Type: fleet.CommandPing})
	alive := err == nil && there.Answered(reply)
	switch {
	case errors.Is(err, bus.ErrNobody):
		return rev, there.Instance, nil
	case alive && there.Proof == "" && reply.Instance == r.Instance, !alive && silent >= c.Lease: // or it hangs, and its leases are over
		return rev, "", nil
	}
	return 0, "", fault.New(fault.Conflict, "runner_already_online", "A live process is runner "+id+" already (same hostname, project_dir and profile); stop it, or start this one in another project_dir").
		With("runner_id", id)
}

// claimNames makes the runner's agents' names its own, or a replica's; the first one wins.
func (c *Coordinator) claimNames(ctx context.Context, id string, r fleet.Runner) error {
	for name := range r.Set {
		if c.agents.has(name) {
			return collision(name, nil, "the coordinator itself")
		}
	}
	return c.changeOwners(ctx, func(owners map[string]owner) (bool, error) {
		var names []string // that are to be its own
		for name, hash := range r.Set {
			o, ok := owners[name]
			if ok && o.Hash == hash && o.Profile == r.ExecutorProfile && c.fleet.has(o.Runner, name, hash) {
				continue // a replica
			}
			if ok && (o.Hash != hash || o.Profile != r.ExecutorProfile) {
				if _, err := c.fleet.refresh(ctx, o.Runner); err != nil {
					return false, unavailable(err)
				}
				if rival := c.rival(name, o, id, r.ExecutorProfile); rival != "" {
					return false, collision(name, rival, "runner "+rival)
				}
			}
			names = append(names, name)
		}
		return len(names) > 0, c.fleet.name(owners, id, r, names)
	})
}

func collision(name string, runner any, who string) error {
	return fault.New(fault.Conflict, "agent_name_collision", "Agent '"+name+"' is already registered by "+who+" with another definition; rename one of them").
		With("agent_name", name).With("existing_runner_id", runner)
}

// rival is another runner that holds a name against this one and its profile: any that is online; against other profiles also one
// that drains, or left and is within its grace. A registration so young that its runner is not stored yet counts.
func (c *Coordinator) rival(name string, o owner, id, profile string) string {
	if o.Runner != id && time.Since(o.At).Abs() < 5*time.Second && !c.fleet.has(o.Runner, name, o.Hash) {
		return o.Runner
	}
	for _, m := range c.fleet.list(func(m *member) bool { return m.id != id && m.Set[name] != "" && m.ExecutorProfile == o.Profile }) {
		if m.holds(profile) {
			return m.ID
		}
	}
	return ""
}

// has tells whether a runner announced this definition.
func (r *roster) has(id, name, hash string) bool {
	m, ok := r.of(id)
	return ok && m.Set[name] == hash
}

// owners reads the table of owners, and its revision; 0: there is none yet.
func (c *Coordinator) owners(ctx context.Context) (map[string]owner, uint64, error) {
	owners := map[string]owner{}
	raw, rev, err := c.bus.Bucket(subject.Runners).Get(ctx, ownersKey)
	switch {
	case errors.Is(err, bus.ErrNone):
		return owners, 0, nil
	case err != nil:
		return nil, 0, unavailable(err)
	}
	return owners, rev, json.Unmarshal(raw, &owners)
}

// changeOwners changes the table of owners by compare-and-set, so that of two registrations at once one is first.
func (c *Coordinator) changeOwners(ctx context.Context, change func(map[string]owner) (bool, error)) error {
	b := c.bus.Bucket(subject.Runners)
	for range 20 {
		owners, rev, err := c.owners(ctx)
		if err != nil {
			return err
		}
		changed, err := change(owners)
		if err != nil || !changed {
			return err
		}
		value, err := json.Marshal(owners)
		if err != nil {
			return err
		}
		if rev == 0 {
			_, err = b.Create(ctx, ownersKey, value)
		} else {
			_, err = b.Update(ctx, ownersKey, value, rev)
		}
		if !errors.Is(err, bus.ErrTaken) {
			return err
		}
	}
	return fault.New(fault.Unavailable, "", "Many runners register at once; try again").After(time.Second)
}

// endOld ends the attempts of a runner's earlier process, which is dead, or, as it has deregistered, may be finishing what it has: where it
// is there, or may be on its way back, the leases decide. The new process has its answer before that is done: it is not to be taken for
// dead, since it does not listen yet.
func (c *Coordinator) endOld(ctx context.Context, r fleet.Runner, dead string) {
	id := r.ID()
	old := slices.DeleteFunc(c.leases.of(id), func(a journal.Active) bool {
		return a.Claim.Instance == r.Instance || r.Door != "" && a.Claim.Instance != dead // who has another door may listen there
	})
	if len(old) == 0 {
		return
	}
	if dead == "" {
		_, err := c.commands.Command(ctx, id, fleet.Command{Type: fleet.CommandPing})
		if !errors.Is(err, bus.ErrNobody) || c.leases.hearing.listening() < 2*back {
			return
		}
	}
	c.leases.giveUp(old, "its runner started anew")
}

// openFleet makes workers find us; what it returns answers them.
func (c *Coordinator) openFleet() (serve func(context.Context) error, err error) {
	beats, err := c.bus.Open(subject.AllBeats, "") // every coordinator hears every beat
	if err != nil {
		return nil, err
	}
	asks, err := c.bus.Open(subject.AllFleet, subject.Coordinators)
	return func(ctx context.Context) error { return c.serveFleet(ctx, beats, asks) }, err
}

func (c *Coordinator) serveFleet(ctx context.Context, beats, asks *bus.Door) error {
	ops := map[string]func(context.Context, []byte) ([]byte, error){
		fleet.OpRegister: answer(func(ctx context.Context, r fleet.Registration) (any, error) {
			runner, err := r.Admitted()
			var done fleet.Registered
			if err == nil {
				done, err = c.Register(ctx, runner)
			}
			c.record(ctx, audit.Register, "", claimed{r.ID(), r.Hostname}, err)
			return done, err
		}),
		fleet.OpDeregister: answer(func(ctx context.Context, f fleet.Farewell) (any, error) {
			err := c.Deregister(ctx, f)
			proven := ""
			if f.Secret != "" && err == nil {
				proven = f.RunnerID
			}
			c.record(ctx, audit.Deregister, proven, claimed{runner: f.RunnerID}, err)
			return struct{}{}, err
		}),
		fleet.OpGetPart:   bytesOf(c.getPart),
		fleet.OpPutPart:   bytesOf(c.putPart),
		fleet.OpDropState: bytesOf(c.dropState),
		subject.OpRecord:  answer(c.recordOf),
	}
	heard := make(chan error, 1)
	go func() {
		heard <- beats.Serve(ctx, c.hearBeat)
	}()
	err := asks.Serve(ctx, func(ctx context.Context, subj string, body []byte) ([]byte, error) {
		name, as, _ := strings.Cut(strings.TrimPrefix(subj, subject.Fleet("")), ".")
		op, ok := ops[name]
		if !ok || as != "" && name != fleet.OpRegister {
			return nil, fault.Newf(fault.NotFound, "no operation %q", subj)
		}
		if name == fleet.OpRegister {
			if err := fewAgents(body); err != nil {
				return nil, err
			}
		}
		if as != "" {
			if r, err := registersAs(as, body); err != nil {
				c.record(ctx, audit.Register, "", claimed{r.ID(), r.Hostname}, err)
				return nil, err
			}
		}
		answer, err := op(ctx, body)
		if name != fleet.OpRegister && name != fleet.OpDeregister {
			c.recordRefusal(ctx, name, err)
		}
		return answer, err
	})
	return errors.Join(err, <-heard)
}

// fewAgents refuses a registration with too many agents before they are read: a few bytes each would take hundreds.
func fewAgents(body []byte) error {
	var in struct {
		Agents []json.RawMessage `json:"agents"`
	}
	if json.Unmarshal(body, &in) == nil && len(in.Agents) > maxAgents {
		return fault.Newf(fault.Invalid, "agents: at most %d", maxAgents).With("field", "agents")
	}
	return nil
}

// answer reads a request of type T and writes what f makes of it.
func answer[T any](f func(context.Context, T) (any, error)) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, body []byte) ([]byte, error) {
		var in T
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, fault.Wrap(fault.Invalid, "", "The request is not readable", err)
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
}

func bytesOf(f func(context.Context, fleet.PartRequest) ([]byte, error)) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, body []byte) ([]byte, error) {
		var in fleet.PartRequest
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, fault.Wrap(fault.Invalid, "", "The request is not readable", err)
		}
		return f(ctx, in)
	}
}
