package coordinator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ao/coordinator/journal"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"
)

// Another coordinator prunes a lane at the moment in which a run is queued there.
func TestALaneThatGoesWithARunInItComesBack(t *testing.T) {
	c := begin(t, natstest.Bus(t), Config{})
	register(t, c, runner("one", echo("a")))
	id := submit(t, c, `{"agent_name":"a"}`, "").RunID
	lane := active(t, c, id, "is queued", isQueued).Lane
	if err := c.bus.Bucket(subject.Lanes).Delete(t.Context(), lane); err != nil {
		t.Fatal(err)
	}
	if err := c.bus.DropLane(t.Context(), lane); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "the run can be delivered again, and runners are told", func() bool {
		s, err := c.bus.LaneState(t.Context(), lane)
		_, known := c.Queues.Want(lane)
		return err == nil && s.Pending == 1 && known
	})
}

// "No online runner matches for RUN_NO_MATCH_TIMEOUT in a row": while nobody looked there is no row.
func TestNoRunExpiresForAPause(t *testing.T) {
	c := begin(t, natstest.Bus(t), Config{NoMatch: time.Minute})
	r := runner("one", echo("a"))
	register(t, c, r)
	id := submit(t, c, `{"agent_name":"a","additional_demands":{"hostname":"elsewhere"}}`, "").RunID
	natstest.Until(t, "it is seen to wait", func() bool {
		c.turns.mu.Lock()
		defer c.turns.mu.Unlock()
		w := c.turns.waits[id]
		if w == nil || c.turns.unmatch[w.lane].IsZero() {
			return false
		}
		long := time.Now().Add(-time.Hour)
		w.since, c.turns.unmatch[w.lane], c.turns.swept = long, long, long
		return true
	})
	var first time.Time
	natstest.Until(t, "the next look and one more", func() bool {
		c.turns.mu.Lock()
		defer c.turns.mu.Unlock()
		if first.IsZero() && time.Since(c.turns.swept) < time.Minute {
			first = c.turns.swept
		}
		return !first.IsZero() && c.turns.swept.After(first)
	})
	if c.Journal.Ended(id) {
		t.Error("it was expired")
	}
}

// A look at what waits may be old when it comes to a run: what has been begun is not queued once more.
func TestWhatHasBegunIsNotQueuedAgain(t *testing.T) {
	c := begin(t, natstest.Bus(t), Config{})
	both := runner("one", echo("a"), echo("b"))
	register(t, c, both)
	id := submit(t, c, `{"agent_name":"a"}`, "").RunID
	before := active(t, c, id, "is queued", isQueued)
	finish(t, c, claim(t, c, id, both))
	if err := c.Deregister(t.Context(), fleet.Farewell{RunnerID: both.ID(), Instance: "one"}); err != nil {
		t.Fatal(err)
	}
	register(t, c, runner("two", echo("a")))
	c.turns.queue(t.Context(), []journal.Active{before})
	records, err := c.bus.Records(t.Context(), subject.QueuedOf(subject.Partition(before.Spec.SessionID), id), 0, 10)
	if err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

// Thousands may have waited for a runner: they are queued in the order in which they came, each once, also by two coordinators.
func TestWhatWaitedForARunnerIsQueuedInOrder(t *testing.T) {
	server := natstest.Server(t)
	one, other := begin(t, natstest.Open(t, server), Config{}), begin(t, natstest.Open(t, server), Config{})
	r := talker(t, one)
	if err := one.Deregister(t.Context(), fleet.Farewell{RunnerID: r.ID(), Instance: r.Instance}); err != nil {
		t.Fatal(err)
	}
	const runs = 600
	ids := make([]string, runs)
	for i := range ids {
		ids[i] = submit(t, one, `{"agent_name":"talker","prompt":"hi"}`, "").RunID
	}
	register(t, other, r)
	var last uint64
	for _, id := range ids {
		a := active(t, one, id, "is queued", isQueued)
		if a.QueuedSeq < last {
			t.Fatalf("run %s overtook one that came before", id)
		}
		last = a.QueuedSeq
	}
	if s, err := one.bus.LaneState(t.Context(), "autonomous._._"); err != nil || s.Pending != runs {
		t.Errorf("%d are queued, %v", s.Pending, err)
	}
}

// A session goes on with a run that was accepted before a runner began its first one; where nobody ever does, that run says so.
func TestATurnIsTakenBeforeItsSessionBegan(t *testing.T) {
	c := begin(t, natstest.Bus(t), Config{})
	f := newFamily(t, c)
	resume := func(s Accepted) string {
		return `{"type":"resume_session","session_id":"` + s.SessionID + `","prompt":"go on"}`
	}
	begun, ended := f.start(""), f.start("")
	next, last, vain := submit(t, c, resume(begun), ""), submit(t, c, resume(begun), ""), submit(t, c, resume(ended), "")
	for _, id := range []string{begun.RunID, next.RunID, last.RunID} {
		f.ends(id, said("ok"))
	}
	if _, err := c.Stop(t.Context(), ended.RunID); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "the turn after it has ended", func() bool { return c.Journal.Ended(vain.RunID) })
	r, err := c.Show(t.Context(), vain.RunID)
	if err != nil || r.Status != run.Failed || r.Error == nil || r.Error.Code != "session_never_began" {
		t.Errorf("got %+v %v", r, err)
	}
	_, err = c.Submit(t.Context(), []byte(resume(ended)), "test", "")
	wantCode(t, err, "session_never_began")
	waits := f.start(`,"additional_demands":{"hostname":"elsewhere"}`)
	_, err = c.Submit(t.Context(), []byte(resume(waits)), "test", "")
	wantCode(t, err, "session_never_began")
	if say := fault.Of(err).Message; !strings.Contains(say, "run "+waits.RunID+" waits for a runner") {
		t.Errorf("got %q", say)
	}
}

// A crash of NATS may take a claim and leave the last word of its runner: that session began all the same.
func TestATurnAfterALostClaim(t *testing.T) {
	c := begin(t, natstest.Bus(t), Config{})
	f := newFamily(t, c)
	first := f.start("")
	next := submit(t, c, `{"type":"resume_session","session_id":"`+first.SessionID+`","prompt":"go on"}`, "")
	f.end(active(t, c, first.RunID, "is queued", isQueued), said("ok"))
	f.ends(next.RunID, said("ok"))
}

// A run that was in its lane before, and waits in another one, is not queued there again, whatever pokes: it is looked at ever more seldom.
func TestARunThatMovesBackIsLookedAtEverMoreSeldom(t *testing.T) {
	var w wait
	now, looks := time.Unix(0, 0), []int(nil)
	for ms := 0; ms < 60_000; ms += 100 { // a runner comes ten times a second
		if w.move(now.Add(time.Duration(ms) * time.Millisecond)) {
			looks = append(looks, ms/1000)
		}
	}
	if want := []int{0, 1, 3, 7, 15, 25, 35, 45, 55}; !slices.Equal(looks, want) {
		t.Errorf("it was looked at after %v s, want %v", looks, want)
	}
}
