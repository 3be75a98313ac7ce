package projection

import (
	"testing"

	"ao/shared/run"
)

// TestUsageFollowsTheRecords: what a run's records take counts to its caller and its tree, the same after a restart
// from a checkpoint. A run that is forgotten takes nothing.
func TestUsageFollowsTheRecords(t *testing.T) {
	top, child := newActor(t, "run_1", "ses_1", "a"), newActor(t, "run_2", "ses_2", "a")
	other := newActor(t, "run_3", "ses_3", "a")
	top.spec.Caller, child.spec.Caller, other.spec.Caller = "000000aa00000000", "000000aa00000000", "000000bb00000000"
	child.spec.Parent = "ses_1"
	records := []entry{top.queued(1), top.claimed(1),
		child.queued(1), child.claimed(1), child.ended(1, run.Completed, 0), other.queued(1),
		other.claimed(1), other.ended(1, run.Failed, 0), other.claimed(1)}
	var of [3]Used
	for i, e := range records[:8] { // the last one changes nothing
		of[[]int{0, 0, 1, 1, 1, 2, 2, 2}[i]].Bytes += int64(len(e.Subject) + len(e.Body) + recordOverhead)
	}
	j := joined(nil, Config{Key: keyOf})
	for i, e := range records {
		j.reducer.apply(message(i+1, e))
	}
	is := func(when string, j *allParts, caller, session string, want [3]Used) {
		t.Helper()
		all, mine, tree := j.Used(caller, session)
		if got := [3]Used{all, mine, tree}; got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	a := Used{of[0].Bytes + of[1].Bytes, 0} // no run has more records than it needs
	all := Used{a.Bytes + of[2].Bytes, 8}
	check := func(when string, j *allParts) {
		t.Helper()
		is(when+", from the top", j, top.spec.Caller, "ses_1", [3]Used{all, a, a})
		is(when+", from below", j, top.spec.Caller, "ses_2", [3]Used{all, a, a})
		is(when+", another", j, other.spec.Caller, "ses_3", [3]Used{all, of[2], {}})
		is(when+", nobody", j, "000000cc00000000", "", [3]Used{all, {}, {}})
	}
	check("applied", j)
	f, err := loadBytes(snap(t, j, func() {}), "RUNS then", keyOf)
	if err != nil {
		t.Fatal(err)
	}
	check("restored", over(f))
	j.reducer.apply(message(len(records)+1, other.deleted()))
	if got := (&row{Bytes: 7, Records: 9}).used(); got != (Used{7, 5}) {
		t.Errorf("of a run with nine records %v count", got)
	}
	is("deleted", j, other.spec.Caller, "ses_3", [3]Used{{a.Bytes, 5}, {}, {}})
}

// TestASessionThatGetsAParentLater: its first turn is forgotten, and a later one was sent by another session. What it
// has counts to that tree, once.
func TestASessionThatGetsAParentLater(t *testing.T) {
	top := newActor(t, "run_9", "ses_9", "a")
	first, second := newActor(t, "run_1", "ses_1", "a"), newActor(t, "run_2", "ses_1", "a")
	second.spec.Type, second.spec.Parent = run.Resume, "ses_9"
	child := newActor(t, "run_3", "ses_3", "a")
	child.spec.Parent = "ses_1"
	j, n := joined(nil, Config{Key: keyOf}), 0
	apply := func(all ...entry) {
		for _, e := range all {
			n++
			j.reducer.apply(message(n, e))
		}
	}
	apply(first.queued(1), first.claimed(1), first.ended(1, run.Completed, 0), top.queued(1), top.claimed(1),
		second.queued(1), second.claimed(1), second.ended(1, run.Completed, 0))
	j.reducer.forget(4)
	apply(child.queued(1))
	all, _, tree := j.Used("", "ses_9")
	if tree.Bytes != all.Bytes {
		t.Errorf("the tree has %d of %d bytes", tree.Bytes, all.Bytes)
	}
	apply(first.deleted())
	all, _, tree = j.Used("", "ses_9")
	if tree.Bytes != all.Bytes {
		t.Errorf("without the session in the middle, the tree has %d of %d bytes", tree.Bytes, all.Bytes)
	}
}
