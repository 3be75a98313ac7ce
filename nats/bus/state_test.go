package bus_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"

	"github.com/nats-io/nats.go"
)

// A caller that asks while a request is pending shares the next one with all others.
func TestStateIsAskedOnceForMany(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	nc := p.Conn(t)
	b, err := bus.Open(nc, bus.Config{Log: natstest.Log(t)})
	if err == nil {
		err = b.Setup(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	before := nc.Stats().OutMsgs
	p.Pause()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			if _, err := b.State(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	natstest.Until(t, "a request is sent", func() bool { return nc.Stats().OutMsgs > before })
	p.Resume()
	wg.Wait()
	if sent := nc.Stats().OutMsgs - before; sent > 8 {
		t.Errorf("%d requests for 64 reads", sent)
	}
}

// Whatever is shared: what was written before the call is in its answer.
func TestStateHasWhatWasWrittenBefore(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	writer, reader := natstest.Open(t, s), natstest.Open(t, s)
	if err := writer.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for racer := range 8 {
		wg.Go(func() {
			for n := range 100 {
				seq, err := writer.Append(t.Context(), bus.Entry{Subject: ended(racer*1000 + n), Body: []byte("x")})
				if err != nil {
					t.Error(err)
					return
				}
				if s, err := reader.State(t.Context()); err != nil || s.Last < seq {
					t.Errorf("after %d was written the stream ends at %d, %v", seq, s.Last, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A cancelled caller fails no other, and one that finds nobody waiting makes a request of its own.
func TestStateOfACancelledCaller(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	cancelled, leave := context.WithCancel(t.Context())
	leave()
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			ctx := t.Context()
			if n%2 == 0 {
				ctx = cancelled
			}
			if _, err := b.State(ctx); err != nil && (n%2 != 0 || !errors.Is(err, context.Canceled)) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := b.State(t.Context()); err != nil {
		t.Error(err)
	}
}

// The server takes 50 batches at once; what is more waits instead of being refused.
func TestManyBatchesAtOnce(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			run := "run_" + strconv.Itoa(n)
			if _, err := b.AppendBatch(t.Context(), bus.Entry{Subject: subject.Claimed("7", run, "k")},
				bus.Entry{Subject: subject.Ended("7", run, "k")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s, err := b.State(t.Context()); err != nil || s.Msgs != 200 {
		t.Errorf("got %+v, %v, want 200 messages", s, err)
	}
}

// A batch that the server has no room for gets an error of its own, so the caller knows that nothing was written.
func TestTooManyBatchesAreReported(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	b := natstest.Open(t, s)
	if err := b.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	others := natstest.Conn(t, s)
	for n := range 50 { // others have opened as many as the server takes
		m := nats.NewMsg(ended(1000*n) + "1")
		m.Header = nats.Header{"Nats-Batch-Id": {strconv.Itoa(n)}, "Nats-Batch-Sequence": {"1"}}
		if err := others.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := others.Flush(); err != nil {
		t.Fatal(err)
	}
	_, err := b.AppendBatch(t.Context(), bus.Entry{Subject: ended(1)}, bus.Entry{Subject: ended(2)})
	if f := fault.Of(err); f.Kind != fault.Unavailable || f.RetryAfter == 0 ||
		!strings.Contains(f.Message, "too many at once") {
		t.Errorf("got %v", err)
	}
	if s, err := b.State(t.Context()); err != nil || s.Msgs != 0 {
		t.Errorf("got %+v, %v, want nothing written", s, err)
	}
}
