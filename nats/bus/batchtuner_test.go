package bus

import (
	"testing"
	"time"
)

// crowd simulates the replies to many appends for a while, at one rate for single messages and another for batches. It
// returns how often batches were tried, and whether they are chosen in the end.
func (p *batchTuner) crowd(now *time.Time, long time.Duration, alone, batched int) (tried int, batches bool) {
	for end := now.Add(long); now.Before(end); {
		rate, was := alone, p.batches
		if was {
			rate = batched
		}
		*now = now.Add(10 * time.Millisecond)
		p.answered(rate/100, 64, *now)
		if !was && p.batches {
			tried++
		}
	}
	return tried, p.batches
}

func TestWorseModeIsTriedLessAndLess(t *testing.T) {
	t.Parallel()
	var p batchTuner
	now := time.Unix(1e9, 0)
	for _, tt := range []struct {
		long           time.Duration
		alone, batched int
		atLeast, most  int
		batches        bool
		why            string
	}{
		{time.Minute, 10000, 2000, 1, 3, false, "a minute in which batches are dear"},
		{10 * time.Minute, 10000, 2000, 3, 6, false, "ten more such minutes"},
		{time.Second, 1000, 2000, 1, 2, true, "alone has become dear"},
		{time.Minute, 1000, 8000, 1, 4, true, "a minute in which batches are cheap"},
	} {
		tried, batches := p.crowd(&now, tt.long, tt.alone, tt.batched)
		if tried < tt.atLeast || tried > tt.most || batches != tt.batches {
			t.Errorf("%s: batches were tried %d times, want %d to %d; taken in the end: %v, want %v", tt.why, tried,
				tt.atLeast, tt.most, batches, tt.batches)
		}
	}
}

// What a mode was like when it was tried last, perhaps minutes ago, does not count now.
func TestTrialIgnoresOlderTrials(t *testing.T) {
	t.Parallel()
	var p batchTuner
	now := time.Unix(1e9, 0)
	p.crowd(&now, 10*time.Minute, 10000, 2000)
	if tried, batches := p.crowd(&now, 6*time.Minute, 10000, 12000); !batches {
		t.Errorf("batches have become the cheaper way, were tried %d times, and are not taken", tried)
	}
}

// Without a sync for each write both modes may be worth nearly the same: single writes stay.
func TestMarginallyBetterModeIsNotChosen(t *testing.T) {
	t.Parallel()
	var p batchTuner
	now := time.Unix(1e9, 0)
	if tried, batches := p.crowd(&now, 5*time.Minute, 10000, 10500); batches || tried > 8 {
		t.Errorf("batches that are a twentieth better were tried %d times, and are taken in the end: %v", tried,
			batches)
	}
}

// A process may warm up during its first trial, and a machine may be slow for a while. Batches then look better than
// the period before, although they get a sixth fewer replies. They are not chosen.
func TestTrialIsComparedWithBeforeAndAfter(t *testing.T) {
	t.Parallel()
	for _, begin := range []time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond} {
		var p batchTuner
		now := time.Unix(1e9, 0)
		p.crowd(&now, begin, 3000, 2500)
		for rate := 3000; rate <= 10000; rate += 100 { // 0.7 s
			p.crowd(&now, 10*time.Millisecond, rate, rate*5/6)
		}
		p.crowd(&now, time.Second, 10000, 8300)
		if p.batches {
			t.Errorf("after %v and a warm-up batches are taken, which answer a sixth less", begin)
		}
		for range 20 {
			p.crowd(&now, 300*time.Millisecond, 6000, 5000)
			p.crowd(&now, 2*time.Second, 10000, 8300)
		}
		if p.crowd(&now, time.Second, 10000, 8300); p.batches {
			t.Error("a machine that is slow now and then has batches taken, which answer a sixth less")
		}
	}
}

// Where a disk syncs each write, a trial of single writes makes a crowd wait: one is enough for the first minute.
func TestFarWorseModeIsTriedSeldom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		alone, batched int
		batches        bool
	}{{1000, 8000, true}, {8000, 1000, false}} {
		var p batchTuner
		now := time.Unix(1e9, 0)
		if _, batches := p.crowd(&now, time.Second, tt.alone, tt.batched); batches != tt.batches {
			t.Errorf("%v: after a second batches are %v", tt, batches)
		}
		changes, was := 0, p.batches
		for range 600 {
			p.crowd(&now, 100*time.Millisecond, tt.alone, tt.batched)
			if p.batches != was {
				changes, was = changes+1, p.batches
			}
		}
		if changes != 0 {
			t.Errorf("%v: the way changed %d times within a minute", tt, changes)
		}
	}
}
