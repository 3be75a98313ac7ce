package bus

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ao/nats/subject"
	"ao/shared/clock"
	"ao/shared/fault"

	"github.com/nats-io/nats.go"
)

// A NATS server whose disk is full or has failed answers everything except writes: it leaves them unanswered, stream by
// stream, until it is restarted. So a write without a reply for firstTryTimeout has its stream examined. If the server
// answers and writes nothing, writes fail at once with the cause until the server writes again.

// probeTimeout is the time limit of a reply that needs the stream's file.
const probeTimeout = 700 * time.Millisecond

// promptReply is how fast a server replies that is not overloaded. About an overloaded one nothing can be concluded.
const promptReply = 250 * time.Millisecond

// Storage is nil while NATS writes, as far as is known. Else it is an Unavailable fault with the cause. It
// sends no request (see CheckStorage).
func (b *Conn) Storage() error {
	if err := b.diskFault(); err != nil {
		return err
	}
	if err := b.waits.Load(); err != nil {
		return *err
	}
	for _, s := range b.sinks {
		if err := s.condition().err; err != nil {
			return err
		}
	}
	return nil
}

// CheckStorage finds out whether NATS writes to RUNS, without writing. It is for a process that does not write
// much itself.
func (b *Conn) CheckStorage(ctx context.Context) error {
	s := b.sinks[subject.Runs]
	if !s.busy.Load() && s.examinable() {
		switch s.probe(ctx) {
		case unanswered:
			s.suspect()
		case refused:
			s.setRefused()
		}
	}
	return b.Storage()
}

// noteRefusal notes whether a failed write says that the server stores nothing more. A nil sink ignores it.
func (s *sink) noteRefusal(err error) {
	if s != nil && err != nil && storesNothing(err) {
		s.setRefused()
	}
}

// storesNothing reports whether a server refused a write because it stores nothing more in any stream.
func storesNothing(err error) bool {
	no, ours := errors.AsType[*refusal](err)
	return ours && no.code == codeStorageFull || errorCode(err) == codeStorageFull
}

// diskFault is what an embedded server reports about its disk.
func (b *Conn) diskFault() error {
	if b.cfg.Disk == nil {
		return nil
	}
	err := b.cfg.Disk()
	if err == nil {
		return nil
	}
	message := "NATS in this process stores nothing: " + err.Error()
	return fault.Wrap(fault.Unavailable, "", message, ErrStorageFailing).After(5 * time.Second)
}

// sink is a stream as a target of writes.
type sink struct {
	b      *Conn
	stream string
	now    atomic.Pointer[condition]
	busy   atomic.Bool // it is being examined
}

// condition is the state of a sink.
type condition struct {
	err     error // nil: it is written, as far as is known
	changed chan struct{}
}

func newSinks(b *Conn) map[string]*sink {
	all := map[string]*sink{}
	streams := []string{subject.Runs, subject.Rejected, payloadStream}
	for _, name := range bucketNames {
		streams = append(streams, "KV_"+name)
	}
	for _, stream := range streams {
		s := &sink{b: b, stream: stream}
		s.now.Store(&condition{changed: make(chan struct{})})
		all[stream] = s
	}
	return all
}

// condition returns the current state. A nil sink has an empty one that never changes.
func (s *sink) condition() condition {
	if s == nil {
		return condition{}
	}
	return *s.now.Load()
}

// setCondition may only be called by the examining goroutine.
func (s *sink) setCondition(err error) {
	close(s.now.Swap(&condition{err: err, changed: make(chan struct{})}).changed)
}

// examinable reports whether an examination can find anything. In a cluster another server takes over when one
// cannot write.
func (s *sink) examinable() bool {
	return s.b.nc.IsConnected() && !s.b.clustered() && (s.b.cfg.Disk != nil || !s.b.cfg.Confined)
}

// suspect starts an examination, which updates the condition.
func (s *sink) suspect() {
	if s.examinable() {
		s.examine(s.diagnose)
	}
}

// setRefused notes that the server refuses every write. In a cluster another server takes over.
func (s *sink) setRefused() {
	if !s.b.clustered() {
		s.examine(func(context.Context) error { return errRefused(s.stream) })
	}
}

// errRefused is the fault of a server that refuses every write.
func errRefused(stream string) error {
	message := "NATS stores nothing more (stream " + stream + "): its limit is reached, max_file_store or three " +
		"quarters of what its disk had free when it started; make space there or raise max_file_store, then restart " +
		"the NATS server"
	cause := errors.Join(ErrStorageFailing, errLimitReached)
	return fault.Wrap(fault.Unavailable, "", message, cause).After(5 * time.Second)
}

var errLimitReached = errors.New("the server's limit is reached")

// examine starts an examination, unless there is one. It ends when the stream is written again, as far as is known.
func (s *sink) examine(diagnose func(context.Context) error) {
	if s.busy.Swap(true) {
		return
	}
	go func() {
		defer s.busy.Store(false)
		link := s.b.link.Load()
		if err := diagnose(link); err != nil {
			s.waitRecovered(link, err)
		}
	}()
}

