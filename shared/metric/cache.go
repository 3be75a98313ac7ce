package metric

import "sync"

// Other is the label of values beyond a limit.
const Other = "other"

// Cache keeps series by key, each made once. Finding one is a map lookup without allocation.
type Cache[K comparable, S any] struct {
	mu   sync.RWMutex
	of   map[K]S
	make func(K) S
}

// NewCache makes a cache of what f makes.
func NewCache[K comparable, S any](f func(K) S) *Cache[K, S] {
	return &Cache[K, S]{of: map[K]S{}, make: f}
}

// Get returns the series of k; the zero value from a nil Cache.
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
	s, ok = c.of[k]
	if !ok {
		s = c.make(k)
		c.of[k] = s
	}
	return s
}

// LabelLimit limits the values of a label: the first ones are shown, later ones become Other.
type LabelLimit struct {
	mu   sync.Mutex
	most int
	seen map[string]bool
}

// NewLabelLimit makes a limit of so many values.
func NewLabelLimit(most int) *LabelLimit { return &LabelLimit{most: most, seen: map[string]bool{}} }

// Label returns the value as it is shown. Other does not count.
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
