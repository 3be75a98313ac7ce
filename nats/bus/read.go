package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Reader reads RUNS and EVENTS: single records, pages of them, and all that follow.
type Reader struct {
	*Conn
	// askCoordinator is used for records that this process has no permission to read.
	askCoordinator func(ctx context.Context, subject string, body []byte) ([]byte, error)
	verifiedLink   atomic.Pointer[link] // the connection in which RUNS was last checked to hold what FollowRuns read
	suspectTimeout time.Duration
	left           atomic.Uint64 // see Left

	stateMu     sync.Mutex
	nextState   *stateCall // not sent yet; nil: none
	askingState sync.Mutex // held by the stateCall that is sent
}

// Last returns the one message of a subject of RUNS, or ErrNotFound.
func (b *Reader) Last(ctx context.Context, subj string) (Message, error) {
	if b.cfg.Confined {
		return b.lastFromCoordinator(ctx, subj)
	}
	m, err := b.directGet(ctx, "$JS.API.DIRECT.GET."+subject.Runs+"."+subj, nil)
	return b.confirmMissing(ctx, m, err, subject.Runs, lookup{Subject: subj})
}

// RecordRequest asks a coordinator for a record of an attempt: whether a claim or end record without a reply is
// committed. The attempt's key in the subject proves the worker's right.
type RecordRequest struct {
	Subject string `json:"subject"`
}

// Record is the reply to a RecordRequest.
type Record struct {
	Seq  uint64    `json:"seq"`
	Body []byte    `json:"body"`
	At   time.Time `json:"at"`
}

// lastFromCoordinator is Last for a process without permission to read.
func (b *Reader) lastFromCoordinator(ctx context.Context, subj string) (m Message, err error) {
	ask, err := strictjson.Encode(RecordRequest{Subject: subj})
	if err != nil {
		return m, err
	}
	ctx, done := b.withDeadline(ctx, b.recordTimeout())
	defer done()
	answer, err := b.askCoordinator(ctx, subject.RunnerAPI(subject.OpRecord), ask)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return m, ErrNotFound
	case err != nil:
		return m, err
	}
	var r Record
	if err := json.Unmarshal(answer, &r); err != nil {
		return m, unavailable(fmt.Errorf("reply to %s: %w", subject.OpRecord, err))
	}
	return Message{Seq: r.Seq, Subject: subj, Body: r.Body, Time: r.At}, nil
}

// Get returns the message of RUNS with that sequence, or ErrNotFound.
func (b *Reader) Get(ctx context.Context, seq uint64) (Message, error) {
	what := lookup{Seq: seq}
	m, err := b.find(ctx, subject.Runs, what)
	return b.confirmMissing(ctx, m, err, subject.Runs, what)
}

// confirmMissing asks the stream's leader about a message that was not found, since a replica may lag.
func (b *Reader) confirmMissing(ctx context.Context, m Message, err error, stream string, what lookup) (Message,
	error) {
	if !errors.Is(err, ErrNotFound) || !b.clustered() {
		return m, err
	}
	m, _, err = b.leaderGet(ctx, stream, what)
	return m, err
}

// Events returns at most limit messages of EVENTS under a filter with sequences greater than after, in order.
func (b *Reader) Events(ctx context.Context, filter string, after uint64, limit int) ([]Message, error) {
	return b.read(ctx, subject.Events, filter, after, limit)
}

// NextEvent returns the first message of EVENTS under a filter with a sequence greater than after, or ErrNotFound.
func (b *Reader) NextEvent(ctx context.Context, filter string, after uint64) (Message, error) {
	return b.next(ctx, subject.Events, filter, after)
}

// next returns the first message of a stream under a filter with a sequence greater than after, or ErrNotFound.
// It asks for a single message: for a page the server would count what follows, over all subjects.
func (b *Reader) next(ctx context.Context, stream, filter string, after uint64) (Message, error) {
	what := lookup{Seq: after + 1, Next: filter}
	m, err := b.find(ctx, stream, what)
	return b.confirmMissing(ctx, m, err, stream, what)
}

