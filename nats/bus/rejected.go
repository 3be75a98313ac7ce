package bus

import (
	"context"
	"strconv"

	"ao/nats/subject"

	"github.com/nats-io/nats.go"
)

// Rejected is a message of REJECTED: why it was refused, and where it had been published.
type Rejected struct {
	Message
	Reason string
	From   string // its first subject
	Bytes  int    // of its whole body
}

// Rejected returns at most limit messages of REJECTED with sequences greater than after, in order. Their bodies are cut
// to most bytes.
func (b *Reader) Rejected(ctx context.Context, after uint64, limit, most int) (all []Rejected, err error) {
	err = each(ctx, b.Conn, subject.Rejected, subject.AllRejected, after, limit, func(m Message, h nats.Header) {
		r := Rejected{Message: m, Reason: h.Get("Ao-Reason"), From: h.Get("Ao-Subject"), Bytes: len(m.Body)}
		if whole, err := strconv.Atoi(h.Get("Ao-Bytes")); err == nil {
			r.Bytes = whole
		}
		r.Body = append([]byte(nil), m.Body[:min(len(m.Body), most)]...) // the rest of the message is let go
		all = append(all, r)
	})
	return all, err
}
