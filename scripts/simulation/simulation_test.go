package simulation

import (
	"flag"
	"log/slog"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

var (
	simSeed    = flag.Uint64("sim.seed", 0, "play this seed only, and log what happens")
	simFirst   = flag.Uint64("sim.first", 1, "the first seed")
	simFor     = flag.Duration("sim.for", 20*time.Second, "how long seeds are played")
	simSeeds   = flag.Int("sim.seeds", 0, "how many seeds are played at most; 0: as many as there is time for")
	simVerbose = flag.Bool("sim.v", false, "log what happens")
)

// played counts the stories of this process: ids are made from the time, and must not go back.
var played int

// tell plays a story in a bubble of its own and returns what went wrong.
func tell(t *testing.T, s story, log *slog.Logger) (wrong []string, records int, steps int) {
	t.Run("", func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, s.Seed)
		synctest.Test(t, func(*testing.T) {
			played++
			time.Sleep(time.Duration(played) * time.Hour)
			var w *world
			wrong, w = play(s, log)
			records, steps = int(w.oracle.read), w.loop.steps
		})
	})
	return wrong, records, steps
}

// TestSeeds plays seeds for a while.
func TestSeeds(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	if *simVerbose || *simSeed != 0 {
		log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	first, most := *simFirst, *simSeeds
	if *simSeed != 0 {
		first, most = *simSeed, 1
	}
	began, n, all, acts := time.Now(), 0, 0, 0
	for seed := first; time.Since(began) < *simFor && (most == 0 || n < most); seed++ {
		n++
		wrong, records, steps := tell(t, newStory(seed), log)
		all, acts = all+records, acts+steps
		if len(wrong) > 0 {
			for _, x := range wrong {
				t.Errorf("seed %d: %s", seed, x)
			}
			break
		}
	}
	took := time.Since(began)
	t.Logf("%d seeds in %s: %.0f a minute, %d records and %d steps each", n, took.Round(time.Millisecond),
		float64(n)/took.Minutes(), all/n, acts/n)
}
