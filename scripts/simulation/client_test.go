package simulation

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"ao/nats/bus"
	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/fault"
)

type (
	entry   = bus.Entry
	message = bus.Message
)

// requestTimeout is how long a process waits for an answer that does not come.
const requestTimeout = 2 * time.Second

// suspectTimeout is shorter than the product's, so that a loss in a cluster is believed while the world is watched.
const suspectTimeout = 5 * time.Second

// client is one process's connection to NATS. Its public methods are those of bus.Bus.
type client struct {
	*world
	name     string
	verifier stream.Verifier
	up       bool
	link     int          // counts disconnects
	verified atomic.Int64 // link in which the stream was last seen to hold what was read
	returns  uint64
	since    time.Time     // connected
	left     atomic.Uint64 // what the last record of FollowRuns left
	news     chan struct{} // holds one: something may have changed
}

func (w *world) connect(name string) *client {
	c := &client{world: w, name: name, up: !w.runs.down, link: 1, since: time.Now(), news: make(chan struct{}, 1)}
	c.verifier = stream.Verifier{Last: c.Last, Clustered: func() bool { return w.runs.clustered }}
	w.clients = append(w.clients, c)
	return c
}

func (c *client) disconnect() {
	c.up, c.link = false, c.link+1
	c.notify()
}

func (c *client) reconnect() {
	if !c.up {
		c.up, c.returns, c.since = true, c.returns+1, time.Now()
		c.oracle.listens(c.name)
		c.notify()
	}
}

func (c *client) notify() {
	c.loop.later(func() {
		select {
		case c.news <- struct{}{}:
		default:
		}
	})
}

func unavailable(text string) error { return fault.New(fault.Unavailable, "", text).After(time.Second) }

var (
	errNoAnswer = unavailable("NATS does not answer")
	errAway     = unavailable("NATS is not reachable")
)

// outcome is the answer to a request.
type outcome[T any] struct {
	value T
	err   error
}

// ask sends a request. With lossy, its answer may be lost although it was done.
func ask[T any](ctx context.Context, c *client, kind string, f func() (T, error)) (T, error) {
	c.loop.see()
	var o outcome[T]
	a := &act{key: c.name + " " + kind}
	link := c.link
	a.do = func() time.Duration {
		switch {
		case !c.up || c.link != link:
			o.err = errAway
			return 0
		case c.runs.down:
			o.err = errNoAnswer
			return requestTimeout
		}
		o.value, o.err = f()
		if c.loses(a) {
			o.err = errNoAnswer
			return requestTimeout
		}
		return 0
	}
	if err := c.loop.call(ctx, a); err != nil {
		return o.value, err
	}
	return o.value, o.err
}

// publish is one write. It may be refused, lost, done without an answer, or done after its caller gave up.
func (c *client) publish(ctx context.Context, kind string, entries ...entry) (uint64, error) {
	c.loop.see()
	var o outcome[uint64]
	a := &act{key: c.name + " " + kind}
	link, crashed := c.link, false
	a.do = func() time.Duration {
		switch {
		case crashed:
			o.err = errNoAnswer
			return 0
		case !c.up || c.link != link:
			o.err = errAway
			return 0
		case c.runs.down:
			o.err = errNoAnswer
			return requestTimeout
		case c.tears(a, entries):
			c.tear(c, entries)
			o.err = errNoAnswer
			return requestTimeout
		case len(entries) > 1 && c.crowded(a):
			o.err = fault.Wrap(fault.Unavailable, "", "too many batches", bus.ErrTooManyBatches)
			return 0
		case c.delayed(a): // on its way for longer than anybody waits
			ends := c.runs.ends
			c.loop.after(requestTimeout/2+time.Duration(a.fate%5)*time.Second, "late write of "+c.name, func() {
				if c.runs.ends == ends && !c.runs.outlived(entries) {
					c.write(entries...)
				}
			})
			o.err = errNoAnswer
			return requestTimeout
		case c.runs.clustered && c.holds(a):
			c.hold(a, entries)
			o.err = errNoAnswer
			return requestTimeout
		}
		if c.runs.outlived(entries) {
			o.err = errNoAnswer
			return requestTimeout
		}
		o.value, o.err = c.write(entries...)
		if c.loses(a) {
			o.err = errNoAnswer
			return requestTimeout
		}
		return 0
	}
	a.crash = func() {
		if !crashed && len(entries) > 1 && a.fate%3 == 0 { // in the middle of a batch: a prefix remains
			_, _ = c.write(entries[:1]...)
		}
		crashed = true
	}
	if err := c.loop.call(ctx, a); err != nil {
		return 0, errors.Join(errNoAnswer, err)
	}
	return o.value, o.err
}

