package runners_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ao/coordinator/coordinatortest"
	"ao/coordinator/insight/explain"
	"ao/coordinator/projection/state"
	"ao/coordinator/serve/parts"
	"ao/nats/natstest"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// version is the n-th definition of agent `a`.
func version(n int) agent.Blueprint {
	b := coordinatortest.Echo("a")
	b.Command = fmt.Sprint("./", n)
	return b
}

// replica is a runner of the profile that announces changes.
func replica(host string, definitions ...agent.Blueprint) runnerapi.Runner {
	r := coordinatortest.Runner("process of "+host, definitions...)
	r.Hostname, r.Updates = host, true
	return r
}

// TestCurrentDefinition: the order of announcements decides, not clocks. A change of the current definition makes a new
// one, also a former one. A late announcement does not.
func TestCurrentDefinition(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		steps string // host=definition, or -host for one that is gone; then the definition that holds
	}{
		{"the newer one holds, whoever follows when", "a=1:1 b=1:1 a=2:2 b=2:2"},
		{"a late replica changes nothing", "a=1:1 b=1:1 a=2:2 a=3:3 b=2:3 b=3:3"},
		{"also where it has what the others left out", "a=1:1 b=1:1 a=2:2 a=4:4 b=3:4 b=4:4"},
		{"a roll-back", "a=1:1 b=1:1 a=2:2 b=2:2 a=1:1 b=1:1"},
		{"a new replica with one of long ago", "a=1:1 a=2:2 a=3:3 c=1:3 c=2:3 c=3:3"},
		{"a new replica with a new one", "a=1:1 c=2:2 a=2:2"},
		{"a new replica with a new one, and then the first with another", "a=1:1 c=2:2 a=3:2 c=3:3"},
		{"the last runner with the newest one is gone", "a=1:1 b=1:1 a=2:2 -a:1 b=3:3"},
		{"and comes back", "a=1:1 b=1:1 a=2:2 -a:1 a=2:2"},
		{"a single runner, forth and back", "a=1:1 a=2:2 a=1:1 a=2:2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
			for _, step := range strings.Fields(tt.steps) {
				var host string
				var has, holds int
				if removed, ok := strings.CutPrefix(step, "-"); ok {
					host, _, _ = strings.Cut(removed, ":")
					bye(t, c, replica(host))
					fmt.Sscanf(removed, host+":%d", &holds)
				} else {
					host, _, _ = strings.Cut(step, "=")
					fmt.Sscanf(step, host+"=%d:%d", &has, &holds)
					coordinatortest.Register(t, c, replica(host, version(has)))
				}
				got, err := c.Agents.Get(t.Context(), "a")
				if err != nil || got.Command != version(holds).Command {
					t.Fatalf("after %s of %s: %s holds, %v", step, tt.steps, got.Command, err)
				}
			}
		})
	}
}

// TestALateRegistrationChangesNothing: the watch of the bucket may bring what a registration has replaced.
func TestALateRegistrationChangesNothing(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	id := replica("here").ID()
	var stored [][]byte
	var revs []uint64
	for n := 1; n <= 2; n++ {
		coordinatortest.Register(t, c, replica("here", version(n)))
		value, rev, err := c.Registry.Bucket().Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		stored, revs = append(stored, value), append(revs, rev)
	}
	c.Registry.Put(id, stored[0], revs[0])
	if got, err := c.Agents.Get(t.Context(), "a"); err != nil || got.Command != version(2).Command {
		t.Errorf("after a late registration %s holds, %v", got.Command, err)
	}
	c.Registry.Put(id, stored[1], revs[1]+20) // NATS crashes, and loses the last 20 changes
	next := replica("here", version(3))
	next.Instance = "next"
	coordinatortest.Register(t, c, next)
	if _, known, superseded := c.Registry.Heard(id, "next"); !known || superseded {
		t.Errorf("the next process is known %v, superseded %v", known, superseded)
	}
}

