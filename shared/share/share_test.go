package share

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestRules: what an owner gets that takes one after another, beside another that holds some.
func TestRules(t *testing.T) {
	for _, tt := range []struct {
		name         string
		rule         Rule
		others, want int64
		spent        bool // it is its own share that ends it
	}{
		{"free, alone", Free, 0, 6, true},
		{"free, beside one with a third", Free, 4, 4, true},
		{"free, where all is taken", Free, 12, 0, false},
		{"half, alone", Half, 0, 6, true},
		{"half, beside much", Half, 8, 4, false},
		{"three each", Each(3), 0, 3, true},
		{"three each, where one is left", Each(3), 11, 1, false},
		{"a kept quarter, alone", KeepQuarter(2), 0, 9, true},
		{"a kept quarter, beside one with most", KeepQuarter(2), 9, 2, true},
		{"a kept quarter, where one is left", KeepQuarter(2), 11, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := New(12, tt.rule)
			p.add("others", tt.others)
			for p.Take("me", 1) {
			}
			if p.Of("me") != tt.want || p.Spent("me", 1) != tt.spent {
				t.Errorf("it got %d, its own share is spent: %t", p.Of("me"), p.Spent("me", 1))
			}
		})
	}
}

// later waits in the background, and returns a function that reports whether it has what it waits for.
func later(ctx context.Context, p *Pool, owner string, n int64) (has func() bool) {
	done := make(chan error, 1)
	go func() { done <- p.Wait(ctx, owner, n) }()
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

// TestWaitersAreServedInOrder: who wants much gets it, although others keep coming who want little.
func TestWaitersAreServedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(16, Half)
		for _, owner := range []string{"a", "b", "c", "d"} {
			p.Take(owner, 4)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		large := later(ctx, p, "large", 8)
		var behind []func() bool
		for _, owner := range []string{"e", "f", "g", "h"} {
			behind = append(behind, later(ctx, p, owner, 4))
		}
		p.Give("a", 4)
		if large() || behind[0]() {
			t.Errorf("with room for a small one: large %t, small %t", large(), behind[0]())
		}
		p.Give("b", 4)
		if !large() || behind[0]() {
			t.Errorf("with room for the large one: large %t, small %t", large(), behind[0]())
		}
		p.Give("c", 4)
		p.Give("d", 4)
		if !behind[0]() || !behind[1]() || behind[2]() || behind[3]() {
			t.Errorf("those behind: %t %t %t %t", behind[0](), behind[1](), behind[2](), behind[3]())
		}
		time.Sleep(2 * time.Minute)
		for _, left := range []struct {
			owner string
			n     int64
		}{{"large", 8}, {"e", 4}, {"f", 4}} {
			p.Give(left.owner, left.n)
		}
		if p.Taken() != 0 || p.Owners() != 0 || len(p.queue) != 0 {
			t.Errorf("left: %d of %d owners, %d wait", p.Taken(), p.Owners(), len(p.queue))
		}
	})
}

// TestWaiterHoldsBackItsOwnOwner: an owner whose share is spent waits alone. A waiter that gives up holds back nobody.
func TestWaiterHoldsBackItsOwnOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(16, Half)
		p.Take("mine", 8)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		more, small := later(ctx, p, "mine", 4), later(ctx, p, "mine", 1)
		if has := later(ctx, p, "other", 6); more() || small() || !has() {
			t.Fatalf("mine %t, mine and small %t, another's %t", more(), small(), has())
		}
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		large, behind := later(short, p, "large", 8), later(ctx, p, "behind", 2)
		if large() || behind() {
			t.Errorf("large %t, behind it %t", large(), behind())
		}
		time.Sleep(2 * time.Second)
		if large() || !behind() {
			t.Errorf("timed out: large %t, behind it %t", large(), behind())
		}
		p.Give("mine", 8)
		if !more() || !small() {
			t.Errorf("its share is free: %t %t", more(), small())
		}
	})
}

// TestRate: each owner has its own window, the rest share one, and none is kept for ever.
func TestRate(t *testing.T) {
	now := time.Now()
	r := NewRate(10, time.Minute, 100, func() time.Time { return now })
	takes := func(owner string) (n int) {
		for range 20 {
			if ok, wait := r.Take(owner, 1); ok {
				n++
			} else if wait <= 0 || wait > time.Minute {
				t.Fatalf("%s waits for %s", owner, wait)
			}
		}
		return n
	}
	if a, again, b := takes("a"), takes("a"), takes("b"); a != 10 || again != 0 || b != 10 {
		t.Errorf("a took %d and %d, b %d", a, again, b)
	}
	if ok, _ := r.Take("c", 11); ok {
		t.Error("more than the rate at once")
	}
	if ok, _ := r.Take("c", 10); !ok {
		t.Error("what was refused counts")
	}
	now = now.Add(time.Minute)
	if n := takes("a"); n != 10 {
		t.Errorf("a minute later a takes %d", n)
	}
	total := 0
	for i := range 200 {
		total += takes(fmt.Sprint("owner ", i))
	}
	if r.Owners() != 100 || total > 10*101 {
		t.Errorf("%d owners are remembered, %d were taken", r.Owners(), total)
	}
	now = now.Add(time.Minute)
	if takes("new"); r.Owners() != 1 {
		t.Errorf("%d owners are remembered for ever", r.Owners())
	}
}
