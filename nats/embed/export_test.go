package embed

// Restart is what watch does once there is room.
func (s *Server) Restart() { s.restart() }
