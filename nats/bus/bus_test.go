package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
)

func ended(n int) string {
	return subject.Ended("7", "run_"+strconv.Itoa(n), "k")
}

func TestSetupIsRepeatableAndConcurrent(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	var wg sync.WaitGroup
	for range 4 {
		b := natstest.Open(t, s)
		wg.Go(func() {
			for range 2 {
				if err := b.Setup(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b := natstest.Open(t, s)
	if _, err := b.Append(t.Context(), bus.Entry{Subject: ended(1), Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
}

func TestReplicasNeedACluster(t *testing.T) {
	t.Parallel()
	b, err := bus.Open(natstest.Conn(t, natstest.Server(t)), bus.Config{Replicas: 3, Log: natstest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Setup(t.Context()); err == nil || !strings.Contains(err.Error(), "AO_NATS_REPLICAS") {
		t.Errorf("got %v", err)
	}
}

// TestAnIDIsTakenOnce: NATS takes one message with an ID, whatever its subject, alone, in a batch, and after both.
func TestAnIDIsTakenOnce(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	n := 0
	next := func(id string) bus.Entry {
		n++
		return bus.Entry{Subject: subject.Stopping("00", fmt.Sprintf("run_%d", n)), Body: []byte("{}"), ID: id}
	}
	alone := func(id string) error { _, err := b.Append(t.Context(), next(id)); return err }
	batch := func(id string) error { _, err := b.AppendBatch(t.Context(), next(id), next("")); return err }
	for name, writes := range map[string][2]func(string) error{
		"alone": {alone, alone}, "batch after alone": {alone, batch}, "alone after batch": {batch, alone},
		"batches": {batch, batch},
	} {
		if err := writes[0](name); err != nil {
			t.Errorf("%s: the first is refused: %v", name, err)
		}
		if err := writes[1](name); !errors.Is(err, bus.ErrTaken) {
			t.Errorf("%s: the second ended with %v, want %v", name, err, bus.ErrTaken)
		}
	}
	if s, err := b.State(t.Context()); err != nil || s.Msgs != 6 {
		t.Errorf("the stream holds %d messages (%v), want 6", s.Msgs, err)
	}
}

func TestConcurrentAppendsHaveOneWinner(t *testing.T) {
	t.Parallel()
	s := natstest.Server(t)
	const subjects = 2000
	var won [subjects]atomic.Int32
	var wg sync.WaitGroup
	for racer := range 3 {
		b := natstest.Open(t, s)
		if err := b.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := make(chan int)
		go func() {
			defer close(next)
			for n := range subjects {
				next <- n
			}
		}()
		for range 32 {
			wg.Go(func() {
				for n := range next {
					_, err := b.Append(context.Background(),
						bus.Entry{Subject: ended(n), Body: []byte(fmt.Sprint(racer))})
					switch {
					case err == nil:
						won[n].Add(1)
					case !errors.Is(err, bus.ErrTaken):
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	for n := range won {
		if got := won[n].Load(); got != 1 {
			t.Fatalf("subject %d has %d winners, want 1", n, got)
		}
	}
}
