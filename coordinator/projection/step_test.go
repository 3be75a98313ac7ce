package projection

import (
	"fmt"
	"testing"
	"time"

	"ao/nats/subject"
	"ao/shared/run"
)

func TestStepsOfRuns(t *testing.T) {
	turn := newActor(t, "run_1", "ses_a", "x")
	turn.spec.Attempts = 2
	second := newActor(t, "run_2", "ses_a", "x")
	parent := newActor(t, "run_3", "ses_p", "parent")
	parent.spec.AgentType = run.Autonomous
	child := newActor(t, "run_4", "ses_c", "y")
	child.spec.Parent, child.spec.Mode, child.spec.CallbackURL = "ses_p", run.AsyncCallback, "https://hooks.example/x"
	answer := newActor(t, "run_5", "ses_p", "parent")
	answer.spec.AgentType = run.Autonomous
	parts := []struct {
		after time.Duration // since the record before
		e     entry
		want  string
	}{
		{1 * time.Second, turn.queued(1), "queued x procedural fresh took 1s"},
		{2 * time.Second, turn.queued(1), "-"}, // once more, the same
		{1 * time.Second, turn.claimed(1), "claimed x procedural rnr_1 took 3s"},
		{1 * time.Second, second.accepted(), "accepted x procedural fresh took 0s"},
		{
			4 * time.Second,
			turn.ended(1, run.Failed, 0),
			"ended x procedural rnr_1 took 5s failed exit whole 9s retried",
		},
		{9 * time.Second, turn.queued(2), "-"}, // the pause before an attempt is none of the queue's
		{1 * time.Second, turn.claimed(2), "claimed x procedural rnr_1 took 1s"},
		{1 * time.Second, turn.ended(2, run.Completed, 0), "ended x procedural rnr_1 took 1s completed whole 20s"},
		{0, turn.ended(2, run.Failed, 0), "-"},
		{1 * time.Second, second.queued(1), "queued x procedural took 16s"},
		{1 * time.Second, second.moved(1, "procedural.p._"), "-"},
		{2 * time.Second, second.claimed(1), "claimed x procedural rnr_1 took 2s"},
		{1 * time.Second, second.stopping(), "-"},
		{1 * time.Second, second.ended(1, run.Stopped, 0), "ended x procedural rnr_1 took 2s stopped whole 26s"},
		{0, parent.queued(1), "queued parent autonomous fresh took 26s"},
		{0, parent.claimed(1), "claimed parent autonomous rnr_1 took 0s"},
		{0, parent.ended(1, run.Completed, 0), "ended parent autonomous rnr_1 took 0s completed whole 26s"},
		{0, child.accepted(), "accepted y procedural fresh took 0s"},
		{0, child.claimedBy(1, ""), "-"}, // a coordinator, to end it
		{0, child.ended(1, run.Failed, 0), "ended y procedural rnr_1 took 0s failed exit whole 26s"},
		{3 * time.Second, answer.accepted(), "accepted parent autonomous fresh took 0s"},
		{0, answer.callback("run_4"), "reported y procedural rnr_1 took 26s"}, // since its end record, at 3 s
		{1 * time.Second, child.notified(1, run.NotifyFailed), "-"},
		{1 * time.Second, child.notified(2, run.NotifyDelivered), "delivered y procedural rnr_1 took 28s"},
	}
	var got string
	j := joined(nil, Config{OnStep: func(s Step) {
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
		if s.Kind == Ended {
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
	j.apply(Record{Seq: 1, Subject: "ao.runs.unknown", Body: []byte("{}")})
	j.live.Store(true)
	at := began
	for i, p := range parts {
		at = at.Add(p.after)
		got = "-"
		m := message(i+2, p.e)
		m.Time = at
		j.apply(m)
		if got != p.want {
			t.Errorf("%d: %s: %s, want %s", i, p.e.Subject, got, p.want)
		}
	}
}

// What is read from history is not measured.
func TestHistoryIsNotMeasured(t *testing.T) {
	a := newActor(t, "run_1", "ses_a", "x")
	reported := 0
	j := joined(nil, Config{OnStep: func(Step) { reported++ }})
	j.apply(message(1, a.queued(1)))
	j.live.Store(true)
	j.apply(message(2, a.claimed(1)))
	if reported != 1 {
		t.Errorf("%d steps reported, want the one that came live", reported)
	}
}

func TestCallbackBacklog(t *testing.T) {
	parent := newActor(t, "run_1", "ses_p", "parent")
	parent.spec.AgentType = run.Autonomous
	j := joined(nil, Config{})
	n := 0
	add := func(all ...entry) {
		for _, e := range all {
			n++
			j.apply(message(n, e))
		}
	}
	add(parent.queued(1), parent.claimed(1), parent.ended(1, run.Completed, 0))
	if d := j.CallbackBacklog(); d != (CallbackBacklog{}) {
		t.Errorf("no callback is due: %+v", d)
	}
	for i := range 3 {
		c := newActor(t, fmt.Sprint("run_c", i), fmt.Sprint("ses_c", i), "y")
		c.spec.Parent, c.spec.Mode, c.spec.CallbackURL = "ses_p", run.AsyncCallback, fmt.Sprintf(
			"https://h%d.example/x",
			i%2,
		)
		add(c.queued(1), c.claimed(1), c.ended(1, run.Completed, 0))
		if i == 2 {
			add(c.notified(1, run.NotifyDead))
		}
	}
	d := j.CallbackBacklog()
	if want := (CallbackBacklog{1, 3, began.Add(3 * time.Second), 2, d.Due, 1}); d != want || d.Due.IsZero() {
		t.Errorf("got %+v, want %+v", d, want)
	}
	answer := newActor(t, "run_2", "ses_p", "parent")
	answer.spec.AgentType = run.Autonomous
	add(answer.accepted(), answer.callback("run_c0", "run_c1", "run_c2"))
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

// moved queues the attempt again, in another queue.
func (a actor) moved(attempt int, queue string) entry {
	e := a.queued(attempt)
	e.Subject = subject.Queued(a.part, queue, a.spec.ID, attempt)
	return e
}

// claimedBy is a claim of another.
func (a actor) claimedBy(attempt int, runner string) entry {
	e := a.claimed(attempt)
	e.Body = body(
		a.t,
		run.Claim{V: 1, SessionID: a.spec.SessionID, RunnerID: runner, Nonce: "n", Attempt: attempt, At: began},
	)
	return e
}

// callback is the record of a turn that reports these children.
func (a actor) callback(children ...string) entry {
	return entry{
		Subject: subject.Callback(a.part, a.spec.SessionID, children[0], 0),
		Body:    body(a.t, run.Callback{V: 1, RunID: a.spec.ID, Children: children, At: began}),
	}
}

func (a actor) notified(n int, status string) entry {
	return entry{
		Subject: subject.Notified(a.part, a.spec.ID, n),
		Body:    body(a.t, run.Notified{V: 1, SessionID: a.spec.SessionID, N: n, Status: status, At: began}),
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
					cfg := Config{Cache: -1}
					if on {
						cfg.OnStep = func(Step) { steps++ }
					}
					j, i = joined(nil, cfg), 0
					j.live.Store(true)
				}
				for range 3 {
					j.apply(records[i])
					i++
				}
			}
		})
	}
}
