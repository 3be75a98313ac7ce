package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ao/coordinator/agents"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/schema"
)

// Plan is a request that passed every check: the run to store and where to queue it.
type Plan struct {
	Spec      run.Spec
	agentHash string
	routing   runnerapi.RoutingKey
	queue     string // task queue of routing
	ownID     bool   // the caller chose the session's id
	schemaRaw json.RawMessage
	wait      *int // wait_seconds
}

// planBuilder builds a plan. Each step checks a part of the request and fills in what follows from it.
type planBuilder struct {
	Plan
	by         *Planner
	req        *run.Request
	agent      *agents.Resolved
	name       string      // of the agent, from the request or the session
	affinity   run.Demands // what the session demands of its next run
	sessionDir string      // of the resumed session
	asked      []run.Demands
}

// steps are the checks of a request, in the order in which they refuse.
var steps = []func(*planBuilder, context.Context) error{
	(*planBuilder).session, (*planBuilder).resolveAgent, (*planBuilder).parent, (*planBuilder).callbacks,
	(*planBuilder).parameters, (*planBuilder).demands,
	(*planBuilder).model, (*planBuilder).input,
}

// Plan makes the checks and returns the run to store.
func (p *Planner) Plan(ctx context.Context, req *run.Request) (*Plan, error) {
	d := &planBuilder{by: p, req: req, name: req.AgentName}
	d.wait = req.WaitSeconds
	d.Spec = run.Spec{Type: req.Type, SessionID: req.SessionID, Mode: req.Mode, Parent: req.ParentSessionID,
		CreatedAt: time.Now().UTC()}
	for _, step := range steps {
		if err := step(d, ctx); err != nil {
			return nil, err
		}
	}
	return &d.Plan, nil
}

// session looks up the session that the run resumes, or checks the id that the caller chose.
func (d *planBuilder) session(ctx context.Context) error {
	if d.req.SessionID == "" {
		return nil
	}
	s, err := d.by.history.Session(ctx, d.req.SessionID)
	if d.req.Type == run.Resume {
		if err != nil {
			return err
		}
		return d.resume(s)
	}
	d.ownID = true
	if err == nil {
		return errSessionExists(d.req.SessionID)
	} else if fault.KindOf(err) != fault.NotFound {
		return err
	}
	if d.by.history.WasDeleted(d.req.SessionID) {
		return fault.Newf(fault.Conflict, "session %s was deleted; ids are not reused",
			d.req.SessionID).With("session_id", d.req.SessionID).With("field", "session_id")
	}
	return nil
}

// resume takes over what the run inherits from its session.
func (d *planBuilder) resume(s run.Session) error {
	if d.name != "" && d.name != s.Agent {
		return fault.Newf(fault.Invalid, "session %s belongs to agent %q; omit agent_name, or send that one", s.ID,
			s.Agent).With("field", "agent_name")
	}
	d.name, d.sessionDir = s.Agent, s.ProjectDir
	d.affinity = d.by.affinity(s.ID, s.ProjectDir)
	d.Spec.Depth = s.Depth
	d.Spec.Parent = cmp.Or(d.Spec.Parent, s.Parent)
	return nil
}

// resolveAgent looks up the agent and checks that it can resume the session.
func (d *planBuilder) resolveAgent(ctx context.Context) (err error) {
	d.agent, err = d.by.agents.Usable(ctx, d.name)
	if err != nil || d.req.Type != run.Resume {
		return err
	}
	if err := d.by.checkResumable(ctx, d.agent, d.req.SessionID); err != nil {
		return err
	}
	return d.by.checkAffinity(d.req.SessionID)
}

// parent looks up the session that starts the run.
func (d *planBuilder) parent(ctx context.Context) error {
	if d.req.ParentSessionID == "" {
		return nil
	}
	above, err := d.by.history.Session(ctx, d.req.ParentSessionID)
	if err != nil {
		return fault.Of(err).With("field", "parent_session_id")
	}
	if d.req.Type != run.Start {
		return nil
	}
	d.Spec.Depth = above.Depth + 1
	if d.Spec.Depth > d.by.limits.Depth {
		return errTooDeep(above, d.by.limits.Depth)
	}
	return nil
}

