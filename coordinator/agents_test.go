package coordinator

import (
	"testing"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/run"
)

// What is known of an agent comes from several sides, and who was slow brings what is older: it changes nothing.
func TestAnOlderLookAtAnAgentChangesNothing(t *testing.T) {
	c := begin(t, natstest.Bus(t), Config{})
	read := func() ([]byte, uint64) {
		t.Helper()
		value, rev, err := c.bus.Bucket(subject.Agents).Get(t.Context(), "thinker")
		if err != nil {
			t.Fatal(err)
		}
		return value, rev
	}
	known := func(what, want string) {
		t.Helper()
		got := "nothing"
		if k, ok := c.agents.find("thinker"); ok {
			got = k.Description
		}
		if got != want {
			t.Errorf("%s: %s is known, want %s", what, got, want)
		}
	}
	if _, err := c.CreateAgent(t.Context(), []byte(`{"name":"thinker","description":"first"}`)); err != nil {
		t.Fatal(err)
	}
	first, one := read()
	if _, err := c.ChangeAgent(t.Context(), "thinker", []byte(`{"description":"second"}`)); err != nil {
		t.Fatal(err)
	}
	second, two := read()
	c.agents.put("thinker", first, one)
	known("changed", "second")
	if err := c.DeleteAgent(t.Context(), "thinker"); err != nil {
		t.Fatal(err)
	}
	c.agents.put("thinker", second, two)
	known("deleted", "nothing")
	if _, err := c.CreateAgent(t.Context(), []byte(`{"name":"thinker","description":"third"}`)); err != nil {
		t.Fatal(err)
	}
	c.agents.put("thinker", nil, two+1)
	known("made again", "third")

	unwatched := newAgents(c)
	unwatched.put("thinker", second, two)
	unwatched.put("thinker", nil, 0)
	unwatched.put("thinker", first, 1)
	if k, ok := unwatched.find("thinker"); !ok || k.Description != "first" {
		t.Errorf("of a bucket that counts anew %q is known (%t), want first", k.Description, ok)
	}
}

// The lane that is remembered with an agent is the one of a run that asks for nothing; whoever asks for something gets its own.
func TestTheLaneOfAnAgentIsThatOfItsRuns(t *testing.T) {
	t.Parallel()
	plain := known{Blueprint: agent.Blueprint{Name: "a", Type: run.Procedural, ExecutorProfile: "own", Demands: &run.Demands{Tags: []string{"gpu"}, Hostname: "h"}}, owners: map[string]string{"b": "2", "a": "1"}, profile: "p"}
	kept := plain
	kept.lane = plain.want(plain.demands(run.Demands{})).Lane()
	for _, tt := range []struct {
		affinity run.Demands
		asked    []run.Demands
	}{
		{},
		{asked: []run.Demands{{}, {}}},
		{asked: []run.Demands{{ProjectDir: "/p"}, {}}},
		{asked: []run.Demands{{}, {Tags: []string{"x"}}}},
		{asked: []run.Demands{{}, {Hostname: "other"}}},
		{asked: []run.Demands{{}, {ExecutorType: "autonomous"}}},
		{asked: []run.Demands{{}, {ExecutorProfile: "other"}}},
		{affinity: run.Demands{Hostname: "there"}},
	} {
		want := kept.want(kept.demands(tt.affinity, tt.asked...))
		if got := kept.laneOf(want, append(tt.asked, tt.affinity)...); got != want.Lane() {
			t.Errorf("%+v: lane %s, want %s", tt, got, want.Lane())
		}
	}
}
