package explain

import (
	"math/rand/v2"
	"testing"

	"ao/shared/runnerapi"
)

// TestMismatchesAgreeWithSatisfies: a runner may take a run exactly if it has no mismatch.
func TestMismatchesAgreeWithSatisfies(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	tags := func() (all []string) {
		for _, tag := range []string{"eu", "gpu"} {
			if rng.IntN(2) == 0 {
				all = append(all, tag)
			}
		}
		return all
	}
	agents := func() map[string]string {
		all := map[string]string{}
		for _, name := range []string{"a", "b"} {
			if hash := pick("", "1", "2"); hash != "" {
				all[name] = hash
			}
		}
		return all
	}
	fits := 0
	for range 20_000 {
		r := runnerapi.Runner{Identity: runnerapi.Identity{Hostname: pick("h", "i"), ProjectDir: pick("/p", "/q"),
			ExecutorProfile: pick("x", "y"), ExecutorType: pick("autonomous", "procedural")},
			Tags: tags(), RequireMatchingTags: rng.IntN(2) == 0, AgentHashes: agents()}
		w := runnerapi.RoutingKey{Type: pick("autonomous", "procedural"), Profile: pick("", "x"),
			Hostname: pick("", "h"), ProjectDir: pick("", "/p"), Tags: tags()}
		if rng.IntN(3) == 0 {
			w.Agents = agents()
		}
		wrong := mismatches(r, w)
		if r.Matches(w) != (len(wrong) == 0) {
			t.Fatalf("%+v and %+v: satisfies %t, but %+v", r, w, r.Matches(w), wrong)
		}
		if len(wrong) == 0 {
			fits++
		}
	}
	if fits < 100 {
		t.Errorf("only %d fitted", fits)
	}
}