// TestAnAnnouncementIsRefusedInPart: a new name that collides, and nothing else. Who takes no part in updates, or
// begins, is refused as a whole.
func TestAnAnnouncementIsRefusedInPart(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	coordinatortest.Register(t, c, stranger("s", coordinatortest.Echo("theirs")))
	r := replica("here", version(1))
	coordinatortest.Register(t, c, r)
	if _, err := c.Registrar.Register(t.Context(), replica("there", version(1),
		coordinatortest.Echo("theirs"))); fault.Of(err).Code != "agent_name_collision" {
		t.Errorf("one that begins: %v", err)
	}
	r.Agents = append(r.Agents, coordinatortest.Echo("theirs"), coordinatortest.Echo("new"))
	got := coordinatortest.Register(t, c, r)
	if len(got.Refused) != 1 || !strings.Contains(got.Refused["theirs"], "already registered by runner") {
		t.Errorf("refused %v", got.Refused)
	}
	m, _ := c.Registry.Runner(r.ID())
	if names := runnerapi.Names(m.AgentHashes); !slices.Equal(names, []string{"a", "new"}) || len(m.Broken) != 1 {
		t.Errorf("it has %v, broken %v", names, m.Broken)
	}
	r.Updates = false
	if _, err := c.Registrar.Register(t.Context(), r); fault.Of(err).Code != "agent_name_collision" {
		t.Errorf("one without updates: %v", err)
	}
}

// TestARunOfAnOlderDefinition waits for a runner that has it as long as only late ones are there, and says so. It
// never continues with an older one.
func TestARunOfAnOlderDefinition(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	a, late := replica("a", version(1)), replica("late", version(1))
	coordinatortest.Register(t, c, a)
	coordinatortest.Register(t, c, late)
	first := coordinatortest.Submit(t, c, `{"agent_name":"a"}`, "").RunID
	a.Agents, a.OlderHashes = []agent.Blueprint{version(2)}, map[string][]string{"a": {version(1).Hash()}}
	coordinatortest.Register(t, c, a)
	bye(t, c, late)
	a.AgentHashes = runnerapi.AgentSet(a.Agents)
	if q := coordinatortest.Active(t, c, first, "is queued", coordinatortest.IsQueued); q.Spec.Owner !=
		version(1).Hash() || !a.Matches(c.Dispatch.Want(q)) {
		t.Errorf("a runner that still serves it: %+v", q.Spec)
	}
	second := coordinatortest.Submit(t, c, `{"agent_name":"a"}`, "").RunID
	coordinatortest.Register(t, c, late)
	bye(t, c, a)
	natstest.Until(t, "it says what it waits for", func() bool {
		e, err := c.Explainer.Explain(t.Context(), second, false)
		return err == nil && strings.Contains(e.Summary, `another definition of agent "a" than the one it was checked`)
	})
	waits := coordinatortest.Active(t, c, second, "waits", func(state.Active) bool { return true })
	if waits.Spec.Owner != version(2).Hash() {
		t.Error("it was queued with an older definition")
	}
	late.Agents = []agent.Blueprint{version(3)} // newer than both
	coordinatortest.Register(t, c, late)
	for _, id := range []string{first, second} {
		coordinatortest.Active(t, c, id, "continues with the newest definition", func(a state.Active) bool {
			return a.Spec.Owner == version(3).Hash()
		})
	}
	e, err := c.Explainer.Explain(t.Context(), first, false)
	if err != nil || !slices.ContainsFunc(e.Story, func(s explain.Step) bool {
		return strings.Contains(s.Detail, "no runner had its definition of the agent any more")
	}) {
		t.Errorf("%+v %v", e.Story, err)
	}
}

