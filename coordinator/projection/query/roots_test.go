package query

import (
	"slices"
	"testing"

	"ao/coordinator/projection"
)

// A root reports how many runs the sessions right below its own have. A session whose parent was deleted is a root.
func TestRoots(t *testing.T) {
	b := start(t, projection.Config{})
	top, left, right, below := b.actor("ses_top"), b.actor("ses_left"), b.actor("ses_right"), b.actor("ses_below")
	left.Spec.Parent, right.Spec.Parent, below.Spec.Parent = "ses_top", "ses_top", "ses_left"
	turn := b.actor("ses_left")
	b.Await(t.Context(), b.write(top.Queued(1), left.Queued(1), right.Queued(1), below.Queued(1), turn.Accepted()))
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
			left.Claimed(1),
			left.Ended(1, "completed", 0),
			turn.Queued(1),
			turn.Claimed(1),
			turn.Ended(1, "completed", 0),
			left.Deleted(),
		),
	)
	if got, want := shown(), []string{"ses_below 0", "ses_top 1"}; !slices.Equal(got, want) {
		t.Errorf("once its parent is deleted: got %v, want %v", got, want)
	}
}