// hold has a write in flight, which refuses others, and may be lost with its leader. Its caller may give up before.
func (c *client) hold(a *act, entries []entry) {
	for _, e := range entries {
		if c.runs.bySubject[e.Subject] != 0 || c.runs.held[e.Subject] {
			return
		}
	}
	for _, e := range entries {
		c.runs.held[e.Subject] = true
	}
	lost, ends := a.fate%2 == 0, c.runs.ends
	c.loop.after(time.Duration(a.fate%4000)*time.Millisecond, "write in flight of "+c.name, func() {
		for _, e := range entries {
			delete(c.runs.held, e.Subject)
		}
		if !lost && c.runs.ends == ends {
			c.write(entries...)
		}
	})
}

// Append is bus.Log's.
func (c *client) Append(ctx context.Context, e entry) (uint64, error) {
	seq, err := c.publish(ctx, "append", e)
	if errors.Is(err, bus.ErrTaken) {
		return 0, c.verifier.ConfirmTaken(ctx, e.Subject)
	}
	return seq, err
}

// AppendBatch is bus.Log's.
func (c *client) AppendBatch(ctx context.Context, entries ...entry) (uint64, error) {
	if len(entries) == 0 {
		return 0, nil
	}
	seq, err := c.publish(ctx, "batch", entries...)
	if errors.Is(err, bus.ErrTaken) {
		subjects := make([]string, len(entries))
		for i, e := range entries {
			subjects[i] = e.Subject
		}
		return 0, c.verifier.ConfirmTaken(ctx, subjects...)
	}
	return seq, err
}

// AppendEach is bus.Log's.
func (c *client) AppendEach(ctx context.Context, entries ...entry) (seq uint64, err error) {
	for _, e := range entries {
		seq, err = c.Append(ctx, e)
		if err != nil {
			return 0, err
		}
	}
	return seq, nil
}

// AppendAndVerify is bus.Log's.
func (c *client) AppendAndVerify(ctx context.Context, e entry, isOwn func([]byte) bool) (uint64, error) {
	return c.verifier.Append(ctx, e.Subject, func() (uint64, error) { return c.publish(ctx, "append", e) }, isOwn)
}

// Last is bus.Reader's.
func (c *client) Last(ctx context.Context, subj string) (message, error) {
	return ask(ctx, c, "last", func() (message, error) { return c.runs.get(c.runs.bySubject[subj]) })
}

// Get is bus.Reader's. It is answered at once.
func (c *client) Get(ctx context.Context, seq uint64) (message, error) {
	if c.loop.see(); !c.up || c.runs.down {
		return message{}, errAway
	}
	return c.runs.get(seq)
}

// State is bus.Reader's.
func (c *client) State(ctx context.Context) (bus.State, error) {
	return ask(ctx, c, "state", func() (bus.State, error) { return c.runs.state(), nil })
}

// StreamState is bus.Reader's. There are no events.
func (c *client) StreamState(ctx context.Context, name string) (bus.State, error) {
	if name == subject.Runs {
		return c.State(ctx)
	}
	return bus.State{First: 1}, nil
}

// Records is bus.Reader's.
func (c *client) Records(ctx context.Context, filter string, after uint64, limit int) ([]message, error) {
	return ask(ctx, c, "records", func() ([]message, error) { return c.runs.read(filter, after, limit), nil })
}

// Counted is bus.Reader's.
func (c *client) Counted(ctx context.Context, filter string) (uint64, error) {
	return ask(ctx, c, "counted", func() (n uint64, err error) {
		for subj := range c.runs.bySubject {
			if matches(filter, subj) {
				n++
			}
		}
		return n, nil
	})
}

// HasRecords is bus.Reader's.
func (c *client) HasRecords(ctx context.Context, after, last uint64) (bool, error) {
	return ask(ctx, c, "records", func() (bool, error) {
		found := c.runs.read("ao.runs.>", after, 1)
		return len(found) > 0 && found[0].Seq <= last, nil
	})
}

// Purge is bus.Log's.
func (c *client) Purge(ctx context.Context, name, filter string, before uint64) error {
	if name != subject.Runs {
		return nil
	}
	_, err := ask(ctx, c, "purge", func() (bool, error) { c.purge(filter, before); return true, nil })
	return err
}

// Truncate is bus.Log's.
func (c *client) Truncate(ctx context.Context, before uint64) error {
	_, err := ask(ctx, c, "purge", func() (bool, error) { c.purge("", before); return true, nil })
	return err
}

