package projection

import (
	"testing"

	"ao/nats/subject"
	"ao/shared/run"
)

// TestRecordsWakeWhatTheyMakeDue, and a record that makes nothing due wakes nobody.
func TestRecordsWakeWhatTheyMakeDue(t *testing.T) {
	var got Effect
	j := joined(nil, Config{Key: keyOf, ValidChecked: marked, OnEffect: func(e Effect) { got |= e }})
	parent := newActor(t, "run_p", "ses_p", "parent")
	parent.spec.AgentType = run.Autonomous
	first := newActor(t, "run_1", "ses_1", "a")
	first.spec.Parent, first.spec.Mode = "ses_p", run.AsyncCallback
	second := newActor(t, "run_2", "ses_1", "a")
	posted := newActor(t, "run_h", "ses_h", "a")
	posted.spec.CallbackURL = "https://here/posted"
	offering := newActor(t, "run_o", "ses_o", "a")
	offering.contract()
	stop := entry{
		Subject: subject.Tree(parent.part, "ses_p", "run_p"),
		Body:    body(t, run.TreeStop{V: 1, SessionID: "ses_p", At: began}),
	}
	below := newActor(t, "run_b", "ses_b", "a")
	below.spec.Parent = "ses_p"
	for n, tt := range []struct {
		name string
		e    entry
		live bool
		want Effect
	}{
		{"while history is read", newActor(t, "run_0", "ses_0", "a").accepted(), false, 0},
		{"a run in a queue", parent.queued(1), true, TurnDue}, // by the one before
		{"its claim", parent.claimed(1), true, 0},
		{"its end", parent.ended(1, run.Completed, 0), true, 0},
		{"a child", first.queued(1), true, 0},
		{"a turn behind it", second.accepted(), true, 0},
		{"the child's claim", first.claimed(1), true, 0},
		{"the child's end", first.ended(1, run.Completed, 0), true, TurnDue | CallbackDue},
		{"a run with a webhook", posted.queued(1), true, 0},
		{"its claim", posted.claimed(1), true, 0},
		{"its end", posted.ended(1, run.Completed, 0), true, WebhookDue},
		{"a try that failed", posted.notified(1, run.NotifyDead), true, 0},
		{"another one is wanted", posted.notified(2, run.NotifyAgain), true, WebhookDue},
		{"delivered", posted.notified(3, run.NotifyDelivered), true, 0},
		{"a run with an output schema", offering.queued(1), true, 0},
		{"its claim", offering.claimed(1), true, 0},
		{"its offer", offering.offered(1), true, ResultDue},
		{"an end record that comes late", first.ended(1, run.Failed, 0), true, 0},
		{"a run below", below.queued(1), true, 0},
		{"the stop of a tree", stop, true, TreeStopDue},
	} {
		got = 0
		j.live.Store(tt.live)
		j.apply(Record{Seq: uint64(n + 1), Subject: tt.e.Subject, Body: tt.e.Body, Time: began})
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
	got = 0
	j.suspectLoss(true)
	j.suspectLoss(false)
	if got != HistoryConfirmed {
		t.Errorf("the end of a doubt: %b", got)
	}
}
