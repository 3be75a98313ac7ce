package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// stopTree is a request to stop a member's tree: as of the turn that was claimed last, or of another one, and too late.
func (f *scenario) stopTree(m *member) {
	root := m.turns[0]
	for _, r := range m.turns {
		if r.wasClaimed {
			root = r
		}
	}
	if f.rng.IntN(6) == 0 {
		root = m.turns[f.rng.IntN(len(m.turns))]
	}
	w := run.TreeStop{V: 1, SessionID: m.id, At: began}
	if f.rng.IntN(2) == 0 {
		w.RunID = root.Spec.ID
	}
	f.add(entry{Subject: subject.Tree(root.Part, m.id, root.Spec.ID), Body: body(f.t, w)})
}

// suppress suppresses the member's pending callbacks.
func (f *scenario) suppress(m *member) {
	i := slices.IndexFunc(m.turns, func(r *turn) bool { return r.wasClaimed })
	if i < 0 || len(m.pending) == 0 {
		return
	}
	c := run.Callback{V: 1, RunID: m.turns[i].Spec.ID, At: began, Suppressed: true}
	for _, child := range m.pending {
		child.reported = true
		c.Children = append(c.Children, child.Spec.ID)
	}
	first := m.pending[0]
	f.add(entry{Subject: subject.Callback(first.Part, m.id, c.Children[0], first.deliveries), Body: body(f.t, c)})
	for _, child := range m.pending {
		child.deliveries++
	}
	m.pending = nil
}

func stoppedScenarios(t testing.TB, rng *rand.Rand, n int) (all []*scenario) {
	for range n {
		f := &scenario{t: t, rng: rng, stops: true}
		f.start(nil)
		for range 10 + rng.IntN(150) {
			f.step()
		}
		all = append(all, f)
	}
	return all
}

// belowIndexed checks that a stop would reach what it has to, and nothing else is kept for it.
func belowIndexed(t *testing.T, f *State) {
	t.Helper()
	for id, sessions := range f.Trees.below {
		for i, s := range sessions {
			if int(s.placeBelow) != i+1 || s.runs == 0 || IdentOf(SessionPrefix, s.Parent) != id ||
				len(s.live) == 0 && !f.pending[s] && len(f.Trees.below[s.Ident]) == 0 {
				t.Fatalf("session %s is kept below %v", s.ID(), id)
			}
		}
	}
	for _, s := range f.sessions {
		if matters := len(s.live) > 0 || f.pending[s] || len(f.Trees.below[s.Ident]) > 0; s.Parent != "" &&
			matters != slices.Contains(f.Trees.below[IdentOf(SessionPrefix, s.Parent)], s) {
			t.Fatalf("session %s matters %t, below %q", s.ID(), matters, s.Parent)
		}
	}
	for r := range f.Trees.stopping {
		if r.live == nil || r.live.snap.TreeStop.Seq == 0 || !r.live.snap.Stopping {
			t.Fatalf("run %s is not to be stopped", r.ID())
		}
	}
	for r := f.head; r != nil; r = r.live.next {
		if h := r.live.snap.TreeStop; (h.Seq != 0) != f.Trees.stopping[r] {
			t.Fatalf("run %s is to be stopped by %d, and kept for that %t", r.ID(), h.Seq, f.Trees.stopping[r])
		}
	}
}

// Stops of trees change nothing of what holds for every reducer. Repetition, permutation, checkpoints and truncation
// give the same result.
func TestStoppedScenariosAreTheSameForAll(t *testing.T) {
	for seed := range uint64(natstest.Load(45, 150)) {
		rng := rand.New(rand.NewPCG(seed, 21))
		all := stoppedScenarios(t, rng, 2)
		records := interleave(rng, recordsOf(all))
		j := joined(keyOf, marked)
		again := blank()
		for i, e := range records {
			j.state.Apply(message(i+1, e))
			agree(t, j.state)
			checkCallbacks(t, j.state)
			again.Apply(message(i+1, e))
			if rng.IntN(10) == 0 {
				back := rng.IntN(i + 1)
				again.Apply(message(back+1, records[back]))
			}
			if rng.IntN(25) == 0 {
				f, err := load(snap(t, over(again), func() {}), keyOf)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				f.checked = marked
				belowIndexed(t, f) // not a part of whole: a parent of deleted children only may be there or not
				if got, want := whole(f), whole(again); got != want {
					t.Fatalf("seed %d: a snapshot\n%s", seed, differ(got, want))
				}
				again = f
			}
		}
		want := draw(j.state)
		if got := draw(again); got != want {
			t.Fatalf("seed %d: over snapshots\n%s", seed, differ(got, want))
		}
		if got := draw(reducedWith(t, keyOf, interleave(rng, recordsOf(all)))); got != want {
			t.Fatalf("seed %d: permuted\n%s", seed, differ(got, want))
		}
	}
}

func TestTruncationKeepsPendingStops(t *testing.T) {
	halts := func(f *State) (all string) {
		var lines []string
		for r := range f.Trees.stopping {
			lines = append(lines, r.ID()+" is to be stopped with "+r.live.snap.TreeStop.Session)
		}
		for p, rows := range f.Trees.suppressing {
			for _, r := range rows {
				if p.canReceiveCallback() {
					lines = append(lines, p.ID()+" is not called back for "+r.ID())
				}
			}
		}
		for id := range f.Trees.stopped {
			lines = append(lines, fmt.Sprint(id, " is stopped"))
		}
		return sorted(lines)
	}
	for seed := range uint64(natstest.Load(60, 200)) {
		rng := rand.New(rand.NewPCG(seed, 23))
		records := interleave(rng, recordsOf(stoppedScenarios(t, rng, 3)))
		n := 1 + rng.IntN(len(records))
		j := joined(keyOf, marked)
		for i, e := range records[:n] {
			j.state.Apply(message(i+1, e))
		}
		cut := j.Prunable(rng.IntN(20), began.Add(-1), began.Add(1))
		before := openWork(j.state)
		j.Forget(cut)
		agree(t, j.state)
		checkCallbacks(t, j.state)
		if after := openWork(j.state); after != before {
			t.Fatalf("seed %d: truncation touched what is open or pending:\n%s", seed, differ(after, before))
		}
		anew := blank()
		for i := int(cut) - 1; i < n; i++ {
			anew.Apply(message(i+1, records[i]))
		}
		if got, want := halts(j.state)+"\n"+draw(j.state), halts(anew)+"\n"+draw(anew); got != want {
			t.Fatalf("seed %d: cut %d of %d\n%s", seed, cut, n, differ(got, want))
		}
	}
}
