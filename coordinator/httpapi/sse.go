package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"ao/coordinator"
	"ao/coordinator/budget"
	"ao/coordinator/journal"
	"ao/shared/fault"
	"ao/shared/run"

	"github.com/gin-gonic/gin"
)

// sse is a live stream to one reader. Every piece has a deadline: a reader that is too slow is cut off, and nothing is kept
// for it meanwhile.
type sse struct {
	w  http.ResponseWriter
	mu sync.Mutex // pieces and heartbeats come from two goroutines
	b  bytes.Buffer

	begun bool
	err   error
}

// retry tells readers how long to wait before they come back, in milliseconds.
const retry = "retry: 1000\n\n"

// open sends the headers, once. The caller holds mu.
func (s *sse) open() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
	s.b.WriteString(retry)
}

// tell sends one event; id may be empty.
func (s *sse) tell(id, name string, data any) error {
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

// beat sends a comment, so that everybody between sees the connection alive.
func (s *sse) beat() error {
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

// opened tells whether the answer has begun.
func (s *sse) opened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

// soon is how long a stream that has nothing to say keeps its reader without an answer; until then an error has a status.
const soon = 100 * time.Millisecond

// live runs f with a stream to the caller: heartbeats go out meanwhile, and f's context ends with the caller, with its token, with us,
// or with a connection that takes no more. An error before the first piece is an ordinary answer.
func (a *API) live(g *gin.Context, f func(context.Context, *sse) error) (any, error) {
	s := &sse{w: g.Writer}
	ctx, end := context.WithCancelCause(g.Request.Context())
	cancel := func() { end(nil) }
	defer cancel()
	defer context.AfterFunc(a.streaming, cancel)()
	var beats sync.WaitGroup
	beats.Go(func() {
		for pause := soon; ; pause = a.cfg.Beat {
			t := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
			}
			if s.beat() != nil {
				cancel()
				return
			}
			if _, err := a.identify(g.Request); fault.KindOf(err) == fault.Unauthorized {
				end(err)
				return
			}
		}
	})
	err := f(ctx, s)
	cancel()
	beats.Wait()
	if over := context.Cause(ctx); err != nil && fault.KindOf(over) == fault.Unauthorized {
		err = over
	}
	switch {
	case err == nil, g.Request.Context().Err() != nil:
		return written{}, nil
	case a.streaming.Err() != nil: // we are going; the reader comes back with its position, to us or another
		if !s.opened() {
			_ = s.beat()
		}
		return written{}, nil
	case !s.opened():
		return nil, err
	case s.err != nil:
		a.log.Info("reader of a live stream cut off", "request", requestID(g), "err", s.err)
		return written{}, nil
	}
	fa := fault.Of(err)
	a.log.Warn("live stream ended", "request", requestID(g), "err", err)
	_ = s.tell("", "error", fa)
	return written{}, nil
}

// streamSessions is GET /sse/sessions: what happens in one session, or in all.
func (a *API) streamSessions(g *gin.Context, q query) (any, error) {
	session := q.check("session_id", run.CheckSessionID)
	if q.err != nil {
		return nil, q.err
	}
	leave, err := a.seats.take(caller(g))
	if err != nil {
		return nil, err
	}
	defer leave()
	after := g.Request.Header.Get("Last-Event-ID")
	return a.live(g, func(ctx context.Context, s *sse) error {
		return a.c.Journal.Stream(ctx, session, after, func(i journal.Item) error {
			defer budget.Sent(ctx)
			return s.tell(i.ID, i.Event, i.Data)
		})
	})
}

// The events of a sync run's stream beside `event`: first accepted, last result, or timeout where the wait is over before the run.
const (
	sayAccepted = "accepted"
	sayResult   = "result"
	sayTimeout  = "timeout"
)

// errEnded ends a stream: the run has.
var errEnded = errors.New("the run has ended")

// streamRun is POST /runs with mode sync for a reader of event streams.
func (a *API) streamRun(g *gin.Context, acc coordinator.Accepted, wait time.Duration) (any, error) {
	g.Writer.Header().Set("Location", "/runs/"+acc.RunID)
	began := time.Now()
	defer func() { of(g).waited = time.Since(began) }()
	return a.live(g, func(ctx context.Context, s *sse) error {
		if err := s.tell("", sayAccepted, acc); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		defer context.AfterFunc(a.waiting, cancel)()
		err := a.follow(waiting, acc, s)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case a.waiting.Err() != nil: // we end
			return s.tell("", sayTimeout, acc)
		case waiting.Err() != nil:
			return s.tell("", sayTimeout, acc.Late(wait))
		case err != nil:
			return err
		}
		out, err := a.c.Outcome(ctx, acc.RunID)
		if err != nil {
			return err
		}
		return s.tell("", sayResult, out)
	})
}

// follow tells the events of a run until it has ended.
func (a *API) follow(ctx context.Context, acc coordinator.Accepted, s *sse) error {
	tell := func(id string, e run.Event) error {
		defer budget.Sent(ctx)
		if e.RunID != acc.RunID {
			return nil
		}
		if err := s.tell(id, journal.ItemEvent, e); err != nil {
			return err
		}
		if e.Type == run.EventCompleted || e.Type == run.EventFailed || e.Type == run.EventStopped {
			return errEnded
		}
		return nil
	}
	if _, err := a.c.Journal.Get(ctx, acc.RunID); err != nil { // known from here on
		return err
	}
	var err error
	if active, ok := a.c.Journal.Active(acc.RunID); ok {
		err = a.c.Journal.Stream(ctx, acc.SessionID, journal.Before(active.FirstSeq), func(i journal.Item) error {
			if e, ok := i.Data.(run.Event); ok {
				return tell(i.ID, e)
			}
			return nil
		})
	} else {
		err = a.retell(ctx, acc.SessionID, tell)
	}
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// retell tells the events of a session from its beginning to its end so far.
func (a *API) retell(ctx context.Context, session string, tell func(id string, e run.Event) error) error {
	after := ""
	for {
		list, next, err := a.c.Journal.Events(ctx, session, after, 1000)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := tell("", e); err != nil {
				return err
			}
		}
		if len(list) == 0 || next == after {
			return nil
		}
		after = next
	}
}

// sessionEvents is GET /sessions/{id}/events: what happened, and where to go on.
func (a *API) sessionEvents(g *gin.Context, q query) (any, error) {
	limit := q.number("limit", 0, 1, 1000)
	id, err := sessionID(g)
	if err == nil {
		err = q.err
	}
	if err != nil {
		return nil, err
	}
	list, next, err := a.c.Events(g.Request.Context(), id, q.text("after"), limit)
	return struct {
		Events []run.Event `json:"events"`
		Next   string      `json:"next"`
	}{orEmpty(list), next}, err
}
