package client

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Message is one server-sent event.
type Message struct {
	ID   string // last id of the stream, from this message or an earlier one
	Name string // "message" if the stream gives none
	Data []byte
}

// maxLine limits a line and a message of a stream, in bytes: the largest result with its escapes.
const maxLine = 64 << 20

// stream reads server-sent events (HTML standard).
type stream struct {
	lines *bufio.Scanner
	id    string
	Retry time.Duration // pause before a new connection, as the server requested; 0: none
}

// newStream reads from r; last is the id before its first message.
func newStream(r io.Reader, last string) *stream {
	s := &stream{lines: bufio.NewScanner(r), id: last}
	s.lines.Buffer(make([]byte, 0, 4096), maxLine)
	s.lines.Split(splitLines())
	return s
}

// Next returns the next complete message. An incomplete one at the end is dropped; a reconnect gets it again.
func (s *stream) Next() (Message, error) {
	m := Message{}
	var data []string
	size := 0
	for s.lines.Scan() {
		line := s.lines.Text()
		if line == "" {
			if data == nil {
				m.Name = ""
				continue
			}
			m.ID, m.Name, m.Data = s.id, cmp.Or(m.Name, "message"), []byte(strings.Join(data, "\n"))
			return m, nil
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			m.Name = value
		case "data":
			if size += len(value) + 1; size > maxLine {
				return Message{}, fmt.Errorf("event stream: a message has more than %d bytes", maxLine)
			}
			data = append(data, value)
		case "id":
			if !strings.ContainsRune(value, 0) {
				s.id = value
			}
		case "retry":
			if n, err := strconv.Atoi(value); err == nil && n >= 0 {
				s.Retry = time.Duration(min(n, 60_000)) * time.Millisecond
			}
		}
	}
	if err := s.lines.Err(); err != nil {
		return Message{}, fmt.Errorf("event stream: %w", err)
	}
	return Message{}, io.EOF
}

// splitLines splits at LF, CR and CRLF without waiting for the byte after a CR, and drops a byte order mark.
func splitLines() bufio.SplitFunc {
	first, afterCR := true, false
	return func(data []byte, atEOF bool) (int, []byte, error) {
		skip := 0
		if afterCR && len(data) > 0 {
			afterCR = false
			if data[0] == '\n' {
				skip = 1
			}
		}
		rest := data[skip:]
		i := bytes.IndexAny(rest, "\r\n")
		if i < 0 {
			return skip, nil, nil // without a line end it is not a line, even at the end
		}
		afterCR = rest[i] == '\r'
		line := rest[:i]
		if first {
			first, line = false, bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		return skip + i + 1, line, nil
	}
}
