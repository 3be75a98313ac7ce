package runners

import (
	"iter"
	"sync"
	"time"

	"ao/coordinator/projection/state"
	"ao/shared/runnerapi"
)

// Carried knows which definitions of runners' agents accepted runs carry that have not ended.
type Carried struct {
	History interface {
		Pending() iter.Seq[state.Active]
		Claimed() iter.Seq[state.Active]
		Confirmed() bool
	}

	mu     sync.Mutex
	at     time.Time // when hashes was read
	hashes map[string]bool
}

// carriedEvery is how often the open runs are looked through, while runners serve older definitions.
const carriedEvery = 5 * time.Second

// Unused lists the older definitions of a runner that no accepted run carries. It lists none while the history is not
// confirmed. A run that another coordinator has just accepted may be missing.
func (c *Carried) Unused(r runnerapi.Runner) (unused []string) {
	if r.Older() == 0 || !c.History.Confirmed() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) >= carriedEvery {
		hashes := map[string]bool{}
		for _, all := range []iter.Seq[state.Active]{c.History.Pending(), c.History.Claimed()} {
			for a := range all {
				hashes[a.Spec.Owner] = true
			}
		}
		c.hashes, c.at = hashes, time.Now()
	}
	for _, older := range r.OlderHashes {
		for _, hash := range older {
			if !c.hashes[hash] {
				unused = append(unused, hash)
			}
		}
	}
	return unused
}
