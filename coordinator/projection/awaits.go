package projection

// awaits are those who wait for a sequence to be applied.
type awaits struct {
	all []await
	due uint64 // the smallest sequence of them
}

// await is a wait for a sequence of the stream.
type await struct {
	seq  uint64
	done chan struct{}
}

func (w *awaits) add(a await) {
	if len(w.all) == 0 || a.seq < w.due {
		w.due = a.seq
	}
	w.all = append(w.all, a)
}

// reached wakes those who wait for a sequence that has been applied.
func (w *awaits) reached(seq uint64) {
	if len(w.all) == 0 || seq < w.due {
		return
	}
	still := w.all[:0]
	w.due = 0
	for _, a := range w.all {
		if a.seq <= seq {
			close(a.done)
			continue
		}
		still = append(still, a)
		if w.due == 0 || a.seq < w.due {
			w.due = a.seq
		}
	}
	clear(w.all[len(still):])
	w.all = still
}

// remove ends a wait.
func (w *awaits) remove(done chan struct{}) {
	for i, a := range w.all {
		if a.done == done {
			last := len(w.all) - 1
			w.all[i] = w.all[last]
			w.all[last] = await{}
			w.all = w.all[:last]
			return
		}
	}
}

// clear wakes everybody.
func (w *awaits) clear() {
	for _, a := range w.all {
		close(a.done)
	}
	w.all = nil
}

// WhenApplied returns a channel that is closed once a sequence is applied, or the projection is cleared.
func (p *Projection) WhenApplied(seq uint64) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(chan struct{})
	if seq <= p.SeqOf(p.state) {
		close(done)
		return done
	}
	p.awaits.add(await{seq, done})
	return done
}

// StopWaiting ends a wait.
func (p *Projection) StopWaiting(done chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awaits.remove(done)
}
