package parts

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/nats/natstest"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// numbered is an agent that wants a number under this name.
func numbered(name, field string) agent.Blueprint {
	b := echo(name)
	b.ParametersSchema = json.RawMessage(`{"type":"object","required":["` + field + `"],"properties":{"` +
		field + `":{"type":"integer"}},"additionalProperties":false}`)
	return b
}

// elsewhere is the same profile on another host.
func elsewhere(instance string, agents ...agent.Blueprint) runnerapi.Runner {
	r := runner(instance, agents...)
	r.Hostname = "elsewhere"
	return r
}

// stranger is another profile.
func stranger(instance string, agents ...agent.Blueprint) runnerapi.Runner {
	r := runner(instance, agents...)
	r.ExecutorProfile = "other"
	return r
}

// bye is a process that is gone.
func bye(t testing.TB, c *Coordinator, r runnerapi.Runner) { t.Helper(); farewell(t, c, r, false) }

// farewell is the deregistration of a process that was asked to end: it finishes its runs, or ends at once.
func farewell(t testing.TB, c *Coordinator, r runnerapi.Runner, finishing bool) {
	t.Helper()
	if err := c.Deregister(t.Context(), runnerapi.Deregistration{RunnerID: r.ID(), Instance: r.Instance,
		Finishing: finishing}); err != nil {
		t.Fatal(err)
	}
}

// shownAs is the status of the only runner that readers are shown; "": there is none.
func shownAs(c *Coordinator) string {
	for _, r := range c.Runners() {
		return r.Status
	}
	return ""
}

// An upgrade refuses no run. An agent stays after its last runner left, and its runs wait for the next runner. That
// also holds on other coordinators, and after a restart of all of them.
func TestAnAgentOutlivesItsLastRunner(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	c, end := ending(t, natstest.Open(t, s))
	other := start(t, natstest.Open(t, s), Config{})
	one := runner("one", echo("a"))
	register(t, c, one)
	natstest.Until(t, "the other coordinator knows it", func() bool { return len(other.Runners()) == 1 })
	bye(t, c, one)
	ids := []string{submit(t, c, `{"agent_name":"a"}`, "").RunID}
	natstest.Until(t, "the other coordinator has read that it left", func() bool { return len(other.Runners()) == 0 })
	ids = append(ids, submit(t, other, `{"agent_name":"a"}`, "").RunID)
	end()
	c = start(t, natstest.Open(t, s), Config{})
	ids = append(ids, submit(t, c, `{"agent_name":"a"}`, "").RunID)
	if n := len(c.Runners()); n != 0 {
		t.Errorf("%d runners are shown", n)
	}
	if a, err := c.Agents.View(t.Context(), "a"); err != nil || a.Status != agent.Active || a.Runners == nil ||
		*a.Runners != 0 {
		t.Errorf("the agent: %+v %v", a, err)
	}
	e, err := c.Explainer.Explain(t.Context(), ids[0], false)
	if err != nil || !strings.Contains(e.Summary, `the last runner of agent "a" left`) {
		t.Errorf("explained as %q, %v", e.Summary, err)
	}
	two := elsewhere("two", echo("a"))
	register(t, c, two)
	if all, err := c.Agents.Agents(""); err != nil || len(all) != 1 || all[0].Runners == nil || *all[0].Runners != 1 {
		t.Errorf("the agents: %+v %v", all, err)
	}
	for _, id := range ids {
		finish(t, c, claim(t, c, id, two))
	}
}

// A runner that was asked to end drains until it has: readers see it, its identity is free, its agents stay.
func TestARunnerThatFinishesIsShownAsDraining(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	one := runner("one", echo("a"))
	register(t, c, one)
	farewell(t, c, one, true)
	if got := shownAs(c); got != runnerapi.Draining || c.Overview.Status(t.Context()).Runners[runnerapi.Draining] != 1 {
		t.Errorf("it is shown as %q", got)
	}
	id := submit(t, c, `{"agent_name":"a"}`, "").RunID
	_, err := c.Register(t.Context(), stranger("s", echo("a")))
	wantCode(t, err, "agent_name_collision")
	two := runner("two", echo("a"))
	if _, err := c.Register(t.Context(), two); err != nil { // at once: the process before has said that it ends
		t.Fatal(err)
	}
	// its successor stays
	if err := c.Deregister(t.Context(), runnerapi.Deregistration{RunnerID: one.ID(), Instance: "one"}); fault.KindOf(
		err) != fault.Forbidden {
		t.Errorf("the farewell of its predecessor: %v", err)
	}
	if got := shownAs(c); got != runnerapi.Online {
		t.Errorf("the successor is %q", got)
	}
	finish(t, c, claim(t, c, id, two))
	bye(t, c, two)
	farewell(t, c, two, true) // which was on its way for long
	if got := shownAs(c); got != "" {
		t.Errorf("who is gone is shown as %q", got)
	}
}

