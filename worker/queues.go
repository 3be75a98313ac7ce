package worker

import (
	"context"
	"slices"
	"sync"
)

// queues are the task queues the worker takes from, each in its own goroutine.
type queues struct {
	consume func(ctx context.Context, lane string) error

	mu     sync.Mutex
	open   map[string]context.CancelFunc
	closed bool
	wg     sync.WaitGroup
}

// set takes from exactly these queues from now on.
func (l *queues) set(want []string) {
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
		l.wg.Go(func() { l.consume(ctx, lane) })
	}
}

// close stops all queues for good and returns when unhandled deliveries have been returned.
func (l *queues) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.set(nil)
	l.wg.Wait()
}
