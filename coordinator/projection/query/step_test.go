package query

import (
	"fmt"
	"testing"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/run"
)

func TestStepsOfRuns(t *testing.T) {
	turn := newActor(t, "run_1", "ses_a", "x")
	turn.Spec.Attempts = 2
	second := newActor(t, "run_2", "ses_a", "x")
	parent := newActor(t, "run_3", "ses_p", "parent")
	parent.Spec.AgentType = run.Autonomous
	child := newActor(t, "run_4", "ses_c", "y")
	child.Spec.Parent, child.Spec.Mode, child.Spec.CallbackURL = "ses_p", run.AsyncCallback, "https://hooks.example/x"
	answer := newActor(t, "run_5", "ses_p", "parent")
	answer.Spec.AgentType = run.Autonomous
	parts := []struct {
		after time.Duration // since the record before
		e     entry
		want  string
	}{
		{1 * time.Second, turn.Queued(1), "queued x procedural fresh took 1s"},
		{2 * time.Second, turn.Queued(1), "-"}, // once more, the same
		{1 * time.Second, turn.Claimed(1), "claimed x procedural rnr_1 took 3s"},
		{1 * time.Second, second.Accepted(), "accepted x procedural fresh took 0s"},
		{
			4 * time.Second,
			turn.Ended(1, run.Failed, 0),
			"ended x procedural rnr_1 took 5s failed command_failed whole 9s retried",
		},
		{9 * time.Second, turn.Queued(2), "-"}, // the pause before an attempt is none of the queue's
		{1 * time.Second, turn.Claimed(2), "claimed x procedural rnr_1 took 1s"},
		{1 * time.Second, turn.Ended(2, run.Completed, 0), "ended x procedural rnr_1 took 1s completed whole 20s"},
		{0, turn.Ended(2, run.Failed, 0), "-"},
		{1 * time.Second, second.Queued(1), "queued x procedural took 16s"},
		{1 * time.Second, second.Moved(1, "procedural.p._"), "-"},
		{2 * time.Second, second.Claimed(1), "claimed x procedural rnr_1 took 2s"},
		{1 * time.Second, second.Stopping(), "-"},
		{1 * time.Second, second.Ended(1, run.Stopped, 0), "ended x procedural rnr_1 took 2s stopped whole 26s"},
		{0, parent.Queued(1), "queued parent autonomous fresh took 26s"},
		{0, parent.Claimed(1), "claimed parent autonomous rnr_1 took 0s"},
		{0, parent.Ended(1, run.Completed, 0), "ended parent autonomous rnr_1 took 0s completed whole 26s"},
		{0, child.Accepted(), "accepted y procedural fresh took 0s"},
		{0, child.ClaimedBy(1, ""), "-"}, // a coordinator, to end it
		{0, child.Ended(1, run.Failed, 0), "ended y procedural rnr_1 took 0s failed command_failed whole 26s"},
		{3 * time.Second, answer.Accepted(), "accepted parent autonomous fresh took 0s"},
		{0, answer.Callback("run_4"), "reported y procedural rnr_1 took 26s"}, // since its end record, at 3 s
		{1 * time.Second, child.Notified(1, run.NotifyFailed), "-"},
		{1 * time.Second, child.Notified(2, run.NotifyDelivered), "delivered y procedural rnr_1 took 28s"},
	}
	var got string
	j := joined(nil, projection.Config{OnStep: func(s state.Step) {
		got = fmt.Sprint(
			[]string{"", "accepted", "queued", "claimed", "ended", "reported", "delivered"}[s.Kind],
			" ",
			s.Agent,
			" ",
			s.Type,
		)
		if s.RunnerID != "" {
			got += " " + s.RunnerID
		}
		if s.Fresh {
			got += " fresh"
		}
		got += fmt.Sprint(" took ", s.Elapsed)
		if s.Kind == state.Ended {
			got += " " + string(s.Status)
			if s.Reason != "" {
				got += " " + s.Reason
			}
			got += fmt.Sprint(" whole ", s.Total)
		}
		if s.Retried {
			got += " retried"
		}
	}})
	j.Apply(state.Record{Seq: 1, Subject: "ao.runs.unknown", Body: []byte("{}")})
	j.Live.Store(true)
	at := began
	for i, p := range parts {
		at = at.Add(p.after)
		got = "-"
		m := message(i+2, p.e)
		m.Time = at
		j.Apply(m)
		if got != p.want {
			t.Errorf("%d: %s: %s, want %s", i, p.e.Subject, got, p.want)
		}
	}
}

