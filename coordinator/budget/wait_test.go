package budget

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWaiting: a large body waits for its room, and small ones have the reserve meanwhile. What a request waited for
// after its end is given back.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(16 << 20)
		one, two := b.Open("a"), b.Open("b")
		if one.Take(8<<20) != nil || two.Take(8<<20) != nil {
			t.Fatal("no room in an empty budget")
		}
		large, late := b.Open("large"), b.Open("late")
		done := make(chan error, 2)
		go func() { done <- large.Wait(t.Context(), 4<<20, time.Minute) }()
		synctest.Wait()
		go func() { done <- late.Wait(t.Context(), 4<<20, time.Minute) }()
		synctest.Wait()
		if err := b.Open("small").Wait(t.Context(), Small/2, time.Minute); err != nil || len(done) != 0 {
			t.Errorf("the reserve is kept from a small body: %v", err)
		}
		if err := b.Open("short").Wait(t.Context(), 1<<20, time.Second); err == nil {
			t.Error("there is no room, and it waits for none")
		}
		late.Close()
		one.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil || b.large.Of("late") != 0 {
			t.Errorf("a request that ended holds %d bytes: %v", b.large.Of("late"), err)
		}
	})
}
