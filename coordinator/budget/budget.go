// Package budget bounds the memory of large request and answer bodies. There is a total for all callers, a share for
// each, and a reserve for small bodies. These get through while large ones use up the rest.
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

// Small is the largest body that may use the reserve, in bytes.
const Small = 64 << 10

// Memory is a coordinator's budgets for bodies. A nil Memory has no limits.
type Memory struct {
	Requests *Budget // what request bodies became
	Work     *Budget // large bodies being checked and stored, which takes several times their size
	Answers  *Budget // what is read for answers
}

// defaultMost is the default size of Memory: an eighth of GOMEMLIMIT, else 256 MiB.
func defaultLimit() int64 {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit / 8
	}
	return 256 << 20
}

// NewMemory divides bytes (0: the default) into budgets for bodies of at most largest bytes.
// A caller's share always has room for one body.
func NewMemory(bytes, largest int64) *Memory {
	bytes = cmp.Or(bytes, defaultLimit())
	largest++ // a body of unknown length needs one byte more, to see that it is too large
	return &Memory{
		Requests: New(max(bytes, 2*largest)),
		Work:     New(max(bytes/4, 2*largest)),
		Answers:  New(max(bytes, 2*answerFactor*largest)),
	}
}

// answerFactor is how often a large body is in memory while it is answered: its parts, the document, the answer.
const answerFactor = 3

// Budget is a number of bytes that may be in use at a time.
type Budget struct {
	limit, reserve int64

	mu          sync.Mutex
	main        used
	reserveUsed used      // of the reserve
	queue       []*waiter // in the order in which they are served
}

// waiter is an account that waits for n more bytes.
type waiter struct {
	a     *Account
	n     int64
	ready chan struct{} // closed when it has them
}

// used counts what is taken, by all and by each caller.
type used struct {
	sum int64
	of  map[string]int64
}

func (u *used) add(who string, n int64) {
	u.sum += n
	u.of[who] += n
	if u.of[who] == 0 {
		delete(u.of, who)
	}
}

// fits reports whether n more bytes leave room for others: no caller has more than half.
func (u *used) fits(who string, n, most int64) bool {
	return u.sum+n <= most && u.of[who]+n <= most/2
}

// New returns a budget. Its reserve for small bodies is an eighth more.
func New(most int64) *Budget {
	return &Budget{limit: most, reserve: max(most/8, 16*Small), main: used{of: map[string]int64{}},
		reserveUsed: used{of: map[string]int64{}}}
}

// Account is what one request has taken of a budget. A nil Account and the zero value have no limits.
type Account struct {
	b         *Budget
	who       string
	held      int64
	inReserve bool // all of it is from the reserve

	used atomic.Bool // something was taken: most requests have nothing to give back
	over atomic.Bool // the request has ended: later reads for it are not counted
}

// Open returns an account for a caller.
func (b *Budget) Open(who string) *Account {
	a := &Account{}
	a.Begin(b, who)
	return a
}

// Begin attaches a zero account to a budget, for a caller.
func (a *Account) Begin(b *Budget, who string) { a.b, a.who = b, who }

// limits reports whether the account has limits.
func (a *Account) limits() bool { return a != nil && a.b != nil }

// errFull tells a caller that there is no room.
var errFull = fault.New(fault.Unavailable, "",
	"too many large bodies are being handled (AO_BODY_MEMORY); try again in a moment").After(2 * time.Second)

// Take takes n more bytes, ahead of those who wait. Unavailable: there is no room; what was taken before stays.
func (a *Account) Take(n int64) error {
	if !a.limits() {
		return nil
	}
	return a.b.take(a, n)
}

// take is Take for an account of this budget.
func (b *Budget) take(a *Account, n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !a.take(n, true) {
		return errFull
	}
	return nil
}

