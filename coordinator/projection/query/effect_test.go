package query

import (
	"testing"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/nats/subject"
	"ao/shared/run"
)

// TestRecordsWakeWhatTheyMakeDue, and a record that makes nothing due wakes nobody.
func TestRecordsWakeWhatTheyMakeDue(t *testing.T) {
	var got state.Effect
	j := joined(nil, projection.Config{Key: keyOf, ValidChecked: marked, OnEffect: func(e state.Effect) { got |= e }})
	parent := newActor(t, "run_p", "ses_p", "parent")
	parent.Spec.AgentType = run.Autonomous
	first := newActor(t, "run_1", "ses_1", "a")
	first.Spec.Parent, first.Spec.Mode = "ses_p", run.AsyncCallback
	second := newActor(t, "run_2", "ses_1", "a")
	posted := newActor(t, "run_h", "ses_h", "a")
	posted.Spec.CallbackURL = "https://here/posted"
	offering := newActor(t, "run_o", "ses_o", "a")
	offering.Contract()
	stop := entry{
		Subject: subject.Tree(parent.Part, "ses_p", "run_p"),
		Body:    body(t, run.TreeStop{V: 1, SessionID: "ses_p", At: began}),
	}
	below := newActor(t, "run_b", "ses_b", "a")
	below.Spec.Parent = "ses_p"
	for n, tt := range []struct {
		name string
		e    entry
		live bool
		want state.Effect
	}{
		{"while history is read", newActor(t, "run_0", "ses_0", "a").Accepted(), false, 0},
		{"a run in a queue", parent.Queued(1), true, state.TurnDue}, // by the one before
		{"its claim", parent.Claimed(1), true, 0},
		{"its end", parent.Ended(1, run.Completed, 0), true, 0},
		{"a child", first.Queued(1), true, 0},
		{"a turn behind it", second.Accepted(), true, 0},
		{"the child's claim", first.Claimed(1), true, 0},
		{"the child's end", first.Ended(1, run.Completed, 0), true, state.TurnDue | state.CallbackDue},
		{"a run with a webhook", posted.Queued(1), true, 0},
		{"its claim", posted.Claimed(1), true, 0},
		{"its end", posted.Ended(1, run.Completed, 0), true, state.WebhookDue},
		{"a try that failed", posted.Notified(1, run.NotifyDead), true, 0},
		{"another one is wanted", posted.Notified(2, run.NotifyAgain), true, state.WebhookDue},
		{"delivered", posted.Notified(3, run.NotifyDelivered), true, 0},
		{"a run with an output schema", offering.Queued(1), true, 0},
		{"its claim", offering.Claimed(1), true, 0},
		{"its offer", offering.Offered(1), true, state.ResultDue},
		{"an end record that comes late", first.Ended(1, run.Failed, 0), true, 0},
		{"a run below", below.Queued(1), true, 0},
		{"the stop of a tree", stop, true, state.TreeStopDue},
	} {
		got = 0
		j.Live.Store(tt.live)
		j.Apply(state.Record{Seq: uint64(n + 1), Subject: tt.e.Subject, Body: tt.e.Body, Time: began})
		if got != tt.want {
			t.Errorf("%s: %b, want %b", tt.name, got, tt.want)
		}
		if tt.live {
			j.Eligible()
			j.NewResults()
			j.NewCallbacks()
			j.StoppingTrees()
		}
	}
}
