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

// add remembers the revision of a removal. With revision 0 the bucket is another one, and nothing is remembered.
func (t tombstones) add(id string, rev uint64) {
	if rev == 0 {
		delete(t, id)
		return
	}
	maps.DeleteFunc(t, func(_ string, old tombstone) bool { return old.expired() })
	t[id] = tombstone{rev, time.Now()}
}

// revision returns the revision of a removal; 0: none is remembered.
func (t tombstones) revision(id string) uint64 {
	if at := t[id]; !at.expired() {
		return at.rev
	}
	return 0
}

func (t tombstone) expired() bool { return time.Since(t.at) > tombstoneKept }
