// Package rejected lists the messages that publishers left in the inbox and that were refused, with the reasons.
package rejected

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"ao/nats/bus"
	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/fault"
)

// maxBody is how many bytes are shown of a body.
const maxBody = 4 << 10

// Message is a refused message.
type Message struct {
	Sequence uint64    `json:"sequence"` // in the stream REJECTED
	Time     time.Time `json:"time"`     // when it was refused
	Subject  string    `json:"subject"`  // where it was published
	Reason   string    `json:"reason"`
	// its beginning; null: it is no publisher's, and may hold a run's key
	Body      *string `json:"body"`
	Bytes     int     `json:"bytes"` // of the whole body
	Truncated bool    `json:"truncated,omitempty"`
}

// Page is a page of messages, newest first.
type Page struct {
	Messages []Message `json:"messages"`
	Next     string    `json:"next_cursor,omitempty"` // empty: this is the last page
}

// source is the stream.
type source interface {
	StreamState(ctx context.Context, stream string) (stream.State, error)
	Rejected(ctx context.Context, after uint64, limit, most int) ([]bus.Rejected, error)
}

// Reader reads refused messages.
type Reader struct{ from source }

// NewReader returns a Reader of a stream.
func NewReader(from source) *Reader { return &Reader{from} }

// Rejected returns the newest messages. The page after one begins at its cursor.
func (r *Reader) Rejected(ctx context.Context, cursor string, limit int) (Page, error) {
	p := Page{Messages: []Message{}}
	state, err := r.from.StreamState(ctx, subject.Rejected)
	if err != nil {
		return p, err
	}
	below := state.Last + 1 // they are yet to be read
	if cursor != "" {
		n, err := strconv.ParseUint(cursor, 10, 63)
		if err != nil {
			return p, fault.Newf(fault.Invalid, "cursor %.80q is not valid: send next_cursor of the page before",
				cursor).With("field", "cursor")
		}
		below = min(below, n)
	}
	first := max(state.First, 1)
	if below <= first {
		return p, nil
	}
	from := max(first, below-min(below, uint64(limit)))
	all, err := r.from.Rejected(ctx, from-1, int(below-from), maxBody)
	if err != nil {
		return p, err
	}
	for _, m := range slices.Backward(all) {
		if m.Seq < below {
			p.Messages = append(p.Messages, shown(m))
		}
	}
	if from > first {
		p.Next = strconv.FormatUint(from, 10)
	}
	return p, nil
}

// shown returns a message as the API shows it.
func shown(m bus.Rejected) Message {
	one := Message{Sequence: m.Seq, Time: m.Time.UTC(), Subject: m.From, Reason: m.Reason, Bytes: m.Bytes,
		Truncated: m.Bytes > len(m.Body)}
	if subject.IsInbox(m.From) {
		text := strings.ToValidUTF8(string(m.Body), "\uFFFD")
		one.Body = &text
	}
	return one
}
