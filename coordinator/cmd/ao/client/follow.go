package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Page is a list of documents, as the API cuts it.
type Page struct {
	Items []json.RawMessage
	Next  string // where the next page begins; empty: this is the last
}

// List reads one page of a list: the member `of` of the answer holds it.
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
		return p, &Stranger{URL: c.base, Status: http.StatusOK, Type: "application/json", Start: string(doc[:min(len(doc), 80)])}
	}
	for _, name := range []string{"next_cursor", "next"} {
		if members[name] != nil && json.Unmarshal(members[name], &p.Next) != nil {
			p.Next = ""
		}
	}
	return p, nil
}

// Events tells a session's events after a position, oldest first, until there are no more or tell has enough. The answer
// is the position after the last one told.
func (c *Client) Events(ctx context.Context, session, after string, tell func(json.RawMessage) (enough bool)) (string, error) {
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
			if tell(e) {
				return after, nil
			}
		}
		if p.Next == "" || p.Next == after || len(p.Items) == 0 {
			if p.Next != "" {
				after = p.Next
			}
			return after, nil
		}
		after = p.Next
	}
}

// Follow tells what happens in a session after a position, as it happens, until tell has enough or ctx ends. A
// connection that breaks is made again where it broke, so nothing is missed and nothing comes twice; position, if not
// nil, learns how far it got.
func (c *Client) Follow(ctx context.Context, session, after string, position func(string), tell func(Message) (enough bool)) error {
	t := c.tries()
	for {
		done, err := c.stream(ctx, session, &after, t, func(m Message) bool {
			enough := tell(m)
			if position != nil {
				position(after)
			}
			return enough
		})
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !Passing(err):
			return err
		}
		if err := t.again(ctx, err); err != nil {
			return err
		}
	}
}

// stream is one connection of Follow; it moves after along.
func (c *Client) stream(ctx context.Context, session string, after *string, t *tries, tell func(Message) bool) (done bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := c.request(ctx, Call{Path: []string{"sse", "sessions"}, Query: url.Values{"session_id": {session}}})
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if *after != "" {
		req.Header.Set("Last-Event-ID", *after)
	}
	silent := time.AfterFunc(patience, cancel) // until the answer begins; then it may be as quiet as it likes
	res, err := c.http.Do(req)
	if !silent.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return false, &Lost{URL: c.base, Cause: context.DeadlineExceeded}
		}
		return false, c.trouble(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") == "application/json" {
		doc, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if _, err := c.read(res, doc); err != nil {
			return false, err
		}
		return false, &Stranger{URL: c.base, Status: res.StatusCode, Type: res.Header.Get("Content-Type"), Start: strconv.Quote(string(doc[:min(len(doc), 80)]))}
	}
	s := NewStream(res.Body, *after)
	begun := time.Now()
	for {
		m, err := s.Next()
		t.pauseAtLeast(s.Retry)
		if err != nil {
			if time.Since(begun) > 20*c.pause { // it was quiet, not broken
				t.well()
			}
			return false, &Lost{URL: c.base, Cause: err}
		}
		t.well()
		*after = m.ID
		if tell(m) {
			return true, nil
		}
	}
}
