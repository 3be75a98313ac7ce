package projection

import (
	"sync"

	"ao/shared/run"
)

// bodies caches the records of the newest and last ended runs, so that answers about them need no read.
type bodies struct {
	mu    sync.Mutex
	most  int
	size  int
	bySeq map[uint64][]byte
	specs map[uint64]*run.Spec // some of them decoded
	order []uint64
}

func (b *bodies) put(seq uint64, body []byte, spec *run.Spec) {
	if len(body) > b.most/8 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bySeq[seq] = body
	if spec != nil {
		b.specs[seq] = spec
	}
	b.order = append(b.order, seq)
	for b.size += len(body); b.size > b.most; {
		b.size -= len(b.bySeq[b.order[0]])
		delete(b.bySeq, b.order[0])
		delete(b.specs, b.order[0])
		b.order = b.order[1:]
	}
}

func (b *bodies) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.bySeq)
	clear(b.specs)
	b.order, b.size = nil, 0
}

func (b *bodies) get(seq uint64) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bySeq[seq]
}

func (b *bodies) spec(seq uint64) *run.Spec {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.specs[seq]
}

func newBodies(most int) *bodies {
	return &bodies{most: most, bySeq: map[uint64][]byte{}, specs: map[uint64]*run.Spec{}}
}