// callbacks checks where the end is reported.
func (d *planBuilder) callbacks(context.Context) error {
	callsBack := d.req.Mode == run.AsyncCallback
	if callsBack && d.Spec.Parent == "" && d.req.CallbackURL == "" {
		return fault.New(fault.Invalid, "", "mode async_callback needs parent_session_id, the session that is called "+
			"back (callback_url is for an HTTP receiver)").With("field", "parent_session_id")
	}
	if callsBack && d.req.Type == run.Resume && d.by.history.IsAncestor(d.req.SessionID, d.Spec.Parent) {
		return fault.Newf(fault.Invalid, "parent_session_id: session %s is called back by session %s already; the "+
			"two would call each other back forever", d.Spec.Parent, d.req.SessionID).
			With("field", "parent_session_id")
	}
	d.Spec.CallbackURL = d.req.CallbackURL
	if d.req.CallbackURL == "" {
		return nil
	}
	return d.by.callback(d.req.CallbackURL)
}

// parameters checks the parameters against the agent's schema.
func (d *planBuilder) parameters(ctx context.Context) error {
	s, err := d.agent.InputSchema(ctx, d.req.Type, d.by.embed)
	if err != nil {
		return d.agent.SchemaError(err)
	}
	d.schemaRaw = s.Raw()
	if err := d.by.TooLarge(&run.Input{Parameters: d.req.Parameters}); err != nil {
		return err
	}
	if wrong := s.CheckUpTo(d.req.Parameters, d.by.limits.Payload); len(wrong) > 0 {
		return errParameters("Parameters do not match agent's parameters_schema", d.name, wrong, d.schemaRaw)
	}
	return d.agent.CheckParameters(d.req.Parameters)
}

// demands merges the demands of request, session and agent, and sets the limits of the execution.
func (d *planBuilder) demands(context.Context) error {
	if profile := d.req.AdditionalDemands.ExecutorProfile; profile != "" {
		if err := agent.CheckName("additional_demands.executor_profile", profile); err != nil {
			return err
		}
	}
	d.asked = []run.Demands{{ProjectDir: d.req.ProjectDir}, d.req.AdditionalDemands, d.affinity}
	d.Spec.Demands = d.agent.MergedDemands(d.affinity, d.asked...)
	d.Spec.ProjectDir = cmp.Or(d.sessionDir, d.Spec.Demands.ProjectDir)
	d.Spec.Agent, d.Spec.AgentType, d.Spec.Owner = d.name, d.agent.Type, d.agent.OwnerHash()
	d.Spec.Timeout, d.Spec.TimeoutBy = timeout(d.req, d.agent)
	d.Spec.Attempts = d.agent.MaxAttempts
	if d.req.MaxAttempts != nil {
		d.Spec.Attempts = *d.req.MaxAttempts
	}
	if d.Spec.Attempts == 1 { // the same as none
		d.Spec.Attempts = 0
	}
	d.Spec.Requested = asked(d.req)
	return nil
}

// asked returns what the request itself asked for, before it was merged with the agent's values; nil: nothing.
func asked(req *run.Request) *run.Requested {
	a := run.Requested{ProjectDir: req.ProjectDir, Timeout: req.TimeoutSeconds, Attempts: req.MaxAttempts,
		Options: req.OutputSchemaOptions}
	if !req.AdditionalDemands.Empty() {
		a.Demands = &req.AdditionalDemands
	}
	if a == (run.Requested{}) {
		return nil
	}
	return new(a)
}

// model checks that a runner may use the agent's model, and finds the task queue.
func (d *planBuilder) model(context.Context) error {
	d.routing = d.agent.RoutingKey(d.Spec.Demands)
	if err := d.by.runners.Permit(d.routing, d.agent.Model); err != nil {
		return err
	}
	d.queue = d.agent.QueueOf(d.routing, d.asked...)
	return nil
}

// input builds what the executor gets: the parameters, the agent as it is now, and what the answer must match.
func (d *planBuilder) input(ctx context.Context) error {
	snapshot, err := d.agent.Snapshot()
	if err != nil {
		return err
	}
	output, err := d.by.output(ctx, d.req, d.agent)
	if err != nil {
		return err
	}
	d.Spec.Input = &run.Input{Parameters: d.req.Parameters, Blueprint: snapshot, Output: output}
	d.Spec.HasOutputSchema, d.agentHash = output != nil, d.agent.Hash()
	return d.by.TooLarge(d.Spec.Input)
}

