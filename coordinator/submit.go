package coordinator

import (
	"context"
	"encoding/json"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/trace"
)

// Accepted answers a run that was taken: from here on it ends in exactly one terminal state.
type Accepted struct {
	RunID     string     `json:"run_id"`
	SessionID string     `json:"session_id"`
	Status    run.Status `json:"status"`
	Mode      string     `json:"-"` // as asked for: who waits, an ingress decides
	Wait      *int       `json:"-"` // seconds, as asked for
	fresh     bool       // stored by this request
}

// Submit checks a request and stores the run with one write (two records in one batch where the caller chose the
// session's id). A refused creation leaves nothing behind; one that NATS did not answer may come to be. key is the
// caller's idempotency key, scope whose key it is.
func (c *Coordinator) Submit(ctx context.Context, body []byte, scope, key string) (Accepted, error) {
	ctx, span := c.Trace.Begin(ctx, trace.Producer, "submit")
	a, err := c.submit(ctx, body, scope, key)
	went(span, err)
	span.Set(trace.Run, a.RunID)
	span.Set(trace.Session, a.SessionID)
	span.End()
	return a, err
}

func (c *Coordinator) submit(ctx context.Context, body []byte, scope, key string) (Accepted, error) {
	if err := c.Ready(); err != nil {
		return Accepted{}, fault.Wrap(fault.Unavailable, "", "Not ready to take runs: "+fault.Of(err).Message, err).After(time.Second)
	}
	if key != "" {
		return c.submitOnce(ctx, body, scope, key)
	}
	p, err := c.check(ctx, body, scope)
	if err != nil {
		return Accepted{}, err
	}
	return c.place(ctx, p, run.NewID(), run.NewSessionID())
}

// check reads a body and makes every check; too many waiting runs are told first.
func (c *Coordinator) check(ctx context.Context, body []byte, scope string) (plan, error) {
	if waiting, _, _ := c.Journal.Counts(); waiting+c.turns.inFlight() >= c.MaxPending {
		return plan{}, fault.Newf(fault.Busy, "%d runs wait already, the most there may be (AO_MAX_PENDING); come again later", waiting).After(2 * time.Second)
	}
	if err := c.room(); err != nil {
		return plan{}, err
	}
	req, err := run.ReadRequest(body)
	if err != nil {
		return plan{}, err
	}
	p, err := c.plan(ctx, req)
	p.spec.Caller = c.callerOf(scope)
	return p, err
}

// place stores a plan under these ids; the session's is for a session that has none yet.
func (c *Coordinator) place(ctx context.Context, p plan, runID, sessionID string) (Accepted, error) {
	p.spec.ID, p.spec.Trace = runID, trace.Of(ctx)
	if p.spec.SessionID == "" {
		p.spec.SessionID = sessionID
	}
	defer c.turns.enter()()
	input := p.spec.Input // it may be stored elsewhere
	if err := c.store(ctx, p); err != nil {
		return Accepted{}, err
	}
	c.meters.took(input)
	return Accepted{p.spec.ID, p.spec.SessionID, run.Pending, p.spec.Mode, p.wait, true}, nil
}

// Validation answers POST /runs/validate.
type Validation struct {
	Valid     bool            `json:"valid"`
	Agent     string          `json:"agent_name"`
	Type      string          `json:"type"`
	Demands   run.Demands     `json:"demands"`
	Timeout   int             `json:"timeout_seconds"`
	Schema    json.RawMessage `json:"parameters_schema"`
	Output    *run.Output     `json:"output"`           // what the answer must be, and where that is from; null: anything
	Available bool            `json:"runner_available"` // an online runner matches now
}

// Validate makes the checks of Submit and stores nothing.
func (c *Coordinator) Validate(ctx context.Context, body []byte) (Validation, error) {
	req, err := run.ReadRequest(body)
	if err != nil {
		return Validation{}, err
	}
	p, err := c.plan(ctx, req)
	if err != nil {
		return Validation{}, err
	}
	return Validation{true, p.spec.Agent, p.spec.Type, p.spec.Demands, p.spec.Timeout, p.schemaRaw, p.spec.Output, c.fleet.matches(p.want)}, nil
}

// store writes the run: queued where a runner could take it now and no turn of its session precedes, else accepted.
func (c *Coordinator) store(ctx context.Context, p plan) error {
	if err := c.records.Offload(ctx, &p.spec); err != nil {
		return err
	}
	part := subject.Partition(p.spec.SessionID)
	entry, err := c.first(ctx, part, p)
	if err != nil {
		return err
	}
	if !p.ownID {
		return c.records.Put(ctx, entry)
	}
	together, apart, err := c.beginning(part, p.spec, entry)
	if err != nil {
		return err
	}
	session := together[0]
	seq, err := c.records.AppendEither(ctx, together, apart)
	if err == nil {
		c.records.Wrote(seq)
		return nil
	}
	// Refused, or not answered: whose session is it? Its record names the run it began with.
	m, readErr := c.bus.Last(ctx, session.Subject)
	if readErr != nil {
		return unavailable(err)
	}
	var theirs run.Begun
	if json.Unmarshal(m.Body, &theirs) != nil || theirs.RunID != p.spec.ID {
		return sessionExists(p.spec.SessionID)
	}
	if err := c.caughtUp(ctx); err != nil {
		return err
	}
	// The other one may not have been written, or be lost with a crash of NATS.
	if stands, err := c.torn.Stands(ctx, p.spec.ID, p.spec.SessionID); err != nil || stands {
		return err
	}
	return c.records.Put(ctx, apart[1])
}

// beginning are the records that begin a session under its caller's own id: the session's, which carries the run as it
// is accepted, and the run's first. The one before the other: whose session it is, is decided when its run may be
// taken. Written one by one the run is accepted, not queued: its writer may be so slow that it comes behind the run's
// end and the session's deletion, and what is queued a worker may begin.
func (c *Coordinator) beginning(part string, s run.Spec, first bus.Entry) (together, apart []bus.Entry, err error) {
	accepted, err := run.Accepted{V: c.versions.Now(), Spec: s}.Encode()
	if err != nil {
		return nil, nil, err
	}
	begun, err := run.Begun{V: c.versions.Now(), RunID: s.ID, At: s.CreatedAt, Next: accepted}.Encode()
	session := bus.Entry{Subject: subject.Session(part, s.SessionID), Body: begun}
	last := bus.Entry{Subject: subject.Accepted(part, s.SessionID, s.ID), Body: accepted}
	return []bus.Entry{session, first}, []bus.Entry{session, last}, err
}

// first is the run's first record. One that is to be stopped at once is not queued: no worker is to begin it.
func (c *Coordinator) first(ctx context.Context, part string, p plan) (bus.Entry, error) {
	if p.spec.Type == run.Start && c.fleet.laneMatches(p.lane, p.want) && !c.stopped(p.spec.Parent) {
		lane, err := c.queues.ensure(ctx, p.lane, queue{p.want, p.spec.Caller}, false)
		if err != nil {
			return bus.Entry{}, err
		}
		return c.records.Queued(part, lane, p.spec, 1)
	}
	body, err := run.Accepted{V: c.versions.Now(), Spec: p.spec}.Encode()
	return bus.Entry{Subject: subject.Accepted(part, p.spec.SessionID, p.spec.ID), Body: body}, err
}
