package main

import (
	"math"
	"testing"
)

// TestCalibration: for one machine with two cores the simulation matches scripts/bench, in the best hour seen, within
// 25%. Larger simulations rest on this.
func TestCalibration(t *testing.T) {
	for _, tt := range []struct {
		commit  string
		callers int
		runs    float64 // measured, per second
		p50     float64 // milliseconds
	}{
		{"always", 128, 3149, 39.0},
		{"always", 512, 4052, 119},
		{"default", 128, 6126, 19.7},
	} {
		r := simulate(plan{Streams: 1, Coordinators: 1, Workers: 1, Slots: 512, Cores: 2, One: true, Commit: tt.commit,
			Callers: tt.callers, Sessions: 100000, Seconds: 2})
		if off := r.Rate/tt.runs - 1; math.Abs(off) > 0.25 {
			t.Errorf("%s with %d callers: %.0f runs a second, measured %.0f", tt.commit, tt.callers, r.Rate, tt.runs)
		}
		if off := r.P50/tt.p50 - 1; math.Abs(off) > 0.25 {
			t.Errorf("%s with %d callers: p50 %.1f ms, measured %.1f", tt.commit, tt.callers, r.P50, tt.p50)
		}
	}
}

// TestLaws checks what must hold in any deployment.
func TestLaws(t *testing.T) {
	base := plan{Streams: 1, Coordinators: 2, Workers: 4, Slots: 64, Cores: 4, Commit: "cluster", Rate: 1000, Exec: 20,
		Sessions: 10000, Seconds: 2, Seed: 7}
	r := simulate(base)
	if math.Abs(r.Rate-base.Rate) > base.Rate/10 {
		t.Errorf("got %.0f runs a second, want %.0f", base.Rate, r.Rate)
	}
	if again := simulate(base); again != r {
		t.Error("the same seed gave another result")
	}
	few := base
	few.Slots = 2 // 8 slots of 20 ms: 400 a second at most
	if r := simulate(few); r.Rate > 410 || r.Behind < 500 {
		t.Errorf("8 slots with runs of 20 ms: got %.0f runs a second, %d behind; want 400 at most, and some behind",
			r.Rate, r.Behind)
	}
	one, four := base, base
	one.Callers, four.Callers, four.Streams, four.Coordinators, four.Own = 2048, 2048, 4, 4, true
	one.Slots, four.Slots = 1024, 1024
	if a, b := simulate(one), simulate(four); b.Rate < 1.5*a.Rate {
		t.Errorf("four streams: got %.0f runs a second, want more than one stream's %.0f", b.Rate, a.Rate)
	}
}
