package projection

// await is somebody who waits for a sequence of the stream.
type await struct {
	seq  uint64
	done chan struct{}
}

// reached wakes those who wait for a sequence that the fold has now. It wants the lock.
func (p *Projection) reached() {
	seq := max(p.fold.seq, p.empty)
	if len(p.awaits) == 0 || seq < p.due {
		return
	}
	still := p.awaits[:0]
	p.due = 0
	for _, a := range p.awaits {
		if a.seq <= seq {
			close(a.done)
			continue
		}
		if still = append(still, a); p.due == 0 || a.seq < p.due {
			p.due = a.seq
		}
	}
	clear(p.awaits[len(still):])
	p.awaits = still
}

func (p *Projection) await(seq uint64) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(chan struct{})
	if seq <= max(p.fold.seq, p.empty) {
		close(done)
		return done
	}
	if len(p.awaits) == 0 || seq < p.due {
		p.due = seq
	}
	p.awaits = append(p.awaits, await{seq, done})
	return done
}

func (p *Projection) unawait(done chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range p.awaits {
		if a.done == done {
			last := len(p.awaits) - 1
			p.awaits[i] = p.awaits[last]
			p.awaits[last] = await{}
			p.awaits = p.awaits[:last]
			return
		}
	}
}

// Wrote notes the sequence of a record that this process wrote.
func (p *Projection) Wrote(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrote = max(p.wrote, seq)
}

// written is the newest sequence that Wrote was told of.
func (p *Projection) written() uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.wrote
}
