package embed

import (
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Limit is limit for tests.
func Limit(opts *server.Options) { limit(opts) }

// Subscriptions returns how many there are.
func (s *Server) Subscriptions() int { return int(s.ns.Load().NumSubscriptions()) }

// Pending returns the bytes that connections have not read, and how many were cut off since they did not read.
func (s *Server) Pending() (bytes, cut int64) {
	all, err := s.ns.Load().Connz(nil)
	if err != nil {
		return 0, 0
	}
	for _, c := range all.Conns {
		bytes += int64(c.Pending)
	}
	return bytes, s.ns.Load().NumSlowConsumers()
}

// Restart is what watch does once there is room.
func (s *Server) Restart() {
	s.restartLock.Lock()
	defer s.restartLock.Unlock()
	s.restart()
}

// Rest is how long watch leaves a server alone.
type Rest struct{ restartPause }

// Start notes a start; Over reports whether another may come.
func (r *Rest) Start(began, ended time.Time) { r.started(began, ended) }
func (r *Rest) Over(now time.Time) bool      { return r.expired(now) }
