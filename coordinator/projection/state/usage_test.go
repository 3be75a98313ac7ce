package state

import (
	"testing"

	"ao/shared/run"
)

// TestUsageFollowsTheRecords: what a run's records take counts to its caller and its tree, the same after a restart
// from a checkpoint. A run that is forgotten takes nothing.
func TestUsageFollowsTheRecords(t *testing.T) {
	top, child := newActor(t, "run_1", "ses_1", "a"), newActor(t, "run_2", "ses_2", "a")
	other := newActor(t, "run_3", "ses_3", "a")
	top.Spec.Caller, child.Spec.Caller, other.Spec.Caller = "000000aa00000000", "000000aa00000000", "000000bb00000000"
	child.Spec.Parent = "ses_1"
	records := []entry{top.Queued(1), top.Claimed(1),
		child.Queued(1), child.Claimed(1), child.Ended(1, run.Completed, 0), other.Queued(1),
		other.Claimed(1), other.Ended(1, run.Failed, 0), other.Claimed(1)}
	var of [3]Used
	for i, e := range records[:8] { // the last one changes nothing
		of[[]int{0, 0, 1, 1, 1, 2, 2, 2}[i]].Bytes += int64(len(e.Subject) + len(e.Body) + recordOverhead)
	}
	j := joined(keyOf, nil)
	for i, e := range records {
		j.state.Apply(message(i+1, e))
	}
	is := func(when string, j *asked, caller, session string, want [3]Used) {
		t.Helper()
		all, mine, tree := UsedBy(j.state, caller, session)
		if got := [3]Used{all, mine, tree}; got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	a := Used{of[0].Bytes + of[1].Bytes, 0} // no run has more records than it needs
	all := Used{a.Bytes + of[2].Bytes, 8}
	check := func(when string, j *asked) {
		t.Helper()
		is(when+", from the top", j, top.Spec.Caller, "ses_1", [3]Used{all, a, a})
		is(when+", from below", j, top.Spec.Caller, "ses_2", [3]Used{all, a, a})
		is(when+", another", j, other.Spec.Caller, "ses_3", [3]Used{all, of[2], {}})
		is(when+", nobody", j, "000000cc00000000", "", [3]Used{all, {}, {}})
	}
	check("applied", j)
	f, err := load(snap(t, j, func() {}), keyOf)
	if err != nil {
		t.Fatal(err)
	}
	check("restored", over(f))
	j.state.Apply(message(len(records)+1, other.Deleted()))
	if got := (&Row{Bytes: 7, Records: 9}).used(); got != (Used{7, 5}) {
		t.Errorf("of a run with nine records %v count", got)
	}
	is("deleted", j, other.Spec.Caller, "ses_3", [3]Used{{a.Bytes, 5}, {}, {}})
}

// TestASessionThatGetsAParentLater: its first turn is forgotten, and a later one was sent by another session. What it
// has counts to that tree, once.
func TestASessionThatGetsAParentLater(t *testing.T) {
	top := newActor(t, "run_9", "ses_9", "a")
	first, second := newActor(t, "run_1", "ses_1", "a"), newActor(t, "run_2", "ses_1", "a")
	second.Spec.Type, second.Spec.Parent = run.Resume, "ses_9"
	child := newActor(t, "run_3", "ses_3", "a")
	child.Spec.Parent = "ses_1"
	j, n := joined(keyOf, nil), 0
	apply := func(all ...entry) {
		for _, e := range all {
			n++
			j.state.Apply(message(n, e))
		}
	}
	apply(first.Queued(1), first.Claimed(1), first.Ended(1, run.Completed, 0), top.Queued(1), top.Claimed(1),
		second.Queued(1), second.Claimed(1), second.Ended(1, run.Completed, 0))
	j.state.Forget(4)
	apply(child.Queued(1))
	all, _, tree := UsedBy(j.state, "", "ses_9")
	if tree.Bytes != all.Bytes {
		t.Errorf("the tree has %d of %d bytes", tree.Bytes, all.Bytes)
	}
	apply(first.Deleted())
	all, _, tree = UsedBy(j.state, "", "ses_9")
	if tree.Bytes != all.Bytes {
		t.Errorf("without the session in the middle, the tree has %d of %d bytes", tree.Bytes, all.Bytes)
	}
}
