package enforce

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"ao/shared/executor"
)

// session is what an executor has told of its session during the run: a further turn of the same run is to go on with it.
type session struct {
	mu    sync.Mutex
	model string // what it bound, else what an earlier run did
	first bool   // it bound one in this run: the first counts, as for the run's record
	state []byte
	kept  bool
}

// listen gives a host that hears what is bound and kept.
func (s *session) listen(host executor.Host) executor.Host {
	tell, keep, state := host.Emit, host.SaveState, host.LoadState
	host.Emit = func(kind string, body json.RawMessage) {
		if kind == executor.LineBind {
			s.bind(body)
		}
		tell(kind, body)
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

func (s *session) bind(body json.RawMessage) {
	l, ok, err := executor.ReadLine(body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok && err == nil && l.Type == executor.LineBind && !s.first {
		s.model, s.first = l.Session, true
	}
}

// bound is the model side's session, empty: none is known.
func (s *session) bound() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.model
}
