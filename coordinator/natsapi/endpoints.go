package natsapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"ao/coordinator/audit"
	"ao/coordinator/runs"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/metric"
	"ao/shared/run"
	"ao/shared/share"
	"ao/shared/strictjson"
	"ao/shared/trace"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// idempotencyKey returns the key that a publisher sent; empty: none.
func idempotencyKey(h nats.Header) (string, error) {
	for _, name := range []string{"Idempotency-Key", "idempotency-key", nats.MsgIdHdr} {
		if key, err := runs.SentKey(name, h.Values(name)); key != "" || err != nil {
			return key, err
		}
	}
	return "", nil
}

// create starts a run. With mode sync it waits for the end and returns the result, or the ids after wait_seconds.
func (s *service) create(ctx context.Context, r *request) (reply, error) {
	own, err := idempotencyKey(r.header)
	var acc runs.Accepted
	if err == nil {
		acc, err = s.cfg.Runs.Submit(ctx, r.body, "nats", own)
	}
	s.record(audit.NATS, audit.RunCreate, audit.Targets{Run: acc.RunID, Session: acc.SessionID}, 201, err)
	if err != nil || acc.Mode != run.Sync {
		return reply{201, acc}, err
	}
	r.free()
	select {
	case s.waitSlots <- struct{}{}:
		defer func() { <-s.waitSlots }()
	default: // too many are waiting already
		return reply{202, acc}, nil
	}
	wait := s.cfg.Wait
	if acc.Wait != nil {
		wait = time.Duration(*acc.Wait) * time.Second
	}
	began := time.Now()
	defer func() { r.waited = time.Since(began) }()
	waiting, cancel := context.WithTimeout(s.ended, wait)
	defer cancel()
	v, ended, err := s.cfg.Runs.Finish(waiting, acc)
	switch {
	case err != nil:
		return reply{}, err
	case !ended && s.ended.Err() == nil:
		return reply{202, acc.TimedOut(wait)}, nil
	case !ended: // this coordinator is shutting down
		return reply{202, acc}, nil
	}
	return reply{200, v}, nil
}

// get returns a run, with its result once it has ended.
func (s *service) get(ctx context.Context, r *request) (reply, error) {
	id, err := runID(r.body)
	if err != nil {
		return reply{}, err
	}
	v, err := s.cfg.Runs.Outcome(ctx, id)
	return reply{200, v}, err
}

func (s *service) stop(ctx context.Context, ask *request) (reply, error) {
	var in struct {
		RunID string `json:"run_id"`
		Tree  bool   `json:"tree"`
	}
	id, err := readID(ask.body, &in, &in.RunID)
	if err != nil {
		return reply{}, err
	}
	r, err := s.cfg.Runs.StopRun(ctx, id, in.Tree)
	s.record(audit.NATS, audit.RunStop, audit.Targets{Run: id, Tree: in.Tree}, 200, err)
	return reply{200, r}, err
}

// runID reads {"run_id":"…"}, or just the id.
func runID(body []byte) (string, error) {
	var in struct {
		RunID string `json:"run_id"`
	}
	return readID(body, &in, &in.RunID)
}

// readID reads an object with an id, or just the id.
func readID(body []byte, in any, inID *string) (string, error) {
	body = bytes.TrimSpace(body)
	if !bytes.HasPrefix(body, []byte("{")) {
		id := strings.Trim(string(body), `"`)
		return id, run.CheckID(id)
	}
	if err := strictjson.DecodeFilled(body, in); err != nil {
		return "", err
	}
	return *inID, run.CheckID(*inID)
}

func (s *service) agents(ctx context.Context, r *request) (reply, error) {
	var in struct {
		Status string `json:"status"`
	}
	if len(bytes.TrimSpace(r.body)) > 0 {
		if err := strictjson.DecodeFilled(r.body, &in); err != nil {
			return reply{}, err
		}
	}
	if in.Status == agent.Broken {
		return reply{200, map[string]any{"agents": s.cfg.Agents.BrokenFiles(ctx)}}, nil
	}
	list, err := s.cfg.Agents.Published(in.Status)
	return reply{200, map[string]any{"agents": list}}, err
}

// replyTo is the header for the subject of the answer: a JetStream publish uses the reply subject for its own
// acknowledgement.
const replyTo = "Ao-Reply-To"

// inbox starts a run from an inbox message. A refused message goes to REJECTED with the reason. The answer, good or
// bad, also goes to the subject that the publisher named. A temporary error is not answered: the message is delivered
// again, also while its agent may come back with its runner.
func (s *service) inbox(ctx context.Context, m bus.InboxMessage) error {
	h := nats.Header(m.Header)
	to := h.Get(replyTo)
	if to != "" {
		if err := checkReplyTo(to); err != nil {
			s.record(audit.Inbox, audit.RunCreate, audit.Targets{}, 0, err)
			return err
		}
	}
	acc, err := s.submitInbox(ctx, h, m)
	if s.cfg.Temporary(err) {
		return fault.Wrap(fault.Unavailable, "", "The agent is not registered yet", err)
	}
	if f := fault.Of(err); f.Code == run.CodeDamaged && f.RetryAfter > 0 { // until an admin has accepted the loss
		return fault.Wrap(fault.Unavailable, "", f.Message, err).After(f.RetryAfter)
	}
	if f := fault.Of(err); treeIsFull(f) {
		err = fault.Wrap(fault.Conflict, f.Code, f.Message, err)
	}
	if fault.Retryable(err) {
		return err
	}
	s.record(audit.Inbox, audit.RunCreate, audit.Targets{Run: acc.RunID, Session: acc.SessionID}, 201, err)
	if to != "" {
		s.send(to, reply{201, acc}, err, nats.Header{"Ao-Inbox-Sequence": {strconv.FormatUint(m.Seq, 10)}})
	}
	return err
}

