package state

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// history is what may happen in one session, at random: turns in order, stops, retries, and every kind of late or
// foreign record.
func history(t testing.TB, rng *rand.Rand, session string) (records []entry) {
	add := func(e ...entry) { records = append(records, e...) }
	for turn := range 1 + rng.IntN(4) {
		a := newActor(t, run.NewID(), session, fmt.Sprint("agent", rng.IntN(3)))
		last := 1 + rng.IntN(3)
		a.Spec.Attempts = last
		waits := turn > 0 || rng.IntN(3) == 0
		if waits {
			add(a.Accepted())
		}
		if rng.IntN(6) == 0 { // ended before it was queued, or still waiting
			if waits && rng.IntN(2) == 0 {
				add(a.Claimed(1), a.Ended(1, run.Stopped, 0))
			}
			continue
		}
		for n := 1; n < last; n++ {
			add(a.Queued(n))
			if rng.IntN(8) > 0 { // or NATS has lost the claim
				add(a.Claimed(n))
			}
			if rng.IntN(6) == 0 {
				add(a.Bound(n, fmt.Sprint("model", rng.IntN(3))))
			}
			add(a.Ended(n, run.Failed, 0))
		}
		add(a.Queued(last))
		if rng.IntN(8) > 0 {
			add(a.Claimed(last))
		}
		if rng.IntN(4) == 0 {
			add(a.Stopping())
		}
		add(a.Ended(last+1, run.Completed, 0)) // of an attempt that does not exist
		if rng.IntN(6) > 0 {
			add(a.Ended(last, []run.Status{run.Completed, run.Failed, run.Stopped}[rng.IntN(3)], 0))
			add(a.Ended(1, run.Failed, 0), a.Claimed(last))
		}
	}
	if rng.IntN(3) == 0 {
		add(newActor(t, run.NewID(), session, "x").Deleted())
	}
	return records
}

func interleave(rng *rand.Rand, histories [][]entry) (all []entry) {
	left := slices.Clone(histories)
	for len(left) > 0 {
		i := rng.IntN(len(left))
		if len(left[i]) == 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		all, left[i] = append(all, left[i][0]), left[i][1:]
	}
	return all
}

// agree checks what must hold at any moment.
func agree(t *testing.T, f *State) {
	t.Helper()
	waiting, claimed, ended := 0, 0, 0
	bySession := map[*Session][]*Row{}
	for _, r := range f.order {
		if r.Evicted {
			continue
		}
		bySession[r.session] = append(bySession[r.session], r)
		switch {
		case r.live == nil:
			ended++
			if !r.base().Final() {
				t.Fatalf("run %s has ended and is %s", r.ID(), r.base())
			}
		case r.base().Final():
			t.Fatalf("run %s is %s and has not ended", r.ID(), r.base())
		case r.live.snap.Claim != nil:
			claimed++
		default:
			waiting++
		}
	}
	if waiting != f.waiting || claimed != f.claimed || ended != f.ended {
		t.Fatalf("counts are %d %d %d, want %d %d %d", f.waiting, f.claimed, f.ended, waiting, claimed, ended)
	}
	lined(t, f)
	if len(bySession) != len(f.sessions) {
		t.Fatalf("%d sessions, want %d", len(f.sessions), len(bySession))
	}
	for s, rows := range bySession {
		var decisive, oldest, last *Row
		open := 0
		for _, r := range rows {
			if r.live != nil && r.live.snap.open() {
				open++
			}
			switch {
			case r.live == nil:
				if last == nil || r.End > last.End {
					last = r
				}
			case r.live.snap.open() && decisive == nil:
				decisive = r
			case oldest == nil:
				oldest = r
			}
		}
		if int(s.open) != open {
			t.Fatalf("session %s has %d open runs, want %d", s.ID(), s.open, open)
		}
		for _, r := range []*Row{oldest, last} {
			if decisive == nil {
				decisive = r
			}
		}
		if got, want := s.view().Status, run.SessionStatusOf(decisive.Status()); got != want {
			t.Fatalf("session %s is %s, its runs say %s", s.ID(), got, want)
		}
		if s.view().Runs != len(rows) || s.last != rows[len(rows)-1] {
			t.Fatalf("session %s has %d runs, want %d", s.ID(), s.view().Runs, len(rows))
		}
	}
	n := 0
	var before uint64
	for r := f.head; r != nil; r = r.live.next {
		n++
		if r.First <= before {
			t.Fatalf("live runs out of order")
		}
		before = r.First
	}
	if n != waiting+claimed {
		t.Fatalf("%d live runs, want %d", n, waiting+claimed)
	}
}

