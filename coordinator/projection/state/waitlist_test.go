package state

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
func waitlistRows(f *State) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(f.Waitlists.queues)) {
		if f.Waitlists.queues[name].n > 0 {
			all = append(all, fmt.Sprint("queue ", name, f.Waitlists.queues[name].in()))
		}
	}
	return append(all, fmt.Sprint("underway ", f.Waitlists.claimed.in()),
		fmt.Sprint("waits ", f.Waitlists.waits.callers))
}

// in are the runs in a line, by the sequences of their first records.
func (l *waitlist) in() (all []uint64) {
	for r := l.first; r != nil; r = r.live.behind {
		all = append(all, r.First)
	}
	return all
}

// lined checks that every run that has not ended is in the waitlist that it belongs in, and in no other.
func lined(t *testing.T, f *State) {
	t.Helper()
	n, counted := 0, waits{map[string]int{}, map[string]int{}}
	for name, l := range f.Waitlists.queues {
		if l.queue != name {
			t.Fatalf("the line of %q calls itself %q", name, l.queue)
		}
	}
	for _, l := range slices.Concat(slices.Collect(maps.Values(f.Waitlists.queues)),
		[]*waitlist{&f.Waitlists.unqueued, &f.Waitlists.claimed}) {
		var before *Row
		length := 0
		for r := l.first; r != nil; before, r = r, r.live.behind {
			a := r.live.snap
			queue := a.Queue
			if a.Claim != nil {
				queue = ""
			}
			if r.live.in != l || r.live.before != before || queue != l.queue ||
				(a.Claim != nil) != (l == &f.Waitlists.claimed) {
				t.Fatalf("run %s (queue %q, claimed %t) is in waitlist %q", r.ID(), a.Queue, a.Claim != nil, l.queue)
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
	if !reflect.DeepEqual(counted, f.Waitlists.waits) {
		t.Fatalf("shares of waiting runs are %v, counted %v", f.Waitlists.waits, counted)
	}
	if n != f.waiting+f.claimed {
		t.Fatalf("%d runs are in waitlists, %d have not ended", n, f.waiting+f.claimed)
	}
}

// TestWaitlist: which run waits where, since when, and how many are before it, for a reader who wants to know why
// nothing moves.
func TestWaitlist(t *testing.T) {
	j := joined(keyOf, nil)
	at := time.Unix(1000, 0).UTC()
	seq := 0
	put := func(e entry) {
		seq++
		m := message(seq, e)
		m.Time = at.Add(time.Duration(seq) * time.Second)
		j.Apply(m)
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
	two.Spec.Attempts = 2
	put(one.Accepted())
	put(two.Queued(1))
	put(three.Queued(1))
	want := func(queues []Waitlist, unqueued Waitlist) {
		t.Helper()
		gotQueues, gotApart := j.state.Waitlists.Shown()
		if !slices.Equal(gotQueues, queues) || gotApart != unqueued {
			t.Errorf("got %+v and apart %+v\nwant %+v and %+v", gotQueues, gotApart, queues, unqueued)
		}
	}
	want(
		[]Waitlist{{"procedural._._", 2, two.Spec.ID, at.Add(2 * time.Second)}},
		Waitlist{"", 1, one.Spec.ID, at.Add(time.Second)},
	)
	if n, since, ok := j.state.Run(three.Spec.ID).Ahead(); n != 1 || !since.Equal(at.Add(3*time.Second)) || !ok {
		t.Errorf("before the third: %d %v %t", n, since, ok)
	}
	if _, _, ok := j.state.Run(one.Spec.ID).Ahead(); ok {
		t.Error("what is not queued is in a waitlist")
	}
	put(two.Claimed(1))
	put(two.Ended(1, run.Failed, 0)) // another attempt follows
	want(
		[]Waitlist{{"procedural._._", 1, three.Spec.ID, at.Add(3 * time.Second)}},
		Waitlist{"", 2, one.Spec.ID, at.Add(time.Second)},
	)
	put(three.Claimed(1))
	put(three.Ended(1, run.Completed, 0))
	put(two.Queued(2))
	put(one.Queued(1))
	want([]Waitlist{{"procedural._._", 2, two.Spec.ID, at.Add(8 * time.Second)}}, Waitlist{})
}

// TestEmptyWaitlistsAreDeleted: demands come and go; a coordinator that reads a long history does not keep a waitlist
// for each.
func TestEmptyWaitlistsAreDeleted(t *testing.T) {
	f := newReducer(nil)
	for n := range 3 * maxQueues {
		f.Waitlists.queue(fmt.Sprint("procedural.p.", n))
	}
	if len(f.Waitlists.queues) > maxQueues {
		t.Errorf("%d lines are kept", len(f.Waitlists.queues))
	}
}

// TestCheckpointKeepsStartTimes: after a restart an attempt did not take as long as its run has waited before.
func TestCheckpointKeepsStartTimes(t *testing.T) {
	var took time.Duration
	j := joined(keyOf, nil)
	a := newActor(t, run.NewID(), "ses_1", "a")
	a.Spec.CreatedAt = began.Add(-time.Hour)
	at := func(j *asked, seq int, e entry) {
		m := message(seq, e)
		m.Time = began.Add(time.Duration(seq-2) * time.Second)
		ch := j.Apply(m)
		took = ch.Step(m.Time).Elapsed
	}
	at(j, 1, a.Queued(1))
	at(j, 2, a.ClaimedBy(1, "rnr_1"))
	f, err := load(snap(t, j, func() {}), keyOf)
	if err != nil {
		t.Fatal(err)
	}
	at(over(f), 3, a.Ended(1, run.Completed, 0))
	if took != time.Second {
		t.Errorf("it took %v, want 1s", took)
	}
}