// take takes n more bytes; large: not only from the reserve. The caller holds the budget's mu.
func (a *Account) take(n int64, large bool) bool {
	b := a.b
	a.used.Store(true) // before over is read: Close does it the other way round, so that one of the two sees the other
	if a.over.Load() {
		return true
	}
	all := a.held + n
	switch {
	case large && b.main.fits(a.who, a.asks(n), b.limit):
		b.move(a, all, false)
	case all <= Small && (a.inReserve && b.reserveUsed.fits(a.who, n, b.reserve) || !a.inReserve &&
		b.reserveUsed.fits(a.who, all, b.reserve)):
		b.move(a, all, true)
	default:
		return false
	}
	return true
}

// asks returns how much of the room for large bodies n more bytes take. All that the account has leaves the reserve for
// it.
func (a *Account) asks(n int64) int64 {
	if a.inReserve {
		return a.held + n
	}
	return n
}

// move makes an account hold all bytes, either all from the reserve or none.
func (b *Budget) move(a *Account, all int64, inReserve bool) {
	b.part(a.inReserve).add(a.who, -a.held)
	b.part(inReserve).add(a.who, all)
	a.held, a.inReserve = all, inReserve
}

func (b *Budget) part(inReserve bool) *used {
	if inReserve {
		return &b.reserveUsed
	}
	return &b.main
}

// Wait is Take for callers that can wait, for at most most. More than a caller's share gets the whole share.
// Waiters are served in order, so that small bodies do not overtake a large one for ever.
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

// enqueue takes n more bytes, or returns a waiter for them. Nil: the account has them.
func (b *Budget) enqueue(a *Account, n int64) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, max(b.limit/2-a.held, 0))
	if len(b.queue) == 0 && a.take(n, true) {
		return nil
	}
	w := &waiter{a: a, n: n, ready: make(chan struct{})}
	b.queue = append(b.queue, w)
	b.serve()
	if w.served() {
		return nil
	}
	return w
}

// dequeue ends a wait. The error says that the bytes were not obtained.
func (b *Budget) dequeue(w *waiter) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.served() {
		return nil
	}
	b.queue = slices.DeleteFunc(b.queue, func(other *waiter) bool { return other == w })
	b.serve() // those it kept back
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

// serve serves waiters in order. One that finds too little room for large bodies keeps it from all behind it. One that
// has used up its share keeps it from its own caller only. The caller holds the budget's mu.
func (b *Budget) serve() {
	full, spent := false, map[string]bool{}
	b.queue = slices.DeleteFunc(b.queue, func(w *waiter) bool {
		a := w.a
		if a.take(w.n, !full && !spent[a.who]) {
			close(w.ready)
			return true
		}
		if b.main.of[a.who]+a.asks(w.n) > b.limit/2 {
			spent[a.who] = true
		} else {
			full = true
		}
		return false
	})
}

// Close gives everything back at the end of the request.
func (a *Account) Close() {
	if a.limits() {
		a.over.Store(true)
		a.Empty()
	}
}

// Empty gives everything back. The account can be used again.
func (a *Account) Empty() {
	if !a.limits() || !a.used.Load() {
		return
	}
	a.b.empty(a)
}

// empty gives back all that an account has.
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

// Answering is a context whose reads are charged to its account.
type Answering struct {
	context.Context
	Answer Account
}

// Value returns the account to whoever reads in this context.
func (c *Answering) Value(key any) any {
	if key == (answersKey{}) {
		return &c.Answer
	}
	return c.Context.Value(key)
}

// Sent gives back what was read for a part of an answer that has been sent. A live stream sends part after part.
func Sent(ctx context.Context) {
	a, _ := ctx.Value(answersKey{}).(*Account)
	a.Empty()
}

// answerTimeout is how long a reader of something large waits for room.
const answerTimeout = 10 * time.Second

// Read makes room for a body that is read for an answer. A context without an account has no limit.
func Read(ctx context.Context, bytes int64) error {
	if bytes <= Small {
		return nil
	}
	return Hold(ctx, bytes)
}

// Hold is Read for a part of a larger answer, however small.
func Hold(ctx context.Context, bytes int64) error {
	a, _ := ctx.Value(answersKey{}).(*Account)
	return a.Wait(ctx, answerFactor*min(bytes, 1<<40), answerTimeout)
}