// TestARunLeavesTheQueueOfAllDefinitions: a run was queued for runners with all definitions of that time. It reaches a
// runner that still has its own one. Another profile that announces it as an older one gets nothing.
func TestARunLeavesTheQueueOfAllDefinitions(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	r, b := replica("here", version(1), coordinatortest.Echo("b")), coordinatortest.Echo("b")
	coordinatortest.Register(t, c, r)
	id := coordinatortest.Submit(t, c, `{"agent_name":"a"}`, "").RunID
	first := coordinatortest.Active(t, c, id, "is queued", coordinatortest.IsQueued).Queue
	b.Command = "./changed"
	r.Agents, r.OlderHashes = []agent.Blueprint{version(2), b}, map[string][]string{"a": {version(1).Hash()}}
	coordinatortest.Register(t, c, r)
	thief := stranger("thief")
	thief.OlderHashes = r.OlderHashes
	coordinatortest.Register(t, c, thief)
	queues := func(id string) []string {
		m, _ := c.Registry.Runner(id)
		return c.Registrar.Queues.Of(m.Runner)
	}
	moved := coordinatortest.Active(t, c, id, "is in a queue of its runner", func(a state.Active) bool {
		return a.Queue != first && slices.Contains(queues(r.ID()), a.Queue)
	})
	if slices.Contains(queues(thief.ID()), moved.Queue) {
		t.Error("another profile takes from it")
	}
}

// TestUnusedDefinitions: a coordinator reports to a runner which of its older definitions no accepted run carries.
func TestUnusedDefinitions(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	r := replica("here", version(1))
	coordinatortest.Register(t, c, r)
	coordinatortest.Submit(t, c, `{"agent_name":"a"}`, "")
	r.Agents = []agent.Blueprint{version(3)}
	r.OlderHashes = map[string][]string{"a": {version(1).Hash(), version(2).Hash()}}
	coordinatortest.Register(t, c, r)
	reply, err := c.WorkerAPI.Heartbeats.Heartbeat(t.Context(), runnerapi.Heartbeat{RunnerID: r.ID(),
		Instance: r.Instance})
	if err != nil || !slices.Equal(reply.Unused, []string{version(2).Hash()}) {
		t.Errorf("unused %v, %v", reply.Unused, err)
	}
}

// TestAnnouncementsAreLimited: a runner that registers again and again is told to wait, and others are not. The number
// of older definitions is limited.
func TestAnnouncementsAreLimited(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	r := replica("here", version(0))
	var err error
	for n := 0; err == nil && n < 200; n++ {
		r.Agents = []agent.Blueprint{version(n)}
		_, err = c.Register(t.Context(), r)
	}
	if fault.KindOf(err) != fault.Busy || fault.Of(err).RetryAfter == 0 || !strings.Contains(err.Error(), "too often") {
		t.Errorf("200 announcements at once: %v", err)
	}
	coordinatortest.Register(t, c, replica("there", version(0)))
	owners, _, err := c.Registrar.Names.Owners(t.Context())
	if n := len(owners["a"].Older); err != nil || n == 0 || n > 16 {
		t.Errorf("%d older definitions are remembered, %v", n, err)
	}
	for name, older := range map[string][]string{
		"many":    slices.Repeat([]string{version(1).Hash()}, 1001),
		"strange": {"no hash"},
	} {
		r := replica("third", version(1))
		r.OlderHashes = map[string][]string{"a": older}
		if _, err := c.Register(t.Context(), r); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyChangedAgents: an owner's registration is read once an announcement, not once an agent.
func TestManyChangedAgents(t *testing.T) {
	t.Parallel()
	c := coordinatortest.Start(t, natstest.Bus(t), parts.Config{})
	changed := func(to string) (all []agent.Blueprint) {
		for i := range 100 {
			b := coordinatortest.Echo(fmt.Sprint("a", i))
			b.Command = to
			all = append(all, b)
		}
		return all
	}
	coordinatortest.Register(t, c, replica("a", changed("./1")...))
	coordinatortest.Register(t, c, replica("b", changed("./1")...))
	before := c.Registry.Changes()
	coordinatortest.Register(t, c, replica("b", changed("./2")...))
	if n := c.Registry.Changes() - before; n > 10 {
		t.Errorf("registrations were read %d times", n)
	}
}
