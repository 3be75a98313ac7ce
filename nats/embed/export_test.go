package embed

import "time"

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
