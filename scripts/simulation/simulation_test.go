package simulation

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/follow"
	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/run"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "play this seed only, and log what happens")
	simLog   = flag.Bool("sim.log", false, "log what happens in the kept stories")
	simFirst = flag.Uint64("sim.first", 1, "the first seed")
	simFor   = flag.Duration("sim.for", 20*time.Second, "how long seeds are played")
	simSeeds = flag.Int("sim.seeds", 0, "how many seeds are played at most; 0: as many as there is time for")
	simMost  = flag.Int("sim.most", 1, "how many failing seeds are reported")
	simKeep  = flag.Bool("sim.shrink", true, "make a failing story shorter")
)

// mostSeeds is how many seeds are played without -sim.seeds; 0: as many as there is time for. The race detector, with
// which each takes four times as long, lowers it.
var mostSeeds = 0

// played is the hour of the last story of this process. Ids are made from the time, and must not go back. It is the
// seed where that is later, so that a seed makes the same ids wherever it is played.
var played int

// play plays a story in a bubble of its own and returns what went wrong.
func play(t *testing.T, s story, log *slog.Logger) (wrong []string, records int, steps int) {
	warmUp()
	t.Run("", func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, s.Seed)
		synctest.Test(t, func(*testing.T) {
			played = max(played+1, int(s.Seed%1e6))
			time.Sleep(time.Duration(played) * time.Hour)
			w := newWorld(s, log)
			wrong = w.play()
			records, steps = w.oracle.records, int(w.loop.steps.Load())
		})
	})
	return wrong, records, steps
}

// TestSeeds plays seeds for a while. A story that comes out small, since NATS was away for most of it, is checked and
// not counted.
func TestSeeds(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	log, first, most := quiet, *simFirst, cmp.Or(*simSeeds, mostSeeds)
	if *simSeed != 0 {
		log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
		first, most = *simSeed, 1
	}
	began, n, small, all, acts, failed := time.Now(), 0, 0, 0, 0, 0
	for seed := first; time.Since(began) < *simFor && (most == 0 || n < most); seed++ {
		n++
		s := newStory(seed)
		wrong, records, steps := play(t, s, log)
		all, acts = all+records, acts+steps
		if len(wrong) == 0 {
			if records < 500 || len(s.Faults) < 5 {
				n, small = n-1, small+1
			}
			continue
		}
		for _, x := range wrong[:min(len(wrong), 3)] {
			t.Errorf("seed %d: %s", seed, x)
		}
		if failed++; failed == *simMost {
			if *simKeep && *simSeed == 0 {
				s, why := shrink(t, newStory(seed))
				t.Logf("to be kept in testdata:\n%s# %s", s, why)
			}
			break
		}
	}
	took := time.Since(began)
	t.Logf("%d seeds in %s: %.0f a minute, %d records and %d steps each; %d came out small", n,
		took.Round(time.Millisecond), float64(n)/took.Minutes(), all/(n+small), acts/(n+small), small)
	if small > 1+n/20 {
		t.Errorf("%d of %d stories came out small", small, n+small)
	}
}

// shrink leaves out what a failing story does not need.
func shrink(t *testing.T, s story) (story, string) {
	why, quiet := "", slog.New(slog.DiscardHandler)
	fails := func(s story) bool {
		wrong, _, _ := play(t, s, quiet)
		if len(wrong) > 0 {
			why = wrong[0]
		}
		return len(wrong) > 0
	}
	for i := len(s.Faults) - 1; i >= 0; i-- {
		less := s
		less.Faults = slices.Delete(slices.Clone(s.Faults), i, i+1)
		if fails(less) {
			s = less
		}
	}
	for size := len(s.Requests) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(s.Requests); {
			less := s
			less.Requests = slices.Delete(slices.Clone(s.Requests), i, i+size)
			if fails(less) {
				s = less
			} else {
				i += size
			}
		}
	}
	fails(s)
	return s, why
}

//go:embed testdata/*.txt
var kept embed.FS

// TestKeptStories plays stories that failed once.
func TestKeptStories(t *testing.T) {
	files, err := kept.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := kept.ReadFile("testdata/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseStory(string(text))
		if err != nil {
			t.Fatalf("%s: %v", f.Name(), err)
		}
		for range 3 { // Go's maps and timers may order what happens at one moment
			log := slog.New(slog.DiscardHandler)
			if *simLog {
				log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
			}
			if wrong, _, _ := play(t, s, log); len(wrong) > 0 {
				t.Errorf("%s: %s", f.Name(), wrong[0])
			}
		}
	}
}

// TestStoriesAreReadAsTheyAreWritten compares a story with its text.
func TestStoriesAreReadAsTheyAreWritten(t *testing.T) {
	for seed := range uint64(20) {
		s := newStory(seed)
		again, err := parseStory(s.String())
		if err != nil || again.String() != s.String() {
			t.Fatalf("seed %d: %v\n%s\n%s", seed, err, s, again)
		}
	}
}

var warm bool

// warmUp has packages make what they make once. A channel that is made in a bubble stays there.
func warmUp() {
	if warm {
		return
	}
	warm = true
	p := projection.New(projection.Config{Log: slog.New(slog.DiscardHandler)})
	_ = follow.New(p, warmLog{}, "", nil).Run(context.Background())
}

// warmLog has enough runs for the projection to compress their texts.
type warmLog struct{ *client }

func (warmLog) State(context.Context) (stream.State, error) { return stream.State{}, nil }
func (warmLog) Confirmed() bool                             { return true }
func (warmLog) Connected() bool                             { return true }
func (warmLog) FollowRuns(_ context.Context, _ func() []stream.Fingerprint, _ func(bool),
	f func(message) error,
) error {
	for n := range 1000 {
		id, session := fmt.Sprintf("run_%032x", n), fmt.Sprintf("ses_%032x", n)
		body, _ := json.Marshal(run.Accepted{V: 1, Spec: run.Spec{ID: id, SessionID: session, Type: run.Start,
			Input: &run.Input{Parameters: fmt.Appendf(nil, `{"prompt":"text %d"}`, n)}}})
		_ = f(message{Seq: uint64(n + 1), Body: body, Time: time.Now(),
			Subject: subject.Accepted(subject.Partition(session), session, id)})
	}
	return context.Canceled
}
