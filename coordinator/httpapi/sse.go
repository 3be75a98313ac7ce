package httpapi

import (
	"bytes"
	"net/http"
	"sync"
)

// sse is a live stream to one reader. Every piece has a deadline: a slow reader is cut off, and nothing is buffered.
type sse struct {
	w  http.ResponseWriter
	mu sync.Mutex // events and comments come from two goroutines
	b  bytes.Buffer

	started bool
	err     error
}

// retry is how long readers wait before they reconnect, in milliseconds.
const retry = "retry: 1000\n\n"

// open sends the headers, once. The caller holds mu.
func (s *sse) open() {
	if s.started {
		return
	}
	s.started = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
	s.b.WriteString(retry)
}

// send sends one event; id may be empty.
func (s *sse) send(id, name string, data any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open()
	if id != "" {
		s.b.WriteString("id: " + id + "\n")
	}
	s.b.WriteString("event: " + name + "\ndata: ")
	if err := encode(&s.b, data); err != nil { // one line, and its end
		s.b.Reset()
		return err
	}
	s.b.WriteByte('\n')
	return s.flush()
}

// keepAlive sends a comment, so that proxies keep the connection.
func (s *sse) keepAlive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open()
	s.b.WriteString(": heartbeat\n\n")
	return s.flush()
}

func (s *sse) flush() error {
	if s.err == nil {
		s.err = send(s.w, s.b.Bytes())
	}
	if s.err == nil {
		s.err = http.NewResponseController(s.w).Flush()
	}
	s.b.Reset()
	if s.b.Cap() > 1<<20 {
		s.b = bytes.Buffer{}
	}
	return s.err
}

// opened reports whether the headers were sent.
func (s *sse) opened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}
