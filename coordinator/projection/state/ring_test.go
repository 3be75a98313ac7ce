package state

import (
	"slices"
	"strings"
	"testing"

	"ao/shared/run"
)

// The ring of changes has every change behind a position that it covers, however often it wrapped.
func TestRingOfChanges(t *testing.T) {
	var c changes
	for seq := range uint64(3*MaxNoted + 5) {
		c.add(seq+1, &Row{First: seq + 1})
	}
	last := uint64(3*MaxNoted + 5)
	for _, tt := range []struct {
		seq   uint64
		first uint64
		ok    bool
	}{{last, last, true}, {last - 10, last - 10, true}, {last - MaxNoted, last - MaxNoted + 1, true},
		{last - MaxNoted - 1, last - MaxNoted + 1, false}, {0, last - MaxNoted + 1, false}} {
		n, ok := c.Since(tt.seq)
		if ok != tt.ok || c.at(n).row.First != tt.first {
			t.Errorf("since %d: %d %t, want %d %t", tt.seq, c.at(n).row.First, ok, tt.first, tt.ok)
		}
	}
	if n, _ := c.Since(last + 1); n != c.count {
		t.Error("behind the last change there is one")
	}
}

// Every run that a record changes is noted, also where the record names another.
func TestRecordChangesOtherRuns(t *testing.T) {
	parent, child := newActor(t, run.NewID(), "ses_parent", "x"), newActor(t, run.NewID(), "ses_child", "x")
	child.Spec.Parent, child.Spec.Mode, parent.Spec.AgentType = "ses_parent", run.AsyncCallback, run.Autonomous
	turn := newActor(t, run.NewID(), "ses_parent", "x")
	turn.Spec.Type = run.Resume
	f := newReducer(nil)
	seq := uint64(0)
	changed := func(e entry) string {
		seq++
		before := f.Changes.count
		if _, err := f.Apply(Record{Subject: e.Subject, Body: e.Body, Seq: seq, Time: began}); err != nil {
			t.Fatal(err)
		}
		names := map[string]string{parent.Spec.ID: "parent", child.Spec.ID: "child", turn.Spec.ID: "turn"}
		var all []string
		for n := before; n < f.Changes.count; n++ {
			all = append(all, names[f.Changes.at(n).row.ID()])
		}
		slices.Sort(all)
		return strings.Join(slices.Compact(all), " ")
	}
	for i, tt := range []struct {
		e    entry
		want string
	}{
		{parent.Queued(1), "parent"}, {parent.Claimed(1), "parent"}, {child.Queued(1), "child"},
		{child.Claimed(1), "child"},
		{parent.Ended(1, run.Completed, 0), "parent"}, {child.Ended(1, run.Completed, 0), "child"},
		{turn.Accepted(), "turn"},
		{turn.Callback(child.Spec.ID), "child turn"}, {turn.Stopping(), "turn"},
	} {
		if got := changed(tt.e); got != tt.want {
			t.Errorf("record %d: %q changed, want %q", i, got, tt.want)
		}
	}
}
