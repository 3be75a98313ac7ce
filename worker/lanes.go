package worker

import (
	"context"
	"slices"
	"sync"
)

// lanes is the queues that are taken from now, each by a goroutine.
type lanes struct {
	take func(ctx context.Context, lane string) error

	mu     sync.Mutex
	open   map[string]context.CancelFunc
	closed bool
	wg     sync.WaitGroup
}

// set takes from exactly these lanes from now on.
func (l *lanes) set(want []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for lane, cancel := range l.open {
		if !slices.Contains(want, lane) {
			cancel()
			delete(l.open, lane)
		}
	}
	if l.closed {
		return
	}
	for _, lane := range want {
		if l.open[lane] != nil {
			continue
		}
		if l.open == nil {
			l.open = map[string]context.CancelFunc{}
		}
		ctx, cancel := context.WithCancel(context.Background())
		l.open[lane] = cancel
		l.wg.Go(func() { l.take(ctx, lane) })
	}
}

// close takes from none for ever, and returns when what had come and was not handed over has been handed back.
func (l *lanes) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.set(nil)
	l.wg.Wait()
}