// waitRecovered has all writes fail with err until the stream is written again.
func (s *sink) waitRecovered(link *link, err error) {
	s.b.log.Error("NATS answers but does not write: is its disk full?", "stream", s.stream, "err", err)
	s.setCondition(err)
	for since := time.Now(); link.Err() == nil && s.b.nc.IsConnected() && !s.recovered(link, since); {
		clock.Sleep(link, 250*time.Millisecond)
	}
	s.setCondition(nil)
	s.b.log.Info("NATS writes again, or was replaced", "stream", s.stream)
}

// diagnose is the reason why the stream is not written, nil if it is or if this is unknown.
func (s *sink) diagnose(ctx context.Context) error {
	if err := s.b.diskFault(); err != nil {
		return err
	}
	if s.b.cfg.Confined {
		return nil // it has no permission to ask
	}
	before, ok := s.last(ctx)
	if !ok {
		return nil
	}
	switch what := s.probe(ctx); {
	case what == answered:
		return nil
	case what == refused:
		return errRefused(s.stream)
	case what == unknown && s.stream == subject.Runs: // an empty RUNS cannot be probed; other streams can
		return nil
	}
	asked := time.Now()
	if after, ok := s.last(ctx); !ok || after != before || time.Since(asked) > promptReply { // it is slow
		return nil
	}
	message := "NATS answers but stores nothing (stream " + s.stream + "): its disk is probably full, or has failed; " +
		"make space there, then restart the NATS server"
	return fault.Wrap(fault.Unavailable, "", message, ErrStorageFailing).After(5 * time.Second)
}

// recovered reports whether the next write may be tried. Where only a write can tell, one is tried every two seconds.
func (s *sink) recovered(ctx context.Context, since time.Time) bool {
	if s.b.cfg.Disk != nil && !errors.Is(s.condition().err, errLimitReached) {
		return s.b.diskFault() == nil
	}
	switch s.probe(ctx) {
	case answered:
		return true
	case unanswered, refused:
		return false
	}
	return time.Since(since) > 2*time.Second
}

// last returns the newest sequence of the stream, if the server replies soon. It does not while it is about to write.
func (s *sink) last(ctx context.Context) (uint64, bool) {
	ctx, done := s.b.withDeadline(ctx, firstTryTimeout)
	defer done()
	stream, err := s.b.js.Stream(ctx, s.stream)
	if err != nil {
		return 0, false
	}
	return stream.CachedInfo().State.LastSeq, true
}

// outcome is the result of a probe.
type outcome uint8

const (
	unknown outcome = iota // there is nothing to probe with
	answered
	unanswered
	refused // as every write is
)

// probe sends a request that only a stream that can write answers. It changes nothing.
func (s *sink) probe(ctx context.Context) outcome {
	m := s.probeRequest(ctx)
	if m == nil {
		clock.Sleep(ctx, probeTimeout)
		return unknown
	}
	r, err := s.b.request(ctx, m, probeTimeout)
	switch {
	case err == nil:
		if _, err := checkPubAck(r); err != nil && storesNothing(err) {
			return refused
		}
		return answered
	case errors.Is(err, context.DeadlineExceeded):
		return unanswered
	}
	return unknown
}

// probeRequest returns the request that probe sends, nil if there is none. RUNS has to reject a record: a subject that
// has its one message takes no other. If that message is purged meanwhile, the record is rejected too, since it expects
// the message's sequence. A bucket has to delete a key that never exists: no name begins like it.
func (s *sink) probeRequest(ctx context.Context) *nats.Msg {
	if bucket, ok := strings.CutPrefix(s.stream, "KV_"); ok {
		return &nats.Msg{Subject: "$KV." + bucket + "._probe", Header: nats.Header{"KV-Operation": {"DEL"}}}
	}
	if s.stream != subject.Runs {
		return nil
	}
	m, err := s.b.find(ctx, subject.Runs, lookup{Seq: 1, Next: anySubject}) // the oldest
	if err != nil {
		return nil
	}
	return &nats.Msg{Subject: m.Subject,
		Header: nats.Header{"Nats-Expected-Last-Subject-Sequence": {strconv.FormatUint(m.Seq, 10)}}}
}

// withStorage is ctx for a write to a stream. It ends after the timeout, when the connection is lost, and with
// the cause when the server does not write to the stream.
func (b *Conn) withStorage(ctx context.Context, stream string, timeout time.Duration,
) (context.Context, context.CancelFunc) {
	s := b.sinks[stream]
	wait, fail := context.WithCancelCause(ctx)
	wait, done := b.withDeadline(wait, timeout)
	if err := s.condition().err; err != nil {
		fail(err)
	}
	late := time.AfterFunc(firstTryTimeout, func() {
		again := time.NewTicker(firstTryTimeout)
		defer again.Stop()
		s.suspect()
		for {
			now := s.condition()
			if now.err != nil {
				fail(now.err)
				return
			}
			select {
			case <-now.changed:
			case <-again.C:
				s.suspect()
			case <-wait.Done():
				return
			}
		}
	})
	return wait, func() { late.Stop(); done(); fail(nil) }
}