// What is read from history is not measured.
func TestHistoryIsNotMeasured(t *testing.T) {
	a := newActor(t, "run_1", "ses_a", "x")
	reported := 0
	j := joined(nil, projection.Config{OnStep: func(state.Step) { reported++ }})
	j.Apply(message(1, a.Queued(1)))
	j.Live.Store(true)
	j.Apply(message(2, a.Claimed(1)))
	if reported != 1 {
		t.Errorf("%d steps reported, want the one that came live", reported)
	}
}

func TestCallbackBacklog(t *testing.T) {
	parent := newActor(t, "run_1", "ses_p", "parent")
	parent.Spec.AgentType = run.Autonomous
	j := joined(nil, projection.Config{})
	n := 0
	add := func(all ...entry) {
		for _, e := range all {
			n++
			j.Apply(message(n, e))
		}
	}
	add(parent.Queued(1), parent.Claimed(1), parent.Ended(1, run.Completed, 0))
	if d := j.CallbackBacklog(); d != (state.CallbackBacklog{}) {
		t.Errorf("no callback is due: %+v", d)
	}
	for i := range 3 {
		c := newActor(t, fmt.Sprint("run_c", i), fmt.Sprint("ses_c", i), "y")
		c.Spec.Parent, c.Spec.Mode, c.Spec.CallbackURL = "ses_p", run.AsyncCallback, fmt.Sprintf(
			"https://h%d.example/x",
			i%2,
		)
		add(c.Queued(1), c.Claimed(1), c.Ended(1, run.Completed, 0))
		if i == 2 {
			add(c.Notified(1, run.NotifyDead))
		}
	}
	d := j.CallbackBacklog()
	if want := (state.CallbackBacklog{Parents: 1, Children: 3, Oldest: began.Add(3 * time.Second), Webhooks: 2,
		Due: d.Due, Dead: 1}); d != want || d.Due.IsZero() {
		t.Errorf("got %+v, want %+v", d, want)
	}
	answer := newActor(t, "run_2", "ses_p", "parent")
	answer.Spec.AgentType = run.Autonomous
	add(answer.Accepted(), answer.Callback("run_c0", "run_c1", "run_c2"))
	if d := j.CallbackBacklog(); d.Parents != 0 || d.Children != 0 || !d.Oldest.IsZero() {
		t.Errorf("all are reported: %+v", d)
	}
	if records, age := j.Lag(uint64(n)); records != 0 || age != 0 {
		t.Errorf("it has read all: %d, %s", records, age)
	}
	if records, age := j.Lag(uint64(n) + 7); records != 7 || age <= 0 {
		t.Errorf("behind: %d, %s", records, age)
	}
	if runs, sessions := j.Kept(); runs != 5 || sessions != 4 {
		t.Errorf("kept %d, %d", runs, sessions)
	}
}

// BenchmarkMeasure is the cost of a run that is applied live, with metrics and without.
func BenchmarkMeasure(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprint("on=", on), func(b *testing.B) {
			records := plain(b, 10_000)
			var j *allParts
			steps, i := 0, len(records)
			for b.Loop() {
				if i == len(records) {
					cfg := projection.Config{Cache: -1}
					if on {
						cfg.OnStep = func(state.Step) { steps++ }
					}
					j, i = joined(nil, cfg), 0
					j.Live.Store(true)
				}
				for range 3 {
					j.Apply(records[i])
					i++
				}
			}
		})
	}
}
