package ao

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"regexp"
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
		if err := f.connect(ctx); err != nil {
			if over := f.out.wait(ctx, err, time.Second); over != nil {
				yield(Event{}, over)
				return
			}
		}
	}
}

// follower is the state of a stream across its connections.
type follower struct {
	c            *Client
	session, run string
	after        string // position of what was yielded
	out          outage
	furthest     string // position, the last that ended an outage
	yield        func(Event, error) bool
	done         bool
}

// connect reads one connection. Without an error the next one follows at once.
func (f *follower) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(idleTimeout, cancel)
	res, err := f.c.send(ctx, http.MethodGet, "/sse/sessions?session_id="+f.session, nil, "Last-Event-ID", f.after)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxAnswer)
	fields, start, last := map[string]string{"id": f.after}, time.Now(), time.Now()
	for lines.Scan() && fields["event"] != "error" { // then the next connection is told why
		last = time.Now()
		idle.Reset(idleTimeout)
		if name, value, _ := strings.Cut(lines.Text(), ":"); lines.Text() != "" {
			fields[name] = strings.TrimPrefix(value, " ") // "": a comment
			continue
		}
		again, err := f.message(ctx, fields["id"], fields["event"], fields["data"])
		if err != nil || again || f.done {
			return err
		}
		fields = map[string]string{"id": fields["id"]}
	}
	if last.Sub(start) > maxPause {
		f.out.since = time.Time{} // a quiet stream, not an outage
	}
	return &UnreachableError{URL: f.c.conf.URL, Err: cmp.Or(lines.Err(), io.ErrUnexpectedEOF)}
}

// message handles a message of the stream. After a list the stream continues with a new connection.
func (f *follower) message(ctx context.Context, id, name, data string) (again bool, err error) {
	switch name {
	case "", "gap": // a gap is followed by init
		return false, nil
	case "init":
		again, err = f.list(ctx)
		if again || err != nil {
			return again, err
		}
		var state struct{ Runs []Run }
		if json.Unmarshal([]byte(data), &state) != nil {
			return false, f.c.foreign([]byte(data))
		}
		f.done = slices.ContainsFunc(state.Runs, func(r Run) bool { return r.ID == f.run && r.Ended() })
	case "event":
		if err := f.emit(id, json.RawMessage(data)); err != nil {
			return false, err
		}
	case "session_deleted":
		f.done = true
	}
	f.advance(id)
	return false, nil
}

// advance continues after a position. Only one beyond all before ends an outage: what failed may come again.
func (f *follower) advance(to string) {
	f.after = to
	if order(to) > order(f.furthest) {
		f.furthest, f.out.since = to, time.Time{}
	}
}

var number = regexp.MustCompile("[0-9]+")

// order makes positions comparable, such as 9-12 and 10-12.1.
func order(position string) string {
	return number.ReplaceAllStringFunc(position, func(n string) string { return fmt.Sprintf("%20s", n) })
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
		if json.Unmarshal(doc, &page) != nil || page.Events == nil || len(page.Events) > 0 && page.Next == "" {
			return found, f.c.foreign(doc)
		}
		if len(page.Events) == 0 {
			return found, nil
		}
		if err := f.emit(page.Next, page.Events...); err != nil || f.done {
			return true, err
		}
		f.advance(page.Next)
	}
}

// emit yields all of these events or, where one is malformed, none. next is the position after them.
func (f *follower) emit(next string, documents ...json.RawMessage) error {
	all := make([]Event, len(documents))
	for i, doc := range documents {
		all[i] = Event{Position: f.after, Document: doc}
		if json.Unmarshal(doc, &all[i]) != nil || all[i].Type == "" {
			return f.c.foreign(doc)
		}
	}
	all[len(all)-1].Position = next
	for _, e := range all {
		if !f.done && (f.run == "" || e.RunID == f.run) {
			end := e.Type == "run_completed" || e.Type == "run_failed" || e.Type == "run_stopped"
			f.done = !f.yield(e, nil) || end && f.run != ""
		}
	}
	return nil
}
