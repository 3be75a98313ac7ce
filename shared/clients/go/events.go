package ao

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"slices"
)

// Event is one event of a session.
type Event struct {
	Type     string          `json:"event_type"` // run_start, message, result, run_completed, run_failed, …
	RunID    string          `json:"run_id"`
	Position string          `json:"-"` // where a later call continues
	Document json.RawMessage `json:"-"` // all members
}

// Ends reports whether it is the last event of its run.
func (e Event) Ends() bool {
	return slices.Contains([]string{"run_completed", "run_failed", "run_stopped"}, e.Type)
}

// Message is a message of a session's stream. One that is no event has only a Position and a Document.
type Message struct {
	Name string // event, init (the state after what is listed), run_updated, session_deleted, …
	Event
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
		for m, err := range c.Follow(ctx, r.SessionID, after) {
			of := m.Name == "event" && m.RunID == run
			if (err != nil || of) && !yield(m.Event, err) || of && m.Ends() || m.Name == "init" && m.ended(run) {
				return
			}
		}
	}
}

// ended reports whether a run has ended before an init.
func (m Message) ended(run string) bool {
	var state struct{ Runs []Run }
	return json.Unmarshal(m.Document, &state) == nil &&
		slices.ContainsFunc(state.Runs, func(r Run) bool { return r.ID == run && r.Ended() })
}

// SessionEvents returns the events of all runs of a session until ctx ends or the session is deleted.
func (c *Client) SessionEvents(ctx context.Context, session, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for m, err := range c.Follow(ctx, session, after) {
			if (err != nil || m.Name == "event") && !yield(m.Event, err) {
				return
			}
		}
	}
}

// ListEvents returns the events of a session so far.
func (c *Client) ListEvents(ctx context.Context, session, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			events, err := c.events(ctx, session, after)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range events {
				after = e.Position
				if !yield(e, nil) {
					return
				}
			}
			if len(events) == 0 {
				return
			}
		}
	}
}

// events returns a page of a session's events; an empty one is the end.
func (c *Client) events(ctx context.Context, session, after string) ([]Event, error) {
	q := url.Values{"limit": {"500"}}
	if after != "" {
		q.Set("after", after)
	}
	a, err := c.Do(ctx, Call{Path: []string{"sessions", session, "events"}, Query: q})
	if err != nil {
		return nil, err
	}
	p, err := c.page(a, "events")
	if err != nil {
		return nil, err
	}
	all := make([]Event, len(p.Items))
	for i, doc := range p.Items {
		position := after // after the last one, p.Next
		if i == len(all)-1 {
			position = p.Next
		}
		all[i], err = c.event(doc, position)
		if err != nil || p.Next == "" || p.Next == after {
			return nil, c.foreign(a)
		}
	}
	return all, nil
}

func (c *Client) event(doc json.RawMessage, position string) (Event, error) {
	e := Event{Position: position, Document: doc}
	if json.Unmarshal(doc, &e) != nil || e.Type == "" {
		return e, c.malformed(doc)
	}
	return e, nil
}

// Follow returns the messages of a session's stream, each event once, from a position on (empty: the first). What is
// listed comes first. They end when ctx ends or the session is deleted, or with an error, as those of Events.
func (c *Client) Follow(ctx context.Context, session, after string) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		f := &follower{c: c, session: session, after: after, yield: yield, out: c.streamOutage()}
		for !f.done {
			err := f.connect(ctx)
			if err != nil {
				err = f.out.wait(ctx, err)
			}
			if err != nil {
				yield(Message{}, err)
				return
			}
		}
	}
}

// follower is the state of a stream across its connections.
type follower struct {
	c        *Client
	session  string
	after    string // position of what was yielded
	out      outage
	furthest string // position, the last that ended an outage
	yield    func(Message, error) bool
	done     bool
}

// connect reads one connection. Without an error the next one follows at once.
func (f *follower) connect(ctx context.Context) error {
	call := Call{Path: []string{"sse", "sessions"}, Query: url.Values{"session_id": {f.session}}}
	s, err := f.c.open(ctx, call, f.after)
	if err != nil {
		return err
	}
	defer s.close()
	for {
		m, err := s.next()
		if err != nil || m.name == "error" { // then the next connection is told why
			s.broken(&f.out)
			return f.c.unreachable(ctx, cmp.Or(err, errEnded))
		}
		again, err := f.message(ctx, m)
		if err != nil || again || f.done {
			return err
		}
	}
}

// message handles a message of the stream. After a list the stream continues with a new connection.
func (f *follower) message(ctx context.Context, m frame) (again bool, err error) {
	e := Event{Position: m.id, Document: m.data}
	switch m.name {
	case "gap": // followed by init
		return false, nil
	case "init":
		again, err = f.list(ctx)
		if again || err != nil {
			return again, err
		}
		if json.Unmarshal(m.data, &struct{ Runs []Run }{}) != nil {
			return false, f.c.malformed(m.data)
		}
	case "event":
		e, err = f.c.event(m.data, m.id)
		if err != nil {
			return false, err
		}
	}
	f.emit(m.name, e)
	f.done = f.done || m.name == "session_deleted"
	return false, nil
}

// list yields the listed events, since a stream that begins with init sends only later ones. It reports whether there
// are any.
func (f *follower) list(ctx context.Context) (found bool, err error) {
	for e, err := range f.c.Once().ListEvents(ctx, f.session, f.after) {
		if err != nil {
			return found, err
		}
		found = true
		if f.emit("event", e) {
			break
		}
	}
	return found, nil
}

// emit yields a message, continues after it and reports whether that is enough. Only a position beyond all before ends
// an outage: what failed may come again.
func (f *follower) emit(name string, e Event) (enough bool) {
	f.after, f.done = e.Position, !f.yield(Message{name, e}, nil)
	if order(f.after) > order(f.furthest) {
		f.furthest = f.after
		f.out.end()
	}
	return f.done
}

var number = regexp.MustCompile("[0-9]+")

// order makes positions comparable, such as 9-12 and 10-12.1.
func order(position string) string {
	return number.ReplaceAllStringFunc(position, func(n string) string { return fmt.Sprintf("%20s", n) })
}
