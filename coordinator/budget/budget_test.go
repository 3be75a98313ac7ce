package budget

import (
	"cmp"
	"testing"
	"time"

	"ao/shared/fault"
)

// TestShares: no caller has more than half, small bodies have a reserve, and what is returned can be taken again.
func TestShares(t *testing.T) {
	b := New(16 << 20)
	a0, a1, a2, c := b.Open("a"), b.Open("a"), b.Open("a"), b.Open("c")
	for _, step := range []struct {
		name string
		of   *Account
		n    int64
		ok   bool
	}{
		{"something", a0, Small / 2, true},
		{"half for one caller", a1, 8<<20 - Small/2, true},
		{"no room is left there, and the small one grows in the reserve", a0, 1, true},
		{"no more large ones for it", a2, Small + 1, false},
		{"a small one of its own", a2, Small / 2, true},
		{"that grows within the reserve", a2, Small / 2, true},
		{"and not beyond", a2, 1, false},
		{"another has its half", c, 8 << 20, true},
		{"and no more", c, 1, false},
	} {
		err := step.of.Take(step.n)
		if (err == nil) != step.ok || err != nil && fault.KindOf(err) != fault.Unavailable {
			t.Fatalf("%s: %v", step.name, err)
		}
	}
	waited := make(chan error, 1)
	d := b.Open("d")
	go func() { waited <- d.Wait(t.Context(), 4<<20, time.Minute) }()
	select {
	case err := <-waited:
		t.Fatalf("it does not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	c.Close()
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	if err := a2.Take(Small); err == nil {
		t.Error("a body of the reserve grows beyond the caller's share")
	}
	a0.Close()
	if err := a0.Take(1 << 40); err != nil {
		t.Errorf("what is read after the request's end: %v", err)
	}
	a1.Close()
	if err := a2.Take(1 << 20); err != nil {
		t.Errorf("a small body that grows where room is again: %v", err)
	}
	a2.Empty()
	if err := a2.Take(1); err != nil {
		t.Errorf("an empty account is used again: %v", err)
	}
	a2.Close()
	d.Close()
	if b.large.Taken() != 0 || b.small.Taken() != 0 || b.large.Owners() != 0 || b.small.Owners() != 0 {
		t.Errorf("left: %d and %d", b.large.Taken(), b.small.Taken())
	}
	e, rest := b.Open("e"), b.Open("f")
	if err := cmp.Or(e.Take(Small/2), rest.Take(8<<20), b.Open("g").Take(8<<20-Small/2),
		e.Take(Small/2)); err != nil || e.small != Small/2 {
		t.Errorf("a small body that grows where no room is left: %v", err)
	}
	b = New(16 << 20)
	if err := b.Open("c").Wait(t.Context(), 1<<40, time.Second); err != nil {
		t.Errorf("what is larger than a share takes that: %v", err)
	}
	var none *Account
	if none.Take(1<<60) != nil || none.Wait(t.Context(), 1, 0) != nil {
		t.Error("none has limits")
	}
	none.Close()
}

// TestFor: the largest body fits into a caller's share, however little memory there is.
func TestFor(t *testing.T) {
	m := NewMemory(1<<20, 17<<20)
	if err := m.Requests.Open("a").Take(17<<20 + 1); err != nil {
		t.Error(err)
	}
	if err := m.Work.Open("a").Take(17 << 20); err != nil {
		t.Error(err)
	}
	if err := m.Answers.Open("a").Take(answerFactor * 17 << 20); err != nil {
		t.Error(err)
	}
}
