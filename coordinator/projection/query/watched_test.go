package query

import (
	"context"
	"slices"
	"sync"
	"testing"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/fault"
	"ao/shared/run"
)

// watcher reads a watched list until the test ends.
type watcher struct {
	t     testing.TB
	items chan Item
	end   func()
}

func (b *bench) watch(q Query, after string) *watcher {
	ctx, cancel := context.WithCancel(b.t.Context())
	w := &watcher{b.t, make(chan Item), nil}
	var wg sync.WaitGroup
	wg.Go(func() {
		err := b.WatchRuns(ctx, q, after, func(i Item) error {
			select {
			case w.items <- i:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if ctx.Err() == nil {
			b.t.Errorf("the list is watched no more: %v", err)
		}
	})
	w.end = sync.OnceFunc(func() { cancel(); wg.Wait() })
	b.t.Cleanup(w.end)
	return w
}

// next is the next item.
func (w *watcher) next() Item {
	w.t.Helper()
	select {
	case i := <-w.items:
		return i
	case <-w.t.Context().Done():
		w.t.Fatal("the test is over")
		return Item{}
	}
}

// until reads items until all runs are in these statuses, and gives what it read.
func (w *watcher) until(want map[string]run.Status) (items []Item) {
	w.t.Helper()
	have := map[string]run.Status{}
	for {
		i := w.next()
		items = append(items, i)
		d, ok := i.Data.(RunsChanged)
		if !ok {
			w.t.Fatalf("%s %+v", i.Event, i.Data)
		}
		for _, r := range d.Runs {
			have[r.ID] = r.Status
		}
		missing := 0
		for id, s := range want {
			if have[id] != s {
				missing++
			}
		}
		if missing == 0 {
			return items
		}
	}
}

// A watcher gets the newest state of each run, and resumes behind any of its items.
func TestAWatchedListIsConflated(t *testing.T) {
	b := start(t, projection.Config{})
	w := b.watch(Query{}, "")
	if i := w.next(); i.Event != ItemInit || i.ID == "" {
		t.Fatalf("%+v", i)
	}
	a, c := b.actor("ses_1"), b.actor("ses_2")
	b.write(a.Queued(1), a.Claimed(1), c.Queued(1), a.Ended(1, run.Completed, 0), c.Claimed(1))
	items := w.until(map[string]run.Status{a.Spec.ID: run.Completed, c.Spec.ID: run.Claimed})
	if len(items) > 5 {
		t.Errorf("5 records came as %d items", len(items))
	}
	w.end()
	b.Await(t.Context(), b.write(c.Ended(1, run.Failed, 0)))
	again := b.watch(Query{}, items[len(items)-1].ID)
	again.until(map[string]run.Status{c.Spec.ID: run.Failed})
	again.end()
	other := b.watch(Query{}, items[len(items)-1].ID+"-17") // the id of another stream's item
	other.until(map[string]run.Status{c.Spec.ID: run.Failed})
	if err := b.WatchRuns(t.Context(), Query{}, "x", nil); fault.KindOf(err) != fault.Invalid {
		t.Error(err)
	}
}

// A watcher gets what matches, and what may have matched: a run that leaves by its status is seen leaving.
func TestAWatchedListIsFiltered(t *testing.T) {
	b := start(t, projection.Config{})
	a, c, child := b.actor("ses_1"), b.actor("ses_2"), b.actor("ses_3")
	c.Spec.Agent, child.Spec.Parent = "y", "ses_1"
	waiting := b.watch(Query{Statuses: []string{"pending"}, Agent: "x"}, "")
	failed := b.watch(Query{Statuses: []string{"failed"}}, "")
	roots := b.watch(Query{Roots: true, Agent: "x"}, "")
	mine := b.watch(Query{Runner: "rnr_1", Agent: "y"}, "")
	for _, w := range []*watcher{waiting, failed, roots, mine} {
		w.next()
	}
	b.Await(
		t.Context(),
		b.write(a.Queued(1), c.Queued(1), child.Queued(1), a.Claimed(1), c.Claimed(1), a.Ended(1, run.Completed, 0)),
	)
	b.Await(t.Context(), b.write(c.Ended(1, run.Failed, 0)))
	for name, tt := range map[string]struct {
		w    *watcher
		want map[string]run.Status
		not  string
	}{
		"what is pending": {waiting, map[string]run.Status{a.Spec.ID: run.Completed, child.Spec.ID: run.Pending},
			c.Spec.ID},
		"what failed": {failed, map[string]run.Status{c.Spec.ID: run.Failed}, a.Spec.ID},
		"roots":       {roots, map[string]run.Status{a.Spec.ID: run.Completed}, child.Spec.ID},
		"a runner's":  {mine, map[string]run.Status{c.Spec.ID: run.Failed}, a.Spec.ID},
	} {
		for _, i := range tt.w.until(tt.want) {
			if d := i.Data.(RunsChanged); slices.ContainsFunc(d.Runs, func(r run.Run) bool { return r.ID == tt.not }) {
				t.Errorf("%s: %s is none of it", name, tt.not)
			}
		}
	}
	b.Await(t.Context(), b.write(a.Deleted()))
	if d := roots.next().Data.(RunsChanged); !slices.Equal(d.Deleted, []string{a.Spec.ID}) {
		t.Errorf("a deleted session: %+v", d)
	}
}

// If more runs changed than one item holds, a watcher gets their number.
func TestWatchedListCountsFurtherChanges(t *testing.T) {
	b := start(t, projection.Config{})
	w := &watch{x: b.Feed, state: projection.Read(b.Projection, func(f *state.State) *state.State { return f })}
	var all []entry
	for range watchRows + 1 {
		all = append(all, b.actor(run.NewSessionID()).Queued(1))
	}
	b.Await(t.Context(), b.write(all...))
	var got []Item
	w.emit = func(i Item) error { got = append(got, i); return nil }
	if err := w.emitChanges(t.Context()); err != nil || len(got) != 1 || got[0].Event != ItemMore ||
		got[0].Data.(MoreChanged).More != watchRows+1 {
		t.Fatalf("%+v %v", got, err)
	}
	b.Await(t.Context(), b.write(b.actor("ses_1").Queued(1)))
	if err := w.emitChanges(t.Context()); err != nil || len(got) != 2 || len(got[1].Data.(RunsChanged).Runs) != 1 {
		t.Fatalf("%+v %v", got, err)
	}
	if err := w.emitChanges(t.Context()); err != nil || len(got) != 2 {
		t.Errorf("nothing changed, and it sends %+v %v", got[2:], err)
	}
}

// A position that is older than what a coordinator keeps, of another history, or from before its checkpoint, is a gap.
func TestAGapInAWatchedList(t *testing.T) {
	b := start(t, projection.Config{})
	a := b.actor("ses_1")
	b.Await(t.Context(), b.write(a.Queued(1), a.Claimed(1)))
	b.Restore(reloaded(t, projection.Read(b.Projection, func(f *state.State) *state.State { return f })))
	for _, after := range []string{"1", "99"} {
		w := b.watch(Query{}, after)
		if gap, init := w.next(), w.next(); gap.Event != ItemGap || gap.Data.(Gap).After != after ||
			init.Event != ItemInit ||
			init.ID != "2" {
			t.Errorf("behind %s: %+v, %+v", after, gap, init)
		}
		w.end()
	}
	w := b.watch(Query{}, "2")
	b.write(a.Ended(1, run.Completed, 0))
	w.until(map[string]run.Status{a.Spec.ID: run.Completed})
}

// A reader gets its position, or an error: it is not reached yet, or of another history.
func TestWaitPosition(t *testing.T) {
	b := start(t, projection.Config{})
	seq := b.write(b.actor("ses_1").Queued(1))
	if err := b.WaitPosition(t.Context(), seq); err != nil || b.Position() != seq || b.Written() != seq {
		t.Errorf("%v, position %d, written %d", err, b.Position(), b.Written())
	}
	b.NoteWritten(seq + 1)
	if b.Written() != seq+1 || b.Position() != seq {
		t.Error("what was written is not reported")
	}
	if err := b.WaitPosition(t.Context(), seq+1); fault.KindOf(err) != fault.Conflict {
		t.Errorf("beyond the end: %v", err)
	}
	behind := joined(b.bus, projection.Config{}) // reads nothing
	if err := behind.WaitPosition(t.Context(), seq); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("not read yet: %v", err)
	}
	for _, bad := range []string{"x", "1-", "1-x", "-1", "1-2.3.4.5", " 1"} {
		if _, err := ParsePosition(bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q is a position: %v", bad, err)
		}
	}
	for good, want := range map[string]uint64{"0": 0, "12": 12, "12-0": 12, "12-9.1": 12} {
		if seq, err := ParsePosition(good); err != nil || seq != want {
			t.Errorf("%q: %d %v", good, seq, err)
		}
	}
}
