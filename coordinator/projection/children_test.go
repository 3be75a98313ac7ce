package projection

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// childrenKept holds the index of children against what every session says of its parent.
func childrenKept(t *testing.T, f *reducer) {
	t.Helper()
	n := 0
	for id, all := range f.trees.children {
		n += len(all)
		for i, s := range all {
			if int(s.place) != i || identOf(sessionPrefix, s.Parent) != id || s.runs == 0 || f.sessions[s.Ident] != s {
				t.Errorf(
					"the child %s of %s is at %d, not %d, or gone",
					s.sessionID(),
					id.text(sessionPrefix),
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
			f.apply(Record{Subject: e.Subject, Body: e.Body, Seq: uint64(i + 1), Time: began})
		}
		childrenKept(t, f)
		loaded, err := loadBytes(snap(t, over(f), func() {}), "RUNS then", keyOf)
		if err != nil {
			t.Fatal(err)
		}
		childrenKept(t, loaded)
		if f.head == nil {
			f.forget(f.seq / 2)
		} else {
			f.forget(min(f.seq/2, f.head.First))
		}
		childrenKept(t, f)
	}
}

// A root reports how many runs the sessions right below its own have. A session whose parent was deleted is a root.
func TestRoots(t *testing.T) {
	b := start(t, Config{})
	top, left, right, below := b.actor("ses_top"), b.actor("ses_left"), b.actor("ses_right"), b.actor("ses_below")
	left.spec.Parent, right.spec.Parent, below.spec.Parent = "ses_top", "ses_top", "ses_left"
	turn := b.actor("ses_left")
	b.Await(t.Context(), b.write(top.queued(1), left.queued(1), right.queued(1), below.queued(1), turn.accepted()))
	shown := func() (all []string) {
		p, err := b.Runs(t.Context(), Query{Roots: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Runs {
			all = append(all, r.SessionID+" "+string(rune('0'+r.Children)))
		}
		return all
	}
	if got, want := shown(), []string{"ses_top 3"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	b.Await(
		t.Context(),
		b.write(
			left.claimed(1),
			left.ended(1, "completed", 0),
			turn.queued(1),
			turn.claimed(1),
			turn.ended(1, "completed", 0),
			left.deleted(),
		),
	)
	if got, want := shown(), []string{"ses_below 0", "ses_top 1"}; !slices.Equal(got, want) {
		t.Errorf("once its parent is deleted: got %v, want %v", got, want)
	}
}
