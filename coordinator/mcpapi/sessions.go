package mcpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"ao/coordinator/projection/query"
	"ao/coordinator/runs"
	"ao/coordinator/schemas"
	"ao/coordinator/sessions"
	"ao/shared/agent"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// sessionArgs are the arguments of tools for one session.
type sessionArgs struct {
	SessionID   string `json:"session_id"`
	WaitSeconds *int   `json:"wait_seconds"`
}

// session reads the session's id and checks that the caller may use it; with itself, also its own.
func (a *API) session(x *call, itself bool) (in sessionArgs, err error) {
	if err := strictjson.DecodeFilled(x.args, &in); err != nil {
		return in, err
	}
	return in, a.authorize(x, in.SessionID, itself)
}

// authorize refuses a session token another's session; with itself, its own is allowed.
func (a *API) authorize(x *call, session string, itself bool) error {
	if session == "" {
		return fault.New(fault.Invalid, "", "session_id is required; list_agent_sessions lists them").
			With("field", "session_id")
	}
	if err := run.CheckSessionID(session); err != nil {
		return err
	}
	if own := x.who.Session; own != "" {
		return a.cfg.Sessions.RequireDescendant(x.ctx, session, own, itself)
	}
	return nil
}

// latest describes a session's newest run to a model.
type latest struct {
	RunID      string       `json:"run_id"`
	Status     run.Status   `json:"status"`
	WaitingFor string       `json:"waiting_for,omitempty"`
	Error      *fault.Fault `json:"error,omitempty"`
	CreatedAt  time.Time    `json:"created_at"`
	EndedAt    *time.Time   `json:"completed_at,omitempty"`
}

func (a *API) status(x *call) (any, error) {
	in, err := a.session(x, true)
	if err != nil {
		return nil, err
	}
	s, err := a.cfg.Sessions.Session(x.ctx, in.SessionID)
	if err != nil {
		return nil, err
	}
	return a.standing(x.ctx, s)
}

func (a *API) standing(ctx context.Context, s run.Session) (any, error) {
	doc := struct {
		run.Session
		Newest *latest `json:"last_run,omitempty"`
		Next   string  `json:"next,omitempty"`
	}{Session: s}
	if s.LastRun == "" {
		return doc, nil
	}
	r, err := a.cfg.Runs.Show(ctx, s.LastRun)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return nil, err
	}
	if err == nil {
		doc.Newest = &latest{r.ID, r.Status, r.WaitingFor, r.Error, r.CreatedAt, r.EndedAt}
		if !r.Status.Final() {
			doc.Next = pollHint(s.ID)
		}
	}
	return doc, nil
}

// resultOf returns the result of the newest ended run. It waits for a run in progress as long as the caller asks.
func (a *API) resultOf(x *call) (any, error) {
	in, err := a.session(x, true)
	if err != nil {
		return nil, err
	}
	wait := 0
	if w := in.WaitSeconds; w != nil {
		wait = *w
		if wait < 0 || wait > maxWait {
			return nil, fault.Newf(fault.Invalid, "wait_seconds must be from 0 to %d; ask again for a run that "+
				"takes longer", maxWait).With("field", "wait_seconds")
		}
	}
	s, err := a.cfg.Sessions.Session(x.ctx, in.SessionID)
	if err != nil {
		return nil, err
	}
	if wait > 0 && s.ID != x.who.Session { // waiting for its own run would never end
		out, ended, err := a.end(x, s.ID, s.LastRun, time.Duration(wait)*time.Second,
			func(ctx context.Context) (runs.Outcome, bool, error) { return a.cfg.Runs.Await(ctx, s.LastRun) })
		switch {
		case err != nil:
			return nil, err
		case !ended:
			return accepted{out.ID, s.ID, string(out.Status), pollHint(s.ID)}, nil
		}
		return document(out), nil
	}
	_, r, err := a.cfg.Sessions.SessionResult(x.ctx, s.ID)
	if fault.KindOf(err) == fault.Conflict && r.ID == "" {
		return nil, fault.Of(err).With("status", s.Status).With("next", pollHint(s.ID))
	}
	if err != nil && fault.KindOf(err) != fault.Conflict {
		return nil, err
	}
	out, err := a.cfg.Runs.Outcome(x.ctx, r.ID)
	if err != nil {
		return nil, err
	}
	doc := document(out)
	if d, ok := doc.(result); ok && s.LastRun != r.ID {
		d.Next = "This is the result of an earlier run of the session; a later one has not ended yet. " + pollHint(s.ID)
		doc = d
	}
	return doc, nil
}

