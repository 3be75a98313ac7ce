package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// lookup selects a message: that of a sequence, the last of a subject, or the first that matches a filter from a
// sequence on.
type lookup struct {
	Seq     uint64 `json:"seq,omitempty"`
	Subject string `json:"last_by_subj,omitempty"`
	Next    string `json:"next_by_subj,omitempty"`
}

// anySubject is the filter for every message. Any other filter makes nats-server scan all subjects, with writes
// blocked, if the lookup starts at the stream's first message.
const anySubject = ">"

// leaderGet reads a message from the stream's leader, which never lags: it has what was just written.
func (b *Conn) leaderGet(ctx context.Context, stream string, what lookup) (m Message, header nats.Header, err error) {
	ask, err := strictjson.Encode(what)
	if err != nil {
		return m, nil, err
	}
	r, err := askAPI(ctx, b, "$JS.API.STREAM.MSG.GET."+stream, ask)
	if err != nil {
		return m, nil, err
	}
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Body    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(r.Data, &reply); {
	case err != nil:
		return m, nil, err
	case reply.Error != nil && reply.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return m, nil, ErrNotFound
	case reply.Error != nil:
		return m, nil, asFault(ctx, wrap("stream "+stream, reply.Error))
	}
	if len(reply.Message.Header) > 0 {
		header, err = nats.DecodeHeadersMsg(reply.Message.Header)
		if err != nil {
			return m, nil, err
		}
	}
	got := reply.Message
	return Message{Seq: got.Seq, Subject: got.Subject, Body: got.Body, Time: got.Time}, header, nil
}

// find asks the direct get API for a message, which any replica may reply.
func (b *Conn) find(ctx context.Context, stream string, what lookup) (Message, error) {
	ask, err := strictjson.Encode(what)
	if err != nil {
		return Message{}, err
	}
	return b.directGet(ctx, "$JS.API.DIRECT.GET."+stream, ask)
}

// directGet is find with a request for one of the API's subjects.
func (b *Conn) directGet(ctx context.Context, api string, ask []byte) (Message, error) {
	r, err := askAPI(ctx, b, api, ask)
	if err != nil {
		return Message{}, err
	}
	return parseDirectGet(r)
}

// askAPI asks JetStream until it replies.
func askAPI(ctx context.Context, b *Conn, api string, ask []byte) (*nats.Msg, error) {
	ctx, done := b.withDeadline(ctx, b.recordTimeout())
	defer done()
	return retryRequest(ctx, func(ctx context.Context) (*nats.Msg, error) {
		return b.request(ctx, &nats.Msg{Subject: api, Data: ask}, b.recordTimeout())
	})
}

// parseDirectGet reads a reply of the direct get API.
func parseDirectGet(r *nats.Msg) (Message, error) {
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
