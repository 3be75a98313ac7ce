package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// maxBatch is the largest atomic batch the server takes, maxBatchBytes what we put into one.
const (
	maxBatch      = 1000
	maxBatchBytes = 8 << 20
)

// maxBatches is how many batches one process has under way. The server takes 50 at once for all that write to a stream.
const maxBatches = 16

// pubAck is JetStream's answer to a publish.
type pubAck struct {
	Seq   uint64 `json:"seq"`
	Count int    `json:"count"`
	Error *struct {
		Code    int    `json:"code"`
		ErrCode int    `json:"err_code"`
		Text    string `json:"description"`
	} `json:"error"`
}

// written reads the usual answer, {"stream":…,"seq":N}, without more work than it needs.
func written(answer []byte) (seq uint64, ok bool) {
	members := 0
	err := strictjson.Scan(answer, func(key, value []byte) {
		switch string(key) {
		case "seq":
			seq = strictjson.Number(value)
		case "stream", "domain":
		default: // an error, or a batch
			members++
		}
	})
	return seq, err == nil && members == 0 && seq > 0
}

// verdict reads the answer to a publish: ErrTaken, a fault, or a *refusal with nothing said about why.
func verdict(r *nats.Msg) (pubAck, error) {
	if seq, ok := written(r.Data); ok {
		return pubAck{Seq: seq}, nil
	}
	var a pubAck
	if err := json.Unmarshal(r.Data, &a); err != nil {
		return a, unreachable(fmt.Errorf("answer to a publish: %w", err))
	}
	if a.Error == nil {
		return a, nil
	}
	no := &refusal{a.Error.ErrCode, a.Error.Text}
	switch {
	case no.code == codeStoreFailed && no.text == perSubject, no.code == codeWrongLast:
		return a, ErrTaken
	case no.code == codeStoreFailed && no.text == maxBytes:
		return a, fault.Wrap(fault.Unavailable, "", "The history is full; raise its size or keep fewer runs", no).After(30 * time.Second)
	case no.code == codeIncomplete, no.code == codeManyBatches:
		return a, crowded(no)
	case no.code == codeInFlight, no.code == codeNoLeader, a.Error.Code == 503, a.Error.Code == 429:
		return a, unreachable(no)
	}
	return a, no
}

// Log writes: records to RUNS, each under a subject of its own, and events.
type Log struct {
	*Conn
	reader  *Reader
	group   *group        // perhaps another Bus's (Config.With)
	slots   chan struct{} // one for each batch of AppendBatch that is under way
	crowded atomic.Int64  // until when a batch that is refused is not sent again, in nanoseconds
}

func newLog(conn *Conn, reader *Reader) *Log {
	b := &Log{Conn: conn, reader: reader, slots: make(chan struct{}, maxBatches)}
	if b.group = newGroup(b); conn.cfg.GroupWith != nil {
		b.group = conn.cfg.GroupWith.group
	}
	return b
}

// Append writes one message whose subject has none yet. ErrTaken: it has. An Unavailable fault may mean that
// it was written all the same (see AppendAndVerify). Appends that wait at the same moment share one write to disk; a lone
// one never waits for company.
func (b *Log) Append(ctx context.Context, e Entry) (seq uint64, err error) {
	seq, err = b.group.append(ctx, e)
	if errors.Is(err, ErrTaken) {
		return 0, b.sure(ctx, e)
	}
	return seq, err
}

// sure makes certain that a refusal is for good: a cluster's leader refuses also for the sake of a write that is still on its
// way, and may die with it.
func (b *Log) sure(ctx context.Context, entries ...Entry) error {
	if !b.clustered() {
		return ErrTaken
	}
	_, err := b.find(ctx, entries...)
	switch {
	case err == nil:
		return ErrTaken
	case errors.Is(err, ErrNotFound):
		return neither(err)
	}
	return err
}

// find gives the first message that one of the subjects has. In a cluster it looks for a second: who answers may lag behind.
func (b *Log) find(ctx context.Context, entries ...Entry) (Message, error) {
	for pause, end := 2*time.Millisecond, time.Now().Add(time.Second); ; pause *= 2 {
		for _, e := range entries {
			if m, err := b.reader.Last(ctx, e.Subject); !errors.Is(err, ErrNotFound) {
				return m, err
			}
		}
		if !b.clustered() || time.Now().Add(pause).After(end) || ctx.Err() != nil {
			return Message{}, ErrNotFound
		}
		rest(ctx, pause)
	}
}

