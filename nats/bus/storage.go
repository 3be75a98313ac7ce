package bus

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ao/nats/subject"
	"ao/shared/fault"

	"github.com/nats-io/nats.go"
)

// A NATS server whose disk was full, or failed, answers everything but writes: it leaves them unanswered, stream by stream, until it
// is started anew. So a write that stays unanswered for impatience has its stream examined. Where the server answers for the stream
// and writes nothing to it, writes are refused at once with the cause, until one would be answered again.

// ErrStorageFailing is in every fault about a stream that NATS does not write to, although it answers.
var ErrStorageFailing = errors.New("NATS does not write")

// probing is how long an answer that needs the stream's file is awaited.
const probing = 700 * time.Millisecond

// prompt is how soon a server answers that is not overloaded. From one that is, nothing follows.
const prompt = 250 * time.Millisecond

// Storage is nil as long as NATS writes what it is asked to, as far as is known; else an Unavailable fault with the cause. It asks
// nobody (see CheckStorage).
func (b *Conn) Storage() error {
	if err := b.disk(); err != nil {
		return err
	}
	if err := b.cramped.Load(); err != nil {
		return *err
	}
	for _, s := range b.sinks {
		if err := s.condition().err; err != nil {
			return err
		}
	}
	return nil
}

// CheckStorage finds out whether NATS writes to RUNS, without writing anything: it is for whom nobody's writes would tell.
func (b *Conn) CheckStorage(ctx context.Context) error {
	s := b.sinks[subject.Runs]
	if !s.busy.Load() && s.examinable() && s.probe(ctx) == unanswered {
		s.suspect()
	}
	return b.Storage()
}

// disk is what an embedded server says of its disk.
func (b *Conn) disk() error {
	if b.cfg.Disk == nil {
		return nil
	}
	err := b.cfg.Disk()
	if err == nil {
		return nil
	}
	return fault.Wrap(fault.Unavailable, "", "NATS in this process stores nothing: "+err.Error()+"; it goes on by itself once there is room", ErrStorageFailing).After(5 * time.Second)
}

// sink is a stream as something that is written to.
type sink struct {
	b      *Conn
	stream string
	now    atomic.Pointer[condition]
	busy   atomic.Bool // it is being examined
}

// condition is how a sink is, until it is otherwise.
type condition struct {
	err  error // nil: it is written to, as far as is known
	over chan struct{}
}

func newSinks(b *Conn) map[string]*sink {
	all := map[string]*sink{}
	for _, stream := range []string{subject.Runs, subject.Rejected, "KV_" + subject.Agents, "KV_" + subject.Schemas, "KV_" + subject.Runners, "KV_" + subject.TaskQueues,
		"KV_" + subject.Idempotency, "KV_" + subject.Secrets, "KV_" + subject.Logins, "KV_" + subject.Drafts, "OBJ_" + subject.Payloads} {
		s := &sink{b: b, stream: stream}
		s.now.Store(&condition{over: make(chan struct{})})
		all[stream] = s
	}
	return all
}

// condition is how the sink is now. No sink never changes.
func (s *sink) condition() condition {
	if s == nil {
		return condition{}
	}
	return *s.now.Load()
}

// change is for who examines alone.
func (s *sink) change(err error) {
	close(s.now.Swap(&condition{err: err, over: make(chan struct{})}).over)
}

// examinable says whether an examination would tell anything. A cluster has another server lead when one cannot write.
func (s *sink) examinable() bool {
	return s.b.nc.IsConnected() && !s.b.clustered() && (s.b.cfg.Disk != nil || !s.b.cfg.Confined)
}

// suspect has the sink examined, which changes its condition.
func (s *sink) suspect() {
	if s.examinable() && !s.busy.Swap(true) {
		go func() {
			defer s.busy.Store(false)
			s.examine()
		}()
	}
}

// examine returns when the stream is written to, as far as is known.
func (s *sink) examine() {
	link := s.b.link.Load()
	err := s.judge(link)
	if err == nil {
		return
	}
	s.b.log.Error("NATS answers, and does not write: is its disk full?", "stream", s.stream, "err", err)
	s.change(err)
	for since := time.Now(); link.Err() == nil && s.b.nc.IsConnected() && !s.recovered(link, since); {
		rest(link, 250*time.Millisecond)
	}
	s.change(nil)
	s.b.log.Info("NATS writes again, or is another one", "stream", s.stream)
}

