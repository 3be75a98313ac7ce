package projection

import (
	"cmp"
	"slices"
	"sync"

	"ao/shared/run"
)

// Bodies caches the records of the newest and last ended runs, so that answers about them need no read.
type Bodies struct {
	mu   sync.Mutex
	most int
	size int
	all  []cached // by sequence
}

type cached struct {
	seq  uint64
	body []byte
	spec *run.Spec // as body decodes, or nil
}

func newBodies(most int) *Bodies { return &Bodies{most: most} }

// put adds the newest record of the stream and forgets the oldest ones. A large one is not cached.
func (b *Bodies) put(seq uint64, body []byte, spec *run.Spec) {
	if len(body) > b.most/8 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.all); n > 0 && b.all[n-1].seq >= seq {
		return
	}
	b.all = append(b.all, cached{seq, body, spec})
	for b.size += len(body); b.size > b.most; b.all = b.all[1:] {
		b.size -= len(b.all[0].body)
		b.all[0] = cached{}
	}
}

func (b *Bodies) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all, b.size = nil, 0
}

// Get returns a record and its spec, nil where they are not cached.
func (b *Bodies) Get(seq uint64) ([]byte, *run.Spec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, ok := slices.BinarySearchFunc(b.all, seq, func(c cached, seq uint64) int { return cmp.Compare(c.seq, seq) })
	if !ok {
		return nil, nil
	}
	return b.all[i].body, b.all[i].spec
}
