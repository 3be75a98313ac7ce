package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

// unfinished are histories of records that belong together, whole: what each of their beginnings comes to is in the
// rows of TestReservedRecordIsMissingUntilItFollows.
func unfinished(t testing.TB) (own, reported, older, ending, shut []entry) {
	session := newActor(t, run.NewID(), "ses_own", "x")
	own = []entry{
		{
			Subject: subject.Session(session.Part, "ses_own"),
			Body: must(
				run.SessionCreated{V: 1, RunID: session.Spec.ID, At: began, Next: session.Accepted().Body}.Encode(),
			),
		},
		session.Queued(1),
	}

	report := func(id string) (before []entry, turn actor, list func(run.Callback) entry) {
		parent, child := newActor(t, run.NewID(), id, "x"), newActor(t, run.NewID(), id+"-child", "x")
		child.Spec.Parent, child.Spec.Mode = id, run.AsyncCallback
		turn = newActor(t, run.NewID(), id, "x")
		turn.Spec.Type, turn.Spec.IsCallbackTurn = run.Resume, true
		parent.Spec.AgentType, turn.Spec.AgentType = run.Autonomous, run.Autonomous // who can be called back
		before = []entry{
			parent.Queued(1),
			parent.Claimed(1),
			parent.Ended(1, run.Completed, 0),
			child.Queued(1),
			child.Claimed(1),
			child.Ended(1, run.Completed, 0),
		}
		return before, turn, func(c run.Callback) entry {
			c.V, c.Children, c.At = 1, []string{child.Spec.ID}, began
			return entry{Subject: subject.Callback(turn.Part, id, child.Spec.ID, 0), Body: must(c.Encode())}
		}
	}
	reported, turn, list := report("ses_reported")
	reported = append(
		reported,
		list(run.Callback{RunID: "run_" + strings.Repeat("1", 32), TurnID: turn.Spec.ID, Next: turn.Accepted().Body}),
		turn.Accepted(),
	)
	older, turn, list = report("ses_older") // programs of older versions write the turn before its list
	turn.Spec.IsCallbackTurn = false
	older = append(older, turn.Accepted(), list(run.Callback{RunID: turn.Spec.ID}))

	waits := newActor(t, run.NewID(), "ses_waits", "x")
	end := must(
		run.Ended{V: 1, SessionID: "ses_waits", Nonce: "n", Attempt: 1, Status: run.Stopped, At: began}.Encode(),
	)
	claim := must(run.Claim{V: 1, SessionID: "ses_waits", Nonce: "n", Attempt: 1, At: began, Next: end}.Encode())
	ending = []entry{
		waits.Queued(1),
		{Subject: waits.Claimed(1).Subject, Body: claim},
		{Subject: waits.Ended(1, run.Stopped, 0).Subject, Body: end},
	}

	lost := newActor(t, run.NewID(), "ses_lost", "x")
	lost.Contract()
	end = must(run.Ended{V: 1, SessionID: "ses_lost", Nonce: "n", Attempt: 1, Status: run.Failed, At: began}.Encode())
	shut = []entry{
		lost.Queued(1),
		lost.Claimed(1),
		{Subject: lost.Offered(1).Subject, Body: end},
		{Subject: lost.Ended(1, run.Failed, 0).Subject, Body: end},
	}
	return own, reported, older, ending, shut
}

