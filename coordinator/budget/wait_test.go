package budget

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// later waits in the background, and returns a function that reports whether the room was granted.
func later(ctx context.Context, a *Account, n int64, most time.Duration) (has func() bool) {
	done := make(chan error, 1)
	go func() { done <- a.Wait(ctx, n, most) }()
	synctest.Wait() // it is in the queue
	got := false
	return func() bool {
		synctest.Wait()
		select {
		case err := <-done:
			got = err == nil
		default:
		}
		return got
	}
}

// TestWaitersAreServedInOrder: a large body gets its room although smaller ones keep coming that would fit before.
func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(16 << 20)
		var accounts []*Account
		for _, who := range []string{"a", "b", "c", "d"} {
			one := b.Open(who)
			if err := one.Take(4 << 20); err != nil {
				t.Fatal(err)
			}
			accounts = append(accounts, one)
		}
		large := later(t.Context(), b.Open("large"), 8<<20, time.Minute)
		if large() {
			t.Fatal("there is room")
		}
		var behind []func() bool
		for _, who := range []string{"e", "f", "g", "h"} {
			behind = append(behind, later(t.Context(), b.Open(who), 4<<20, time.Minute))
		}
		accounts[0].Close()
		if large() || behind[0]() {
			t.Errorf("with room for a small one: large %v, small %v", large(), behind[0]())
		}
		if small := later(t.Context(), b.Open("i"), Small/2, time.Minute); !small() {
			t.Error("the reserve is kept from a small body")
		}
		accounts[1].Close()
		if !large() || behind[0]() {
			t.Errorf("with room for the large one: %v, small %v", large(), behind[0]())
		}
		accounts[2].Close()
		accounts[3].Close()
		if !behind[0]() || !behind[1]() || behind[2]() || behind[3]() {
			t.Errorf("those behind: %v %v %v %v", behind[0](), behind[1](), behind[2](), behind[3]())
		}
		time.Sleep(2 * time.Minute)
	})
}

// TestWaiterBlocksOnlyItsOwnCaller: a caller that has its share waits alone, and a waiter that gives up blocks nobody.
func TestWaiterBlocksOnlyItsOwnCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(16 << 20)
		mine := b.Open("mine")
		if err := mine.Take(8 << 20); err != nil {
			t.Fatal(err)
		}
		more := later(t.Context(), b.Open("mine"), 4<<20, time.Minute)
		small := later(t.Context(), b.Open("mine"), 1<<20, time.Minute)
		other := b.Open("other")
		if has := later(t.Context(), other, 6<<20, time.Minute); more() || small() || !has() {
			t.Fatalf("mine %v, mine and small %v, another's %v", more(), small(), has())
		}
		large := later(t.Context(), b.Open("large"), 8<<20, time.Second) // times out
		behind := later(t.Context(), b.Open("behind"), 2<<20, time.Minute)
		if large() || behind() {
			t.Errorf("large %v, behind it %v", large(), behind())
		}
		time.Sleep(2 * time.Second)
		if large() || !behind() {
			t.Errorf("timed out: large %v, behind it %v", large(), behind())
		}
		mine.Empty()
		if !more() || !small() {
			t.Errorf("its share is free: %v %v", more(), small())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := later(ctx, b.Open("gone"), 8<<20, time.Minute)
		cancel()
		if cancelled() {
			t.Errorf("a cancelled waiter got room")
		}
	})
}