func (a *API) stop(x *call) (any, error) {
	var in struct {
		SessionID string `json:"session_id"`
		Tree      bool   `json:"tree"`
	}
	if err := strictjson.Decode(x.args, &in); err != nil {
		return nil, err
	}
	x.targets.Tree = in.Tree
	if run.CheckSessionID(in.SessionID) == nil {
		x.targets.Session = in.SessionID
	}
	if err := a.authorize(x, in.SessionID, false); err != nil {
		return nil, err
	}
	return a.cfg.Sessions.StopSession(x.detached(), in.SessionID, sessions.Stop{Tree: in.Tree})
}

// listArgs are the arguments of list_agent_sessions.
type listArgs struct {
	Status string `json:"status"`
	Agent  string `json:"agent_name"`
	Parent string `json:"parent_session_id"`
	Limit  int    `json:"limit"`
	Cursor string `json:"cursor"`
}

func (a *API) sessions(x *call) (any, error) {
	var in listArgs
	if err := strictjson.DecodeFilled(x.args, &in); err != nil {
		return nil, err
	}
	if in.Limit < 0 || in.Limit > 100 {
		return nil, fault.New(fault.Invalid, "", "limit must be from 1 to 100; cursor continues with the next ones").
			With("field", "limit")
	}
	if in.Agent != "" {
		if err := agent.CheckName("agent_name", in.Agent); err != nil {
			return nil, err
		}
	}
	if in.Parent != "" && run.CheckSessionID(in.Parent) != nil {
		return nil, fault.Newf(fault.Invalid, "parent_session_id %.80q is not a session id (ses_…)", in.Parent).
			With("field", "parent_session_id")
	}
	if own := x.who.Session; own != "" {
		in.Parent = cmp.Or(in.Parent, own)
		if err := a.cfg.Sessions.RequireDescendant(x.ctx, in.Parent, own, true); err != nil {
			return nil, err
		}
	}
	q := query.Query{Agent: in.Agent, Parent: in.Parent, Limit: cmp.Or(in.Limit, 20), Cursor: in.Cursor}
	if in.Status != "" {
		q.Statuses = []string{in.Status}
	}
	return a.cfg.Sessions.Sessions(x.ctx, q)
}

// blueprint tells a model how to start an agent.
type blueprint struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Type        string `json:"type"`
	Takes       string `json:"start_with"` // prompt or parameters
	Parameters  any    `json:"parameters_schema"`
	Output      any    `json:"output_schema,omitempty"`
	OutputName  string `json:"output_schema_name,omitempty"`

	Tags []string `json:"tags,omitempty"`
}

func (a *API) agents(x *call) (any, error) {
	if err := strictjson.Decode(x.args, &struct{}{}); err != nil {
		return nil, err
	}
	all, err := a.cfg.Agents.Agents(agent.Active)
	if err != nil {
		return nil, err
	}
	found, embed := []blueprint{}, a.embedded(x.ctx)
	for _, b := range all {
		doc := blueprint{Name: b.Name, Description: b.Description, Type: b.Type, Takes: "parameters",
			OutputName: b.OutputSchemaName, Tags: b.Tags}
		if len(b.ParametersSchema) > 0 {
			doc.Parameters = embed(b.ParametersSchema)
		} else if b.Type == run.Autonomous {
			doc.Takes = "prompt"
		}
		if len(b.OutputSchema) > 0 {
			doc.Output = embed(b.OutputSchema)
		}
		found = append(found, doc)
	}
	return map[string][]blueprint{"agents": found}, nil
}

// embedded returns a function that returns a schema with the named ones that it refers to; as it is where they cannot
// be had. Many agents may refer to the same: each schema is embedded once.
func (a *API) embedded(ctx context.Context) func(raw json.RawMessage) json.RawMessage {
	done := map[string]json.RawMessage{}
	return func(raw json.RawMessage) json.RawMessage {
		if whole, ok := done[string(raw)]; ok {
			return whole
		}
		whole, err := a.cfg.Schemas.Embed(ctx, raw)
		if err != nil {
			whole = raw
		}
		done[string(raw)] = whole
		return whole
	}
}

func (a *API) schemas(x *call) (any, error) {
	if err := strictjson.Decode(x.args, &struct{}{}); err != nil {
		return nil, err
	}
	all, err := a.cfg.Schemas.Schemas(x.ctx)
	return map[string][]schemas.Schema{"schemas": all}, err
}

func (a *API) register(x *call) (any, error) {
	s, err := a.cfg.Schemas.CreateSchema(x.detached(), x.args)
	x.targets.Schema = s.Name
	return s, err
}
