// Package natsapi is the coordinator's NATS side: a micro service for request and reply, and the
// durable inbox that takes runs while no coordinator is up. Bodies, checks and answers are those of HTTP; the HTTP code
// stands in the header `status`.
package natsapi

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"ao/coordinator/audit"
	"ao/coordinator/budget"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/metric"
	"ao/shared/strictjson"
	"ao/shared/trace"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// status is the NATS side of every fault: the code that HTTP has for it.
var status = map[fault.Kind]int{
	fault.Internal: 500, fault.Invalid: 400, fault.Unauthorized: 401, fault.Forbidden: 403, fault.NotFound: 404,
	fault.Conflict: 409, fault.Stale: 412, fault.TooLarge: 413, fault.Busy: 429, fault.Unavailable: 503,
}

// endpointConcurrency is how many requests of one endpoint are worked on at a time; the others wait in the connection.
const endpointConcurrency = 256

// maxWaiting is how many requests wait for the end of their run at a time. Those beyond it are answered with 202 and
// the ids.
const maxWaiting = 4096

type service struct {
	nc        *nats.Conn
	cfg       Config
	log       *slog.Logger
	ended     context.Context // nobody waits any longer
	waitSlots chan struct{}   // a place for each request that waits for its run

	mu   sync.RWMutex // held to enter; closing takes it
	done bool
	open sync.WaitGroup
}

// reply is what an endpoint answers.
type reply struct {
	status int
	body   any
}

// request is what an endpoint was asked.
type request struct {
	header  nats.Header
	body    []byte
	memory  *budget.Account // what a large body takes; nil: nothing
	release func()          // frees the request's place among those that are worked on
	waited  time.Duration   // for a run
}

// free lets go of the body and of the request's place: the run is stored, and the answer may come long after.
func (r *request) free() {
	r.body = nil
	r.memory.Empty()
	r.release()
}

// endpoint is one subject of the service, with what it counted.
type endpoint struct {
	name, subject, body string
	reads               bool // it changes nothing
	do                  func(context.Context, *request) (reply, error)
	slots               chan struct{}
	counts              counts
	durations           *metric.Cache[int, *metric.Histogram] // by code; nil: nobody counts
}

// counts are the service's own statistics: requests are worked on beside each other, which micro does not measure.
type counts struct {
	answered, refused, failed atomic.Uint64
	nanos                     atomic.Int64
}

// ignoreEnd: that ctx ended is no error.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// close takes no more and waits for what is under way.
func (s *service) close(svc micro.Service) error {
	err := svc.Stop()
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = nil
	}
	_ = s.nc.FlushTimeout(time.Second) // after it nothing new comes
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.open.Wait()
	return err
}

// begin counts a request in; false: we are going.
func (s *service) begin() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.done {
		return false
	}
	s.open.Add(1)
	return true
}

// handle works on a request beside the others. micro's own Respond is for one goroutine, so the answer is sent here.
func (s *service) handle(e *endpoint, r micro.Request) {
	if !s.begin() {
		s.answer(e, r.Reply(), reply{}, fault.New(fault.Unavailable, "", "This coordinator is going; try again").
			After(time.Second), 0)
		return
	}
	req, to := &request{header: nats.Header(r.Headers()), body: r.Data()}, r.Reply()
	var err error
	req.memory, err = s.reserve(len(req.body))
	if err != nil {
		s.open.Done()
		s.answer(e, to, reply{}, err, 0)
		return
	}
	e.slots <- struct{}{}
	req.release = sync.OnceFunc(func() { <-e.slots })
	began := time.Now()
	go func() {
		defer s.open.Done()
		defer req.memory.Close()
		defer req.release()
		v, err := s.guarded(e, req)
		s.answer(e, to, v, err, time.Since(began)-req.waited)
	}()
}

// publishers have one caller's share, all together: NATS does not tell them apart.
const publishers = "nats"

// workFactor is how often a large body is in memory while it is checked and stored.
const workFactor = 4

// reserve makes room for a large body; all publishers together have one caller's share. Small ones are bounded by their
// number.
func (s *service) reserve(bytes int) (*budget.Account, error) {
	if s.cfg.Memory == nil || bytes <= budget.Small {
		return nil, nil
	}
	a := s.cfg.Memory.Requests.Open(publishers)
	return a, a.Take(workFactor * int64(bytes))
}

