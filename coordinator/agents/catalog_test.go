package agents_test

import (
	"testing"

	"ao/coordinator/agents"
	"ao/coordinator/coordinatortest"
	"ao/coordinator/serve/parts"
	"ao/nats/natstest"
	"ao/nats/subject"
)

// An agent's definition comes from several sources. An older one that arrives late changes nothing.
func TestOlderAgentRevisionIsIgnored(t *testing.T) {
	b := natstest.Bus(t)
	c := coordinatortest.Start(t, b, parts.Config{})
	read := func() ([]byte, uint64) {
		t.Helper()
		value, rev, err := b.Bucket(subject.Agents).Get(t.Context(), "thinker")
		if err != nil {
			t.Fatal(err)
		}
		return value, rev
	}
	known := func(what, want string) {
		t.Helper()
		got := "nothing"
		if k, ok := c.Agents.Find("thinker"); ok {
			got = k.Description
		}
		if got != want {
			t.Errorf("%s: %s is known, want %s", what, got, want)
		}
	}
	if _, err := c.Agents.CreateAgent(t.Context(), []byte(`{"name":"thinker","description":"first"}`)); err != nil {
		t.Fatal(err)
	}
	first, one := read()
	if _, err := c.Agents.ChangeAgent(t.Context(), "thinker", []byte(`{"description":"second"}`), nil); err != nil {
		t.Fatal(err)
	}
	second, two := read()
	c.Agents.Put("thinker", first, one)
	known("changed", "second")
	if err := c.Agents.DeleteAgent(t.Context(), "thinker", nil); err != nil {
		t.Fatal(err)
	}
	c.Agents.Put("thinker", second, two)
	known("deleted", "nothing")
	if _, err := c.Agents.CreateAgent(t.Context(), []byte(`{"name":"thinker","description":"third"}`)); err != nil {
		t.Fatal(err)
	}
	c.Agents.Put("thinker", nil, two+1)
	known("made again", "third")

	unwatched := agents.New(agents.Config{})
	unwatched.Put("thinker", second, two)
	unwatched.Put("thinker", nil, 0)
	unwatched.Put("thinker", first, 1)
	if k, ok := unwatched.Find("thinker"); !ok || k.Description != "first" {
		t.Errorf("of a bucket that counts from one again %q is known (%t), want first", k.Description, ok)
	}
}
