package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"ao/nats/stream"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// maxBatch is the largest atomic batch the server accepts, in messages. maxBatchBytes is our own limit.
const (
	maxBatch      = 1000
	maxBatchBytes = 8 << 20
)

// maxBatches is how many batches one process has in flight. The server accepts 50 at once from all writers to a stream.
const maxBatches = 16

// pubAck is JetStream's reply to a publish.
type pubAck struct {
	Seq       uint64 `json:"seq"`
	Count     int    `json:"count"`
	Duplicate bool   `json:"duplicate"` // the message's ID is taken, by the message with that sequence
	Error     *struct {
		Code    int    `json:"code"`
		ErrCode int    `json:"err_code"`
		Text    string `json:"description"`
	} `json:"error"`
}

// parsePubAck parses the usual reply fast, {"stream":…,"seq":N}.
func parsePubAck(answer []byte) (seq uint64, ok bool) {
	members := 0
	err := strictjson.Scan(answer, func(key, value []byte) {
		switch string(key) {
		case "seq":
			seq = strictjson.Uint(value)
		case "stream", "domain":
		default: // an error, or a batch
			members++
		}
	})
	return seq, err == nil && members == 0 && seq > 0
}

// checkPubAck reads the reply to a publish. The error is ErrTaken, a fault, or a *refusal with another code.
func checkPubAck(r *nats.Msg) (pubAck, error) {
	if seq, ok := parsePubAck(r.Data); ok {
		return pubAck{Seq: seq}, nil
	}
	var a pubAck
	if err := json.Unmarshal(r.Data, &a); err != nil {
		return a, unavailable(fmt.Errorf("answer to a publish: %w", err))
	}
	if a.Error == nil {
		return a, nil
	}
	no := &refusal{a.Error.ErrCode, a.Error.Text}
	switch {
	case no.code == codeStoreFailed && no.text == maxMsgsPerSubjectText,
		no.code == codeWrongLast, no.code == codeDuplicate:
		return a, ErrTaken
	case no.code == codeStoreFailed && (no.text == maxBytesText || no.text == maxMsgsText):
		return a, fault.Wrap(fault.Unavailable, "", "The history is full; raise its limit or keep fewer runs",
			no).After(30 * time.Second)
	case no.code == codeIncomplete, no.code == codeManyBatches:
		return a, tooManyBatches(no)
	case no.code == codeInFlight, no.code == codeDuplicateInFlight, no.code == codeNoLeader, a.Error.Code == 503,
		a.Error.Code == 429:
		return a, unavailable(no)
	}
	return a, no
}

// checkRecordAck is checkPubAck for a record: a run's first one counts, whatever a second one with its ID says.
func checkRecordAck(r *nats.Msg) (pubAck, error) {
	a, err := checkPubAck(r)
	if err == nil && a.Duplicate {
		err = ErrTaken
	}
	return a, err
}

// Log appends: records to RUNS, each under its own subject, and events.
type Log struct {
	*Conn
	verifier stream.Verifier
	group    *group        // may be another Bus's (Config.GroupWith)
	slots    chan struct{} // one for each AppendBatch in flight
}

func newLog(conn *Conn, reader *Reader) *Log {
	b := &Log{Conn: conn, slots: make(chan struct{}, maxBatches),
		verifier: stream.Verifier{Last: reader.Last, Clustered: conn.clustered}}
	b.group = newGroup(b)
	if conn.cfg.GroupWith != nil {
		b.group = conn.cfg.GroupWith.group
	}
	return b
}

// Append writes one message to a subject that has none. The error is ErrTaken if it has one, or if the ID is taken.
// After an Unavailable fault the message may have been written (see AppendAndVerify). Concurrent appends share a sync
// to disk; a single append never waits for others.
func (b *Log) Append(ctx context.Context, e Entry) (seq uint64, err error) {
	seq, err = b.group.append(ctx, e)
	if errors.Is(err, ErrTaken) {
		return 0, b.verifier.ConfirmTaken(ctx, e.Subject)
	}
	return seq, err
}

// publish writes one message without a batch.
func (b *Log) publish(ctx context.Context, e Entry) (uint64, error) {
	began := b.meter.single.Start()
	m := &nats.Msg{Subject: e.Subject, Data: e.Body, Header: e.header()}
	r, err := b.write(ctx, m, b.recordTimeout(), subject.Runs)
	b.meter.single.ObserveSince(began)
	if err != nil {
		return 0, err
	}
	a, err := checkRecordAck(r)
	if errors.Is(err, ErrTaken) {
		b.meter.taken.Inc()
	}
	b.sinks[subject.Runs].noteRefusal(err)
	return a.Seq, err
}

// AppendBatch writes all entries as one atomic batch and returns the last sequence. After ErrTaken (at least one
// subject has its message, or one ID is taken) and ErrTooManyBatches nothing was written; after the latter use
// AppendEach. If NATS crashes meanwhile, a prefix of the batch may remain: readers must continue from each prefix.
func (b *Log) AppendBatch(ctx context.Context, entries ...Entry) (seq uint64, err error) {
	switch {
	case len(entries) == 0:
		return 0, nil
	case len(entries) == 1:
		seq, err = b.publish(ctx, entries[0])
	case len(entries) > maxBatch:
		return 0, fault.Newf(fault.TooLarge, "%d records at once: at most %d", len(entries), maxBatch)
	default:
		var release func()
		release, err = b.batchSlot(ctx)
		if err == nil {
			seq, err = b.tryBatch(ctx, entries)
			release()
		}
	}
	if errors.Is(err, ErrTaken) {
		subjects := make([]string, len(entries))
		for i, e := range entries {
			subjects[i] = e.Subject
		}
		return 0, b.verifier.ConfirmTaken(ctx, subjects...)
	}
	return seq, err
}

