// Package budget bounds the memory of large request and answer bodies. There is a total for all callers, a share for
// each, and a reserve for small bodies. These get through while large ones use up the rest.
package budget

import (
	"cmp"
	"context"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"ao/shared/fault"
	"ao/shared/share"
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

// Budget is a number of bytes that may be in use at a time. No caller has more than half.
type Budget struct {
	large *share.Pool
	small *share.Pool // the reserve for small bodies
}

// New returns a budget. Its reserve for small bodies is an eighth more.
func New(most int64) *Budget {
	return &Budget{share.New(most, share.Half), share.New(max(most/8, 16*Small), share.Half)}
}

// Account is what one request has taken of a budget. A nil Account and the zero value have no limits.
type Account struct {
	b   *Budget
	who string

	mu           sync.Mutex
	large, small int64 // taken of each pool
	over         bool  // the request has ended: later reads for it are not counted
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
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.over:
	case a.b.large.Take(a.who, n):
		a.large += n
	case a.takeSmall(n):
	default:
		return errFull
	}
	return nil
}

// takeSmall takes n more bytes from the reserve, if all that the account has is small. The caller holds mu.
func (a *Account) takeSmall(n int64) bool {
	if a.large+a.small+n > Small || !a.b.small.Take(a.who, n) {
		return false
	}
	a.small += n
	return true
}

// Wait is Take for callers that can wait, for at most most. More than a caller's share gets the whole share. Small
// bodies use the reserve first. The rest are served in order, so that these do not overtake a large one for ever.
func (a *Account) Wait(ctx context.Context, n int64, most time.Duration) error {
	if !a.limits() {
		return nil
	}
	a.mu.Lock()
	n = min(n, max(a.b.large.Room()/2-a.large, 0))
	done := a.over || a.takeSmall(n)
	a.mu.Unlock()
	if done {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if a.b.large.Wait(ctx, a.who, n) != nil {
		return errFull
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.large += n
	if a.over {
		a.empty()
	}
	return nil
}

// Close gives everything back at the end of the request.
func (a *Account) Close() { a.end(true) }

// Empty gives everything back. The account can be used again.
func (a *Account) Empty() { a.end(false) }

func (a *Account) end(over bool) {
	if !a.limits() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = a.over || over
	a.empty()
}

// empty gives everything back. The caller holds mu.
func (a *Account) empty() {
	if a.large != 0 {
		a.b.large.Give(a.who, a.large)
	}
	if a.small != 0 {
		a.b.small.Give(a.who, a.small)
	}
	a.large, a.small = 0, 0
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
