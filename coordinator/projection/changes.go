package projection

import "sort"

// maxNoted is how many changes of rows are remembered for who watches lists.
const maxNoted = 8192

// changes is which rows changed last, in the order of the stream: a ring. Watchers look at it from time to time.
type changes struct {
	ring  []noted
	count uint64 // how many there have been
	lost  uint64 // sequence of the newest record whose changes are no longer here
}

type noted struct {
	seq uint64 // the record, or the one before what no record says
	row *row
}

// add notes that a row changed.
func (c *changes) add(seq uint64, r *row) {
	if r == nil {
		return
	}
	if len(c.ring) < maxNoted {
		c.ring = append(c.ring, noted{seq, r})
	} else {
		old := &c.ring[c.count%maxNoted]
		c.lost = max(c.lost, old.seq)
		*old = noted{seq, r}
	}
	c.count++
}

// oldest is the first change that is here.
func (c *changes) oldest() uint64 { return c.count - uint64(len(c.ring)) }

// at is the change with a number from oldest to count-1.
func (c *changes) at(n uint64) noted { return c.ring[n%maxNoted] }

// since is the first change that somebody who knows all up to a record may not know; ok: none before it is missing.
func (c *changes) since(seq uint64) (n uint64, ok bool) {
	i := sort.Search(len(c.ring), func(i int) bool { return c.at(c.oldest()+uint64(i)).seq >= seq })
	return c.oldest() + uint64(i), c.lost <= seq
}

// touched notes that a row changed beside the one that its record names: for the snapshot that is being written, and
// for watchers.
func touched(t *tables, r *row) {
	t.pass.touch(r)
	t.changes.add(t.seq, r)
}
