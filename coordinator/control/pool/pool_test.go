package pool

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// held is work that lasts until it is let go.
func block(until chan error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case err := <-until:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestSameKeyIsNotDoneConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var idle atomic.Int32
		p := New(Config{Slots: 2, Idle: func() { idle.Add(1) }})
		first, second := make(chan error), make(chan error)
		if !p.Go(t.Context(), "a", "", block(first)) || p.Go(t.Context(), "a", "", block(first)) {
			t.Error("a is done twice, or not at all")
		}
		if !p.Go(t.Context(), "b", "", block(second)) || p.Free("") != 0 || p.Go(t.Context(), "c", "", block(first)) {
			t.Error("more than there are slots for")
		}
		first <- nil
		synctest.Wait()
		if idle.Load() != 1 || p.Free("") != 1 || !p.Go(t.Context(), "a", "", block(first)) {
			t.Errorf("idle called %d times, %d free", idle.Load(), p.Free(""))
		}
		first <- nil
		second <- nil
		p.Wait()
		if idle.Load() != 3 || len(p.Busy()) != 0 {
			t.Errorf("idle called %d times, busy: %v", idle.Load(), p.Busy())
		}
	})
}

func TestFailuresBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Backoff: func(times int) time.Duration { return time.Duration(times) * time.Second }})
		fails := func(context.Context) error { return errors.New("no") }
		try := func(f func(context.Context) error) bool {
			began := p.Go(t.Context(), "a", "", f)
			synctest.Wait()
			return began
		}
		for n := range 3 {
			pause := time.Duration(n+1) * time.Second
			if !try(fails) || try(fails) {
				t.Errorf("after %d failures: not tried, or without a pause", n)
			}
			time.Sleep(pause - time.Millisecond)
			if try(fails) {
				t.Errorf("after %d failures: tried before %v were over", n+1, pause)
			}
			time.Sleep(time.Millisecond)
		}
		if !try(func(context.Context) error { return nil }) || !try(fails) || try(fails) {
			t.Error("what went well has a pause")
		}
		time.Sleep(time.Second)
		if !try(fails) {
			t.Error("what went well keeps what failed before")
		}
		p.Keep(func(string) bool { return false })
		if !try(fails) {
			t.Error("what is over rests")
		}
	})
}

func TestGroupLeavesSlotsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Slots: 5, Each: 2})
		until := make(chan error)
		started := map[string]int{}
		for _, group := range []string{"one", "two", "three"} {
			for n := range 4 {
				if p.Go(t.Context(), fmt.Sprint(group, n), group, block(until)) {
					started[group]++
				}
			}
		}
		if started["one"] != 2 || started["two"] != 2 || started["three"] != 1 || p.Free("three") != 0 {
			t.Errorf("started %v", started)
		}
		close(until)
		p.Wait()
		if p.Free("one") != 2 || p.Free("") != 2 {
			t.Errorf("%d free of one", p.Free("one"))
		}
	})
}

func TestCancelledContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if New(Config{}).Go(ctx, "a", "", func(context.Context) error { t.Error("started"); return nil }) {
		t.Error("it reports a start")
	}
}
