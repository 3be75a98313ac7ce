package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"ao/coordinator/budget"
	"ao/coordinator/projection/query"
	"ao/coordinator/runs"
	"ao/shared/fault"
	"ao/shared/run"

	"github.com/gin-gonic/gin"
)

// streamsAPI serves live streams.
type streamsAPI struct {
	history History
	runs    Runs
	guard   *guard // asked at every comment whether the token is still valid
	limit   *places
	ends    *shutdown
	beat    time.Duration
	log     *slog.Logger
}

// statusDelay is how long a quiet stream delays its headers; until then, an error has a status.
const statusDelay = 100 * time.Millisecond

// live runs f with a stream to the caller and sends comments. The context of f ends with the caller, its token, this
// process or the connection. An error before the first piece is an ordinary answer.
func (a *streamsAPI) live(g *gin.Context, f func(context.Context, *sse) error) (any, error) {
	s := &sse{w: g.Writer}
	ctx, end := context.WithCancelCause(g.Request.Context())
	cancel := func() { end(nil) }
	defer cancel()
	defer context.AfterFunc(a.ends.streaming, cancel)()
	var beats sync.WaitGroup
	beats.Go(func() {
		for pause := statusDelay; ; pause = a.beat {
			t := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
			}
			if s.keepAlive() != nil {
				cancel()
				return
			}
			if _, err := a.guard.identify(g.Request); fault.KindOf(err) == fault.Unauthorized {
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
	case a.ends.streaming.Err() != nil: // the reader reconnects with its position, here or elsewhere
		if !s.opened() {
			_ = s.keepAlive()
		}
		return written{}, nil
	case !s.opened():
		return nil, err
	case s.err != nil:
		a.log.Info("slow reader of a live stream disconnected", "request", requestID(g), "err", s.err)
		return written{}, nil
	}
	fa := fault.Of(err)
	a.log.Warn("live stream ended", "request", requestID(g), "err", err)
	_ = s.send("", "error", fa)
	return written{}, nil
}

// sessions answers GET /sse/sessions: events of one session, or of all.
func (a *streamsAPI) sessions(g *gin.Context, q request) (any, error) {
	session, most := q.check("session_id", run.CheckSessionID), q.number("max_bytes", 0, 1, 1<<30)
	if q.err != nil {
		return nil, q.err
	}
	leave, err := a.reserve(g)
	if err != nil {
		return nil, err
	}
	defer leave()
	after := g.Request.Header.Get("Last-Event-ID")
	return a.live(g, func(ctx context.Context, s *sse) error {
		return a.history.Stream(ctx, session, after, func(i query.Item) error {
			defer budget.Sent(ctx)
			data := i.Data
			if i.Event == query.ItemEvent {
				var err error
				data, err = shorten(data, most)
				if err != nil {
					return err
				}
			}
			return s.send(i.ID, i.Event, data)
		})
	})
}

// watch answers GET /sse/runs: the state of each matching run whenever it changed.
func (a *streamsAPI) watch(g *gin.Context, q request) (any, error) {
	f, err := listingRuns(q.params)
	if err != nil {
		return nil, err
	}
	leave, err := a.reserve(g)
	if err != nil {
		return nil, err
	}
	defer leave()
	after := cmp.Or(g.Request.Header.Get("Last-Event-ID"), g.Request.Header.Get(positionHeader))
	return a.live(g, func(ctx context.Context, s *sse) error {
		return a.runs.Watch(ctx, f, after, func(i query.Item) error {
			defer budget.Sent(ctx)
			return s.send(i.ID, i.Event, i.Data)
		})
	})
}

// reserve reserves a seat for the caller's stream.
func (a *streamsAPI) reserve(g *gin.Context) (leave func(), err error) {
	return a.limit.reserve(g.Request.Context(), caller(g))
}

// Events of a sync run's stream beside `event`: first accepted, last result, or timeout.
const (
	sayAccepted = "accepted"
	sayResult   = "result"
	sayTimeout  = "timeout"
)

// errEnded ends a stream when its run has ended.
var errEnded = errors.New("the run has ended")

// run answers POST /runs with mode sync for a reader of event streams.
func (a *streamsAPI) run(g *gin.Context, acc runs.Accepted, wait time.Duration) (any, error) {
	g.Writer.Header().Set("Location", "/runs/"+acc.RunID)
	began := time.Now()
	defer func() { exchangeOf(g).waited = time.Since(began) }()
	return a.live(g, func(ctx context.Context, s *sse) error {
		if err := s.send("", sayAccepted, acc); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		defer context.AfterFunc(a.ends.waiting, cancel)()
		err := a.follow(waiting, acc, s)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case a.ends.waiting.Err() != nil: // this process is shutting down
			return s.send("", sayTimeout, acc)
		case waiting.Err() != nil:
			return s.send("", sayTimeout, acc.TimedOut(wait))
		case err != nil:
			return err
		}
		out, err := a.runs.Outcome(ctx, acc.RunID)
		if err != nil {
			return err
		}
		return s.send("", sayResult, out)
	})
}

// follow sends the events of a run until it has ended.
func (a *streamsAPI) follow(ctx context.Context, acc runs.Accepted, s *sse) error {
	tell := func(id string, e run.Event) error {
		defer budget.Sent(ctx)
		if e.RunID != acc.RunID {
			return nil
		}
		if err := s.send(id, query.ItemEvent, e); err != nil {
			return err
		}
		if e.Type == run.EventCompleted || e.Type == run.EventFailed || e.Type == run.EventStopped {
			return errEnded
		}
		return nil
	}
	if _, err := a.history.Get(ctx, acc.RunID); err != nil { // known from here on
		return err
	}
	var err error
	if active, ok := a.history.Active(acc.RunID); ok {
		err = a.history.Stream(ctx, acc.SessionID, query.PositionBefore(active.FirstSeq),
			func(i query.Item) error {
				if e, ok := i.Data.(run.Event); ok {
					return tell(i.ID, e)
				}
				return nil
			})
	} else {
		err = a.replay(ctx, acc.SessionID, tell)
	}
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// replay sends the events of a session from its beginning.
func (a *streamsAPI) replay(ctx context.Context, session string, tell func(id string, e run.Event) error) error {
	after := ""
	for {
		list, next, err := a.history.Events(ctx, session, after, 1000)
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