// treeIsFull reports whether a session tree has its share of what kept runs take. That lasts for days, and its messages
// would keep those of others back: NATS delivers so many at once.
func treeIsFull(f *fault.Fault) bool {
	whose, _ := f.Text(map[string]string{run.CodeHistoryShare: "share", run.CodePayloadShare: "whose"}[f.Code])
	return whose == string(share.Tree)
}

// submitInbox submits an inbox message under the publisher's idempotency key, else under the message's own. It makes
// one run, however often the message is delivered.
func (s *service) submitInbox(ctx context.Context, h nats.Header, m bus.InboxMessage) (acc runs.Accepted, err error) {
	ctx, span := s.cfg.Trace.Start(trace.Extract(ctx, h), trace.Consumer, subject.InboxRuns)
	defer func() { endSpan(span, reply{status: 201}, err) }()
	if m.Subject != subject.InboxRuns {
		return runs.Accepted{}, fault.Newf(fault.NotFound, "There is no inbox %.80s; publish to %s", m.Subject,
			subject.InboxRuns)
	}
	m.Body = strictjson.TrimBOM(m.Body)
	req, err := run.ReadRequest(m.Body)
	if err != nil {
		return runs.Accepted{}, err
	}
	if req.Mode == run.Sync {
		return runs.Accepted{}, fault.New(fault.Invalid, "", "The inbox does not wait for results: use mode "+
			"async_poll, or request "+subject.APIRunsCreate).With("field", "mode")
	}
	own, err := idempotencyKey(h)
	if err != nil {
		return runs.Accepted{}, err
	}
	if own != "" {
		return s.cfg.Runs.Submit(ctx, m.Body, "nats", own)
	}
	return s.cfg.Runs.Submit(ctx, m.Body, "inbox", m.Key)
}

// record writes an audit entry. NATS does not tell who published; its own permissions decide who may.
func (s *service) record(door, action string, of audit.Targets, done int, err error) {
	if s.cfg.Audit == nil {
		return
	}
	e := audit.Entry{EntryPoint: door, Actor: &audit.Actor{Kind: audit.Publisher}, Action: action, Targets: of}
	e.Status, e.Error = audit.Outcome(done, err)
	s.cfg.Audit.Record(e)
}

// checkReplyTo refuses subjects that workers or servers listen to.
func checkReplyTo(to string) error {
	first, _, _ := strings.Cut(to, ".")
	if len(to) > 255 || first == "ao" || strings.HasPrefix(first, "$") || strings.ContainsAny(to, "*> \t\r\n") ||
		strings.Contains("."+to+".", "..") {
		return fault.Newf(fault.Invalid, "%s %.80q is not a valid subject for a reply: it must not have wildcards "+
			"or spaces, or begin with ao. or $", replyTo, to).With("field", replyTo)
	}
	return nil
}

// Run serves until ctx ends and every request is answered.
func Run(ctx context.Context, nc *nats.Conn, b *bus.Bus, cfg Config) error {
	cfg.Wait = cmp.Or(cfg.Wait, 30*time.Second)
	cfg.Version = cmp.Or(cfg.Version, "1.0.0")
	s := &service{nc: nc, cfg: cfg, log: cmp.Or(cfg.Log, slog.Default()), ended: ctx,
		waitSlots: make(chan struct{}, maxWaiting)}
	endpoints := []*endpoint{
		{name: "runs-create", subject: subject.APIRunsCreate, do: s.create, body: "body of POST /runs"},
		{name: "runs-get", subject: subject.APIRunsGet, do: s.get, reads: true,
			body: `{"run_id":"run_…"}, or the id alone`},
		{name: "runs-stop", subject: subject.APIRunsStop, do: s.stop,
			body: `{"run_id":"run_…","tree":true}, or the id alone`},
		{name: "agents-list", subject: subject.APIAgentsList, do: s.agents, reads: true,
			body: `{"status":"active"}, or nothing`},
	}
	byName := map[string]*endpoint{}
	requests := cfg.Metrics.Histogram("ao_nats_api_request_seconds", "How long requests to the NATS service took, by "+
		"endpoint and code, without waiting for a run.", metric.Fast, "endpoint", "code")
	for _, e := range endpoints {
		if requests != nil {
			e.durations = metric.NewCache(func(code int) *metric.Histogram {
				return requests.With(e.name, strconv.Itoa(code))
			})
		}
		e.slots, byName[e.name] = make(chan struct{}, endpointConcurrency), e
	}
	svc, err := micro.AddService(nc, micro.Config{
		Name: subject.APIService, Metadata: cfg.Metadata, Version: cfg.Version,
		Description: "Agent Orchestrator: runs of agents",
		QueueGroup:  subject.Coordinators,
		StatsHandler: func(e *micro.Endpoint) any {
			if ours, ok := byName[e.Name]; ok {
				return ours.counts.snapshot()
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		err := svc.AddEndpoint(e.name, micro.HandlerFunc(func(r micro.Request) { s.handle(e, r) }),
			micro.WithEndpointSubject(e.subject), micro.WithEndpointMetadataKey("body", e.body))
		if err != nil {
			return errors.Join(err, svc.Stop())
		}
	}
	// wait until the server knows the endpoints
	_ = nc.FlushTimeout(time.Second)
	s.log.Info("NATS service ready", "service", "ao", "id", svc.Info().ID)
	if cfg.Serving != nil {
		cfg.Serving()
	}
	err = b.Inbox(ctx, s.inbox)
	return errors.Join(ignoreEnd(ctx, err), s.close(svc))
}
