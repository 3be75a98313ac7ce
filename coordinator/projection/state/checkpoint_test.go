package state

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ao/coordinator/projection/scan"
	"ao/coordinator/projection/text"
	"ao/nats/natstest"
	"ao/nats/stream"
	"ao/nats/subject"
)

// whole is all that a reducer holds, with sequences; what its next records make of it follows from that.
func whole(f *State) string {
	first := func(r *Row) (seq uint64) {
		if r != nil && !r.Evicted {
			seq = r.First
		}
		return seq
	}
	firsts := func(rows []*Row) (all []uint64) {
		for _, r := range rows {
			if !r.Evicted {
				all = append(all, r.First)
			}
		}
		return all
	}
	lines := append(
		waitlistRows(f),
		fmt.Sprint("seq ", f.seq, " counts ", f.waiting, f.claimed, f.ended, len(f.runs), len(f.sessions), " newer ",
			f.newer, f.unknownKinds),
	)
	for _, r := range f.order {
		if r.Evicted {
			continue
		}
		o := *r
		o.session, o.next, o.turn, o.live = nil, nil, nil, nil
		o.Text, o.Failure = text.Ref{}, text.Ref{}
		o.Bytes, o.Records = 0, 0 // of truncated records, too
		var open text.Cache
		lines = append(
			lines,
			fmt.Sprintf("found by %d: %s %s repeats %v", r.First, open.Text(&f.Texts, r.Text),
				open.Text(&f.Texts, r.Failure), f.retryOf[r]),
		)
		lines = append(
			lines,
			fmt.Sprintf("row %+v session %d next %d by %d at %t", o, r.session.First, first(r.next), first(r.turn),
				f.runs[r.Ident] == r),
		)
		if h := f.Webhooks.of[r]; h != nil {
			lines = append(
				lines,
				fmt.Sprintf("hook of %d: %d %d %d %d %s %s %t", r.First, h.N, h.Tries, nanos(h.Next), h.Status,
					h.Reason, h.Host, h.to != nil),
			)
		}
		if p := f.past[r]; len(p) > 0 {
			lines = append(lines, fmt.Sprintf("past of %d: %v", r.First, p))
		}
		if r.live == nil {
			continue
		}
		a := *r.live.snap
		lines = append(
			lines,
			fmt.Sprintf("live %d: %s %s not before %d, tells %v, after %d before %d", r.First,
				must(json.Marshal(a.Spec)), must(json.Marshal(a.Claim)), nanos(a.NotBefore), firsts(r.live.children),
				first(r.live.prev), first(r.live.next)),
		)
		a.Spec, a.Claim, a.NotBefore, a.Started = nil, nil, began, nil
		lines = append(lines, fmt.Sprintf("live %d: %+v", r.First, a))
	}
	for _, s := range f.sorder {
		if s.runs == 0 {
			continue
		}
		o := *s
		o.firstRow, o.last, o.lastEnded, o.live, o.pending, o.due, o.Bound = nil, nil, nil, nil, nil, false, nil
		o.place, o.placeBelow, o.tree = 0, 0, nil
		lines = append(
			lines,
			fmt.Sprintf("session %+v %+v %d %d %d live %v owed %v owing %t at %t", o, s.Binding(), first(s.firstRow),
				first(s.last), first(s.lastEnded), firsts(s.live), firsts(s.pending),
				f.pending[s] && len(firsts(s.pending)) > 0, f.sessions[s.Ident] == s),
		)
	}
	for id, seq := range f.deleted {
		lines = append(lines, fmt.Sprint("deleted ", id, seq, f.Trees.parents[id]))
	}
	for id, t := range f.Trees.stopped {
		lines = append(lines, fmt.Sprint("tree ", id, t))
	}
	for r := range f.Trees.stopping {
		lines = append(lines, fmt.Sprint("halting ", r.First))
	}
	for s, rows := range f.Trees.suppressing {
		lines = append(lines, fmt.Sprint("suppressing ", s.First, firsts(rows)))
	}
	for id, p := range f.Callbacks.reserved {
		lines = append(lines, fmt.Sprint("promised ", id, p.seq, p.session, firsts(p.children)))
	}
	for _, r := range f.Callbacks.recent {
		lines = append(lines, fmt.Sprint("recent ", r.Seq, r.At.UnixNano()))
	}
	for _, l := range f.Late.all {
		lines = append(lines, fmt.Sprint("late ", l))
	}
	for _, p := range f.lastRead.Last() {
		lines = append(lines, fmt.Sprint("print ", p))
	}
	return strings.Join(slices.Sorted(slices.Values(lines)), "\n")
}

