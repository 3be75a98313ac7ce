package query

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/fault"
	"ao/shared/run"
)

// drawn is a tree as a text: a line for each session, with its runs.
func drawn(p TreePage) string {
	var b strings.Builder
	for _, s := range p.Sessions {
		fmt.Fprintf(&b, "%s%s", strings.Repeat("  ", s.Depth), strings.TrimPrefix(s.ID, "ses_"))
		if s.Deleted {
			b.WriteString(" deleted")
		}
		for _, r := range s.Runs {
			fmt.Fprintf(&b, " %s/%s", strings.TrimSuffix(r.Type, "_session"), r.Status)
			if r.Error != nil {
				b.WriteString("(" + r.Error.Code + ")")
			}
			if len(r.Reports) > 0 {
				fmt.Fprintf(&b, " reports %d", len(r.Reports))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (b *bench) tree(id string, limit int, cursor string) TreePage {
	b.t.Helper()
	p, err := b.Tree(b.t.Context(), id, limit, cursor)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// A tree has all below a session, also below a deleted session, over a restart too.
func TestTreeHasAllDescendants(t *testing.T) {
	b := start(t, projection.Config{})
	top, mid, leaf, side := b.actor("ses_top"), b.actor("ses_mid"), b.actor("ses_leaf"), b.actor("ses_side")
	top.Spec.AgentType, side.Spec.Mode = run.Autonomous, run.AsyncCallback
	mid.Spec.Parent, leaf.Spec.Parent, side.Spec.Parent = "ses_top", "ses_mid", "ses_top"
	turn := b.actor("ses_top")
	turn.Spec.Type, turn.Spec.AgentType = run.Resume, run.Autonomous
	b.Await(
		t.Context(),
		b.write(
			top.Queued(1),
			top.Claimed(1),
			mid.Queued(1),
			mid.Claimed(1),
			leaf.Queued(1),
			side.Queued(1),
			side.Claimed(1),
			mid.Ended(
				1,
				run.Completed,
				0,
			),
			side.Ended(1, run.Failed, 0),
			top.Ended(1, run.Completed, 0),
			turn.Accepted(),
			turn.Callback(side.Spec.ID),
		),
	)
	const want = `top start/completed resume/pending reports 1
  mid start/completed
    leaf start/pending
  side start/failed(command_failed)
`
	if got := drawn(b.tree("ses_top", 0, "")); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := drawn(b.tree("ses_mid", 0, "")); got != "mid start/completed\n  leaf start/pending\n" {
		t.Errorf("of a child: %s", got)
	}
	var pages string
	for cursor, n := "", 0; ; n++ {
		p := b.tree("ses_top", 1, cursor)
		pages += drawn(p)
		if p.Next == "" {
			if n != 3 {
				t.Errorf("%d pages", n+1)
			}
			break
		}
		cursor = p.Next
	}
	if pages != want {
		t.Errorf("page by page\n%swant\n%s", pages, want)
	}

	b.Await(t.Context(), b.write(mid.DeletedBelow("ses_top")))
	const orphaned = `top start/completed resume/pending reports 1
  mid deleted
    leaf start/pending
  side start/failed(command_failed)
`
	for name, p := range map[string]TreePage{"top": b.tree("ses_top", 0, ""),
		"anew": (&bench{another(t, b.bus, projection.Config{}), t, b.bus, nil}).tree("ses_top", 0, "")} {
		if got := drawn(p); got != orphaned {
			t.Errorf("%s: got\n%swant\n%s", name, got, orphaned)
		}
	}
	if got := drawn(b.tree("ses_mid", 0, "")); got != "mid deleted\n  leaf start/pending\n" {
		t.Errorf("of what was deleted: %s", got)
	}
	for _, id := range []string{"ses_none", run.NewSessionID()} {
		if _, err := b.Tree(t.Context(), id, 0, ""); fault.KindOf(err) != fault.NotFound {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, bad := range []string{"x", cursorAt(runCursor, 1), strings.Repeat("A", 300)} {
		if _, err := b.Tree(t.Context(), "ses_top", 0, bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("cursor %q: %v", bad, err)
		}
	}
	if _, err := b.Tree(t.Context(), "ses_top", 1001, ""); fault.KindOf(err) != fault.Invalid {
		t.Error("a limit of 1001")
	}
}

// 5,000 sessions, eight deep, are read in pages, each once and behind its parent.
func TestALargeTree(t *testing.T) {
	f := state.New(nil, nil, 0)
	names := []string{"ses_0"}
	rng := rand.New(rand.NewPCG(5, 8))
	depths := map[string]int{"ses_0": 0}
	for i := range 5000 {
		a := newActor(t, fmt.Sprintf("run_%d", i), fmt.Sprintf("ses_%d", i), "x")
		if i > 0 {
			up := names[rng.IntN(len(names))]
			if depths[up] == 8 {
				up = "ses_0"
			}
			a.Spec.Parent, depths[a.Spec.SessionID] = up, depths[up]+1
			names = append(names, a.Spec.SessionID)
		}
		e := a.Queued(1)
		f.Apply(state.Record{Subject: e.Subject, Body: e.Body, Seq: uint64(i + 1), Time: began})
	}
	b := start(t, projection.Config{})
	b.Restore(f)
	start := time.Now()
	seen := map[string]bool{}
	deepest := 0
	for cursor, pages := "", 0; ; pages++ {
		p := b.tree("ses_0", 1000, cursor)
		for _, s := range p.Sessions {
			if seen[s.ID] || s.ID != "ses_0" && !seen[s.Parent] || s.Depth != depths[s.ID] || len(s.Runs) != 1 {
				t.Fatalf("%+v", s)
			}
			seen[s.ID], deepest = true, max(deepest, s.Depth)
		}
		cursor = p.Next
		if cursor == "" {
			if pages != 4 {
				t.Errorf("%d pages", pages+1)
			}
			break
		}
	}
	t.Logf("read in %v", time.Since(start))
	if len(seen) != 5000 || deepest != 8 {
		t.Errorf("%d sessions, %d deep", len(seen), deepest)
	}
}
