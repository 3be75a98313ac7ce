package httpapi

import (
	"context"
	"sync"
	"time"

	"ao/coordinator/access"
	"ao/shared/fault"
)

// slotTimeout is how long a request waits for a slot.
const slotTimeout = 5 * time.Second

// slots limits how many requests of a kind run at once: in all, and of each caller.
type slots struct {
	kind string        // what runs, in the plural
	all  chan struct{} // holds one for each that runs
	each int           // most of one caller

	mu sync.Mutex
	of map[string]*callerSlots
}

// callerSlots are the slots of one caller.
type callerSlots struct {
	taken chan struct{}
	users int // requests that wait for one or have one
}

func newSlots(kind string, most, each int) *slots {
	return &slots{kind: kind, all: make(chan struct{}, most), each: each, of: map[string]*callerSlots{}}
}

// take waits for a slot, slotTimeout at most. The caller has it until release is called. The error is Unavailable.
func (s *slots) take(ctx context.Context, who access.Caller) (release func(), err error) {
	wait, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	own := s.enter(who.KeyScope())
	leave := func() { s.leave(who.KeyScope(), own) }
	select {
	case own.taken <- struct{}{}:
	case <-wait.Done():
		leave()
		return nil, s.full(ctx, "%d %s of your token, the maximum; try again later", s.each)
	}
	select {
	case s.all <- struct{}{}:
	case <-wait.Done():
		<-own.taken
		leave()
		return nil, s.full(ctx, "%d %s, the maximum; try again later", cap(s.all))
	}
	return func() {
		<-s.all
		<-own.taken
		leave()
	}, nil
}

// full is why no slot was taken: the caller hung up, or there is none.
func (s *slots) full(ctx context.Context, format string, most int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return fault.Newf(fault.Unavailable, format, most, s.kind).After(slotTimeout)
}

// enter returns the caller's slots, which exist until each user has left.
func (s *slots) enter(key string) *callerSlots {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.of[key]
	if own == nil {
		own = &callerSlots{taken: make(chan struct{}, s.each)}
		s.of[key] = own
	}
	own.users++
	return own
}

func (s *slots) leave(key string, own *callerSlots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(s.of, key)
	}
}