// A record may carry another one that has to follow it. The projection reports that one as missing until it comes, also
// after a start from a checkpoint. Truncation keeps the history that it needs.
func TestReservedRecordIsMissingUntilItFollows(t *testing.T) {
	own, reported, older, ending, shut := unfinished(t)
	for _, tt := range []struct {
		name    string
		records []entry
		cut     int    // how many of them are there
		want    string // reserved, ending
		held    uint64 // the first record that must stay
	}{
		{"a session", own, 1, "1 0", 1},
		{"a session and its run", own, 2, "0 0", 2},
		{"a callback", reported, 7, "1 0", 1},
		{"a callback and its turn", reported, 8, "0 0", 1},
		{"a callback of an older version", older, 8, "0 0", 1},
		{"a claim to end a run", ending, 2, "0 1", 1},
		{"and its end", ending, 3, "0 0", 4},
		{"what takes an offer's place", shut, 3, "0 1", 1},
		{"and the end", shut, 4, "0 0", 5},
	} {
		j := joined(keyOf, marked)
		for i, e := range tt.records[:tt.cut] {
			j.state.Apply(message(i+1, e))
			agree(t, j.state)
		}
		if got := fmt.Sprint(len(j.Reservations()), len(j.UnwrittenEnds())); got != tt.want {
			t.Errorf("%s: reserved, ending are %s, want %s", tt.name, got, tt.want)
		}
		for _, o := range j.DueCallbacks() {
			t.Errorf("%s: %s has a due callback again", tt.name, o.Session)
		}
		if got := j.Prunable(0, began.Add(time.Hour), began.Add(time.Hour)); got != tt.held {
			t.Errorf("%s: history may go up to %d, want %d", tt.name, got, tt.held)
		}
		again, err := load(snap(t, j, func() {}), keyOf)
		if err != nil {
			t.Fatal(err)
		}
		again.checked = marked
		for i, e := range tt.records {
			if i >= tt.cut {
				again.Apply(message(i+1, e))
				j.state.Apply(message(i+1, e))
			}
			if got, want := whole(again), whole(j.state); i+1 >= tt.cut && got != want {
				t.Errorf("%s: a snapshot and the rest make\n%s\nwant\n%s", tt.name, got, want)
			}
		}
	}
}

// A callback whose turn is not accepted yet is not shown as delivered: a reader wants the turn's id.
func TestACallbackIsDeliveredWithItsTurn(t *testing.T) {
	_, reported, _, _, _ := unfinished(t)
	j := joined(keyOf, nil)
	var got []string
	for i, e := range reported {
		j.state.Apply(message(i+1, e))
		if i < 5 {
			continue
		}
		child, err := subject.Parse(reported[5].Subject)
		if err != nil {
			t.Fatal(err)
		}
		c := CallsOf(j.state, j.state.Run(child.Run)).Parent
		got = append(got, fmt.Sprint(c.Status, c.RunID != ""))
	}
	if want := []string{"owedfalse", "owedfalse", "deliveredtrue"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A turn that no runner claimed releases its children, whichever of its two records came first.
func TestTurnThatCannotStartReleasesItsChildren(t *testing.T) {
	_, reported, older, _, _ := unfinished(t)
	for name, records := range map[string][]entry{"reported": reported, "older": older} {
		j := joined(keyOf, nil)
		var turn actor
		for i, e := range records {
			j.state.Apply(message(i+1, e))
			if rec, err := subject.Parse(e.Subject); err == nil && rec.Kind == subject.AcceptedKind {
				turn = newActor(t, rec.Run, rec.Session, "x")
			}
		}
		if due := j.Eligible(); len(due) != 1 || due[0].Spec.ID != turn.Spec.ID {
			t.Fatalf("%s: %d may be queued", name, len(due))
		}
		if due := j.DueCallbacks(); len(due) != 0 {
			t.Errorf("%s: %v has a due callback again", name, due)
		}
		claim := must(run.Claim{V: 1, SessionID: turn.Spec.SessionID, Nonce: "n", Attempt: 1, At: began}.Encode())
		end := must(
			run.Ended{
				V:         1,
				SessionID: turn.Spec.SessionID,
				Nonce:     "n",
				Attempt:   1,
				Status:    run.Stopped,
				At:        began,
			}.Encode(),
		)
		j.state.Apply(message(9, entry{Subject: turn.Claimed(1).Subject, Body: claim}))
		j.state.Apply(message(10, entry{Subject: turn.Ended(1, run.Stopped, 0).Subject, Body: end}))
		if due := j.DueCallbacks(); len(due) != 1 || due[0].Deliveries != 1 {
			t.Errorf("%s: pending are %v", name, due)
		}
	}
}

// The end of a session ends what it reserved: its own record may be left by a program of an older version.
func TestADeletionEndsAReservation(t *testing.T) {
	own, reported, _, _, _ := unfinished(t)
	for _, records := range [][]entry{own[:1], reported[:7]} {
		rec, err := subject.Parse(records[len(records)-1].Subject)
		if err != nil {
			t.Fatal(err)
		}
		f := reduced(t, slices.Concat(records, []entry{newActor(t, run.NewID(), rec.Session, "x").Deleted()}))
		if len(f.Callbacks.reserved) != 0 {
			t.Errorf("%s: a run is reserved", rec.Session)
		}
	}
}