// errParameters refuses parameters that do not match a schema, and lists every violation.
func errParameters(message, agent string, wrong []schema.Violation, parametersSchema json.RawMessage) *fault.Fault {
	first := wrong[0].Path + ": " + wrong[0].Message
	if more := len(wrong) - 1; more > 0 {
		first += fmt.Sprintf(" (and %d more)", more)
	}
	return fault.New(fault.Invalid, "parameter_validation_failed", message).With("agent_name", agent).With(
		"validation_errors", wrong).With("parameters_schema", parametersSchema).First(first)
}

// errTooDeep refuses a child session: agents that start themselves would go on for ever.
func errTooDeep(above run.Session, most int) error {
	return fault.New(fault.Invalid, "too_deep", fmt.Sprintf("Session %s is %d levels below its root, and the limit "+
		"is %d (AO_MAX_DEPTH); do the work here, or start it without a parent", above.ID, above.Depth, most)).
		With("field", "parent_session_id").With("parent_session_id", above.ID).With("depth", above.Depth+1).
		With("max_depth", most)
}

func errSessionExists(id string) error {
	return fault.Newf(fault.Conflict, "session %s exists already; leave session_id out for a new one, or resume it",
		id).With("session_id", id).With("field", "session_id")
}

// checkResumable refuses a session that cannot be resumed. Its first run may still be queued: if that ends before a
// runner claims it, the turns that follow it end too (shared/docs/decisions/0024).
func (p *Planner) checkResumable(ctx context.Context, a *agents.Resolved, session string) error {
	if a.Type == run.Procedural {
		return fault.New(fault.Invalid, "procedural_agent_no_resume",
			"Procedural agents are stateless and cannot be resumed").With("agent_name", a.Name)
	}
	if p.history.CanResume(session) {
		return nil
	}
	if err := p.reads.CatchUp(ctx); err != nil { // another coordinator may know of it
		return err
	}
	if p.history.CanResume(session) {
		return nil
	}
	reason := "never started, so there is nothing to resume; start a new session"
	if open := p.history.Open(session); len(open) > 0 && open[0].Spec.Type == run.Start {
		reason = "has not started yet: run " + open[0].Spec.ID + " waits for a runner; resume the session later"
	}
	return fault.New(fault.Conflict, "session_never_began", "The model session of "+session+" "+reason).
		With("session_id", session)
}

// affinity returns what the session demands of its next run: its folder. An executor that keeps the session on one host
// also demands that host and its profile.
func (p *Planner) affinity(session, dir string) run.Demands {
	home := p.history.Affinity(session)
	home.ProjectDir = dir
	return home
}

// checkAffinity refuses a resume where no runner can reach the session's host. A runner that was there a moment ago may
// come back; the run may wait for it.
func (p *Planner) checkAffinity(session string) error {
	home := p.history.Affinity(session)
	if home.Hostname == "" || p.runners.Seen(home, p.limits.NoMatch) {
		return nil
	}
	return fault.New(fault.Conflict, "session_host_gone", fmt.Sprintf("The executor keeps session %s on host %q "+
		"(profile %q) only, and no runner has been there for %s; start a worker with that profile there and send "+
		"this again, or start a new session", session, home.Hostname, home.ExecutorProfile, p.limits.NoMatch)).With(
		"session_id", session).With("hostname", home.Hostname).With("executor_profile", home.ExecutorProfile)
}

// timeout returns the limit of the execution and who set it. The agent's value, else its profile's, is the upper bound.
func timeout(req *run.Request, a *agents.Resolved) (seconds int, by string) {
	seconds, by = int(run.DefaultTimeout(a.Type).Seconds()), "default"
	limit, limitBy := a.TimeoutSeconds, "agent"
	if limit == 0 {
		limit, limitBy = a.ProfileTimeout, "profile"
	}
	if limit > 0 {
		seconds, by = limit, limitBy
	}
	if req.TimeoutSeconds != nil && (limit == 0 || *req.TimeoutSeconds < limit) {
		seconds, by = *req.TimeoutSeconds, "request"
	}
	return seconds, by
}
