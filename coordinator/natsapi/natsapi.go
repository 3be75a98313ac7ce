// Package natsapi serves the API over NATS: a micro service for requests, and a durable inbox for runs. The inbox takes
// runs even while no coordinator is up. Bodies, checks and answers are those of HTTP. The header `status` has the HTTP
// code.
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
	"ao/coordinator/runs"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/metric"
	"ao/shared/strictjson"
	"ao/shared/trace"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// endpointConcurrency is how many requests of one endpoint are handled at a time; others wait in the connection.
const endpointConcurrency = 256

// maxWaiting is how many requests may wait for the end of their run. Further ones get 202 and the ids.
const maxWaiting = 4096

type service struct {
	nc        *nats.Conn
	cfg       Config
	log       *slog.Logger
	ended     context.Context // ends every wait
	waitSlots chan struct{}   // a slot for each waiting request

	mu   sync.RWMutex // held to begin a request; closing takes it
	done bool
	open sync.WaitGroup
}

// reply is the answer of an endpoint.
type reply struct {
	status int
	body   any
}

// request is a request to an endpoint.
type request struct {
	header  nats.Header
	body    []byte
	memory  *budget.Account // of a large body; nil: none
	release func()          // frees the slot of the endpoint
	waited  time.Duration   // for the run
}

// free releases the body's memory and the endpoint's slot: the run is stored, and the answer may come much later.
func (r *request) free() {
	r.body = nil
	r.memory.Empty()
	r.release()
}

// endpoint is one subject of the service and its statistics.
type endpoint struct {
	name, subject, body string
	reads               bool // it changes nothing
	do                  func(context.Context, *request) (reply, error)
	slots               chan struct{}
	counts              counts
	durations           *metric.Cache[int, *metric.Histogram] // by code; nil: not measured
}

// counts are the service's statistics. micro's own would not measure concurrent requests.
type counts struct {
	answered, refused, failed atomic.Uint64
	nanos                     atomic.Int64
}

// ignoreEnd returns nil where ctx has ended.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// close accepts no more requests and waits for those in progress.
func (s *service) close(svc micro.Service) error {
	err := svc.Stop()
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = nil
	}
	_ = s.nc.FlushTimeout(time.Second) // after this, no new requests arrive
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.open.Wait()
	return err
}

// begin counts a request; false: the service is closing.
func (s *service) begin() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.done {
		return false
	}
	s.open.Add(1)
	return true
}

// handle handles a request concurrently. micro's own Respond allows one goroutine, so answer publishes instead.
func (s *service) handle(e *endpoint, r micro.Request) {
	if !s.begin() {
		s.answer(e, r.Reply(), reply{},
			fault.New(fault.Unavailable, "", "This coordinator is shutting down; try again").After(time.Second), 0)
		return
	}
	req, to := &request{header: nats.Header(r.Headers()), body: strictjson.TrimBOM(r.Data())}, r.Reply()
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

// publishers share the limits of one caller: NATS does not tell them apart.
const publishers = "nats"

// workFactor is how many copies of a large body are in memory while it is handled.
const workFactor = 4

// reserve reserves memory for a large body, from the share of all publishers. Small ones are bounded by their number.
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
	if ctx != before || !e.reads { // reads start no trace
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
			v.status = f.Kind.Status()
			if v.status >= 500 {
				span.SetError(f.Code)
			}
			span.Set(trace.Outcome, f.Code)
		}
		span.SetInt("ao.response.status", v.status)
	}
	span.End()
}

// answer answers every request.
func (s *service) answer(e *endpoint, to string, v reply, err error, took time.Duration) {
	f := s.send(to, v, err, nil)
	e.counts.nanos.Add(int64(took))
	code := v.status
	if f != nil {
		code = f.Kind.Status()
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

// send encodes and publishes a value or an error. It returns the fault that was sent.
func (s *service) send(to string, v reply, err error, more nats.Header) *fault.Fault {
	var f *fault.Fault
	if err != nil {
		f = fault.Of(err)
		v = reply{f.Kind.Status(), f}
	}
	raw, encErr := strictjson.Encode(v.body)
	if most := s.nc.MaxPayload() - 4096; encErr == nil && most > 0 && int64(len(raw)) > most {
		f = fault.Newf(fault.TooLarge, "The answer has %d bytes, too many for a NATS message; read it over HTTP",
			len(raw))
		v.status = f.Kind.Status()
		raw, encErr = strictjson.Encode(f)
	}
	if encErr != nil {
		s.log.Error("answer cannot be encoded", "err", encErr)
		f = fault.Of(encErr)
		v.status = f.Kind.Status()
		raw, _ = strictjson.Encode(f)
	}
	if !subject.ReplyAllowed(to) { // no reply subject, or one that must not be published to
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
		s.log.Warn("reply not sent", "err", err)
	}
	return f
}

// snapshot returns what `nats micro stats` shows beside its own figures.
func (c *counts) snapshot() any {
	all := c.answered.Load() + c.refused.Load() + c.failed.Load()
	return map[string]any{
		"answered": c.answered.Load(), "refused": c.refused.Load(), "failed": c.failed.Load(),
		"average_ms": float64(c.nanos.Load()) / 1e6 / float64(max(all, 1)),
	}
}

// Config has what the service needs; the first three fields are required.
type Config struct {
	Runs      Runs
	Agents    Agents
	Temporary func(err error) bool // reports whether a refusal may go away: the agent may come back with its runner

	Wait    time.Duration  // default 30 s: the wait of mode sync without wait_seconds
	Version string         // default 1.0.0: shown by nats micro
	Serving func()         // called once when requests are answered
	Audit   *audit.Log     // nil: nothing is recorded
	Memory  *budget.Memory // for large bodies; nil: without limits
	Trace   *trace.Tracer  // makes spans; default none
	Log     *slog.Logger   // default slog.Default()

	Metadata map[string]string // what others read of this coordinator in its service
	Metrics  *metric.Registry  // nil: nothing is measured
}

// Runs starts and stops runs, and reports how they end.
type Runs interface {
	Submit(ctx context.Context, body []byte, scope, key string) (runs.Accepted, error)
	Finish(ctx context.Context, a runs.Accepted) (o runs.Outcome, ended bool, err error)
	Outcome(ctx context.Context, id string) (runs.Outcome, error)
	StopRun(ctx context.Context, id string, tree bool) (runs.StoppedRun, error)
}

// Agents lists agents.
type Agents interface {
	Published(status string) (list any, err error)
	BrokenFiles(ctx context.Context) []agent.BrokenFile
}