// A worker of an older version deregisters once, when it is asked to end, and sends heartbeats until it has.
func TestOldWorkerDrainsAfterDeregistering(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{Lease: 2 * time.Second})
	one := runner("one", echo("a"))
	register(t, c, one)
	bye(t, c, one)
	heartbeat := runnerapi.Heartbeat{RunnerID: one.ID(), Instance: "one", Draining: true}
	if r, err := c.WorkerAPI.Heartbeats.Heartbeat(t.Context(), heartbeat); err != nil || !r.Known || r.Superseded ||
		shownAs(c) != runnerapi.Draining {
		t.Errorf("answered %+v, it is shown as %q", r, shownAs(c))
	}
	natstest.Until(t, "it is gone", func() bool { return shownAs(c) == "" })
	heartbeat.Draining = false // no farewell of its own: it was taken for gone, and is to register again
	if r, err := c.WorkerAPI.Heartbeats.Heartbeat(t.Context(), heartbeat); err != nil || r.Known || r.Superseded {
		t.Errorf("answered %+v", r)
	}
	submit(t, c, `{"agent_name":"a"}`, "")
}

// One that is killed while it drains has left, too.
func TestADrainingRunnerThatIsKilledHasLeft(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{Lease: time.Second})
	one := runner("one", echo("a"))
	register(t, c, one)
	farewell(t, c, one, true)
	natstest.Until(t, "it has left", func() bool { return shownAs(c) == "" })
	natstest.Until(t, "that is stored", func() bool {
		m, _, err := c.registered.Load(t.Context(), one.ID())
		return err == nil && !m.LeftAt.IsZero()
	})
	submit(t, c, `{"agent_name":"a"}`, "")
}

// The same profile registers with another definition once its runners drain or have left. Unclaimed runs continue with
// that definition if they fit it; the others fail and say so. Claimed runs are left alone.
func TestAnUpgradeChangesADefinition(t *testing.T) {
	t.Parallel()
	for name, drains := range map[string]bool{"the old runner drains": true, "the old runner has left": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upgradeWithAnotherDefinition(t, drains)
		})
	}
}

func upgradeWithAnotherDefinition(t *testing.T, drains bool) {
	s := natstest.Server(t)
	c := start(t, natstest.Open(t, s), Config{})
	one := runner("one", numbered("a", "n"), echo("same"))
	register(t, c, one)
	claimed := claim(t, c, submit(t, c, `{"agent_name":"a","parameters":{"n":1}}`, "").RunID, one)
	queued := submit(t, c, `{"agent_name":"a","parameters":{"n":2}}`, "").RunID
	active(t, c, queued, "is queued", isQueued)
	after := numbered("a", "n")
	after.ParametersSchema = json.RawMessage(`{"type":"object","properties":{"n":{"maximum":5}}}`)
	after.Command, after.TimeoutSeconds = "./other", 7
	_, err := c.Register(t.Context(), elsewhere("two", after))
	wantCode(t, err, "agent_name_collision") // one is online
	farewell(t, c, one, true)
	fits, not := submit(t, c, `{"agent_name":"a","parameters":{"n":3}}`, "").RunID,
		submit(t, c, `{"agent_name":"a","parameters":{"n":6}}`, "").RunID
	if !drains {
		bye(t, c, one)
	}
	same := submit(t, c, `{"agent_name":"same"}`, "").RunID
	two := elsewhere("two", after, echo("same"))
	two.AgentHashes = runnerapi.AgentSet(two.Agents)
	register(t, c, two)
	hash := after.Hash()
	for _, id := range []string{queued, fits} {
		a := active(t, c, id, "is queued with the new definition",
			func(a state.Active) bool { return isQueued(a) && a.Spec.Owner == hash })
		if w, _ := c.Queues.Want(a.Queue); !two.Matches(w) || a.Spec.Timeout != 7 ||
			!strings.Contains(string(a.Spec.Blueprint), "./other") || a.Attempt != 1 {
			t.Errorf("it is %+v in queue %s", a.Spec, a.Queue)
		}
		finish(t, c, claim(t, c, id, two))
		r, err := c.Show(t.Context(), id)
		if err != nil || r.Status != run.Completed || r.Attempt != 1 {
			t.Errorf("%+v %v", r, err)
		}
	}
	natstest.Until(t, "what does not fit has failed", func() bool { return c.History.Ended(not) })
	r, err := c.Show(t.Context(), not)
	if err != nil || r.Error == nil || r.Error.Code != "parameter_validation_failed" ||
		!strings.Contains(r.Error.Message, `The definition of agent "a" changed`) {
		t.Errorf("%+v %v", r, err)
	}
	finish(t, c, claim(t, c, same, two))
	if now, ok := c.History.Active(claimed.Spec.ID); !ok || now.Spec.Owner != claimed.Spec.Owner || now.Claim == nil {
		t.Errorf("the claimed run: %+v", now)
	}
	finish(t, c, claimed)
	late := start(t, natstest.Open(t, s), Config{}) // who reads it all later says the same
	for _, id := range []string{queued, fits, same, claimed.Spec.ID} {
		if r, err := late.Show(t.Context(), id); err != nil || r.Status != run.Completed {
			t.Errorf("%+v %v", r, err)
		}
	}
}

