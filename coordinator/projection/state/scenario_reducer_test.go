package state

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
)

// checkCallbacks checks what must hold of callbacks at any moment. An ended child is listed by one turn that was
// claimed or waits, or its callback is pending or suppressed, or it has no parent.
func checkCallbacks(t *testing.T, f *State) {
	t.Helper()
	for _, r := range f.order {
		if r.Evicted || !r.Callback {
			continue
		}
		p := f.parentOf(r)
		listed := 0
		if p != nil {
			for _, o := range append(slices.Clone(p.pending), f.Trees.suppressing[p]...) {
				if o == r {
					listed++
				}
			}
		}
		pending := r.live == nil && !r.Reported && p != nil
		if pending != (listed == 1) || listed > 1 ||
			pending && r.Suppressed != slices.Contains(f.Trees.suppressing[p], r) ||
			pending && !r.Suppressed && !f.pending[p] {
			t.Fatalf("run %s: pending %t, %d times in its parent's list", r.ID(), pending, listed)
		}
		if r.Reported && r.turn != nil && !r.turn.Evicted && !r.turn.ClaimedByRunner &&
			(r.turn.live == nil || !slices.Contains(r.turn.live.children, r)) {
			t.Fatalf("run %s is reported by a turn that ended unclaimed", r.ID())
		}
	}
	for p := range f.pending {
		if p.runs == 0 || len(p.pending) == 0 {
			t.Fatalf("session %s has no callbacks or is deleted", p.ID())
		}
	}
	belowIndexed(t, f)
}

func scenarios(t testing.TB, rng *rand.Rand, n int) (all []*scenario) {
	for range n {
		all = append(all, newScenario(t, rng, 10+rng.IntN(150)))
	}
	return all
}

func recordsOf(all []*scenario) (records [][]entry) {
	for _, f := range all {
		records = append(records, f.records)
	}
	return records
}

func TestScenariosAgreeWithTheirModel(t *testing.T) {
	for seed := range uint64(natstest.Load(45, 150)) {
		rng := rand.New(rand.NewPCG(seed, 11))
		one := newScenario(t, rng, 10+rng.IntN(200))
		f := blank()
		for i, e := range one.records {
			if _, err := f.Apply(message(i+1, e)); err != nil {
				t.Fatal(err)
			}
			agree(t, f)
			checkCallbacks(t, f)
		}
		one.check(t, f)
	}
}

func TestRepetitionReplayAndPermutationOfScenarios(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 12))
		all := scenarios(t, rng, 3)
		records := interleave(rng, recordsOf(all))
		once, again := blank(), blank()
		for i, e := range records {
			once.Apply(message(i+1, e))
			again.Apply(message(i+1, e))
			if back := rng.IntN(i + 1); rng.IntN(3) == 0 { // a follower that starts over
				for n := back; n <= i; n++ {
					again.Apply(message(n+1, records[n]))
				}
			}
		}
		want := draw(once)
		if got := draw(again); got != want {
			t.Fatalf("seed %d: again\n%s", seed, differ(got, want))
		}
		for range 3 {
			if got := draw(reducedWith(t, keyOf, interleave(rng, recordsOf(all)))); got != want {
				t.Fatalf("seed %d: permuted\n%s", seed, differ(got, want))
			}
		}
	}
}

