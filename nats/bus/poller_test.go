package bus_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
)

var taskQueue = subject.TaskQueue("procedural", "text", "_")

func queue(t testing.TB, b *bus.Bus, taskQueue string, from, to int) {
	t.Helper()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 64 {
		wg.Go(func() {
			for n := range next {
				if _, err := b.Append(context.Background(),
					bus.Entry{Subject: subject.Queued("7", taskQueue, "run_"+strconv.Itoa(n), 1),
						Body: []byte("run")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := from; n < to; n++ {
		next <- n
	}
	close(next)
	wg.Wait()
}

// slots is a worker: it counts its slots, and fails the test if it is handed more than it has.
type slots struct {
	t     testing.TB
	n     int64
	busy  atomic.Int64
	done  atomic.Int64
	seen  sync.Map // sequence -> true
	taker *bus.Poller
	work  func(bus.Delivery)
	wg    sync.WaitGroup
}

func (s *slots) free() int { return int(s.n - s.busy.Load()) }

func (s *slots) do(_ context.Context, d bus.Delivery) {
	if busy := s.busy.Add(1); busy > s.n {
		s.t.Errorf("%d runs for %d slots", busy, s.n)
	}
	s.wg.Go(func() {
		defer s.taker.Wake()
		defer s.busy.Add(-1)
		if s.work != nil {
			s.work(d)
		}
		d.Ack()
		if _, twice := s.seen.LoadOrStore(d.Seq, true); !twice {
			s.done.Add(1)
		}
	})
}

// worker takes from queues until the test ends, or stop is called.
func worker(t testing.TB, b *bus.Bus, n int64, work func(bus.Delivery), queues ...string) (s *slots, stop func()) {
	s = &slots{t: t, n: n, work: work}
	s.taker = b.Poller(s.free, s.do)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, l := range queues {
		wg.Go(func() {
			if err := s.taker.Poll(ctx, l); !errors.Is(err, context.Canceled) {
				t.Errorf("take: %v", err)
			}
		})
	}
	stop = func() {
		cancel()
		wg.Wait()
		s.wg.Wait()
	}
	t.Cleanup(stop)
	return s, stop
}

func TestPollerDeliversEverythingWithinFreeSlots(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	other := subject.TaskQueue("procedural", "_", "_")
	for _, l := range []string{taskQueue, other} {
		if err := b.EnsureTaskQueue(t.Context(), l, 1); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := worker(t, b, 3, nil, taskQueue, other)
	queue(t, b, taskQueue, 0, 500)
	queue(t, b, other, 500, 1000)
	natstest.Until(t, "all runs are taken", func() bool { return s.done.Load() == 1000 })
	natstest.Until(t, "all are settled", func() bool {
		for _, l := range []string{taskQueue, other} {
			if st, err := b.TaskQueueState(t.Context(), l); err != nil || st.AckPending != 0 || st.Pending != 0 {
				return false
			}
		}
		return true
	})
}

func TestBusyWorkerFetchesNothing(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	if err := b.EnsureTaskQueue(t.Context(), taskQueue, 1); err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	busy, _ := worker(t, b, 2, func(bus.Delivery) { <-release }, taskQueue)
	t.Cleanup(func() { close(release) })
	queue(t, b, taskQueue, 0, 10)
	natstest.Until(t, "the first worker is busy", func() bool { return busy.free() == 0 })
	idle, _ := worker(t, b, 2, nil, taskQueue)
	// what stays on loan for too long comes again
	natstest.Until(t, "the second worker does the rest", func() bool { return idle.done.Load() >= 8 })
}

func TestStoppedPollerReturnsDeliveries(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	if err := b.EnsureTaskQueue(t.Context(), taskQueue, 1); err != nil {
		t.Fatal(err)
	}
	// It claims to have slots, and hands back what it gets.
	ctx, cancel := context.WithCancel(t.Context())
	var handed atomic.Int64
	first := b.Poller(func() int { return 4 }, func(_ context.Context, d bus.Delivery) {
		if handed.Add(1) < 100 {
			d.Nak()
		} else {
			d.NakWithDelay(time.Millisecond)
			cancel()
		}
	})
	queue(t, b, taskQueue, 0, 4)
	first.Poll(ctx, taskQueue)
	s, _ := worker(t, b, 1, nil, taskQueue)
	natstest.Until(t, "the next worker does them all", func() bool { return s.done.Load() == 4 })
}

func TestAQueueStartsWhereItIsAskedAndIsNeverMoved(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	ctx := t.Context()
	queue(t, b, taskQueue, 0, 10)
	if _, err := b.TaskQueueState(ctx, taskQueue); !errors.Is(err, bus.ErrNotFound) {
		t.Fatalf("got %v, want ErrNotFound", err)
	}
	pending := func() uint64 {
		st, err := b.TaskQueueState(ctx, taskQueue)
		if err != nil {
			t.Fatal(err)
		}
		return st.Pending
	}
	for _, tt := range []struct{ start, want uint64 }{{6, 5}, {1, 5}, {0, 5}, {6, 5}} {
		if err := b.EnsureTaskQueue(ctx, taskQueue, tt.start); err != nil {
			t.Fatalf("start %d: %v", tt.start, err)
		}
		if got := pending(); got != tt.want {
			t.Errorf("start %d: %d pending, want %d", tt.start, got, tt.want)
		}
	}
	for range 2 {
		if err := b.DeleteTaskQueue(ctx, taskQueue); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.EnsureTaskQueue(ctx, taskQueue, 0); err != nil {
		t.Fatal(err)
	}
	if got := pending(); got != 10 {
		t.Errorf("made again: %d pending, want 10", got)
	}
}

func TestPollerContinuesWithARecreatedQueue(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	ctx := t.Context()
	s, _ := worker(t, b, 2, nil, taskQueue) // before the queue is there
	if err := b.EnsureTaskQueue(ctx, taskQueue, 1); err != nil {
		t.Fatal(err)
	}
	queue(t, b, taskQueue, 0, 5)
	natstest.Until(t, "runs are taken", func() bool { return s.done.Load() == 5 })
	if err := b.DeleteTaskQueue(ctx, taskQueue); err != nil {
		t.Fatal(err)
	}
	queue(t, b, taskQueue, 5, 10)
	if err := b.EnsureTaskQueue(ctx, taskQueue, 6); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "the later runs are taken", func() bool { return s.done.Load() == 10 })
}

func TestPollerSurvivesAKilledServer(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	b := p.Bus(t)
	if err := b.EnsureTaskQueue(t.Context(), taskQueue, 1); err != nil {
		t.Fatal(err)
	}
	s, _ := worker(t, p.Bus(t), 4, nil, taskQueue)
	queue(t, b, taskQueue, 0, 50)
	natstest.Until(t, "runs are taken", func() bool { return s.done.Load() == 50 })
	p.Kill()
	p.Start()
	natstest.Until(t, "we are back", b.Connected)
	queue(t, b, taskQueue, 50, 100)
	natstest.Until(t, "the later runs are taken", func() bool { return s.done.Load() == 100 })
}

func TestRejectKeepsTheMessageWithItsReason(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	if err := b.EnsureTaskQueue(t.Context(), taskQueue, 1); err != nil {
		t.Fatal(err)
	}
	s := &slots{t: t, n: 1}
	s.taker = b.Poller(s.free, func(ctx context.Context, d bus.Delivery) { d.Reject(ctx, "cannot be\nread") })
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.taker.Poll(ctx, taskQueue) })
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	queue(t, b, taskQueue, 0, 1)
	natstest.Until(t, "it is settled", func() bool {
		st, err := b.TaskQueueState(t.Context(), taskQueue)
		return err == nil && st.AckFloor > 0 && st.Pending == 0 && st.AckPending == 0
	})
	if st, err := b.StreamState(t.Context(), subject.Rejected); err != nil || st.Msgs != 1 {
		t.Errorf("got %+v, %v, want one message", st, err)
	}
}