// neither is what became of a record that is not there; where NATS does not write at all, that is what is to be told.
func neither(cause error) error {
	if errors.Is(cause, ErrStorageFailing) {
		return cause
	}
	return fault.Wrap(fault.Unavailable, "", "The record was neither written nor refused for good; try again", cause).After(time.Second)
}

// publish writes one message by itself.
func (b *Log) publish(ctx context.Context, e Entry) (uint64, error) {
	began := b.meter.alone.Start()
	r, err := b.write(ctx, &nats.Msg{Subject: e.Subject, Data: e.Body}, b.brief(), subject.Runs)
	b.meter.alone.ObserveSince(began)
	if err != nil {
		return 0, err
	}
	a, err := verdict(r)
	if errors.Is(err, ErrTaken) {
		b.meter.taken.Inc()
	}
	return a.Seq, err
}

// AppendBatch writes all entries as one batch, next to each other in the stream, and gives the last one's sequence.
// ErrTaken: at least one subject has its message, nothing was written. ErrTooManyBatches: nothing was written, AppendEach may
// do. A NATS that crashes meanwhile may leave the first of them: whoever reads them has to go on from each such
// beginning (decision 0033).
func (b *Log) AppendBatch(ctx context.Context, entries ...Entry) (seq uint64, err error) {
	switch {
	case len(entries) == 0:
		return 0, nil
	case len(entries) == 1:
		seq, err = b.publish(ctx, entries[0])
	case len(entries) > maxBatch:
		return 0, fault.Newf(fault.TooLarge, "%d records at once: at most %d", len(entries), maxBatch)
	default:
		var free func()
		if free, err = b.slot(ctx); err == nil {
			seq, err = b.insist(ctx, func() (uint64, error) { return b.tryBatch(ctx, entries) })
			free()
		}
	}
	if errors.Is(err, ErrTaken) {
		return 0, b.sure(ctx, entries...)
	}
	return seq, err
}

// AppendEach writes entries one after the other, in their order, and gives the last one's sequence. At the first that
// is refused or not answered it stops: those before it stand.
func (b *Log) AppendEach(ctx context.Context, entries ...Entry) (seq uint64, err error) {
	for _, e := range entries {
		if seq, err = b.Append(ctx, e); err != nil {
			return 0, err
		}
	}
	return seq, nil
}

// slot waits until fewer than maxBatches are under way. Group commit has no need of one: it has one batch under way at most.
func (b *Log) slot(ctx context.Context) (free func(), err error) {
	wait, done := b.within(ctx, b.brief())
	defer done()
	select {
	case b.slots <- struct{}{}:
		return func() { <-b.slots }, nil
	case <-wait.Done():
	}
	if ctx.Err() == nil && errors.Is(wait.Err(), context.DeadlineExceeded) {
		return nil, crowded(wait.Err())
	}
	return nil, away(wait, wait.Err())
}

// crowded is a batch that was not taken. A server whose disk is full cannot put its members aside, and says the same as one with too many.
func crowded(cause error) error {
	return fault.Wrap(fault.Unavailable, "", "NATS took no batch of records: there are too many at once, or its disk is full; nothing was written, try again in a moment", errors.Join(ErrTooManyBatches, cause)).After(time.Second)
}

// ErrTooManyBatches is in the fault of AppendBatch when NATS takes no further batch. Single records are still taken.
var ErrTooManyBatches = errors.New("too many batches at once")

// doubt is how long nobody else insists after a batch was refused in vain.
const doubt = 2 * time.Second

// insist writes a batch, which is sent only once where another was refused in vain a moment ago: whoever has thousands
// to write would wait for each of them.
func (b *Log) insist(ctx context.Context, try func() (uint64, error)) (uint64, error) {
	left := 500 * time.Millisecond
	if time.Now().UnixNano() < b.crowded.Load() {
		left = 0
	}
	seq, err := insist(ctx, left, try)
	if errors.Is(err, ErrTooManyBatches) {
		b.crowded.Store(time.Now().Add(doubt).UnixNano())
	}
	return seq, err
}

