// Package budget bounds the memory that large bodies take, of requests and of answers: so many bytes at a time for all callers
// together, a share of them for each, and a reserve for small bodies, which get through while large ones use up the rest.
package budget

import (
	"cmp"
	"context"
	"math"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ao/shared/fault"
)

// Small is how large a body is that may use the reserve, in bytes. Smaller ones hardly count.
const Small = 64 << 10

// Memory is what a coordinator has for bodies. A nil one has no limits.
type Memory struct {
	Requests *Budget // what came of requests' bodies
	Work     *Budget // large bodies that are checked and stored at this moment, which takes several times their size
	Answers  *Budget // what is read to be answered
}

// defaultMost is how many bytes Memory has where nobody says: an eighth of GOMEMLIMIT, else 256 MiB.
func defaultMost() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit / 8
	}
	return 256 << 20
}

// For divides so many bytes (0: Default), for bodies of at most largest bytes. A caller's share always has room for one.
func NewMemory(bytes, largest int64) *Memory {
	bytes = cmp.Or(bytes, defaultMost())
	largest++ // a body of no known length has room for a byte more, to see that it is no larger
	return &Memory{
		Requests: New(max(bytes, 2*largest)),
		Work:     New(max(bytes/4, 2*largest)),
		Answers:  New(max(bytes, 2*answerFactor*largest)),
	}
}

// answerFactor is how often a large body is in memory while it is answered: its parts, the document, the answer.
const answerFactor = 3

// Budget is so many bytes at a time.
type Budget struct {
	most, reserve int64

	mu    sync.Mutex
	main  used
	spare used      // of the reserve
	queue []*waiter // in the order in which they are served
}

// waiter is an account that waits for n bytes more.
type waiter struct {
	a     *Account
	n     int64
	ready chan struct{} // closed when it has them
}

// used is what is taken, by all and by each caller.
type used struct {
	sum int64
	of  map[string]int64
}

func (u *used) add(who string, n int64) {
	u.sum += n
	if u.of[who] += n; u.of[who] == 0 {
		delete(u.of, who)
	}
}

// fits tells whether n more leave room for others: no caller has more than half.
func (u *used) fits(who string, n, most int64) bool {
	return u.sum+n <= most && u.of[who]+n <= most/2
}

// New makes a budget; an eighth more is its reserve for small bodies.
func New(most int64) *Budget {
	return &Budget{most: most, reserve: max(most/8, 16*Small), main: used{of: map[string]int64{}}, spare: used{of: map[string]int64{}}}
}

// Account is what one request has of a budget. A nil one and its zero value have no limits.
type Account struct {
	b     *Budget
	who   string
	held  int64
	spare bool // all of it is of the reserve

	used atomic.Bool // something was taken once: most requests have nothing to give back
	over atomic.Bool // its request is: what somebody still reads for it is not counted
}

// Open makes an account for a caller.
func (b *Budget) Open(who string) *Account {
	a := &Account{}
	a.Begin(b, who)
	return a
}

// Begin makes a zero account one of a budget, for a caller.
func (a *Account) Begin(b *Budget, who string) { a.b, a.who = b, who }

// limits reports whether there are any.
func (a *Account) limits() bool { return a != nil && a.b != nil }

// errFull is what a caller is told that finds no room.
var errFull = fault.New(fault.Unavailable, "", "Too many large bodies are under way (AO_BODY_MEMORY); come again in a moment").After(2 * time.Second)

// Take takes n more bytes, before whoever waits. The error is Unavailable: there is no room, and what was taken before stays.
func (a *Account) Take(n int64) error {
	if !a.limits() {
		return nil
	}
	return a.b.take(a, n)
}

// take is Take for an account of the budget's.
func (b *Budget) take(a *Account, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !a.take(n, true) {
		return errFull
	}
	return nil
}

// take is Take; large: not only of the reserve. The caller holds the budget's mu.
func (a *Account) take(n int64, large bool) bool {
	b := a.b
	a.used.Store(true) // before over is read: Close does both the other way round, so that one of the two sees the other
	if a.over.Load() {
		return true
	}
	all := a.held + n
	switch {
	case large && b.main.fits(a.who, a.asks(n), b.most):
		b.move(a, all, false)
	case all <= Small && (a.spare && b.spare.fits(a.who, n, b.reserve) || !a.spare && b.spare.fits(a.who, all, b.reserve)):
		b.move(a, all, true)
	default:
		return false
	}
	return true
}

