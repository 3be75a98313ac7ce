package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// story is all that happens to a deployment. A seed makes one; a failing one is made shorter, printed, and kept.
type story struct {
	Seed      uint64 // decides delays and what each request meets
	Clustered bool   // NATS is a cluster: refusals may be premature
	Requests  []request
	Faults    []faultEvent
}

// request is what a caller asks for.
type request struct {
	At   time.Duration
	What string // start, resume, child, stop, tree, delete, repeat, halt
	N    int    // names it
	Of   int    // the request whose run or session is meant
	With options
}

type options struct {
	Type     string // of the agent
	Work     work
	Attempts int
	Schema   bool
	OwnID    bool
	Webhook  bool
}

// faultEvent is what goes wrong, and for how long.
type faultEvent struct {
	At, For time.Duration
	What    string
	Who     int
}

// The faults.
const (
	killCoordinator = "kill coordinator" // and start another one
	killWorker      = "kill worker"
	cutCoordinator  = "cut coordinator" // from NATS
	cutWorker       = "cut worker"
	outage          = "outage"         // NATS stops and comes back with all records
	crash           = "crash"          // NATS loses its last records
	rot             = "rot"            // NATS stops, and a part of the history is unreadable when it comes back
	unreadable      = "unreadable"     // NATS ends, and counts records that it does not give when it comes back
	lostAnswers     = "lost answers"   // many requests are done without an answer
	lateWrites      = "late writes"    // many writes are done long after their caller gave up
	inFlight        = "in flight"      // a cluster holds writes, refuses others because of them, and may lose them
	slow            = "slow"           // everything takes up to seconds
	noBatches       = "no batches"     // NATS refuses most batches
	deafness        = "deafness"       // most heartbeats are lost
	lateWatch       = "late watch"     // a coordinator sees late what is registered
	lostConsumers   = "lost consumers" // of task queues, after workers did not reach NATS for a while
	oldConsumers    = "old consumers"  // it restores older states of them
	garbage         = "garbage"        // somebody writes records that nobody can read
	tornBatch       = "torn batch"     // NATS crashes in a batch, of which a prefix remains
	absence         = "absence"        // all workers of a kind are shut down, and come back
)

var everyFault = []string{killCoordinator, killWorker, cutCoordinator, cutWorker, outage, crash, rot, unreadable,
	lostAnswers, lateWrites, inFlight, slow, noBatches, deafness, lateWatch, lostConsumers, oldConsumers, garbage,
	tornBatch, absence}

// The size of a story.
const (
	requests   = 215
	faults     = 6
	activeTime = 40 * time.Second
	calmTime   = 150 * time.Second // in which everything must end
)

// newStory makes the story of a seed.
func newStory(seed uint64) story {
	r := rand.New(rand.NewPCG(seed, 1))
	s := story{Seed: seed, Clustered: r.IntN(2) == 0}
	within := func(d time.Duration) time.Duration { return rand0(r, d).Truncate(time.Millisecond) }
	var starts []int
	for n := 1; n <= requests; n++ {
		q := request{At: within(activeTime), N: n, What: "start"}
		q.At = activeTime * time.Duration(n) / requests // in order, so that what others refer to is there
		q.With = options{Type: []string{"autonomous", "procedural"}[r.IntN(2)], Work: work{Takes: 20 + r.IntN(600)}}
		if len(starts) > 3 {
			q.Of = starts[max(0, len(starts)-1-r.IntN(12))]
			switch k := r.IntN(100); {
			case k < 14:
				q.What = "resume"
			case k < 34:
				q.What = "child"
			case k < 40:
				q.What = "stop"
			case k < 43:
				q.What = "tree"
			case k < 46:
				q.What = "delete"
			case k < 52:
				q.What = "repeat"
			}
		}
		if q.What == "start" || q.What == "child" {
			starts = append(starts, n)
			q.With.OwnID, q.With.Webhook = r.IntN(5) == 0, r.IntN(6) == 0
		}
		switch k := r.IntN(20); {
		case k == 0:
			q.With.Work.Takes = 3000 + r.IntN(6000)
		case k < 4:
			q.With.Attempts, q.With.Work.Fails = 2+r.IntN(2), r.IntN(2) == 0
		case k < 8:
			q.With.Schema = true
			q.With.Work.Answer = []string{`{"ok":true}`, `{"ok":1}`}[min(r.IntN(4), 1)]
		}
		s.Requests = append(s.Requests, q)
		s.Requests = append(s.Requests, meanwhile(r, q)...)
	}
	for range faults {
		f := faultEvent{At: time.Second + within(activeTime-4*time.Second), What: everyFault[r.IntN(len(everyFault))],
			For: 300*time.Millisecond + within(5*time.Second), Who: r.IntN(6)}
		switch {
		case s.Clustered && r.IntN(5) == 0:
			f.What = inFlight
		case f.What == cutCoordinator && f.Who%2 == 0: // for longer than a runner without heartbeat is kept
			f.For += removeAfter
		}
		s.Faults = append(s.Faults, f)
	}
	if r.IntN(3) == 0 { // nothing that comes later makes up for it
		s.Faults = append(s.Faults, faultEvent{At: activeTime - 1500*time.Millisecond, For: 1400 * time.Millisecond,
			What: lostConsumers, Who: r.IntN(2)})
	}
	if slices.ContainsFunc(s.Faults, func(f faultEvent) bool { return f.What == unreadable }) {
		for i, f := range s.Faults { // two losses at once are a known limit
			if f.What == crash || f.What == rot || f.What == oldConsumers {
				s.Faults[i].What = outage
			}
		}
	}
	slices.SortFunc(s.Faults, func(a, b faultEvent) int { return cmp.Compare(a.At, b.At) })
	return s
}

