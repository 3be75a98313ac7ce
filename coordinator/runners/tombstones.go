package runners

import (
	"maps"
	"time"
)

// tombstones are the recently removed registrations, by runner. What was read before a removal may come after it.
type tombstones map[string]tombstone

type tombstone struct {
	rev uint64
	at  time.Time
}

// tombstoneKept is how long a removal is remembered; a late read is seconds late at most.
const tombstoneKept = time.Minute

// add remembers the revision of a removal; 0: the bucket has no trace of it.
func (t tombstones) add(id string, rev uint64) {
	now := time.Now()
	maps.DeleteFunc(t, func(_ string, old tombstone) bool { return now.Sub(old.at) > tombstoneKept })
	t[id] = tombstone{rev, now}
}
