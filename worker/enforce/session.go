package enforce

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"ao/shared/executor"
)

// session tracks what an executor binds and keeps during a run, so that a retry continues with it.
type session struct {
	mu    sync.Mutex
	id    string // bound in this run, else by an earlier run
	bound bool   // bound in this run: the first one counts, as in the run's record
	state []byte
	kept  bool
}

// wrap returns a host that tracks what is bound and kept.
func (s *session) wrap(host executor.Host) executor.Host {
	emit, keep, state := host.Emit, host.SaveState, host.LoadState
	host.Emit = func(kind string, body json.RawMessage) {
		if kind == executor.LineBind {
			s.onBind(body)
		}
		emit(kind, body)
	}
	if keep != nil {
		host.SaveState = func(ctx context.Context, text []byte) error {
			err := keep(ctx, text)
			if err == nil {
				s.mu.Lock()
				s.state, s.kept = bytes.Clone(text), true
				s.mu.Unlock()
			}
			return err
		}
	}
	if state != nil {
		host.LoadState = func(ctx context.Context) ([]byte, error) {
			s.mu.Lock()
			text, kept := s.state, s.kept
			s.mu.Unlock()
			if kept {
				return bytes.Clone(text), nil
			}
			return state(ctx)
		}
	}
	return host
}

func (s *session) onBind(body json.RawMessage) {
	l, ok, err := executor.ReadLine(body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok && err == nil && l.Type == executor.LineBind && !s.bound {
		s.id, s.bound = l.Session, true
	}
}

// sessionID returns the executor's session id; empty: none.
func (s *session) sessionID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}
