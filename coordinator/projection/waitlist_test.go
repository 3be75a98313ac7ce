package projection

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"ao/shared/run"
)

// waitlistRows returns the runs of each queue's waitlist and the claimed ones, in order. It leaves out the waitlists of
// runs that are not queued, for a checkpoint does not keep when an attempt failed. Trees are left out too: a session's
// record may come before that of its parent.
func waitlistRows(f *reducer) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(f.waitlists.queues)) {
		if f.waitlists.queues[name].n > 0 {
			all = append(all, fmt.Sprint("queue ", name, f.waitlists.queues[name].in()))
		}
	}
	return append(all, fmt.Sprint("underway ", f.waitlists.claimed.in()),
		fmt.Sprint("waits ", f.waitlists.waits.callers))
}

// in are the runs in a line, by the sequences of their first records.
func (l *waitlist) in() (all []uint64) {
	for r := l.first; r != nil; r = r.live.behind {
		all = append(all, r.First)
	}
	return all
}

// lined checks that every run that has not ended is in the waitlist that it belongs in, and in no other.
func lined(t *testing.T, f *reducer) {
	t.Helper()
	n, counted := 0, waits{map[string]int{}, map[string]int{}}
	for name, l := range f.waitlists.queues {
		if l.queue != name {
			t.Fatalf("the line of %q calls itself %q", name, l.queue)
		}
	}
	for _, l := range slices.Concat(slices.Collect(maps.Values(f.waitlists.queues)),
		[]*waitlist{&f.waitlists.unqueued, &f.waitlists.claimed}) {
		var before *row
		length := 0
		for r := l.first; r != nil; before, r = r, r.live.behind {
			a := r.live.snap
			queue := a.Queue
			if a.Claim != nil {
				queue = ""
			}
			if r.live.in != l || r.live.before != before || queue != l.queue ||
				(a.Claim != nil) != (l == &f.waitlists.claimed) {
				t.Fatalf("run %s (queue %q, claimed %t) is in waitlist %q", r.runID(), a.Queue, a.Claim != nil, l.queue)
			}
			if length++; a.Claim == nil {
				counted.add(r, 1)
			}
		}
		if l.last != before || l.n != length {
			t.Fatalf("line %q says that it has %d runs, it has %d", l.queue, l.n, length)
		}
		n += length
	}
	if !reflect.DeepEqual(counted, f.waitlists.waits) {
		t.Fatalf("shares of waiting runs are %v, counted %v", f.waitlists.waits, counted)
	}
	if n != f.waiting+f.claimed {
		t.Fatalf("%d runs are in waitlists, %d have not ended", n, f.waiting+f.claimed)
	}
}

// TestWaitlist: which run waits where, since when, and how many are before it, for a reader who wants to know why
// nothing moves.
func TestWaitlist(t *testing.T) {
	j := joined(nil, Config{Key: keyOf})
	j.live.Store(true)
	at := time.Unix(1000, 0).UTC()
	seq := 0
	put := func(e entry) {
		seq++
		m := message(seq, e)
		m.Time = at.Add(time.Duration(seq) * time.Second)
		j.apply(m)
	}
	one, two, three := newActor(
		t,
		run.NewID(),
		"ses_1",
		"a",
	), newActor(
		t,
		run.NewID(),
		"ses_2",
		"a",
	), newActor(
		t,
		run.NewID(),
		"ses_3",
		"a",
	)
	two.spec.Attempts = 2
	put(one.accepted())
	put(two.queued(1))
	put(three.queued(1))
	want := func(queues []Waitlist, unqueued Waitlist) {
		t.Helper()
		gotQueues, gotApart := j.Waitlists()
		if !slices.Equal(gotQueues, queues) || gotApart != unqueued {
			t.Errorf("got %+v and apart %+v\nwant %+v and %+v", gotQueues, gotApart, queues, unqueued)
		}
	}
	want(
		[]Waitlist{{"procedural._._", 2, two.spec.ID, at.Add(2 * time.Second)}},
		Waitlist{"", 1, one.spec.ID, at.Add(time.Second)},
	)
	if n, since, ok := j.Ahead(three.spec.ID); n != 1 || !since.Equal(at.Add(3*time.Second)) || !ok {
		t.Errorf("before the third: %d %v %t", n, since, ok)
	}
	if _, _, ok := j.Ahead(one.spec.ID); ok {
		t.Error("what is not queued is in a waitlist")
	}
	put(two.claimed(1))
	put(two.ended(1, run.Failed, 0)) // another attempt follows
	want(
		[]Waitlist{{"procedural._._", 1, three.spec.ID, at.Add(3 * time.Second)}},
		Waitlist{"", 2, one.spec.ID, at.Add(time.Second)},
	)
	put(three.claimed(1))
	put(three.ended(1, run.Completed, 0))
	put(two.queued(2))
	put(one.queued(1))
	want([]Waitlist{{"procedural._._", 2, two.spec.ID, at.Add(8 * time.Second)}}, Waitlist{})
	if got := j.Totals(); got != (Totals{Accepted: 3, Retried: 1, Completed: 1}) {
		t.Errorf("totals %+v", got)
	}
}

// TestEmptyWaitlistsAreDeleted: demands come and go; a coordinator that reads a long history does not keep a waitlist
// for each.
func TestEmptyWaitlistsAreDeleted(t *testing.T) {
	f := newReducer(nil)
	for n := range 3 * maxQueues {
		f.waitlists.queue(fmt.Sprint("procedural.p.", n))
	}
	if len(f.waitlists.queues) > maxQueues {
		t.Errorf("%d lines are kept", len(f.waitlists.queues))
	}
}

// TestCheckpointKeepsStartTimes: after a restart an attempt did not take as long as its run has waited before.
func TestCheckpointKeepsStartTimes(t *testing.T) {
	var took time.Duration
	j := joined(nil, Config{Key: keyOf})
	a := newActor(t, run.NewID(), "ses_1", "a")
	a.spec.CreatedAt = began.Add(-time.Hour)
	at := func(j *allParts, seq int, e entry) {
		m := message(seq, e)
		m.Time = began.Add(time.Duration(seq-2) * time.Second)
		j.apply(m)
	}
	at(j, 1, a.queued(1))
	at(j, 2, a.claimedBy(1, "rnr_1"))
	f, err := loadBytes(snap(t, j, func() {}), "RUNS then", keyOf)
	if err != nil {
		t.Fatal(err)
	}
	j = joined(nil, Config{Key: keyOf, OnStep: func(s Step) { took = s.Elapsed }})
	j.reducer = f
	j.live.Store(true)
	at(j, 3, a.ended(1, run.Completed, 0))
	if took != time.Second {
		t.Errorf("it took %v, want 1s", took)
	}
}