// insist writes a batch. What the server refuses since it has too many from all processes is sent again, with pauses of
// so much time left in all: one that is slow to refuse is asked as often, for half a minute.
func insist(ctx context.Context, left time.Duration, try func() (uint64, error)) (uint64, error) {
	began := time.Now()
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		seq, err := try()
		no, ok := errors.AsType[*refusal](err)
		if !ok || no.code != codeIncomplete && no.code != codeManyBatches || left <= 0 || time.Since(began) > 3*patience || ctx.Err() != nil {
			return seq, err
		}
		now := pause/2 + rand.N(pause)
		rest(ctx, now)
		left -= now
	}
}

// tryBatch is one atomic batch. Members go without waiting; the last one commits, and its answer is the batch's.
func (b *Log) tryBatch(ctx context.Context, entries []Entry) (uint64, error) {
	if err := ctx.Err(); err != nil { // a batch without its end would stay open for a while
		return 0, away(ctx, err)
	}
	if err := b.sinks[subject.Runs].condition().err; err != nil {
		return 0, err
	}
	id, began := nuid.Next(), b.meter.batch.Start()
	var r *nats.Msg
	for i, e := range entries {
		m := &nats.Msg{Subject: e.Subject, Data: e.Body, Header: nats.Header{
			"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {strconv.Itoa(i + 1)},
		}}
		var err error
		if i < len(entries)-1 {
			err = away(ctx, b.nc.PublishMsg(m))
		} else {
			m.Header["Nats-Batch-Commit"] = []string{"1"}
			r, err = b.write(ctx, m, b.brief(), subject.Runs)
		}
		if err != nil {
			return 0, err
		}
	}
	b.meter.batch.ObserveSince(began)
	b.meter.together.Observe(float64(len(entries)))
	a, err := verdict(r)
	if errors.Is(err, ErrTaken) {
		b.meter.taken.Inc()
	}
	if err == nil && a.Count != len(entries) {
		// An older server takes the commit for a plain message.
		return 0, fmt.Errorf("atomic batch of %d: the answer says %d; nats-server 2.12 or newer is needed", len(entries), a.Count)
	}
	return a.Seq, err
}

// AppendAndVerify is Append for those who must know: when the append is refused or stays unanswered, the record is read
// back, and mine says whether its body is the caller's own (it compares a nonce). nil: it stands and is mine.
// ErrTaken: it is another's. An Unavailable fault: nobody can say yet; do the same again later, never give up
// what depends on it.
func (b *Log) AppendAndVerify(ctx context.Context, e Entry, mine func(body []byte) bool) (seq uint64, err error) {
	seq, err = b.group.append(ctx, e)
	if err == nil {
		return seq, nil
	}
	if !errors.Is(err, ErrTaken) && fault.KindOf(err) != fault.Unavailable {
		return 0, err
	}
	m, back := b.find(ctx, e)
	switch {
	case errors.Is(back, ErrNotFound):
		return 0, neither(err)
	case back != nil:
		return 0, back
	case mine(m.Body):
		return m.Seq, nil
	}
	return 0, ErrTaken
}

// Truncate purges what precedes a sequence of RUNS.
func (b *Log) Truncate(ctx context.Context, before uint64) error {
	return purge(ctx, b.Conn, subject.Runs, jetstream.WithPurgeSequence(before))
}

// Purge removes what a stream has under a filter, up to but not including a sequence (0: everything).
func (b *Log) Purge(ctx context.Context, stream, filter string, before uint64) error {
	opts := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSubject(filter)}
	if before > 0 {
		opts = append(opts, jetstream.WithPurgeSequence(before))
	}
	return purge(ctx, b.Conn, stream, opts...)
}

func purge(ctx context.Context, b *Conn, stream string, opts ...jetstream.StreamPurgeOpt) error {
	ctx, done := b.linked(ctx)
	defer done()
	s, err := b.js.Stream(ctx, stream)
	if err == nil {
		err = s.Purge(ctx, opts...)
	}
	return away(ctx, wrap("purge "+stream, err))
}
