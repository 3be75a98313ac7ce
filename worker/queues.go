package worker

import (
	"context"
	"slices"
	"sync"
)

// queues are the task queues the worker takes from, each in its own goroutine.
type queues struct {
	consume func(ctx context.Context, queue string) error

	mu     sync.Mutex
	want   []string // as set last
	paused bool
	open   map[string]context.CancelFunc
	closed bool
	wg     sync.WaitGroup
}

// set takes from exactly these queues from now on.
func (l *queues) set(want []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.want = want
	l.apply()
}

// pause takes from no queue until it is called with false.
func (l *queues) pause(paused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = paused
	l.apply()
}

// apply opens and closes queues. The caller holds mu.
func (l *queues) apply() {
	want := l.want
	if l.paused {
		want = nil
	}
	for queue, cancel := range l.open {
		if !slices.Contains(want, queue) {
			cancel()
			delete(l.open, queue)
		}
	}
	if l.closed {
		return
	}
	for _, queue := range want {
		if l.open[queue] != nil {
			continue
		}
		if l.open == nil {
			l.open = map[string]context.CancelFunc{}
		}
		ctx, cancel := context.WithCancel(context.Background())
		l.open[queue] = cancel
		l.wg.Go(func() { l.consume(ctx, queue) })
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
