package schema

import (
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
)

// cache keeps compiled schemas by the hash of their text. The least recently used ones are dropped.
type cache struct {
	mu     sync.Mutex
	room   int // bytes of schema text; a compiled schema takes twenty to forty times as much
	byHash map[[sha256.Size]byte]*list.Element
	recent list.List // of entry, the last used in front
}

type entry struct {
	key    [sha256.Size]byte
	schema *Schema
}

const (
	cacheBytes   = 2 << 20
	cacheMinimum = 1 << 10 // what even the smallest schema counts for: at most 2,048 are kept
)

var known = cache{room: cacheBytes, byHash: map[[sha256.Size]byte]*list.Element{}}

// compile returns the schema of the cache, or makes it.
func (c *cache) compile(raw json.RawMessage) (*Schema, error) {
	key := sha256.Sum256(raw)
	if s, ok := c.get(key); ok {
		return s, nil
	}
	s, err := compile(slices.Clone(raw))
	if err == nil {
		c.put(key, s)
	}
	return s, err
}

func (c *cache) get(key [sha256.Size]byte) (*Schema, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byHash[key]
	if !ok {
		return nil, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(entry).schema, true
}

func (c *cache) put(key [sha256.Size]byte, s *Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byHash[key]; ok {
		return // compiled twice at once; one is as good as the other
	}
	c.byHash[key] = c.recent.PushFront(entry{key, s})
	c.room -= s.weight()
	for c.room < 0 {
		old := c.recent.Remove(c.recent.Back()).(entry)
		delete(c.byHash, old.key)
		c.room += old.schema.weight()
	}
}

func (s *Schema) weight() int { return max(len(s.raw), cacheMinimum) }
