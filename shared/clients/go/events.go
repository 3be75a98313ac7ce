package ao

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Event is one event of a session.
type Event struct {
	Type     string          `json:"event_type"` // run_start, message, result, run_completed, run_failed, …
	RunID    string          `json:"run_id"`
	Position string          `json:"-"` // where a later call continues
	Document json.RawMessage `json:"-"` // all members
}

// Events returns the events of a run, each once, from a position on (empty: the first) until the run has ended. They
// end with an error if the run is unknown, or an outage lasts too long. ctx ends them at any time.
func (c *Client) Events(ctx context.Context, run, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r, err := c.Get(ctx, run)
		if err != nil {
			yield(Event{}, err)
			return
		}
		c.follow(ctx, r.SessionID, run, after, yield)
	}
}

// SessionEvents returns the events of all runs of a session until ctx ends or the session is deleted.
func (c *Client) SessionEvents(ctx context.Context, session, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { c.follow(ctx, session, "", after, yield) }
}

func (c *Client) follow(ctx context.Context, session, run, after string, yield func(Event, error) bool) {
	f := &follower{c: c, session: url.QueryEscape(session), run: run, after: after, yield: yield, out: outage{c: c}}
	for !f.done {
		err := f.connect(ctx)
		if err == nil {
			continue
		}
		if err := f.out.wait(ctx, err, time.Second); err != nil {
			yield(Event{}, err)
			return
		}
	}
}

// follower is the state of a stream across its connections.
type follower struct {
	c            *Client
	session, run string
	after        string // position of what was yielded
	out          outage
	yield        func(Event, error) bool
	done         bool
}

// connect reads one connection. Without an error the next one follows at once.
func (f *follower) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(idleTimeout, cancel)
	defer idle.Stop()
	res, err := f.c.send(ctx, http.MethodGet, "/sse/sessions?session_id="+f.session, nil, "Last-Event-ID", f.after)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxAnswer)
	id, name, data := f.after, "", ""
	for lines.Scan() {
		idle.Reset(idleTimeout)
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			data = value
		case "": // the end of a message, or a comment
			again, err := f.message(ctx, id, name, data)
			if err != nil || again || f.done {
				return err
			}
			name, data = "", ""
		}
	}
	return &UnreachableError{URL: f.c.url, Err: cmp.Or(lines.Err(), io.ErrUnexpectedEOF)}
}

// message handles a message of the stream. After a list the stream continues with a new connection.
func (f *follower) message(ctx context.Context, id, name, data string) (again bool, err error) {
	switch name {
	case "", "gap": // a gap is followed by init
		return false, nil
	case "error": // the next connection is told why
		return false, &UnreachableError{URL: f.c.url, Err: errors.New(data)}
	case "init":
		again, err = f.list(ctx)
		if again || f.done || err != nil {
			return again, err
		}
		f.done = f.ended(data)
	case "event":
		f.emit(json.RawMessage(data), id)
	case "session_deleted":
		f.done = true
	}
	f.after, f.out.since = id, time.Time{}
	return false, nil
}

// list yields the listed events, since a stream that begins with init sends only later ones. It reports whether there
// are any.
func (f *follower) list(ctx context.Context) (found bool, err error) {
	for ; ; found = true {
		path := "/sessions/" + f.session + "/events?limit=500&after=" + url.QueryEscape(f.after)
		doc, err := f.c.once(ctx, http.MethodGet, path, nil, "")
		if err != nil {
			return found, err
		}
		var page struct {
			Events []json.RawMessage
			Next   string
		}
		if err := json.Unmarshal(doc, &page); err != nil || len(page.Events) == 0 {
			return found, err
		}
		for i, e := range page.Events {
			at := f.after
			if i == len(page.Events)-1 {
				at = page.Next
			}
			f.emit(e, at)
			if f.done {
				return true, nil
			}
		}
		f.after = page.Next
	}
}

// ended reports whether the run had ended when a stream began.
func (f *follower) ended(init string) bool {
	var state struct{ Runs []Run }
	return json.Unmarshal([]byte(init), &state) == nil && slices.ContainsFunc(state.Runs, func(r Run) bool {
		return r.ID == f.run && r.Ended()
	})
}

func (f *follower) emit(doc json.RawMessage, at string) {
	e := Event{Position: at, Document: doc}
	if json.Unmarshal(doc, &e) != nil || f.run != "" && e.RunID != f.run {
		return
	}
	end := e.Type == "run_completed" || e.Type == "run_failed" || e.Type == "run_stopped"
	f.done = !f.yield(e, nil) || end && f.run != ""
}