// AppendEach writes entries one after the other and returns the last sequence. It stops at the first error;
// earlier entries stay.
func (b *Log) AppendEach(ctx context.Context, entries ...Entry) (seq uint64, err error) {
	for _, e := range entries {
		seq, err = b.Append(ctx, e)
		if err != nil {
			return 0, err
		}
	}
	return seq, nil
}

// batchSlot waits until fewer than maxBatches are in flight. Group commit needs no slot: it has one batch in
// flight at most.
func (b *Log) batchSlot(ctx context.Context) (release func(), err error) {
	wait, done := b.withDeadline(ctx, b.recordTimeout())
	defer done()
	select {
	case b.slots <- struct{}{}:
		return func() { <-b.slots }, nil
	case <-wait.Done():
	}
	if ctx.Err() == nil && errors.Is(wait.Err(), context.DeadlineExceeded) {
		return nil, tooManyBatches(wait.Err())
	}
	return nil, asFault(wait, wait.Err())
}

// tooManyBatches is the fault for a refused batch. A server with a full disk refuses with the same code as one
// with too many batches.
func tooManyBatches(cause error) error {
	const message = "NATS refused a batch of records: too many at once, or its disk is full; nothing was written, " +
		"try again in a moment"
	return fault.Wrap(fault.Unavailable, "", message, errors.Join(ErrTooManyBatches, cause)).After(time.Second)
}

// ErrTooManyBatches is in AppendBatch's fault when NATS accepts no further batch. It still accepts single records.
var ErrTooManyBatches = errors.New("too many batches at once")

// tryBatch sends one atomic batch. Only the last message, which commits, gets a reply.
func (b *Log) tryBatch(ctx context.Context, entries []Entry) (uint64, error) {
	if err := ctx.Err(); err != nil { // an uncommitted batch would stay open on the server
		return 0, asFault(ctx, err)
	}
	if err := b.sinks[subject.Runs].condition().err; err != nil {
		return 0, err
	}
	began, at := b.meter.batch.Start(), []string{""}
	m := &nats.Msg{Header: nats.Header{"Nats-Batch-Id": {nuid.Next()}, "Nats-Batch-Sequence": at}} // of each in turn
	var r *nats.Msg
	for i, e := range entries {
		m.Subject, m.Data, at[0] = e.Subject, e.Body, strconv.Itoa(i+1)
		delete(m.Header, nats.MsgIdHdr)
		if e.ID != "" {
			m.Header[nats.MsgIdHdr] = []string{e.ID}
		}
		var err error
		if i < len(entries)-1 {
			err = asFault(ctx, b.nc.PublishMsg(m))
		} else {
			m.Header["Nats-Batch-Commit"] = []string{"1"}
			r, err = b.write(ctx, m, b.recordTimeout(), subject.Runs)
		}
		if err != nil {
			return 0, err
		}
	}
	b.meter.batch.ObserveSince(began)
	b.meter.batchSize.Observe(float64(len(entries)))
	a, err := checkRecordAck(r)
	if errors.Is(err, ErrTaken) {
		b.meter.taken.Inc()
	}
	b.sinks[subject.Runs].noteRefusal(err)
	if err == nil && a.Count != len(entries) {
		// An older server takes the commit for an ordinary message.
		return 0, fmt.Errorf("atomic batch of %d: the server took %d; nats-server %s or newer is needed",
			len(entries), a.Count, MinServer)
	}
	return a.Seq, err
}

// AppendAndVerify is Append that settles the outcome: after a refusal or no reply it reads the record back.
// isOwn reports whether a body is the caller's (by a nonce). nil: the record is the caller's. ErrTaken: it is
// another's. An Unavailable fault: unknown; call it again, and keep what depends on it.
func (b *Log) AppendAndVerify(ctx context.Context, e Entry, isOwn func(body []byte) bool) (seq uint64, err error) {
	return b.verifier.Append(ctx, e.Subject, func() (uint64, error) { return b.group.append(ctx, e) }, isOwn)
}

// Truncate purges RUNS below a sequence.
func (b *Log) Truncate(ctx context.Context, before uint64) error {
	return purge(ctx, b.Conn, subject.Runs, jetstream.WithPurgeSequence(before))
}

// Purge removes the messages of a stream under a filter, up to but not including a sequence (0: all).
func (b *Log) Purge(ctx context.Context, stream, filter string, before uint64) error {
	opts := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(filter)}
	if before > 0 {
		opts = append(opts, jetstream.WithPurgeSequence(before))
	}
	return purge(ctx, b.Conn, stream, opts...)
}

func purge(ctx context.Context, b *Conn, stream string, opts ...jetstream.StreamPurgeOpt) error {
	ctx, done := b.withConnection(ctx)
	defer done()
	s, err := b.js.Stream(ctx, stream)
	if err == nil {
		err = s.Purge(ctx, opts...)
	}
	return asFault(ctx, wrap("purge "+stream, err))
}