// What decides a run's end stays as it was when the run was accepted. So a run whose definition was changed and changed
// back completes, from whichever queue a runner takes it. The first queue has the first definition.
func TestADefinitionThatIsChangedBack(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	one := runner("one", echo("a"))
	register(t, c, one)
	id := submit(t, c, `{"agent_name":"a"}`, "").RunID
	active(t, c, id, "is queued", isQueued)
	bye(t, c, one)
	after := echo("a")
	after.OutputSchema, after.MaxAttempts = json.RawMessage(`{"type":"object","required":["n"]}`), 3
	two := elsewhere("two", after)
	register(t, c, two)
	hash := after.Hash()
	a := active(t, c, id, "is queued with the new definition",
		func(a state.Active) bool { return a.Spec.Owner == hash })
	if a.Spec.HasOutputSchema || a.Spec.Output != nil || a.Spec.Attempts != 0 {
		t.Errorf("what decides its end has changed: %+v", a.Spec)
	}
	bye(t, c, two)
	back := runner("back", echo("a"))
	register(t, c, back)
	finish(t, c, claim(t, c, id, back))
	if r, err := c.Show(t.Context(), id); err != nil || r.Status != run.Completed {
		t.Errorf("%+v %v", r, err)
	}
}

// A body that is too large for a record goes on with the new definition like any other.
func TestALargeRunIsRenewed(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	part := `"` + strings.Repeat("x", run.MaxInline/4) + `"` // what one argument holds
	wide := `"a":` + part + `,"b":` + part + `,"c":` + part + `,"d":` + part
	one := runner("one", echo("a"))
	register(t, c, one)
	bye(t, c, one)
	id := submit(t, c, `{"agent_name":"a","parameters":{`+wide+`}}`, "").RunID
	after := echo("a")
	after.Command = "./other"
	two := elsewhere("two", after)
	register(t, c, two)
	finish(t, c, claim(t, c, id, two))
	s, err := c.History.Spec(t.Context(), id)
	if err != nil || !strings.Contains(string(s.Blueprint), "./other") || len(s.Parameters) < run.MaxInline {
		t.Errorf("%s %v", s.Blueprint, err)
	}
}

// A run that an older coordinator accepted, with what no command line holds, ends with the reason where its definition
// changes.
func TestARunThatNoCommandLineHoldsIsNotRenewed(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	one := runner("one", echo("a"))
	register(t, c, one)
	bye(t, c, one)
	p, err := c.Check(t.Context(), []byte(`{"agent_name":"a","parameters":{"x":1}}`), "test")
	if err != nil {
		t.Fatal(err)
	}
	p.Spec.Input.Parameters = json.RawMessage(`{"a b":1}`)
	acc, err := c.Place(t.Context(), p, run.NewID(), run.NewSessionID())
	if err != nil {
		t.Fatal(err)
	}
	after := echo("a")
	after.Command = "./other"
	register(t, c, elsewhere("two", after))
	natstest.Until(t, "the run has ended", func() bool {
		r, err := c.Show(t.Context(), acc.RunID)
		return err == nil && r.Status == run.Failed && r.Error != nil &&
			strings.Contains(r.Error.Message, "cannot be passed to a command")
	})
}
