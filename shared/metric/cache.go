package metric

import "sync"

// Other is the label of what is beyond a bound.
const Other = "other"

// Cache are series by what they are of, each made once: finding one costs a look into a map and allocates nothing.
type Cache[K comparable, S any] struct {
	mu   sync.RWMutex
	of   map[K]S
	make func(K) S
}

// NewCache makes cells of what f makes.
func NewCache[K comparable, S any](f func(K) S) *Cache[K, S] {
	return &Cache[K, S]{of: map[K]S{}, make: f}
}

// Get is the series of k. Nil cells have none: its zero value.
func (c *Cache[K, S]) Get(k K) (s S) {
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

// LabelLimit keeps the values of a label few: the first ones are shown, what comes later is Other.
type LabelLimit struct {
	mu   sync.Mutex
	most int
	seen map[string]bool
}

// NewLabelLimit makes one of so many values.
func NewLabelLimit(most int) *LabelLimit { return &LabelLimit{most: most, seen: map[string]bool{}} }

// Label is the value as it is shown. Other takes no place.
func (b *LabelLimit) Label(value string) string {
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
