package bus_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"
)

// What waits at an endpoint that nobody serves is bounded by its bytes. What is beyond that is dropped, and counted.
func TestSubscriptionIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	nc, publisher := natstest.Conn(t, s), natstest.Conn(t, s)
	b, err := bus.Open(nc, bus.Config{Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := b.Listen("test.door", "")
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 1<<20)
	for range 100 {
		if err := publisher.Publish("test.door", body); err != nil {
			t.Fatal(err)
		}
	}
	// all have come
	if err := errors.Join(publisher.FlushTimeout(30*time.Second), nc.FlushTimeout(30*time.Second)); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "what is too much is dropped", func() bool { return b.Dropped() > 0 })
	ctx, cancel := context.WithCancel(context.Background())
	var served atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Serve(ctx, func(context.Context, string, []byte) ([]byte, error) {
			served.Add(1)
			return nil, nil
		})
	}()
	natstest.Until(t, "what is held is served", func() bool { return served.Load() >= 60 })
	cancel()
	<-ended
	if n := served.Load(); n > 70 {
		t.Errorf("%d MiB were held", n)
	}
}