// A checkpoint may be written at any record, and while records arrive. The checkpoint and the remaining records give
// the same projection as all records. No waiting run, pending callback or unverified result is overlooked.
func TestCheckpointAndRestAreComplete(t *testing.T) {
	for seed := range uint64(natstest.Load(45, 150)) {
		rng := rand.New(rand.NewPCG(seed, 21))
		records := interleave(rng, recordsOf(scenarios(t, rng, 1+rng.IntN(4))))
		n := rng.IntN(len(records))
		j := joined(keyOf, marked)
		apply := func(f *State, i int) { f.Apply(message(i+1, records[i])) }
		for i := range n {
			apply(j.state, i)
		}
		often := rng.IntN(4)
		raw := snap(t, j, func() {
			for range rng.IntN(1 + often) {
				if n < len(records) {
					apply(j.state, n)
					n++
				}
			}
		})
		f, err := load(raw, keyOf)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got, want := whole(f), whole(j.state); got != want {
			t.Fatalf("seed %d: after record %d\n%s", seed, n, differ(got, want))
		}
		other := over(f)
		f.checked = marked
		waiting, owing := 0, len(other.DueCallbacks())
		if got, want := len(other.NewResults()), len(j.UnverifiedResults()); got != want {
			t.Fatalf("seed %d: %d results are to be checked, want %d", seed, got, want)
		}
		for _, s := range f.sessions {
			if s.NextTurn() != nil {
				waiting++
			}
		}
		if got := len(other.Eligible()); got != waiting {
			t.Fatalf("seed %d: %d turns may be queued, want %d", seed, got, waiting)
		}
		if got := len(other.NewCallbacks()); got != owing {
			t.Fatalf("seed %d: %d parents have due callbacks, want %d", seed, got, owing)
		}
		if rng.IntN(3) == 0 {
			cut := j.Prunable(rng.IntN(20), began, began.Add(3600e9))
			j.Forget(cut)
			other.Forget(cut)
		}
		for i := n; i < len(records); i++ {
			apply(j.state, i)
			apply(f, i)
		}
		agree(t, f)
		checkCallbacks(t, f)
		if got, want := whole(f), whole(j.state); got != want {
			t.Fatalf("seed %d: after the rest\n%s", seed, differ(got, want))
		}
	}
}

// History was truncated after a checkpoint: a projection that starts from it ends in the state of the others.
func TestCheckpointBeforeATruncation(t *testing.T) {
	for seed := range uint64(natstest.Load(45, 150)) {
		rng := rand.New(rand.NewPCG(seed, 24))
		records := tidy(rng, scenarios(t, rng, 3))
		j := joined(keyOf, marked)
		n := 1 + rng.IntN(len(records))
		for i, e := range records[:n] {
			j.state.Apply(message(i+1, e))
		}
		f, err := load(snap(t, j, func() {}), keyOf)
		if err != nil {
			t.Fatal(err)
		}
		f.checked = marked
		for i, e := range records[n:] {
			j.state.Apply(message(n+i+1, e))
		}
		cut := min(j.Prunable(rng.IntN(10), began, began.Add(3600e9)), uint64(n+1))
		j.Forget(cut)
		anew := blank()
		for i, e := range records {
			f.Apply(message(i+1, e))
			if i+1 >= int(cut) {
				anew.Apply(message(i+1, e))
			}
		}
		f.Forget(cut)
		if got, want := whole(f), whole(j.state); got != want {
			t.Fatalf("seed %d: cut %d, snapshot of %d\n%s", seed, cut, n, differ(got, want))
		}
		if got, want := draw(f), draw(anew); got != want {
			t.Fatalf("seed %d: who began with the rest\n%s", seed, differ(got, want))
		}
	}
}