func TestRepetitionAndReplayChangeNothing(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var histories [][]entry
		for range 1 + rng.IntN(6) {
			histories = append(histories, history(t, rng, run.NewSessionID()))
		}
		records := interleave(rng, histories)
		once, again := newReducer(nil), newReducer(nil)
		for i, e := range records {
			once.Apply(message(i+1, e))
			agree(t, once)
			again.Apply(message(i+1, e))
			again.Apply(message(i+1, e))
			if back := rng.IntN(i + 1); rng.IntN(3) == 0 { // a follower that starts over
				again.Apply(message(back+1, records[back]))
			}
		}
		if a, b := draw(once), draw(again); a != b {
			t.Fatalf("seed %d: once\n%s\nagain\n%s", seed, a, b)
		}
		// The same subjects once more, behind: the stream refuses them, and so does the reducer.
		deleted := len(once.deleted) > 0
		for i, e := range records {
			once.Apply(message(len(records)+i+1, e))
		}
		if a, b := draw(once), draw(again); a != b && !deleted {
			t.Fatalf("seed %d: written twice\n%s\nwant\n%s", seed, a, b)
		}
	}
}

func TestUnrelatedRecordsMayBePermuted(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var histories [][]entry
		for range 5 {
			histories = append(histories, history(t, rng, run.NewSessionID()))
		}
		want := draw(reduced(t, interleave(rng, histories)))
		for range 5 {
			if got := draw(reduced(t, interleave(rng, histories))); got != want {
				t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, got, want)
			}
		}
	}
}

