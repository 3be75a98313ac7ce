package httpapi

import (
	"sync"
	"time"

	"ao/coordinator/access"
	"ao/shared/fault"
)

// reservedStreams is how many live streams a caller may have while any are left.
const reservedStreams = 20

// streamLimiter limits live streams. The last quarter is for callers with fewer than ownSeats, so no single token takes
// them all.
type streamLimiter struct {
	most int

	mu   sync.Mutex
	open int
	of   map[string]int // open streams by caller
}

func newSeats(most int) *streamLimiter { return &streamLimiter{most: most, of: map[string]int{}} }

// reserve reserves a stream until leave is called. Its error is Unavailable.
func (s *streamLimiter) reserve(who access.Caller) (leave func(), err error) {
	key := who.KeyScope()
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.of[key]
	switch {
	case s.open >= s.most:
		return nil, fault.Newf(fault.Unavailable, "%d live streams are open, the maximum; try again later, or "+
			"poll", s.most).After(5 * time.Second)
	case mine >= reservedStreams && s.open >= s.most-s.most/4:
		return nil, fault.Newf(fault.Unavailable, "%d live streams are open with your token; what is left is kept "+
			"for others. Close some, or poll", mine).After(5 * time.Second)
	}
	s.open++
	s.of[key] = mine + 1
	return sync.OnceFunc(func() { s.leave(key) }), nil
}

func (s *streamLimiter) leave(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if s.of[key]--; s.of[key] == 0 {
		delete(s.of, key)
	}
}

// taken returns the number of open streams.
func (s *streamLimiter) taken() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.open)
}
