package ao

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"strconv"
)

// RunWatch names a list of runs to watch.
type RunWatch struct {
	Filters url.Values // of GET /runs
	First   int        // size of the first page; default 100
	Again   int        // size of a page that is read later; default 100
}

// RunChanges is what a WatchRuns has to say: a page, or what changed since. Empty changes mean that it is connected.
type RunChanges struct {
	Page    bool              // Runs is a page of the list, newest first; otherwise the runs that changed
	Runs    []json.RawMessage // each as it is now
	More    bool              // the list continues after the page
	Deleted []string          // runs whose session was deleted
	Omitted int               // about how many changed, too many to list; a page follows
}

// ErrReadAgain is returned by a handler that wants a page next.
var ErrReadAgain = errors.New("read the list again")

// WatchRuns calls handle with a page of a list of runs, then with each change. It returns when ctx ends or handle
// returns an error other than ErrReadAgain. It reconnects after an outage and resumes at its position, so the newest
// state of each run is handled.
func (c *Client) WatchRuns(ctx context.Context, of RunWatch, handle func(RunChanges) error) error {
	w := &runWatcher{c: c, of: of, limit: of.First, stale: true, out: c.streamOutage(), handle: handle}
	for {
		err := w.connect(ctx)
		var refused *APIError
		wait := w.out.wait
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case w.failed != nil:
			return w.failed
		case errors.Is(err, ErrReadAgain):
			continue
		case errors.As(err, &refused) && refused.Code == "position_unknown": // the history was replaced
			w.position, w.stale, wait = "", true, w.out.sleep
		}
		if err := wait(ctx, err); err != nil {
			return err
		}
	}
}

// runWatcher is the state of WatchRuns.
type runWatcher struct {
	c        *Client
	of       RunWatch
	limit    int    // of the next page
	position string // all before it was handled
	stale    bool   // the list must be read
	out      outage
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
	filters := maps.Clone(w.of.Filters)
	filters.Del("limit")
	s, err := w.c.open(ctx, Call{Path: []string{"sse", "runs"}, Query: filters}, w.position)
	if err != nil {
		return err
	}
	defer s.close()
	if err := w.hand(RunChanges{}); err != nil {
		return err
	}
	for {
		f, err := s.next()
		if err != nil {
			s.broken(&w.out)
			return w.c.unreachable(ctx, err)
		}
		w.out.end()
		if err := w.item(f); err != nil {
			return err
		}
	}
}

// read handles a page. The stream resumes at its position.
func (w *runWatcher) read(ctx context.Context) error {
	q := maps.Clone(w.of.Filters)
	if q == nil {
		q = url.Values{}
	}
	q.Set("limit", strconv.Itoa(cmp.Or(w.limit, 100)))
	a, err := w.c.try(ctx, Call{Path: []string{"runs"}, Query: q, AtLeast: w.position})
	if err != nil {
		return err
	}
	p, err := w.c.page(a, "runs")
	if err != nil {
		return err
	}
	if a.Position == "" {
		return w.c.foreign(a)
	}
	w.position, w.stale, w.limit = a.Position, false, w.of.Again
	w.out.end()
	return w.hand(RunChanges{Page: true, Runs: p.Items, More: p.Next != ""})
}

// item handles an item of the stream.
func (w *runWatcher) item(f frame) error {
	var data struct {
		Runs     []json.RawMessage `json:"runs"`
		Deleted  []string          `json:"deleted"`
		More     int               `json:"more"`
		Position string            `json:"position"`
	}
	if json.Unmarshal(f.data, &data) != nil {
		return w.c.foreign(Answer{Status: 200, Document: f.data, kind: "text/event-stream"})
	}
	switch f.name {
	case "runs":
		w.position = cmp.Or(data.Position, f.id)
		return w.hand(RunChanges{Runs: data.Runs, Deleted: data.Deleted})
	case "more":
		w.position = cmp.Or(data.Position, f.id)
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