func TestStatuses(t *testing.T) {
	a := newActor(t, "run_1", "ses_a", "x")
	b := newActor(t, "run_2", "ses_a", "x")
	c := newActor(t, "run_1", "ses_a", "x")
	c.Spec.Attempts = 2
	for _, tt := range []struct {
		name    string
		records []entry
		want    string // of run_1, run_2 and the session
	}{
		{"a queued run is pending", []entry{a.Queued(1)}, "pending - pending"},
		{"an accepted run is pending", []entry{a.Accepted()}, "pending - pending"},
		{"a claim begins it", []entry{a.Queued(1), a.Claimed(1)}, "claimed - running"},
		{"another's key claims nothing", []entry{a.Queued(1), a.Claimed(2)}, "pending - pending"},
		{"the wish to stop", []entry{a.Queued(1), a.Claimed(1), a.Stopping()}, "stopping - stopping"},
		{"a claim after the wish stays stopping", []entry{a.Queued(1), a.Stopping(), a.Claimed(1)},
			"stopping - stopping"},
		{"it ends well although it was to stop", []entry{a.Queued(1), a.Claimed(1), a.Stopping(),
			a.Ended(1, run.Completed, 0)}, "completed - finished"},
		{"the first end record counts", []entry{a.Queued(1), a.Claimed(1), a.Ended(1, run.Failed, 0),
			a.Ended(1, run.Completed, 0)}, "failed - failed"},
		{"a waiting run is ended unclaimed", []entry{a.Accepted(), a.Ended(1, run.Stopped, 0)}, "stopped - stopped"},
		{"an attempt that fails is followed by another", []entry{c.Queued(1), c.Claimed(1), c.Ended(1, run.Failed, 0)},
			"pending - pending"},
		{"one that completes is not", []entry{c.Queued(1), c.Claimed(1), c.Ended(1, run.Completed, 0), c.Queued(2)},
			"completed - finished"},
		{"the next attempt is the current one", []entry{c.Queued(1), c.Claimed(1), c.Ended(1, run.Failed, 0),
			c.Queued(2), c.Claimed(2), c.Ended(1, run.Completed, 0)}, "claimed - running"},
		{"only its end record counts", []entry{c.Queued(1), c.Claimed(1), c.Ended(1, run.Failed, 0), c.Queued(2),
			c.Claimed(2), c.Ended(2, run.Completed, 0)}, "completed - finished"},
		{"the last attempt's failure is the run's", []entry{c.Queued(1), c.Claimed(1), c.Ended(1, run.Failed, 0),
			c.Queued(2), c.Claimed(2), c.Ended(2, run.Failed, 0)}, "failed - failed"},
		{"a stop before the failure leaves no attempt", []entry{c.Queued(1), c.Claimed(1), c.Stopping(),
			c.Ended(1, run.Failed, 0), c.Queued(2)}, "failed - failed"},
		{"a run is stopped between two attempts", []entry{c.Queued(1), c.Claimed(1), c.Ended(1, run.Failed, 0),
			c.Ended(2, run.Stopped, 0), c.Queued(2)}, "stopped - stopped"},
		{"an attempt that nobody began is no attempt",
			[]entry{c.Queued(1), c.ClaimedBy(1, ""), c.Ended(1, run.Failed, 0), c.Queued(2)}, "failed - failed"},
		{"one whose claim NATS has lost is one", []entry{c.Queued(1), c.Ended(1, run.Failed, 0)}, "pending - pending"},
		{"its next attempt is the second", []entry{c.Queued(1), c.Ended(1, run.Failed, 0), c.Queued(1), c.Queued(2),
			c.Claimed(2), c.Ended(2, run.Completed, 0)}, "completed - finished"},
		{"also where the record that queued it is lost", []entry{c.Accepted(), c.Ended(1, run.Failed, 0), c.Queued(2),
			c.Claimed(2)}, "claimed - running"},
		{"a stop leaves none there", []entry{c.Queued(1), c.Stopping(), c.Ended(1, run.Failed, 0)}, "failed - failed"},
		{"a further attempt waits for the end of the one before", []entry{c.Queued(1), c.Claimed(1), c.Queued(2)},
			"claimed - running"},
		{"a stop forbids a further attempt", []entry{a.Queued(1), a.Claimed(1), a.Stopping(), a.Queued(2)},
			"stopping - stopping"},
		{"an end forbids a further attempt", []entry{a.Queued(1), a.Claimed(1), a.Ended(1, run.Failed, 0), a.Queued(2)},
			"failed - failed"},
		{"the open turn speaks for the session", []entry{a.Queued(1), b.Accepted(), a.Claimed(1)},
			"claimed pending running"},
		{"then the oldest that waits", []entry{a.Queued(1), b.Accepted(), a.Ended(1, run.Failed, 0)},
			"failed pending pending"},
		{"then the one that ended last", []entry{a.Queued(1), b.Accepted(), b.Ended(1, run.Stopped, 0),
			a.Ended(1, run.Completed, 0)}, "completed stopped finished"},
		{"a session with a waiting run is not deleted", []entry{a.Accepted(), a.Deleted()}, "pending - pending"},
		{"a session that ended is", []entry{a.Queued(1), a.Ended(1, run.Failed, 0), a.Deleted()}, "- - -"},
		{"an end record that cannot be read is a failure",
			[]entry{a.Queued(1), a.Claimed(1), {Subject: a.Ended(1, run.Completed, 0).Subject,
				Body: []byte(`{"v":1,"stat`)}}, "failed - failed"},
		{"an end record without a status is one too",
			[]entry{a.Queued(1), a.Claimed(1), {Subject: a.Ended(1, run.Completed, 0).Subject,
				Body: []byte(`{"v":1,"status":"running"}`)}}, "failed - failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newReducer(nil)
			for i, e := range tt.records {
				f.Apply(message(i+1, e))
				agree(t, f)
			}
			got := []string{"-", "-", "-"}
			for i, id := range []string{"run_1", "run_2"} {
				if r := f.runs[IdentOf(RunPrefix, id)]; r != nil {
					got[i] = string(r.Status())
				}
			}
			if s := f.sessions[IdentOf(SessionPrefix, "ses_a")]; s != nil {
				got[2] = string(s.view().Status)
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
}

// Decision 0004: the queue of a waiting run may be served by nobody any more.
func TestAWaitingAttemptMovesToAnotherQueue(t *testing.T) {
	a := newActor(t, run.NewID(), run.NewSessionID(), "x")
	other := a.Queued(1)
	other.Subject = subject.Queued(a.Part, "procedural.x.other", a.Spec.ID, 1)
	f := reduced(t, []entry{a.Accepted(), a.Queued(1), other})
	agree(t, f)
	if got := f.runs[IdentOf(RunPrefix, a.Spec.ID)].live.snap; got.Queue != "procedural.x.other" ||
		got.QueuedSeq != 3 ||
		got.Attempt != 1 ||
		got.Key != a.Key(1) {
		t.Errorf("the attempt did not move: %+v", got)
	}
	claimed := []entry{a.Queued(1), a.Claimed(1)}
	if got, want := draw(reduced(t, append(claimed, other))), draw(reduced(t, claimed)); got != want {
		t.Errorf("a claimed attempt moved\n%s\nwant\n%s", got, want)
	}
}

func TestAKeyIsNeededToEndARunThatWasNeverQueued(t *testing.T) {
	a := newActor(t, run.NewID(), run.NewSessionID(), "x")
	f := newReducer(func(id string, attempt int) string { return "right" })
	f.Apply(message(1, a.Accepted()))
	f.Apply(message(2, a.Claimed(1)))
	if r := f.runs[IdentOf(RunPrefix, a.Spec.ID)]; r.live.snap.Claim != nil {
		t.Error("a made-up key claims a waiting run")
	}
	f.Apply(message(3, entry{Subject: subject.Claimed(a.Part, a.Spec.ID, "right"), Body: a.Claimed(1).Body}))
	if r := f.runs[IdentOf(RunPrefix, a.Spec.ID)]; r.live.snap.Claim == nil {
		t.Error("the right key does not")
	}
}

func TestUnknownAndNewerRecords(t *testing.T) {
	f := newReducer(nil)
	f.Apply(Record{Seq: 1, Subject: "ao.runs.3.dreamt.run_1", Body: []byte(`{"v":1}`)})
	if f.stats.Unknown != 1 || f.newer != 0 {
		t.Errorf("an unknown kind: %+v, newer %d", f.stats, f.newer)
	}
	a := newActor(t, "run_1", "ses_a", "x")
	e := a.Queued(1)
	f.Apply(Record{Seq: 2, Subject: e.Subject, Body: []byte(strings.Replace(string(e.Body), `"v":1`, `"v":2`, 1))})
	if f.newer != 2 || len(f.runs) != 0 {
		t.Errorf("a newer version: newer %d, %d runs", f.newer, len(f.runs))
	}
	for i, raw := range []string{``, `[]`, `{"v"`, `{"v":`, `{"v":1,`, `{"a":"\"`, `{"demands":[1]}`, `{"a":[}`,
		`nonsense`} {
		f.Apply(Record{Seq: uint64(10 + i), Subject: e.Subject, Body: []byte(raw)})
	}
	agree(t, f)
}

func TestSpecKeepsWhatWasSent(t *testing.T) {
	a := newActor(t, run.NewID(), "ses_own-id", "x")
	a.Spec.Demands = run.Demands{Hostname: `h"\`, Tags: []string{"a", "b"}}
	a.Spec.Parent, a.Spec.ProjectDir, a.Spec.Owner = "ses_p", `/a "b"/ä`, "hash"
	a.Spec.Parameters = json.RawMessage(`{"z":12345678901234567890.10,"a":[{"b":"]}\\"}],"é":"\u00e9"}`)
	f := reduced(t, []entry{a.Queued(1)})
	got := string(must(json.Marshal(f.runs[IdentOf(RunPrefix, a.Spec.ID)].live.snap.Spec)))
	if want := string(must(json.Marshal(a.Spec))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEligible(t *testing.T) {
	a, b, c := newActor(
		t,
		"run_1",
		"ses_a",
		"x",
	), newActor(
		t,
		"run_2",
		"ses_a",
		"x",
	), newActor(
		t,
		"run_3",
		"ses_a",
		"x",
	)
	j := joined(nil, nil)
	seq := 0
	step := func(want string, e entry) {
		t.Helper()
		seq++
		j.Apply(message(seq, e))
		var got []string
		for _, a := range j.Eligible() {
			got = append(got, a.Spec.ID)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("after record %d %q are eligible, want %q", seq, s, want)
		}
	}
	step("", a.Queued(1))
	step("", b.Accepted())
	step("", c.Accepted())
	step("", a.Claimed(1))
	step("run_2", a.Ended(1, run.Failed, 0))
	step("", b.Queued(1))
	step("", c.Ended(1, run.Stopped, 0))
	step("", b.Ended(1, run.Completed, 0))
	if n, m, e := j.Counts(); n != 0 || m != 0 || e != 3 {
		t.Error(n, m, e)
	}
}

func TestForget(t *testing.T) {
	for seed := range uint64(natstest.Load(30, 100)) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var histories [][]entry
		for range 6 {
			histories = append(histories, history(t, rng, run.NewSessionID()))
		}
		records := interleave(rng, histories)
		f := reduced(t, records)
		cut := uint64(len(records)) + 1
		if f.head != nil {
			cut = f.head.First
		}
		f.Forget(cut)
		agree(t, f)
		anew := newReducer(nil) // who begins with the truncated stream
		for i, e := range records {
			if i+1 >= int(cut) {
				anew.Apply(message(i+1, e))
			}
		}
		for id, r := range anew.runs {
			if o := f.runs[id]; o == nil || o.Status() != r.Status() || o.ClaimedByRunner != r.ClaimedByRunner {
				t.Fatalf(
					"seed %d: after truncation run %s is %s, begun %t; o %v cut %d",
					seed,
					r.ID(),
					r.Status(),
					r.ClaimedByRunner,
					o,
					cut,
				)
			}
		}
		if len(anew.runs) != len(f.runs) {
			t.Fatalf("seed %d: %d runs, want %d", seed, len(f.runs), len(anew.runs))
		}
	}
}

func TestMemoryOfEndedRuns(t *testing.T) {
	runs := 100_000
	if raced() {
		runs = natstest.Load(5_000, 15_000)
	}
	f := newReducer(nil)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	seq := 0
	for range runs / 1000 {
		for _, m := range plain(t, 1000) {
			seq++
			m.Seq = uint64(seq)
			f.Apply(m)
		}
	}
	per := float64(heap()-before) / float64(runs)
	t.Logf("%.0f bytes for an ended run with its session", per)
	if f.ended != runs || per > 750 {
		t.Errorf("%d ended runs, %.0f bytes each; want at most 750", f.ended, per)
	}
	runtime.KeepAlive(f)
}