func (s *service) guarded(e *endpoint, r *request) (v reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("panic", "endpoint", e.name, "panic", p)
			err = errors.New("panic")
		}
	}()
	before := context.WithoutCancel(s.ended)
	ctx, span := trace.Extract(before, r.header), trace.Span{}
	if ctx != before || !e.reads { // who only asks begins no trace by that
		ctx, span = s.cfg.Trace.Start(ctx, trace.Server, e.subject)
	}
	defer func() { endSpan(span, v, err) }()
	if s.cfg.Memory != nil {
		answering := &budget.Answering{Context: ctx}
		answering.Answer.Begin(s.cfg.Memory.Answers, publishers)
		defer answering.Answer.Close()
		ctx = answering
	}
	return e.do(ctx, r)
}

// endSpan ends the span of a request.
func endSpan(span trace.Span, v reply, err error) {
	if span.IsRecording() {
		if err != nil {
			f := fault.Of(err)
			v.status = status[f.Kind]
			if v.status >= 500 {
				span.SetError(f.Code)
			}
			span.Set(trace.Outcome, f.Code)
		}
		span.SetInt("ao.response.status", v.status)
	}
	span.End()
}

// answer is the one place that answers requests.
func (s *service) answer(e *endpoint, to string, v reply, err error, took time.Duration) {
	f := s.send(to, v, err, nil)
	e.counts.nanos.Add(int64(took))
	code := v.status
	if f != nil {
		code = status[f.Kind]
	}
	e.durations.Get(code).ObserveDuration(took)
	level := slog.LevelDebug
	switch {
	case f == nil:
		e.counts.answered.Add(1)
	case f.Kind == fault.Internal || f.Kind == fault.Unavailable:
		e.counts.failed.Add(1)
		level = slog.LevelWarn
	default:
		e.counts.refused.Add(1)
	}
	attrs := []slog.Attr{slog.String("endpoint", e.name), slog.Duration("took", took.Round(time.Microsecond))}
	if f != nil {
		attrs = append(attrs, slog.String("code", f.Code), slog.Any("err", err))
	}
	s.log.LogAttrs(s.ended, level, "nats request", attrs...)
}

// send encodes a value or an error and publishes it. It gives the fault that was sent.
func (s *service) send(to string, v reply, err error, more nats.Header) *fault.Fault {
	var f *fault.Fault
	if err != nil {
		f = fault.Of(err)
		v = reply{status[f.Kind], f}
	}
	raw, encErr := strictjson.Encode(v.body)
	if most := s.nc.MaxPayload() - 4096; encErr == nil && most > 0 && int64(len(raw)) > most {
		f = fault.Newf(fault.TooLarge, "The answer has %d bytes, more than a NATS message holds; read it over HTTP",
			len(raw))
		v.status = status[f.Kind]
		raw, encErr = strictjson.Encode(f)
	}
	if encErr != nil {
		s.log.Error("answer cannot be encoded", "err", encErr)
		f = fault.Of(encErr)
		v.status = status[f.Kind]
		raw, _ = strictjson.Encode(f)
	}
	if !subject.ReplyAllowed(to) { // nobody waits, or somebody wants to borrow our rights
		return f
	}
	h := nats.Header{"status": {strconv.Itoa(v.status)}}
	maps.Copy(h, more)
	if f != nil {
		h[micro.ErrorCodeHeader] = []string{strconv.Itoa(v.status)}
		h[micro.ErrorHeader] = []string{f.Code}
		if f.RetryAfter > 0 {
			h["Retry-After"] = []string{strconv.Itoa(int((f.RetryAfter + time.Second - 1) / time.Second))}
		}
	}
	if err := s.nc.PublishMsg(&nats.Msg{Subject: to, Header: h, Data: raw}); err != nil {
		s.log.Warn("an answer could not be sent", "err", err)
	}
	return f
}

// snapshot is what `nats micro stats` shows beside its own figures.
func (c *counts) snapshot() any {
	all := c.answered.Load() + c.refused.Load() + c.failed.Load()
	return map[string]any{
		"answered": c.answered.Load(), "refused": c.refused.Load(), "failed": c.failed.Load(),
		"average_ms": float64(c.nanos.Load()) / 1e6 / float64(max(all, 1)),
	}
}

// Config is whom the service asks, all three required, and how it behaves: zero works.
type Config struct {
	Runs      Runs
	Agents    Agents
	Temporary func(err error) bool // a refusal may be over: an agent that is missing may yet come with its runner

	Wait    time.Duration  // default 30 s: how long mode sync waits where a request does not say
	Version string         // default 1.0.0: shown by nats micro
	Serving func()         // called once when requests are answered
	Audit   *audit.Log     // who changed what; nil: it is not recorded
	Memory  *budget.Memory // for large bodies; nil: without limits
	Trace   *trace.Tracer  // makes spans; default none
	Log     *slog.Logger   // default slog.Default()

	Metadata map[string]string // what others read of this coordinator in its service
	Metrics  *metric.Registry  // default nil: nothing is counted
}