// meanwhile returns what others request at the moment when it matters. When an attempt fails, that is a stop. When a
// session is deleted, or its first run is stopped or takes long, that is a resume. A halt is a stop right after a
// failure that its coordinator has not read yet. The coordinator dies once it has written the stop.
func meanwhile(r *rand.Rand, q request) (more []request) {
	other := request{N: requests + q.N, Of: q.Of, At: q.At + time.Duration(r.IntN(20))*time.Millisecond, With: q.With}
	switch {
	case q.With.Work.Fails && q.With.Attempts > 1 && q.What == "start":
		other.What, other.Of = "stop", q.N
		if r.IntN(8) == 0 {
			other.What = "halt"
		}
		other.At += time.Duration(q.With.Work.Takes+20+r.IntN(80)) * time.Millisecond
	case q.What == "start" && q.With.Work.Takes > 3000: // a turn that waits for long
		other.What, other.Of = "resume", q.N
		other.With.Work.Takes = 200 + r.IntN(2000)
	case q.What == "delete" || q.What == "stop" && r.IntN(2) == 0:
		other.What = "resume"
	default:
		return nil
	}
	return []request{other}
}

func rand0(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// String is the story as it is kept: one line for each event.
func (s story) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d clustered %v\n", s.Seed, s.Clustered)
	for _, q := range s.Requests {
		fmt.Fprintf(&b, "%s request %d %s of %d type %s takes %d fails %v answer %s attempts %d schema %v own %v "+
			"webhook %v\n",
			q.At, q.N, q.What, q.Of, q.With.Type, q.With.Work.Takes, q.With.Work.Fails, cmp.Or(q.With.Work.Answer, "-"),
			q.With.Attempts, q.With.Schema, q.With.OwnID, q.With.Webhook)
	}
	for _, f := range s.Faults {
		fmt.Fprintf(&b, "%s fault %s who %d for %s\n", f.At, strings.ReplaceAll(f.What, " ", "_"), f.Who, f.For)
	}
	return b.String()
}

// parseStory reads what String wrote.
func parseStory(text string) (s story, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		var at, length, what string
		var q request
		var f faultEvent
		switch {
		case line == "":
		case strings.HasPrefix(line, "seed "):
			_, err = fmt.Sscanf(line, "seed %d clustered %t", &s.Seed, &s.Clustered)
		case strings.Contains(line, " request "):
			form := "%s request %d %s of %d type %s takes %d fails %t answer %s attempts %d schema %t " +
				"own %t webhook %t"
			_, err = fmt.Sscanf(line, form, &at, &q.N, &q.What, &q.Of, &q.With.Type, &q.With.Work.Takes,
				&q.With.Work.Fails, &q.With.Work.Answer,
				&q.With.Attempts, &q.With.Schema, &q.With.OwnID, &q.With.Webhook)
			q.With.Work.Answer = strings.TrimPrefix(q.With.Work.Answer, "-")
			q.At, _ = time.ParseDuration(at)
			s.Requests = append(s.Requests, q)
		default:
			_, err = fmt.Sscanf(line, "%s fault %s who %d for %s", &at, &what, &f.Who, &length)
			f.At, _ = time.ParseDuration(at)
			f.For, _ = time.ParseDuration(length)
			f.What = strings.ReplaceAll(what, "_", " ")
			s.Faults = append(s.Faults, f)
		}
		if err != nil {
			return s, fmt.Errorf("%q: %w", line, err)
		}
	}
	return s, nil
}
