package ao

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const idleTimeout = time.Minute // of a stream; coordinators send a comment every 15 s

// frame is one server-sent event.
type frame struct {
	id   string // last id of the stream, from this frame or an earlier one
	name string // "message" if the stream gives none
	data []byte
}

// stream reads server-sent events, as coordinators send them: lines end with LF or CRLF.
type stream struct {
	lines      *bufio.Scanner
	max        int           // bytes of a frame, and of a line
	id         string        // of the last frame
	retry      time.Duration // pause before a new connection, as the server asks; 0: none
	opened, at time.Time     // when it was opened, and when the last line came
	idle       *time.Timer   // ends the connection
	close      func()
}

// open opens a stream after a position; empty: from now on.
func (c *Client) open(ctx context.Context, call Call, after string) (*stream, error) {
	header := http.Header{"Accept": {"text/event-stream"}}
	if after != "" {
		header.Set("Last-Event-Id", after)
	}
	connected, cancel := context.WithCancelCause(ctx)
	timeout := time.AfterFunc(answerTimeout, func() { cancel(context.DeadlineExceeded) })
	res, err := c.send(connected, call, header)
	if err != nil {
		err = c.unreachable(ctx, cmp.Or(context.Cause(connected), err))
	} else if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK ||
		!strings.HasPrefix(kind, "text/event-stream") {
		var a Answer
		a, err = c.read(ctx, res)
		err = cmp.Or(err, c.foreign(a))
	}
	timeout.Stop()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	s := newStream(res.Body, after, maxAnswer)
	s.idle = time.AfterFunc(idleTimeout, func() { cancel(nil) })
	s.close = func() {
		s.idle.Stop()
		cancel(nil)
		_ = res.Body.Close()
	}
	return s, nil
}

// newStream reads frames of at most max bytes from r; last is the id before the first.
func newStream(r io.Reader, last string, max int) *stream {
	s := &stream{lines: bufio.NewScanner(r), max: max, id: last, opened: time.Now(), at: time.Now()}
	s.lines.Buffer(make([]byte, 0, 4096), max)
	return s
}

// next returns the next complete frame. An incomplete one at the end is dropped; a reconnect gets it again.
func (s *stream) next() (frame, error) {
	f := frame{}
	var data []string
	size := 0
	for s.scan() {
		line := s.lines.Text()
		if line == "" {
			if data == nil {
				f.name = ""
				continue
			}
			return frame{s.id, cmp.Or(f.name, "message"), []byte(strings.Join(data, "\n"))}, nil
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			f.name = value
		case "data":
			if size += len(value) + 1; size > s.max {
				return f, fmt.Errorf("a message has more than %d bytes", s.max)
			}
			data = append(data, value)
		case "id":
			if !strings.ContainsRune(value, 0) {
				s.id = value
			}
		case "retry":
			if n, err := strconv.Atoi(value); err == nil && n >= 0 {
				s.retry = time.Duration(min(n, 60_000)) * time.Millisecond
			}
		}
	}
	return f, cmp.Or(s.lines.Err(), errEnded)
}

// scan reads a line. Without any for too long the connection ends.
func (s *stream) scan() bool {
	if s.idle != nil {
		s.idle.Reset(idleTimeout)
		defer s.idle.Stop()
	}
	ok := s.lines.Scan()
	if ok {
		s.at = time.Now()
	}
	return ok
}

var errEnded = errors.New("it ended too early")

// streamOutage spaces the connections of a stream, even where the server does not ask for a pause.
func (c *Client) streamOutage() outage { return outage{c: c, least: 4 * c.firstPause} }

// broken ends a connection: out learns what the server asks for, and whether the stream was only quiet.
func (s *stream) broken(out *outage) {
	out.least = max(out.least, s.retry)
	if s.at.Sub(s.opened) > maxPauses*out.c.firstPause {
		out.end()
	}
}