// asks is how much n more bytes take of the room for large bodies: all that the account has leaves the reserve for it.
func (a *Account) asks(n int64) int64 {
	if a.spare {
		return a.held + n
	}
	return n
}

// move has an account hold so much, all of it of the reserve or none.
func (b *Budget) move(a *Account, all int64, spare bool) {
	b.part(a.spare).add(a.who, -a.held)
	b.part(spare).add(a.who, all)
	a.held, a.spare = all, spare
}

func (b *Budget) part(spare bool) *used {
	if spare {
		return &b.spare
	}
	return &b.main
}

// Wait is Take for who can wait, at most so long. What is larger than a caller's share has all of that. Who came first is served first,
// so that a large body is not passed by small ones for ever.
func (a *Account) Wait(ctx context.Context, n int64, most time.Duration) error {
	if !a.limits() {
		return nil
	}
	w := a.b.enqueue(a, n)
	if w == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	select {
	case <-w.ready:
	case <-ctx.Done():
	}
	return a.b.dequeue(w)
}

// enqueue takes n more bytes for an account or, where there is no room yet, has it wait for them. Nil: it has them.
func (b *Budget) enqueue(a *Account, n int64) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, max(b.most/2-a.held, 0))
	if len(b.queue) == 0 && a.take(n, true) {
		return nil
	}
	w := &waiter{a: a, n: n, ready: make(chan struct{})}
	b.queue = append(b.queue, w)
	if b.serve(); w.served() {
		return nil
	}
	return w
}

// dequeue ends the wait of one that has its bytes or waits no more. The error: it has none.
func (b *Budget) dequeue(w *waiter) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.served() {
		return nil
	}
	b.queue = slices.DeleteFunc(b.queue, func(other *waiter) bool { return other == w })
	b.serve() // those that it kept back
	return errFull
}

func (w *waiter) served() bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

// serve gives those who wait their room, in order. One that finds too little keeps the room for large bodies from all behind it; one
// that has used up its own share keeps it from its own caller alone. The caller holds the budget's mu.
func (b *Budget) serve() {
	full, spent := false, map[string]bool{}
	b.queue = slices.DeleteFunc(b.queue, func(w *waiter) bool {
		a := w.a
		if a.take(w.n, !full && !spent[a.who]) {
			close(w.ready)
			return true
		}
		if b.main.of[a.who]+a.asks(w.n) > b.most/2 {
			spent[a.who] = true
		} else {
			full = true
		}
		return false
	})
}

// Close gives all back, at the request's end.
func (a *Account) Close() {
	if a.limits() {
		a.over.Store(true)
		a.Empty()
	}
}

// Empty gives all back; the account can be used again.
func (a *Account) Empty() {
	if !a.limits() || !a.used.Load() {
		return
	}
	a.b.empty(a)
}

// empty takes all back that an account has.
func (b *Budget) empty(a *Account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.held == 0 {
		return
	}
	b.move(a, 0, false)
	if len(b.queue) > 0 {
		b.serve()
	}
}

type answersKey struct{}

// Answering is a context in which what is read to be answered is taken from its account.
type Answering struct {
	context.Context
	Answer Account
}

// Value gives the account to whoever reads in this context.
func (c *Answering) Value(key any) any {
	if key == (answersKey{}) {
		return &c.Answer
	}
	return c.Context.Value(key)
}

// Sent gives back what was read for an answer's part that has gone out: a live stream has one part after the other.
func Sent(ctx context.Context) {
	a, _ := ctx.Value(answersKey{}).(*Account)
	a.Empty()
}

// answerPatience is how long a reader of something large waits for room.
const answerPatience = 10 * time.Second

// Read makes room for a body that is read to be answered. In a context of nobody's there is always room.
func Read(ctx context.Context, bytes int64) error {
	if bytes <= Small {
		return nil
	}
	return Hold(ctx, bytes)
}

// Hold is Read for a part of a larger answer, however small.
func Hold(ctx context.Context, bytes int64) error {
	a, _ := ctx.Value(answersKey{}).(*Account)
	return a.Wait(ctx, answerFactor*min(bytes, 1<<40), answerPatience)
}
