package state

import "sort"

// MaxNoted is how many changes of rows are remembered for watchers of lists.
const MaxNoted = 8192

// changes is a ring of the rows that changed last, in stream order. Watchers poll it.
type changes struct {
	ring  []noted
	count uint64 // of all changes ever
	lost  uint64 // sequence of the newest record whose changes are no longer here
}

type noted struct {
	seq uint64 // of the record; for a change without one, of the record before
	row *Row
}

// add notes that a row changed.
func (c *changes) add(seq uint64, r *Row) {
	if r == nil {
		return
	}
	if len(c.ring) < MaxNoted {
		c.ring = append(c.ring, noted{seq, r})
	} else {
		old := &c.ring[c.count%MaxNoted]
		c.lost = max(c.lost, old.seq)
		*old = noted{seq, r}
	}
	c.count++
}

// Oldest returns the number of the first change that is here.
func (c *changes) Oldest() uint64 { return c.count - uint64(len(c.ring)) }

// at returns the change with a number from oldest to count-1.
func (c *changes) at(n uint64) noted { return c.ring[n%MaxNoted] }

// Row returns the row that changed with a number from oldest to count-1.
func (c *changes) Row(n uint64) *Row { return c.at(n).row }

// Count returns how many changes there were.
func (c *changes) Count() uint64 { return c.count }

// Since returns the first change that a watcher at a sequence may not know; ok: none before it is missing.
func (c *changes) Since(seq uint64) (n uint64, ok bool) {
	i := sort.Search(len(c.ring), func(i int) bool { return c.at(c.Oldest()+uint64(i)).seq >= seq })
	return c.Oldest() + uint64(i), c.lost <= seq
}

// touched notes a change of a row other than the record's own, for the checkpoint in progress and for watchers.
func touched(t *tables, r *Row) {
	t.dirty.add(r)
	t.Changes.add(t.seq, r)
}

// add notes that a row changed. A nil set, without a checkpoint in progress, ignores it.
func (p *dirtySet) add(r *Row) {
	if p != nil && r != nil {
		p.rows[r] = true
		p.sessions[r.session] = true
	}
}

func (p *dirtySet) addSession(s *Session) {
	if p != nil {
		p.sessions[s] = true
	}
}