// LastEvent returns the sequence of the newest message of EVENTS under a filter, 0 without one. In a cluster it
// asks the leader, since a replica may lag; while there is no leader it asks a replica.
func (b *Reader) LastEvent(ctx context.Context, filter string) (uint64, error) {
	what := lookup{Subject: filter}
	var m Message
	var err error
	if b.clustered() {
		m, _, err = b.leaderGet(ctx, subject.Events, what)
	}
	if !b.clustered() || err != nil && !errors.Is(err, ErrNotFound) {
		m, err = b.find(ctx, subject.Events, what)
	}
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return m.Seq, err
}

// Records returns at most limit messages of RUNS under a filter with sequences greater than after, in order.
func (b *Reader) Records(ctx context.Context, filter string, after uint64, limit int) ([]Message, error) {
	return b.read(ctx, subject.Runs, filter, after, limit)
}

// Counted returns how many records of RUNS match a filter, as the leader says: also those that it cannot read.
func (b *Reader) Counted(ctx context.Context, filter string) (n uint64, err error) {
	subjects, err := countedSubjects(ctx, b.Conn, subject.Runs, filter)
	for _, one := range subjects {
		n += one
	}
	return n, err
}

// countedSubjects returns how many messages a stream has of each subject under a filter, as its leader says.
func countedSubjects(ctx context.Context, b *Conn, stream, filter string) (map[string]uint64, error) {
	ctx, done := b.withDeadline(ctx, b.recordTimeout())
	defer done()
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return nil, asFault(ctx, err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, asFault(ctx, err)
	}
	return info.State.Subjects, nil
}

// HasRecords reports whether RUNS has a record with a sequence greater than after and at most last. In a
// cluster the leader confirms that there is none.
func (b *Reader) HasRecords(ctx context.Context, after, last uint64) (bool, error) {
	m, err := b.next(ctx, subject.Runs, anySubject, after)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && m.Seq <= last, err
}

// read reads pages until the limit or the end is reached.
func (b *Reader) read(ctx context.Context, stream, filter string, after uint64, limit int) (all []Message, err error) {
	err = each(ctx, b.Conn, stream, filter, after, limit, func(m Message, _ nats.Header) { all = append(all, m) })
	if err != nil {
		return nil, err
	}
	return all, nil
}

// each calls take with what read returns.
func each(ctx context.Context, b *Conn, stream, filter string, after uint64, limit int,
	take func(Message, nats.Header)) error {
	ctx, done := b.withConnection(ctx)
	defer done()
	for limit > 0 {
		n, last, more, err := page(ctx, b, stream, filter, after, min(limit, 1000), take)
		if err != nil {
			return asFault(ctx, err)
		}
		if !more || n == 0 {
			break
		}
		after, limit = last, limit-n
	}
	return nil
}

// page is one batched direct get. It returns how many messages it took, and the sequence of the last one.
func page(ctx context.Context, b *Conn, stream, filter string, after uint64, most int,
	take func(Message, nats.Header)) (n int, last uint64, more bool, err error) {
	ask, err := strictjson.Encode(map[string]any{"seq": after + 1, "next_by_subj": filter, "batch": most,
		"max_bytes": maxPull})
	if err != nil {
		return n, last, false, err
	}
	inbox := b.nc.NewInbox()
	sub, err := b.nc.SubscribeSync(inbox)
	if err != nil {
		return n, last, false, err
	}
	defer sub.Unsubscribe()
	if err := b.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, ask); err != nil {
		return n, last, false, err
	}
	for {
		r, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return n, last, false, err
		}
		if r.Header.Get("Status") == "204" { // end of the batch
			pending := r.Header.Get("Nats-Num-Pending")
			return n, last, pending != "0" && pending != "", nil
		}
		m, err := parseDirectGet(r)
		if errors.Is(err, ErrNotFound) {
			return n, last, false, nil
		}
		if err != nil {
			return n, last, false, err
		}
		take(m, r.Header)
		n, last = n+1, m.Seq
	}
}

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