// FollowRuns is bus.Reader's.
func (c *client) FollowRuns(ctx context.Context, read func() []stream.Fingerprint, suspect func(bool),
	f func(message) error,
) error {
	history := stream.Continuation{Source: c, Read: read, Suspect: suspect, Timeout: func() time.Duration {
		if c.runs.clustered {
			return suspectTimeout
		}
		return 0
	}}
	for after := history.After(); ; {
		c.loop.see()
		link := c.link
		err := history.Check(ctx)
		if errors.Is(err, bus.ErrHistoryReplaced) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if err != nil {
			pause(ctx, 100*time.Millisecond)
			continue
		}
		c.verified.Store(int64(link))
		if err := c.follow(ctx, link, &after, f); err != nil {
			return err
		}
	}
}

// follow delivers records until the connection is lost.
func (c *client) follow(ctx context.Context, link int, after *uint64, f func(message) error) error {
	left, start := uint64(0), *after
	for c.loop.see(); c.link == link; c.loop.see() {
		if c.runs.last() <= *after {
			select {
			case <-c.news:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		page, err := ask(ctx, c, "deliver", func() ([]message, error) {
			n := 1 + int(c.loop.number(c.name, int(*after))%24)
			page := c.runs.read("ao.runs.>", *after, n)
			if len(page) > 0 {
				left = c.runs.left(start, page[len(page)-1].Seq)
			}
			return page, nil
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if c.loop.see(); err != nil || c.link != link {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		for i, m := range page {
			c.left.Store(left + uint64(len(page)-1-i))
			if err := f(m); err != nil {
				return err
			}
			*after = m.Seq
		}
		if len(page) == 0 { // the rest was purged
			select {
			case <-c.news:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// Confirmed is bus.Reader's.
func (c *client) Confirmed() bool {
	c.loop.see()
	return c.verified.Load() == int64(c.link)
}

// Connected is bus.Conn's.
func (c *client) Connected() bool {
	c.loop.see()
	return c.up
}

// Clustered is bus.Conn's.
func (c *client) Clustered() bool { return c.runs.clustered }

// Reconnects is bus.Conn's.
func (c *client) Reconnects() uint64 {
	c.loop.see()
	return c.returns
}

// Dropped is bus.Conn's: no heartbeat is dropped here unless its sender fails.
func (c *client) Dropped() uint64 { return 0 }

// LastEvent is bus.Reader's. An attempt that starts has one. It is answered at once.
func (c *client) LastEvent(_ context.Context, filter string) (uint64, error) {
	if c.loop.see(); !c.up || c.runs.down {
		return 0, errAway
	}
	return c.events[filter], nil
}

// Events is bus.Reader's. There are none.
func (c *client) Events(context.Context, string, uint64, int) ([]message, error) { return nil, nil }

// NextEvent is bus.Reader's. There is none.
func (c *client) NextEvent(context.Context, string, uint64) (message, error) {
	return message{}, bus.ErrNotFound
}

// Follow is bus.Reader's, without filters. There are no events.
func (c *client) Follow(ctx context.Context, name string, after uint64, _ []string, f func(message) error) error {
	for ctx.Err() == nil {
		var page []message
		if name == subject.Runs {
			page, _ = c.Records(ctx, "ao.runs.>", after, 100)
		}
		for _, m := range page {
			if err := f(m); err != nil {
				return err
			}
			after = m.Seq
		}
		if len(page) == 0 {
			pause(ctx, 100*time.Millisecond)
		}
	}
	return ctx.Err()
}

// Left is bus.Reader's.
func (c *client) Left() uint64 { return c.left.Load() }

// PutPart is bus.Store's.
func (c *client) PutPart(ctx context.Context, name string, n int, body []byte) error {
	_, err := ask(ctx, c, "part", func() (bool, error) {
		c.parts[name+"."+strconv.Itoa(n)] = body
		return true, nil
	})
	return err
}

// GetPart is bus.Store's.
func (c *client) GetPart(ctx context.Context, name string, n int) ([]byte, error) {
	return ask(ctx, c, "part", func() ([]byte, error) {
		body, ok := c.parts[name+"."+strconv.Itoa(n)]
		if !ok {
			return nil, bus.ErrNotFound
		}
		return body, nil
	})
}

// DropPayload is bus.Store's.
func (c *client) DropPayload(context.Context, string) error { return nil }

// DropPayloads is bus.Store's.
func (c *client) DropPayloads(context.Context, func(string, uint64, time.Time) bool) error {
	return nil
}

// CheckStorage is bus.Conn's.
func (c *client) CheckStorage(context.Context) error { return nil }

// pause waits.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