// A coordinator that was there when the history was truncated sees the same as one that started afterwards, then and
// ever after. Truncation touches nothing that is open or pending.
func TestTruncatedHistoryIsTheSameForAll(t *testing.T) {
	for seed := range uint64(natstest.Load(60, 200)) {
		rng := rand.New(rand.NewPCG(seed, 13))
		records := tidy(rng, scenarios(t, rng, 3))
		n := 1 + rng.IntN(len(records))
		j := joined(keyOf, marked)
		for i, e := range records[:n] {
			j.state.Apply(message(i+1, e))
		}
		first, purged := uint64(1), map[uint64]bool{}
		for range 1 + rng.IntN(3) {
			before := openWork(j.state)
			if late := j.LateRecords(); rng.IntN(2) == 0 && len(late) > 0 { // as a coordinator does
				purge := late[rng.IntN(len(late))]
				purged[purge.Seq] = true
				j.ForgetLate(purge)
			}
			cut := j.Prunable(rng.IntN(20), began.Add(time.Duration(rng.IntN(2)*2-1)*time.Hour), began.Add(time.Hour))
			if rng.IntN(2) == 0 { // it goes in steps
				cut -= uint64(rng.IntN(int(cut)))
			}
			cut = max(cut, first)
			first = cut
			j.Forget(cut)
			agree(t, j.state)
			checkCallbacks(t, j.state)
			if after := openWork(j.state); after != before {
				t.Fatalf("seed %d: truncation touched what is open or pending:\n%s", seed, differ(after, before))
			}
			anew := blank()
			for i := int(cut) - 1; i < n; i++ {
				if !purged[uint64(i+1)] {
					anew.Apply(message(i+1, records[i]))
				}
			}
			if got, want := draw(j.state), draw(anew); got != want {
				t.Fatalf("seed %d: cut %d of %d\n%s", seed, cut, n, differ(got, want))
			}
			for i := n; i < len(records) && rng.IntN(30) > 0; i++ {
				n++
				if requeued(j.state, records[:i], records[i]) { // no dispatch takes as long as that
					purged[uint64(i+1)] = true
					continue
				}
				j.state.Apply(message(i+1, records[i]))
				anew.Apply(message(i+1, records[i]))
			}
			if got, want := draw(j.state), draw(anew); got != want {
				t.Fatalf("seed %d: cut %d, then up to %d\n%s", seed, cut, n, differ(got, want))
			}
		}
	}
}

// requeued reports whether a record queues a run again that was truncated.
func requeued(f *State, before []entry, e entry) bool {
	rec, err := subject.Parse(e.Subject)
	return err == nil && rec.Kind == subject.QueuedKind && f.runs[IdentOf(RunPrefix, rec.Run)] == nil &&
		slices.ContainsFunc(before, func(o entry) bool {
			was, err := subject.Parse(o.Subject)
			return err == nil && was.Run == rec.Run
		})
}

// tidy interleaves scenarios without the deletions that had no effect: a coordinator takes those away.
func tidy(rng *rand.Rand, all []*scenario) []entry {
	var histories [][]entry
	for _, f := range all {
		var kept []entry
		for i, e := range f.records {
			if !slices.Contains(f.refused, i) {
				kept = append(kept, e)
			}
		}
		histories = append(histories, kept)
	}
	return interleave(rng, histories)
}

// openWork are what truncation must not touch. These are the runs that have not ended, with the executor sessions that
// they continue, and all due callbacks and webhooks.
func openWork(f *State) string {
	j := over(f)
	var lines []string
	for r := f.head; r != nil; r = r.live.next {
		lines = append(lines, r.ID()+" goes on with "+r.session.Binding().Model)
	}
	for _, o := range j.DueCallbacks() {
		for _, c := range o.Children {
			lines = append(lines, o.Session+" is to be called back for "+c.RunID)
		}
	}
	for _, h := range j.DueWebhooks(all(began.Add(time.Hour))) {
		lines = append(lines, "webhook of "+h.RunID)
	}
	return sorted(lines)
}

// differ shows the lines that only one of two texts has.
func differ(got, want string) string {
	lines := map[string]int{}
	for _, l := range strings.Split(got, "\n") {
		lines[l]++
	}
	for _, l := range strings.Split(want, "\n") {
		lines[l]--
	}
	var all []string
	for l, n := range lines {
		switch {
		case n > 0:
			all = append(all, l+"   <- only here")
		case n < 0:
			all = append(all, l+"   <- missing")
		}
	}
	return sorted(all)
}