// judge says why the stream is not written to; nil: it is, or nobody can tell.
func (s *sink) judge(ctx context.Context) error {
	if err := s.b.disk(); err != nil {
		return err
	}
	if s.b.cfg.Confined {
		return nil // it may not ask
	}
	before, ok := s.last(ctx)
	if !ok {
		return nil
	}
	switch what := s.probe(ctx); {
	case what == answered:
		return nil
	case what == unknown && s.stream == subject.Runs: // an empty history has nothing to be asked for; other streams tell
		return nil
	}
	asked := time.Now()
	if after, ok := s.last(ctx); !ok || after != before || time.Since(asked) > prompt { // it is slow
		return nil
	}
	return fault.Wrap(fault.Unavailable, "", "NATS answers and stores nothing (stream "+s.stream+"): its disk is probably full, or has failed; make room there, then restart the NATS server", ErrStorageFailing).After(5 * time.Second)
}

// recovered says whether the next write may be tried. Where nothing but a write tells, one is tried every two seconds.
func (s *sink) recovered(ctx context.Context, since time.Time) bool {
	if s.b.cfg.Disk != nil {
		return s.b.disk() == nil
	}
	switch s.probe(ctx) {
	case answered:
		return true
	case unanswered:
		return false
	}
	return time.Since(since) > 2*time.Second
}

// last is the newest sequence of the stream, if the server says it soon. It does not while it is about to write.
func (s *sink) last(ctx context.Context) (uint64, bool) {
	ctx, done := s.b.within(ctx, impatience)
	defer done()
	stream, err := s.b.js.Stream(ctx, s.stream)
	if err != nil {
		return 0, false
	}
	return stream.CachedInfo().State.LastSeq, true
}

// outcome is what came of a probe.
type outcome uint8

const (
	unknown outcome = iota // there is nothing to probe with
	answered
	unanswered
)

// probe asks for what only a stream that can write answers, and changes nothing.
func (s *sink) probe(ctx context.Context) outcome {
	m := s.question(ctx)
	if m == nil {
		rest(ctx, probing)
		return unknown
	}
	_, err := s.b.request(ctx, m, probing)
	switch {
	case err == nil:
		return answered
	case errors.Is(err, context.DeadlineExceeded):
		return unanswered
	}
	return unknown
}

// question is what probe asks; nil: there is nothing to ask. RUNS is to refuse a record: a subject that has its one message takes no
// other. It takes none either where that message is purged meanwhile, since its sequence is expected. A bucket is to note that a key
// is deleted which never is there: no name of anything begins like it.
func (s *sink) question(ctx context.Context) *nats.Msg {
	if bucket, ok := strings.CutPrefix(s.stream, "KV_"); ok {
		return &nats.Msg{Subject: "$KV." + bucket + "._probe", Header: nats.Header{"KV-Operation": {"DEL"}}}
	}
	if s.stream != subject.Runs {
		return nil
	}
	m, err := s.first(ctx)
	if err != nil {
		return nil
	}
	return &nats.Msg{Subject: m.Subject, Header: nats.Header{"Nats-Expected-Last-Subject-Sequence": {strconv.FormatUint(m.Seq, 10)}}}
}

// first is the oldest message of RUNS.
func (s *sink) first(ctx context.Context) (m Message, err error) {
	ask, err := json.Marshal(lookup{Seq: 1, Next: anything})
	if err != nil {
		return m, err
	}
	return s.b.direct(ctx, "$JS.API.DIRECT.GET."+subject.Runs, ask)
}

// writing is ctx for a write to a stream: it ends after so long at most, when the connection is lost, and with the cause where the
// server does not write to the stream.
func (b *Conn) writing(ctx context.Context, stream string, most time.Duration) (context.Context, context.CancelFunc) {
	s := b.sinks[stream]
	wait, lose := context.WithCancelCause(ctx)
	wait, done := b.within(wait, most)
	if err := s.condition().err; err != nil {
		lose(err)
	}
	late := time.AfterFunc(impatience, func() {
		again := time.NewTicker(impatience)
		defer again.Stop()
		s.suspect()
		for {
			now := s.condition()
			if now.err != nil {
				lose(now.err)
				return
			}
			select {
			case <-now.over:
			case <-again.C:
				s.suspect()
			case <-wait.Done():
				return
			}
		}
	})
	return wait, func() { late.Stop(); done(); lose(nil) }
}
