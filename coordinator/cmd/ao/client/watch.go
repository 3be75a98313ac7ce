package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// RunChanges is an argument of WatchRuns's handler.
type RunChanges struct {
	Page    bool              // Runs is a page of the list, newest first; otherwise the runs that changed
	Runs    []json.RawMessage // each as it is now
	More    bool              // the list continues after the page
	Deleted []string          // runs whose session was deleted
	Omitted int               // about how many changed, too many to list; a page follows
}

// ErrReadAgain is returned by a handler that wants a page next.
var ErrReadAgain = errors.New("read the list again")

// RunWatch names a list of runs to watch.
type RunWatch struct {
	Filters url.Values
	First   int // size of the first page
	Again   int // size of a page that is read later
}

// WatchRuns calls handle with a page of a list of runs, then with each change. It returns when ctx ends or handle
// returns an error other than ErrReadAgain. It reconnects after an outage and resumes at its position, so the newest
// state of each run is handled. Empty changes mean that it is connected.
func (c *Client) WatchRuns(ctx context.Context, of RunWatch, handle func(RunChanges) error) error {
	w := &runWatcher{c: c, of: of, limit: of.First, stale: true, retry: c.newRetrier(), handle: handle}
	for {
		err := w.connect(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case w.failed != nil:
			return w.failed
		case errors.Is(err, ErrReadAgain):
			continue
		case positionUnknown(err): // the history was replaced
			w.position, w.stale = "", true
		case !Temporary(err):
			return err
		}
		if err := w.retry.wait(ctx, err); err != nil {
			return err
		}
	}
}

func positionUnknown(err error) bool {
	refused, ok := errors.AsType[*APIError](err)
	return ok && refused.Fault.Code == "position_unknown"
}

// runWatcher is the state of WatchRuns.
type runWatcher struct {
	c        *Client
	of       RunWatch
	limit    int    // of the next page
	position string // all before it was handled
	stale    bool   // the list must be read
	retry    *retrier
	handle   func(RunChanges) error
	failed   error // by handle
}

// hand calls the handler. An error ends the connection.
func (w *runWatcher) hand(c RunChanges) error {
	err := w.handle(c)
	if err == nil {
		return nil
	}
	w.stale = true
	if !errors.Is(err, ErrReadAgain) {
		w.failed = err
	}
	return err
}

// connect reads the list if it must be read, then the stream after it, until an error, which may be ErrReadAgain.
func (w *runWatcher) connect(ctx context.Context) error {
	if w.stale {
		if err := w.read(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	filters := maps.Clone(w.of.Filters)
	filters.Del("limit")
	res, err := w.c.openStream(ctx, cancel, Call{Path: []string{"sse", "runs"}, Query: filters}, w.position)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	return w.stream(newStream(res.Body, w.position))
}

// read handles a page. The stream resumes at its position.
func (w *runWatcher) read(ctx context.Context) error {
	q := maps.Clone(w.of.Filters)
	q.Set("limit", strconv.Itoa(w.limit))
	a, err := w.c.Do(ctx, Call{Path: []string{"runs"}, Query: q, AtLeast: w.position})
	if err != nil {
		return err
	}
	p, err := w.c.page(a.Doc, "runs")
	if err != nil {
		return err
	}
	if a.Position == "" {
		return &NotCoordinator{URL: w.c.base, Status: http.StatusOK, Type: "application/json", Start: "no " +
			positionHeader}
	}
	w.position, w.stale, w.limit = a.Position, false, w.of.Again
	w.retry.reset()
	return w.hand(RunChanges{Page: true, Runs: p.Items, More: p.Next != ""})
}

// stream handles the items of a connection.
func (w *runWatcher) stream(s *stream) error {
	connected := time.Now()
	if err := w.hand(RunChanges{}); err != nil {
		return err
	}
	for {
		m, err := s.Next()
		w.retry.setMinPause(s.Retry)
		if err != nil {
			if time.Since(connected) > 20*w.c.retryPause { // it was idle, not broken
				w.retry.reset()
			}
			return &ConnectionLost{URL: w.c.base, Cause: err}
		}
		w.retry.reset()
		if err := w.item(m); err != nil {
			return err
		}
	}
}

// item handles an item of the stream.
func (w *runWatcher) item(m Message) error {
	var data struct {
		Runs     []json.RawMessage `json:"runs"`
		Deleted  []string          `json:"deleted"`
		More     int               `json:"more"`
		Position string            `json:"position"`
	}
	if err := json.Unmarshal(m.Data, &data); err != nil {
		return fmt.Errorf("decode an item of the list of runs: %w", err)
	}
	switch m.Name {
	case "runs":
		w.position = cmp.Or(data.Position, m.ID)
		return w.hand(RunChanges{Runs: data.Runs, Deleted: data.Deleted})
	case "more":
		w.position = cmp.Or(data.Position, m.ID)
		if err := w.hand(RunChanges{Omitted: data.More}); err != nil {
			return err
		}
		w.stale = true
		return ErrReadAgain
	case "gap":
		w.stale = true
		return ErrReadAgain
	}
	return nil
}
