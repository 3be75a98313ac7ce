package state

import (
	"math/rand/v2"
	"testing"
)

// childrenKept holds the index of children against what every session says of its parent.
func childrenKept(t *testing.T, f *State) {
	t.Helper()
	n := 0
	for id, all := range f.Trees.Children {
		n += len(all)
		for i, s := range all {
			if int(s.place) != i || IdentOf(SessionPrefix, s.Parent) != id || s.runs == 0 || f.sessions[s.Ident] != s {
				t.Errorf(
					"the child %s of %s is at %d, not %d, or gone",
					s.ID(),
					id.Text(SessionPrefix),
					s.place,
					i,
				)
			}
		}
		if len(all) == 0 {
			t.Error("a parent without children is kept")
		}
	}
	for _, s := range f.sessions {
		if s.Parent != "" {
			n--
		}
	}
	if n != 0 {
		t.Errorf("the index has %d children too many", n)
	}
}

// Deletions, truncation and checkpoints keep the index of children.
func TestChildrenAreIndexedByParent(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 1))
	for range 20 {
		records := tidy(rng, scenarios(t, rng, 3))
		f := newReducer(keyOf)
		for i, e := range records {
			f.Apply(Record{Subject: e.Subject, Body: e.Body, Seq: uint64(i + 1), Time: began})
		}
		childrenKept(t, f)
		loaded, err := load(snap(t, over(f), func() {}), keyOf)
		if err != nil {
			t.Fatal(err)
		}
		childrenKept(t, loaded)
		if f.head == nil {
			f.Forget(f.seq / 2)
		} else {
			f.Forget(min(f.seq/2, f.head.First))
		}
		childrenKept(t, f)
	}
}