// Hundreds of sessions are deleted while a checkpoint is written: so many that the reducer would tidy its lists.
func TestSessionsDeletedDuringACheckpoint(t *testing.T) {
	j := joined(nil, nil)
	records := plain(t, 300)
	for _, m := range records {
		j.state.Apply(m)
	}
	n := 0
	raw := snap(t, j, func() {
		if s := j.state.sorder[n]; n < 280 {
			n++
			j.state.Apply(
				message(len(records)+n, entry{Subject: subject.Deleted("1", s.ID()), Body: []byte(`{"v":1}`)}),
			)
		}
	})
	f, err := load(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := whole(f), whole(j.state); got != want || len(f.runs) != 20 {
		t.Errorf("%d runs are left\n%s", len(f.runs), differ(got, want))
	}
}

func TestCheckpointIsAbandonedOnTruncation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 22))
	f := blank()
	for i, e := range newScenario(t, rng, 100).records {
		f.Apply(message(i+1, e))
	}
	c, p := StartSaving(f), Part{}
	if more, err := c.Next(f, &p, 1); !more || err != nil {
		t.Fatal(more, err)
	}
	f.Forget(2)
	if _, err := c.Next(f, &p, 1); err != ErrInterrupted {
		t.Errorf("got %v", err)
	}
	if _, _, err := c.Last(f); err != ErrInterrupted {
		t.Errorf("got %v", err)
	}
	if c.Stop(); f.dirty != nil {
		t.Error("it is still being written")
	}
}

// Whoever adds a field must think of the checkpoint. An exported field of a saved type is in it, and checkpointVersion
// is raised. Everything else is listed here: fields that savedRun, savedSession or savedEnd have instead, and fields
// that the Loader computes.
func TestCheckpointHasEveryField(t *testing.T) {
	saved := true // nothing from State on is saved as it is
	for _, tt := range []struct {
		of            any
		instead, anew string
	}{
		{Row{}, "session turn live", "next"},
		{live{}, "snap children", "prev next fresh in before behind since caller tree"},
		{Session{}, "pending runs", "firstRow last lastEnded live open place placeBelow due tree"},
		{binding{}, "", ""},
		{webhook{}, "", "row to place"},
		{past{}, "", ""},
		{text.Ref{}, "", ""},
		{stored{}, "", ""},
		{payloads{}, "of", "bytes"},
		{LateRecord{}, "", ""},
		{tree{}, "", ""},
		{report{}, "", ""},
		{stream.Fingerprint{}, "", ""},
		{reservation{}, "seq session children", ""},
		{State{}, "lastRead",
			"tables scan Waitlists Webhooks Late Trees Callbacks key checked results newer unknownKinds stats Ignored"},
		{tables{}, "order sorder past deleted seq Texts retryOf payloads", "Changes version runs sessions " +
			"evictedRuns evictedSessions head tail fresh pending dirty waiting claimed ended usage"},
		{usage{}, "", "all callers"},
		{text.Blocks{}, "blocks", "last"},
		{scan.Scanner{}, "", "Definitions names"},
		{waitlists{}, "", "queues unqueued claimed waits"},
		{webhooks{}, "of", "tables scan Hosts"},
		{lateRecords{}, "all", ""},
		{trees{}, "stopped suppressing parents", "tables below Children stopping changed"},
		{callbacks{}, "recent reserved", "tables trees due"},
	} {
		if _, is := tt.of.(State); is {
			saved = false
		}
		var fields []string
		for f := range reflect.TypeOf(tt.of).Fields() {
			if !f.IsExported() || !saved {
				fields = append(fields, f.Name)
			}
		}
		want := strings.Fields(tt.instead + " " + tt.anew)
		slices.Sort(fields)
		slices.Sort(want)
		if !slices.Equal(fields, want) {
			t.Errorf("%T has the fields\n%q, known are\n%q", tt.of, fields, want)
		}
	}
}
