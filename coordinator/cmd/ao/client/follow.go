package client

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"
)

// Page is one page of a list.
type Page struct {
	Items []json.RawMessage
	Next  string // cursor of the next page; empty: this is the last
}

// List reads one page of a list, which is the member `of` of the answer.
func (c *Client) List(ctx context.Context, of string, query url.Values, path ...string) (Page, error) {
	doc, err := c.Get(ctx, query, path...)
	if err != nil {
		return Page{}, err
	}
	return c.page(doc, of)
}

func (c *Client) page(doc json.RawMessage, of string) (Page, error) {
	var members map[string]json.RawMessage
	var p Page
	if json.Unmarshal(doc, &members) != nil || members[of] == nil || json.Unmarshal(members[of], &p.Items) != nil {
		return p, &NotCoordinator{URL: c.base, Status: http.StatusOK, Type: "application/json",
			Start: string(doc[:min(len(doc), 80)])}
	}
	for _, name := range []string{"next_cursor", "next"} {
		if members[name] != nil && json.Unmarshal(members[name], &p.Next) != nil {
			p.Next = ""
		}
	}
	return p, nil
}

// Events calls handle with a session's events after a position, oldest first, until there are no more or handle returns
// true. It returns the position after the last handled event; if handle returned true, the position before it.
func (c *Client) Events(ctx context.Context, session, after string, handle func(json.RawMessage) (enough bool)) (string,
	error) {
	for {
		q := url.Values{"limit": {"500"}}
		if after != "" {
			q.Set("after", after)
		}
		p, err := c.List(ctx, "events", q, "sessions", session, "events")
		if err != nil {
			return after, err
		}
		for _, e := range p.Items {
			if handle(e) {
				return after, nil
			}
		}
		if p.Next == "" || p.Next == after || len(p.Items) == 0 {
			return cmp.Or(p.Next, after), nil
		}
		after = p.Next
	}
}

// Follow calls handle with a session's events after a position (empty: from the beginning), live, until handle
// returns true or ctx ends. It resumes after lost connections, so every event is handled once. onPosition, if not
// nil, is called with each position reached.
func (c *Client) Follow(ctx context.Context, session, after string, onPosition func(string),
	handle func(Message) (enough bool)) error {
	f := &follower{c: c, session: session, after: after, retry: c.newRetrier(), handle: handle, onPosition: onPosition}
	if f.onPosition == nil {
		f.onPosition = func(string) {}
	}
	for {
		err := f.stream(ctx)
		switch {
		case f.done:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			continue
		case !Temporary(err):
			return err
		}
		if err := f.retry.wait(ctx, err); err != nil {
			return err
		}
	}
}

// follower is the state of a Follow.
type follower struct {
	c          *Client
	session    string
	after      string // position of the last handled event
	retry      *retrier
	handle     func(Message) bool
	onPosition func(string)
	done       bool
}

// advance records that everything up to a position was handled.
func (f *follower) advance(to string) {
	f.after = to
	f.onPosition(to)
}

// stream reads one connection. A nil error means: connect again at once.
func (f *follower) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call := Call{Path: []string{"sse", "sessions"}, Query: url.Values{"session_id": {f.session}}}
	res, err := f.c.openStream(ctx, cancel, call, f.after)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	s := newStream(res.Body, f.after)
	for connected := time.Now(); ; {
		m, err := s.Next()
		f.retry.setMinPause(s.Retry)
		if err != nil {
			if time.Since(connected) > 20*f.c.retryPause { // an idle connection, not an outage
				f.retry.reset()
			}
			return &ConnectionLost{URL: f.c.base, Cause: err}
		}
		f.retry.reset()
		switch m.Name {
		case "gap": // an init follows
		case "init":
			before := f.after
			if err := f.catchUp(ctx); err != nil || f.done || f.after != before {
				return err
			}
			f.advance(m.ID) // the list was empty
		default:
			f.done = f.handle(m)
			f.advance(m.ID)
		}
		if f.done {
			return nil
		}
	}
}

// catchUp handles the listed events after the position: a stream that begins with init sends only later ones. It
// advances the position past what it handled.
func (f *follower) catchUp(ctx context.Context) error {
	found := false
	at, err := f.c.Events(ctx, f.session, f.after, func(raw json.RawMessage) bool {
		found = true
		f.done = f.handle(Message{Name: "event", Data: raw})
		return f.done
	})
	if found {
		f.advance(at)
	}
	return err
}

// openStream opens a stream after a position; empty: from now on. The answer must begin within answerTimeout; after
// that it may be idle for any time.
func (c *Client) openStream(ctx context.Context, cancel context.CancelFunc, call Call, after string,
) (*http.Response, error) {
	req, err := c.request(ctx, call)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	timeout := time.AfterFunc(answerTimeout, cancel)
	res, err := c.send(req)
	switch inTime := timeout.Stop(); {
	case !inTime:
		return nil, &ConnectionLost{URL: c.base, Cause: context.DeadlineExceeded}
	case err != nil:
		return nil, c.classify(ctx, err)
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return res, nil
	}
	defer func() { _ = res.Body.Close() }()
	doc, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, c.classify(ctx, err)
	}
	if _, err := c.parse(res, doc); err != nil {
		return nil, err
	}
	return nil, &NotCoordinator{URL: c.base, Status: res.StatusCode, Type: kind, Start: string(doc[:min(len(doc), 80)])}
}
