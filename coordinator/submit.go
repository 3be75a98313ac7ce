package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/fleet"
	"ao/shared/run"
	"ao/shared/schema"
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

// plan is a request that passed every check: what will be stored, and what its run wants.
type plan struct {
	spec      run.Spec
	want      fleet.Want
	lane      string // that of want
	ownID     bool   // the caller chose the session's id
	schemaRaw json.RawMessage
	wait      *int // wait_seconds
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

// plan makes every check of contract sections 3 to 5.
func (c *Coordinator) plan(ctx context.Context, req run.Request) (plan, error) {
	p := plan{wait: req.WaitSeconds, spec: run.Spec{Type: req.Type, SessionID: req.SessionID, Mode: req.Mode, Parent: req.ParentSessionID, CreatedAt: time.Now().UTC()}}
	var affinity run.Demands
	var sessionDir string
	name := req.AgentName
	if req.Type == run.Resume {
		s, err := c.Journal.Session(ctx, req.SessionID)
		if err != nil {
			return p, err
		}
		if name != "" && name != s.Agent {
			return p, fault.Newf(fault.Invalid, "session %s belongs to agent %q; leave agent_name out or name that one", s.ID, s.Agent).With("field", "agent_name")
		}
		name, sessionDir = s.Agent, s.ProjectDir
		affinity = c.affinity(s.ID, s.ProjectDir)
		p.spec.Depth = s.Depth
		if p.spec.Parent == "" {
			p.spec.Parent = s.Parent
		}
	} else if req.SessionID != "" {
		p.ownID = true
		if _, err := c.Journal.Session(ctx, req.SessionID); err == nil {
			return p, sessionExists(req.SessionID)
		} else if fault.KindOf(err) != fault.NotFound {
			return p, err
		}
		if c.Journal.Deleted(req.SessionID) {
			return p, fault.Newf(fault.Conflict, "session %s existed and was deleted; an id is not used twice", req.SessionID).With("session_id", req.SessionID).With("field", "session_id")
		}
	}
	a, err := c.agents.usable(ctx, name)
	if err != nil {
		return p, err
	}
	if req.Type == run.Resume {
		if err := c.resumable(ctx, a, req.SessionID); err != nil {
			return p, err
		}
		if err := c.atHome(req.SessionID); err != nil {
			return p, err
		}
	}
	if req.ParentSessionID != "" {
		above, err := c.Journal.Session(ctx, req.ParentSessionID)
		if err != nil {
			return p, fault.Of(err).With("field", "parent_session_id")
		}
		if req.Type == run.Start {
			if p.spec.Depth = above.Depth + 1; p.spec.Depth > c.MaxDepth {
				return p, tooDeep(above, c.MaxDepth)
			}
		}
	}
	if req.Mode == run.AsyncCallback && p.spec.Parent == "" && req.CallbackURL == "" {
		return p, fault.New(fault.Invalid, "", "mode async_callback needs parent_session_id: which session is told of the end? (callback_url tells an HTTP receiver)").With("field", "parent_session_id")
	}
	if req.Type == run.Resume && req.Mode == run.AsyncCallback && c.Journal.Above(req.SessionID, p.spec.Parent) {
		return p, fault.Newf(fault.Invalid, "parent_session_id: session %s is itself told of what session %s does; the two would call each other back for ever", p.spec.Parent, req.SessionID).With("field", "parent_session_id")
	}
	if req.CallbackURL != "" {
		if err := c.Webhooks.Check(req.CallbackURL); err != nil {
			return p, err
		}
	}
	s, err := a.InputSchema(req.Type)
	if err != nil {
		return p, agent.InvalidSchema("parameters_schema", err)
	}
	p.schemaRaw = s.Raw()
	if err := c.tooLarge(&run.Input{Parameters: req.Parameters}); err != nil {
		return p, err
	}
	if wrong := s.CheckUpTo(req.Parameters, c.MaxPayload); len(wrong) > 0 {
		return p, unfit("Parameters do not match agent's parameters_schema", name, wrong, p.schemaRaw)
	}
	if err := a.Takes(req.Parameters); err != nil {
		return p, err
	}
	if d := req.AdditionalDemands.ExecutorProfile; d != "" {
		if err := agent.CheckName("additional_demands.executor_profile", d); err != nil {
			return p, err
		}
	}
	asked := []run.Demands{{ProjectDir: req.ProjectDir}, req.AdditionalDemands}
	p.spec.Demands = a.demands(affinity, asked...)
	p.spec.ProjectDir = p.spec.Demands.ProjectDir
	if sessionDir != "" {
		p.spec.ProjectDir = sessionDir
	}
	p.spec.Agent, p.spec.AgentType, p.spec.Owner = name, a.Type, a.ownerHash()
	p.spec.Timeout, p.spec.TimeoutBy = timeout(req, a)
	p.spec.Attempts, p.spec.CallbackTo = a.MaxAttempts, req.CallbackURL
	if req.MaxAttempts != nil {
		p.spec.Attempts = *req.MaxAttempts
	}
	if p.spec.Attempts == 1 { // that is what none says, too
		p.spec.Attempts = 0
	}
	p.want = a.want(p.spec.Demands)
	if err := c.fleet.permit(p.want, a.Model); err != nil {
		return p, err
	}
	p.lane = a.laneOf(p.want, append(asked, affinity)...)
	snapshot, err := a.snapshot()
	if err != nil {
		return p, err
	}
	output, err := c.output(ctx, req, a)
	if err != nil {
		return p, err
	}
	p.spec.Input = &run.Input{Parameters: req.Parameters, Blueprint: snapshot, Output: output}
	p.spec.Contract = output != nil
	return p, c.tooLarge(p.spec.Input)
}

// unfit refuses parameters that do not match a schema, with everything that is wrong.
func unfit(say, agent string, wrong []schema.Violation, parametersSchema json.RawMessage) *fault.Fault {
	first := wrong[0].Path + ": " + wrong[0].Message
	if more := len(wrong) - 1; more > 0 {
		first += fmt.Sprintf(" (and %d more)", more)
	}
	return fault.New(fault.Invalid, "parameter_validation_failed", say).
		With("agent_name", agent).With("validation_errors", wrong).With("parameters_schema", parametersSchema).First(first)
}

// tooDeep refuses a child: agents that start themselves would go on for ever.
func tooDeep(above run.Session, most int) error {
	return fault.New(fault.Invalid, "too_deep", fmt.Sprintf("Session %s is %d below the first of its chain, and runs may be %d deep (AO_MAX_DEPTH); do the work here, or start it without a parent", above.ID, above.Depth, most)).
		With("field", "parent_session_id").With("parent_session_id", above.ID).With("depth", above.Depth+1).With("max_depth", most)
}

func sessionExists(id string) error {
	return fault.Newf(fault.Conflict, "session %s exists already; leave session_id out for a new one, or resume it", id).With("session_id", id).With("field", "session_id")
}

// resumable tells whether a session can go on at all (contract sections 1 and 3). Its first run may be queued yet; if that is ended
// before a runner begins it, the turns that follow end, too (Journal.Vain, decision 0024).
func (c *Coordinator) resumable(ctx context.Context, a known, session string) error {
	if a.Type == run.Procedural {
		return fault.New(fault.Invalid, "procedural_agent_no_resume", "Procedural agents are stateless and cannot be resumed").With("agent_name", a.Name)
	}
	if c.Journal.Resumes(session) {
		return nil
	}
	if err := c.caughtUp(ctx); err != nil { // another coordinator may have told so a moment ago
		return err
	}
	if c.Journal.Resumes(session) {
		return nil
	}
	say := "never began, so there is nothing to resume; start a new session"
	if open := c.Journal.Open(session); len(open) > 0 && open[0].Spec.Type == run.Start {
		say = "has not begun yet: run " + open[0].Spec.ID + " waits for a runner; resume it when one has come"
	}
	return fault.New(fault.Conflict, "session_never_began", "The model session of "+session+" "+say).With("session_id", session)
}

// The limits of an execution where nobody sets one, in seconds (contract section 4).
var defaultTimeout = map[string]int{run.Procedural: 300, run.Autonomous: 3600}

// timeout is the limit of the execution and who set it. The agent's, else its profile's value is the upper bound.
func timeout(req run.Request, a known) (seconds int, by string) {
	seconds, by = defaultTimeout[a.Type], "default"
	bound, bounder := a.TimeoutSeconds, "agent"
	if bound == 0 {
		bound, bounder = a.profileTimeout, "profile"
	}
	if bound > 0 {
		seconds, by = bound, bounder
	}
	if req.TimeoutSeconds != nil && (bound == 0 || *req.TimeoutSeconds < bound) {
		seconds, by = *req.TimeoutSeconds, "request"
	}
	return seconds, by
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
		lane, err := c.fleet.ensure(ctx, p.lane, queue{p.want, p.spec.Caller}, false)
		if err != nil {
			return bus.Entry{}, err
		}
		return c.records.Queued(part, lane, p.spec, 1)
	}
	body, err := run.Accepted{V: c.versions.Now(), Spec: p.spec}.Encode()
	return bus.Entry{Subject: subject.Accepted(part, p.spec.SessionID, p.spec.ID), Body: body}, err
}
