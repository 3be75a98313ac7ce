package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"
)

// Reader reads RUNS and EVENTS: single records, pages of them, and all that comes.
type Reader struct {
	*Conn
	asks      func(ctx context.Context, subject string, body []byte) ([]byte, error) // of a coordinator, what may not be read
	states    states
	seen      atomic.Pointer[link] // the one in which RUNS was last seen to hold what FollowRuns has read of it
	disbelief time.Duration
}

// Last gives the one message of a subject of RUNS, or ErrNotFound.
func (b *Reader) Last(ctx context.Context, subj string) (Message, error) {
	if b.cfg.Confined {
		return b.told(ctx, subj)
	}
	m, err := b.direct(ctx, "$JS.API.DIRECT.GET."+subject.Runs+"."+subj, nil)
	return b.surely(ctx, m, err, subject.Runs, lookup{Subject: subj})
}

// RecordRequest asks a coordinator for a record of an attempt, whose key is in the subject and proves that the worker may: whether
// the claim, or the last word, that was not answered stands.
type RecordRequest struct {
	Subject string `json:"subject"`
}

// Record is what stands under a subject of RUNS, as a coordinator tells it.
type Record struct {
	Seq  uint64    `json:"seq"`
	Body []byte    `json:"body"`
	At   time.Time `json:"at"`
}

// told is Last of who may not read: a coordinator looks.
func (b *Reader) told(ctx context.Context, subj string) (m Message, err error) {
	ask, err := json.Marshal(RecordRequest{Subject: subj})
	if err != nil {
		return m, err
	}
	ctx, done := b.within(ctx, b.brief())
	defer done()
	answer, err := b.asks(ctx, subject.RunnerAPI(subject.OpRecord), ask)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return m, ErrNotFound
	case err != nil:
		return m, err
	}
	var r Record
	if err := json.Unmarshal(answer, &r); err != nil {
		return m, unreachable(fmt.Errorf("answer to %s: %w", subject.OpRecord, err))
	}
	return Message{Seq: r.Seq, Subject: subj, Body: r.Body, Time: r.At}, nil
}

// Get gives the message of RUNS with that sequence, or ErrNotFound.
func (b *Reader) Get(ctx context.Context, seq uint64) (Message, error) {
	m, err := b.direct(ctx, "$JS.API.DIRECT.GET."+subject.Runs, []byte(`{"seq":`+strconv.FormatUint(seq, 10)+`}`))
	return b.surely(ctx, m, err, subject.Runs, lookup{Seq: seq})
}

// surely asks a stream's leader for what there is none of: in a cluster any replica may have said so, and have yet to catch up.
func (b *Reader) surely(ctx context.Context, m Message, err error, stream string, what lookup) (Message, error) {
	if !errors.Is(err, ErrNotFound) || !b.clustered() {
		return m, err
	}
	m, _, err = b.leaders(ctx, stream, what)
	return m, err
}

// Events gives at most limit messages of EVENTS under a filter, with sequences greater than after, in order.
func (b *Reader) Events(ctx context.Context, filter string, after uint64, limit int) ([]Message, error) {
	return b.read(ctx, subject.Events, filter, after, limit)
}

// NextEvent gives the first message of EVENTS under a filter with a sequence greater than after, or ErrNotFound.
func (b *Reader) NextEvent(ctx context.Context, filter string, after uint64) (Message, error) {
	return b.next(ctx, subject.Events, filter, after)
}

// next gives the first message of a stream under a filter with a sequence greater than after, or ErrNotFound. It asks for the message
// alone: a page of one would have the server count what follows, over all subjects of the stream.
func (b *Reader) next(ctx context.Context, stream, filter string, after uint64) (Message, error) {
	what := lookup{Seq: after + 1, Next: filter}
	ask, err := json.Marshal(what)
	if err != nil {
		return Message{}, err
	}
	m, err := b.direct(ctx, "$JS.API.DIRECT.GET."+stream, ask)
	return b.surely(ctx, m, err, stream, what)
}

// LastEvent gives the sequence of the newest message of EVENTS under a filter, 0 where there is none. In a cluster the leader says so: any
// other replica may have yet to hear of it. While there is no leader what a replica knows has to do.
func (b *Reader) LastEvent(ctx context.Context, filter string) (uint64, error) {
	what := lookup{Subject: filter}
	ask, err := json.Marshal(what)
	if err != nil {
		return 0, err
	}
	var m Message
	if b.clustered() {
		m, _, err = b.leaders(ctx, subject.Events, what)
	}
	if !b.clustered() || err != nil && !errors.Is(err, ErrNotFound) {
		m, err = b.direct(ctx, "$JS.API.DIRECT.GET."+subject.Events, ask)
	}
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return m.Seq, err
}

// Records gives at most limit messages of RUNS under a filter, with sequences greater than after, in order.
func (b *Reader) Records(ctx context.Context, filter string, after uint64, limit int) ([]Message, error) {
	return b.read(ctx, subject.Runs, filter, after, limit)
}

// HasRecords tells whether RUNS holds any record with a sequence greater than after and at most as great as last. In a cluster its leader
// says that there is none: a replica that lags, or cannot write any more, says so of what it has yet to get.
func (b *Reader) HasRecords(ctx context.Context, after, last uint64) (bool, error) {
	m, err := b.next(ctx, subject.Runs, anything, after)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && m.Seq <= last, err
}

// read asks for pages until the limit or the end is reached.
func (b *Reader) read(ctx context.Context, stream, filter string, after uint64, limit int) ([]Message, error) {
	ctx, done := b.linked(ctx)
	defer done()
	var all []Message
	for len(all) < limit {
		page, more, err := b.page(ctx, stream, filter, after, min(limit-len(all), 1000))
		if err != nil {
			return nil, away(ctx, err)
		}
		all = append(all, page...)
		if !more || len(page) == 0 {
			break
		}
		after = page[len(page)-1].Seq
	}
	return all, nil
}

// page is one batched direct get.
func (b *Reader) page(ctx context.Context, stream, filter string, after uint64, n int) (page []Message, more bool, err error) {
	ask, err := json.Marshal(map[string]any{"seq": after + 1, "next_by_subj": filter, "batch": n, "max_bytes": 4 << 20})
	if err != nil {
		return nil, false, err
	}
	inbox := b.nc.NewInbox()
	sub, err := b.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, false, err
	}
	defer sub.Unsubscribe()
	if err := b.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, ask); err != nil {
		return nil, false, err
	}
	for {
		r, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, false, err
		}
		if r.Header.Get("Status") == "204" { // end of the batch
			pending := r.Header.Get("Nats-Num-Pending")
			return page, pending != "0" && pending != "", nil
		}
		m, err := stored(r)
		if errors.Is(err, ErrNotFound) {
			return page, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		page = append(page, m)
	}
}
