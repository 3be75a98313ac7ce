package metric

import "sync"

// Other is the label of what is beyond a bound.
const Other = "other"

// Cells are series by what they are of, each made once: finding one costs a look into a map and allocates nothing.
type Cells[K comparable, S any] struct {
	mu   sync.RWMutex
	of   map[K]S
	make func(K) S
}

// NewCells makes cells of what f makes.
func NewCells[K comparable, S any](f func(K) S) *Cells[K, S] {
	return &Cells[K, S]{of: map[K]S{}, make: f}
}

// Of is the series of k. Nil cells have none: its zero value.
func (c *Cells[K, S]) Of(k K) (s S) {
	if c == nil {
		return s
	}
	c.mu.RLock()
	s, ok := c.of[k]
	c.mu.RUnlock()
	if ok {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok = c.of[k]; !ok {
		s = c.make(k)
		c.of[k] = s
	}
	return s
}

// Bound keeps the values of a label few: the first ones are shown, what comes later is Other.
type Bound struct {
	mu   sync.Mutex
	most int
	seen map[string]bool
}

// NewBound makes one of so many values.
func NewBound(most int) *Bound { return &Bound{most: most, seen: map[string]bool{}} }

// Of is the value as it is shown. Other takes no place.
func (b *Bound) Of(value string) string {
	if value == Other {
		return Other
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[value] {
		return value
	}
	if len(b.seen) >= b.most {
		return Other
	}
	b.seen[value] = true
	return value
}
