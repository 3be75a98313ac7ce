package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// lookup is which message is wanted: the one of a sequence, the last of a subject, or the first under a filter from a sequence on.
type lookup struct {
	Seq     uint64 `json:"seq,omitempty"`
	Subject string `json:"last_by_subj,omitempty"`
	Next    string `json:"next_by_subj,omitempty"`
}

// anything is the filter of a lookup that takes every message of a stream. Any other one has nats-server go through all subjects where
// the lookup begins at the stream's first message, and nothing is written meanwhile.
const anything = ">"

// leaders asks a stream's leader, who never lags behind as the other replicas may: what was written a moment ago is there.
func (b *Conn) leaders(ctx context.Context, stream string, what lookup) (m Message, header nats.Header, err error) {
	ctx, done := b.within(ctx, b.brief())
	defer done()
	ask, err := json.Marshal(what)
	if err != nil {
		return m, nil, err
	}
	var r *nats.Msg
	err = askAgain(ctx, func(ctx context.Context) (err error) {
		r, err = b.request(ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: ask}, b.brief())
		return err
	})
	if err != nil {
		return m, nil, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Body    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(r.Data, &answer); {
	case err != nil:
		return m, nil, err
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return m, nil, ErrNotFound
	case answer.Error != nil:
		return m, nil, away(ctx, wrap("stream "+stream, answer.Error))
	}
	if len(answer.Message.Header) > 0 {
		if header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return m, nil, err
		}
	}
	return Message{Seq: answer.Message.Seq, Subject: answer.Message.Subject, Body: answer.Message.Body, Time: answer.Message.Time}, header, nil
}

func (b *Conn) direct(ctx context.Context, api string, ask []byte) (Message, error) {
	ctx, done := b.within(ctx, b.brief())
	defer done()
	var r *nats.Msg
	err := askAgain(ctx, func(ctx context.Context) (err error) {
		r, err = b.request(ctx, &nats.Msg{Subject: api, Data: ask}, b.brief())
		return err
	})
	if err != nil {
		return Message{}, err
	}
	return stored(r)
}

// stored reads an answer of the direct get API.
func stored(r *nats.Msg) (Message, error) {
	switch status := r.Header.Get("Status"); status {
	case "":
	case "404":
		return Message{}, ErrNotFound
	default:
		return Message{}, fmt.Errorf("direct get: %s %s", status, r.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(r.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return Message{}, fmt.Errorf("direct get: sequence: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, r.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return Message{}, fmt.Errorf("direct get: time: %w", err)
	}
	return Message{Seq: seq, Subject: r.Header.Get("Nats-Subject"), Body: r.Data, Time: at}, nil
}
