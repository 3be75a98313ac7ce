package state

import (
	"slices"
	"testing"

	"ao/nats/subject"
	"ao/shared/run"
)

// offering is a run with an output schema that a runner has claimed.
func offering(t testing.TB) (actor, []entry) {
	a := newActor(t, run.NewID(), run.NewSessionID(), "agent")
	a.Spec.Attempts = 2
	a.Contract()
	return a, []entry{a.Queued(1), a.Claimed(1)}
}

// TestAnUnverifiedResultIsNotTheEnd: the run stays running until a coordinator has written its end record.
func TestAnUnverifiedResultIsNotTheEnd(t *testing.T) {
	a, records := offering(t)
	for _, tt := range []struct {
		name       string
		more       []entry
		status     run.Status
		unverified bool
	}{
		{"claimed", nil, run.Claimed, false},
		{"offered", []entry{a.Offered(1)}, run.Running, true},
		{"offered twice, as to a reader", []entry{a.Offered(1), a.Offered(1)}, run.Running, true},
		{"offered by a stranger", []entry{a.Offered(2)}, run.Claimed, false},
		{"a stop that crosses the offer", []entry{a.Offered(1), a.Stopping()}, run.Stopping, true},
		{"an offer that crosses the stop", []entry{a.Stopping(), a.Offered(1)}, run.Stopping, true},
		{"checked", []entry{a.Offered(1), a.Checked(1, signed(a.Spec.ID, 1))}, run.Completed, false},
		{"checked after a stop", []entry{a.Stopping(), a.Offered(1), a.Checked(1, signed(a.Spec.ID, 1))}, run.Completed,
			false},
		{"refused: the next attempt", []entry{a.Offered(1), a.Ended(1, run.Failed, 0)}, run.Pending, false},
		{"refused after a stop: no next attempt", []entry{a.Offered(1), a.Stopping(), a.Ended(1, run.Failed, 0)},
			run.Failed, false},
		{"the worker writes the end itself", []entry{a.Ended(1, run.Completed, 0)}, run.Pending, false},
		{"with another attempt's mark", []entry{a.Checked(1, signed(a.Spec.ID, 2))}, run.Pending, false},
		{"twice", []entry{a.Ended(1, run.Completed, 0), a.Queued(2), a.Claimed(2), a.Checked(2, signed(a.Spec.ID, 1))},
			run.Failed, false},
		{"a failure needs no mark", []entry{a.Ended(1, run.Failed, 0), a.Queued(2), a.Claimed(2),
			a.Ended(2, run.Failed, 0)}, run.Failed, false},
		{"a stop needs no mark", []entry{a.Stopping(), a.Ended(1, run.Stopped, 0)}, run.Stopped, false},
		{"late", []entry{a.Stopping(), a.Ended(1, run.Stopped, 0), a.Offered(1)}, run.Stopped, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := reducedWith(t, keyOf, slices.Concat(records, tt.more))
			r := f.runs[IdentOf(RunPrefix, a.Spec.ID)]
			unverified := r.live != nil && r.live.snap.UnverifiedSeq != 0
			if r.Status() != tt.status || unverified != tt.unverified {
				t.Errorf("%s, offered %t; want %s, %t", r.Status(), unverified, tt.status, tt.unverified)
			}
			j := over(f)
			if got := len(j.NewResults()); (got == 1) != tt.unverified {
				t.Errorf("%d offers are to be looked at", got)
			}
		})
	}
}

// TestWhatIsNoUnverifiedResult: a run without an output schema has none, nor has an unclaimed one. What cannot be read
// is one, as no other will come.
func TestWhatIsNoUnverifiedResult(t *testing.T) {
	a, records := offering(t)
	plain := newActor(t, run.NewID(), run.NewSessionID(), "agent")
	broken := a.Offered(1)
	broken.Body = []byte(`{"v":1,"runner_id":`)
	shut := entry{
		Subject: subject.Offered(a.Part, a.Spec.ID, a.Key(1)),
		Body:    body(t, run.Ended{V: 1, SessionID: a.Spec.SessionID, Attempt: 1, Status: run.Failed, At: began}),
	}
	for _, tt := range []struct {
		name    string
		records []entry
		want    bool
	}{
		{"without a schema", []entry{plain.Queued(1), plain.Claimed(1), plain.Offered(1)}, false},
		{"before the claim", []entry{records[0], a.Offered(1), records[1]}, false},
		{"a coordinator's own, that shuts the door", append(slices.Clone(records), shut), false},
		{"unreadable", append(slices.Clone(records), broken), true},
	} {
		f := newReducer(keyOf)
		for i, e := range tt.records {
			f.Apply(message(i+1, e))
		}
		if got := len(over(f).UnverifiedResults()) == 1; got != tt.want {
			t.Errorf("%s: an offer: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// TestNoVerifierAcceptsNoResult: a reducer that cannot check signatures accepts none.
func TestNoVerifierAcceptsNoResult(t *testing.T) {
	a, records := offering(t)
	f := newReducer(keyOf)
	for i, e := range append(records, a.Offered(1), a.Checked(1, signed(a.Spec.ID, 1))) {
		f.Apply(message(i+1, e))
	}
	if r := f.runs[IdentOf(RunPrefix, a.Spec.ID)]; r.Status() != run.Pending {
		t.Errorf("got %s", r.Status())
	}
}

func TestAFailureIsFoundByItsError(t *testing.T) {
	body := []byte(`{"v":1,"error":{"error":"command_failed","message":"It Ended","x":1}}`)
	if got, want := failureOf(body), "command_failed it ended"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
