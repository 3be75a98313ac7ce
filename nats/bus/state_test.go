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

// Who asks while a request is under way shares the next one with all others who do.
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

// A caller who leaves takes nobody along, and one who finds nobody there gets an answer of his own.
func TestStateOfACallerWhoLeaves(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			ctx := t.Context()
			if n%2 == 0 {
				ctx = gone
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
	for n := range 300 {
		wg.Go(func() {
			run := "run_" + strconv.Itoa(n)
			if _, err := b.AppendBatch(t.Context(), bus.Entry{Subject: subject.Claimed("7", run, "k")},
				bus.Entry{Subject: subject.Ended("7", run, "k")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s, err := b.State(t.Context()); err != nil || s.Msgs != 600 {
		t.Errorf("got %+v, %v, want 600 messages", s, err)
	}
}

// crowd is a stream on which others have begun as many batches as the server takes. The first of them is committed
// by the function that it gives.
func crowd(t *testing.T) (nc *nats.Conn, b *bus.Bus, commit func()) {
	t.Helper()
	s := natstest.Server(t)
	nc = natstest.Conn(t, s)
	b, err := bus.Open(nc, bus.Config{OnSetup: s.UpdateStaging, Log: natstest.Log(t)})
	if err == nil {
		err = b.Setup(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	others := natstest.Conn(t, s)
	send := func(n int, seq, commit string) {
		t.Helper()
		m := nats.NewMsg(ended(1000*n) + seq)
		m.Header = nats.Header{"Nats-Batch-Id": {strconv.Itoa(n)}, "Nats-Batch-Sequence": {seq}}
		if commit != "" {
			m.Header.Set("Nats-Batch-Commit", commit)
		}
		err := others.PublishMsg(m)
		if err == nil {
			err = others.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range 50 {
		send(n, "1", "")
	}
	return nc, b, func() { send(0, "2", "1") }
}

// A batch that the server has no room for is told as that, and who reads it knows that nothing was written.
func TestTooManyBatchesAreSaidToBe(t *testing.T) {
	t.Parallel()
	_, b, _ := crowd(t)
	_, err := b.AppendBatch(t.Context(), bus.Entry{Subject: ended(1)}, bus.Entry{Subject: ended(2)})
	if f := fault.Of(err); f.Kind != fault.Unavailable || f.RetryAfter == 0 ||
		!strings.Contains(f.Message, "too many at once") {
		t.Errorf("got %v", err)
	}
	if s, err := b.State(t.Context()); err != nil || s.Msgs != 0 {
		t.Errorf("got %+v, %v, want nothing written", s, err)
	}
}

func TestABatchIsTriedAgainUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	nc, b, commit := crowd(t)
	before := nc.Stats().OutMsgs
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if seq, err := b.AppendBatch(t.Context(), bus.Entry{Subject: ended(1)},
			bus.Entry{Subject: ended(2)}); err != nil || seq != 4 {
			t.Errorf("got %d, %v, want sequence 4", seq, err)
		}
	})
	natstest.Until(t, "it is tried again", func() bool { return nc.Stats().OutMsgs >= before+4 })
	commit()
}
