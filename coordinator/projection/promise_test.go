package projection

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// unfinished are histories of records that belong together, whole: what each of their beginnings comes to is in the
// rows of TestWhatIsToFollow.
func unfinished(t testing.TB) (own, apart, together, ending, shut []entry) {
	session := newActor(t, run.NewID(), "ses_own", "x")
	own = []entry{{Subject: subject.Session(session.part, "ses_own"), Body: must(run.Begun{V: 1, RunID: session.spec.ID, At: began, Next: session.accepted().Body}.Encode())}, session.queued(1)}

	tell := func(id string) (before []entry, turn actor, list func(next []byte) entry) {
		parent, child := newActor(t, run.NewID(), id, "x"), newActor(t, run.NewID(), id+"-child", "x")
		child.spec.Parent, child.spec.Mode = id, run.AsyncCallback
		turn = newActor(t, run.NewID(), id, "x")
		turn.spec.Type, turn.spec.Tells = run.Resume, &run.Tells{Children: []string{child.spec.ID}}
		before = []entry{parent.queued(1), parent.claimed(1), parent.ended(1, run.Completed, 0), child.queued(1), child.claimed(1), child.ended(1, run.Completed, 0)}
		return before, turn, func(next []byte) entry {
			return entry{Subject: subject.Callback(turn.part, id, child.spec.ID, 0), Body: must(run.Callback{V: 1, RunID: turn.spec.ID, Children: []string{child.spec.ID}, At: began, Next: next}.Encode())}
		}
	}
	apart, turn, list := tell("ses_apart")
	apart = append(apart, list(turn.accepted().Body), turn.accepted())
	together, turn, list = tell("ses_together")
	together = append(together, turn.accepted(), list(nil))

	waits := newActor(t, run.NewID(), "ses_waits", "x")
	word := must(run.Ended{V: 1, SessionID: "ses_waits", Nonce: "n", Attempt: 1, Status: run.Stopped, At: began}.Encode())
	claim := must(run.Claim{V: 1, SessionID: "ses_waits", Nonce: "n", Attempt: 1, At: began, Next: word}.Encode())
	ending = []entry{waits.queued(1), {Subject: waits.claimed(1).Subject, Body: claim}, {Subject: waits.ended(1, run.Stopped, 0).Subject, Body: word}}

	lost := newActor(t, run.NewID(), "ses_lost", "x")
	lost.contract()
	word = must(run.Ended{V: 1, SessionID: "ses_lost", Nonce: "n", Attempt: 1, Status: run.Failed, At: began}.Encode())
	shut = []entry{lost.queued(1), lost.claimed(1), {Subject: lost.offered(1).Subject, Body: word}, {Subject: lost.ended(1, run.Failed, 0).Subject, Body: word}}
	return own, apart, together, ending, shut
}

// What has to follow a record is known from there on until it has come, also of a snapshot and by who goes on from one;
// history stays for it, and a deletion ends it.
func TestWhatIsToFollow(t *testing.T) {
	own, apart, together, ending, shut := unfinished(t)
	for _, tt := range []struct {
		name    string
		records []entry
		cut     int    // how many of them are there
		want    string // promised, unlisted, ending
		held    uint64 // the first record that must stay
	}{
		{"a session", own, 1, "1 0 0", 1},
		{"a session and its run", own, 2, "0 0 0", 2},
		{"a callback", apart, 7, "1 0 0", 1},
		{"a callback and its turn", apart, 8, "0 0 0", 1},
		{"a callback turn", together, 7, "0 1 0", 1},
		{"a callback turn and its callback", together, 8, "0 0 0", 1},
		{"a claim to end a run", ending, 2, "0 0 1", 1},
		{"and its end", ending, 3, "0 0 0", 4},
		{"what takes an offer's place", shut, 3, "0 0 1", 1},
		{"and the end", shut, 4, "0 0 0", 5},
	} {
		j := joined(nil, Config{Key: keyOf, Checked: marked})
		for i, e := range tt.records[:tt.cut] {
			j.fold.apply(message(i+1, e))
			agree(t, j.fold)
		}
		if got := fmt.Sprint(len(j.Promised()), len(j.Unlisted()), len(j.Ending())); got != tt.want {
			t.Errorf("%s: promised, unlisted, ending are %s, want %s", tt.name, got, tt.want)
		}
		for _, o := range j.Owing() {
			t.Errorf("%s: %s is told once more", tt.name, o.Session)
		}
		if got := j.Prunable(0, began.Add(time.Hour), began.Add(time.Hour)); got != tt.held {
			t.Errorf("%s: history may go up to %d, want %d", tt.name, got, tt.held)
		}
		again, err := load(snap(t, j, func() {}), "RUNS then", keyOf)
		if err != nil {
			t.Fatal(err)
		}
		again.checked = marked
		for i, e := range tt.records {
			if i >= tt.cut {
				again.apply(message(i+1, e))
				j.fold.apply(message(i+1, e))
			}
			if got, want := whole(again), whole(j.fold); i+1 >= tt.cut && got != want {
				t.Errorf("%s: a snapshot and the rest make\n%s\nwant\n%s", tt.name, got, want)
			}
		}
	}
}

// A turn is not queued before its callback record stands; one that ends without it gives nothing back, and answers
// nobody.
func TestATurnWaitsForItsCallbackRecord(t *testing.T) {
	_, _, records, _, _ := unfinished(t)
	j := joined(nil, Config{Key: keyOf})
	for i, e := range records[:7] {
		j.fold.apply(message(i+1, e))
	}
	if due := j.Eligible(); len(due) != 0 {
		t.Errorf("%s may be queued", due[0].Spec.ID)
	}
	j.fold.apply(message(8, records[7]))
	if due := j.Eligible(); len(due) != 1 || due[0].Spec.Tells == nil {
		t.Errorf("%d may be queued", len(due))
	}
}

// The end of a session ends what it promised: its own record may be left by a program of an older version.
func TestADeletionEndsAPromise(t *testing.T) {
	own, apart, _, _, _ := unfinished(t)
	for _, records := range [][]entry{own[:1], apart[:7]} {
		rec, err := subject.Parse(records[len(records)-1].Subject)
		if err != nil {
			t.Fatal(err)
		}
		f := folded(t, slices.Concat(records, []entry{newActor(t, run.NewID(), rec.Session, "x").deleted()}))
		if len(f.debts.promised) != 0 {
			t.Errorf("%s: a run is promised", rec.Session)
		}
	}
}
