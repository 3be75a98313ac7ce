package mcpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"ao/coordinator/audit"
	"ao/coordinator/runs"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

// Limits of waiting for a run, in seconds. Several clients abandon a call after a minute, so the default is shorter.
const (
	defaultWait = 50
	maxWait     = 600
)

// detached returns a context that goes on after the client disconnects.
func (x *call) detached() context.Context { return context.WithoutCancel(x.ctx) }

// parent returns the parent session of the run: the token's, else the one that the header names; empty: none.
func (x *call) parent() (string, error) {
	own := x.who.Session
	switch {
	case own != "" && x.headerSession != "" && x.headerSession != own:
		return "", fault.Newf(fault.Forbidden, "%s names session %.80q, and the token is that of session %s; leave "+
			"the header out", runnerapi.HeaderSession, x.headerSession, own).With("field", runnerapi.HeaderSession)
	case own != "" || x.headerSession == "":
		return own, nil
	}
	if run.CheckSessionID(x.headerSession) != nil {
		return "", fault.Newf(fault.Invalid, "%s %.80q is not a session id (ses_…)", runnerapi.HeaderSession,
			x.headerSession).With("field", runnerapi.HeaderSession)
	}
	return x.headerSession, nil
}

// startArgs are the arguments of start_agent_session, in the order of the request's members.
type startArgs struct {
	AgentName     string          `json:"agent_name"`
	Prompt        *string         `json:"prompt"`
	Parameters    json.RawMessage `json:"parameters"`
	Mode          string          `json:"mode"`
	WaitSeconds   *int            `json:"wait_seconds"`
	Timeout       *int            `json:"timeout_seconds"`
	ProjectDir    string          `json:"project_dir"`
	Demands       json.RawMessage `json:"additional_demands"`
	Schema        json.RawMessage `json:"output_schema"`
	SchemaName    string          `json:"output_schema_name"`
	SchemaOptions json.RawMessage `json:"output_schema_options"`
}

// resumeArgs are the arguments of resume_agent_session.
type resumeArgs struct {
	SessionID     string          `json:"session_id"`
	Prompt        *string         `json:"prompt"`
	Mode          string          `json:"mode"`
	WaitSeconds   *int            `json:"wait_seconds"`
	Timeout       *int            `json:"timeout_seconds"`
	Schema        json.RawMessage `json:"output_schema"`
	SchemaName    string          `json:"output_schema_name"`
	SchemaOptions json.RawMessage `json:"output_schema_options"`
}

func (a *API) start(x *call) (any, error) {
	var in startArgs
	if err := strictjson.DecodeFilled(x.args, &in); err != nil {
		return nil, err
	}
	if in.AgentName == "" {
		return nil, fault.New(fault.Invalid, "", "agent_name is required; list_agent_blueprints lists them").
			With("field", "agent_name")
	}
	x.args = a.unquoteParameters(x, in)
	return a.submit(x, run.Start, in.Mode, in.WaitSeconds)
}

// unquoteParameters returns the arguments with objects and lists where the agent's schema wants some and the caller
// sent their text.
func (a *API) unquoteParameters(x *call, in startArgs) json.RawMessage {
	s, err := a.cfg.Agents.InputSchema(x.ctx, in.AgentName)
	if err != nil || in.Parameters == nil { // the run's checks say what is wrong
		return x.args
	}
	members, err := strictjson.Members(x.args)
	if err != nil {
		return x.args
	}
	for i, m := range members {
		if m.Key == "parameters" {
			members[i].Value = s.Unquote(m.Value)
		}
	}
	return strictjson.Object(members)
}

func (a *API) resume(x *call) (any, error) {
	var in resumeArgs
	if err := strictjson.DecodeFilled(x.args, &in); err != nil {
		return nil, err
	}
	if in.SessionID == "" {
		return nil, fault.New(fault.Invalid, "", "session_id is required: which session continues? "+
			"list_agent_sessions "+
			"lists them").With("field", "session_id")
	}
	return a.submit(x, run.Resume, in.Mode, in.WaitSeconds)
}

// submit builds a request from the arguments and submits it like the other APIs. Parameters keep their bytes.
func (a *API) submit(x *call, kind, mode string, seconds *int) (any, error) {
	mode = cmp.Or(mode, run.Sync)
	wait := time.Duration(defaultWait) * time.Second
	switch {
	case seconds == nil:
	case *seconds < 0 || *seconds > maxWait:
		return nil, fault.Newf(fault.Invalid, "wait_seconds must be from 0 to %d; a run that takes longer goes on, "+
			"and get_agent_session_result waits for it", maxWait).With("field", "wait_seconds")
	default:
		wait = time.Duration(*seconds) * time.Second
	}
	parent, err := x.parent()
	if err != nil {
		return nil, err
	}
	if mode == run.AsyncCallback && parent == "" {
		return nil, fault.Newf(fault.Invalid, "mode async_callback needs a session that is called back, and this "+
			"call comes from none: send the header %s with its id, as agents do that Agent Orchestrator runs; or use "+
			"mode sync or async_poll", runnerapi.HeaderSession).With("field", "mode")
	}
	body, err := request(x.args, kind, mode, parent)
	if err != nil {
		return nil, err
	}
	if own := x.who.Session; own != "" {
		body, err = a.cfg.Sessions.AsSession(x.ctx, own, body)
		if err != nil {
			return nil, err
		}
	}
	acc, err := a.cfg.Runs.Submit(x.detached(), body, x.who.KeyScope(), "")
	if err != nil {
		return nil, err
	}
	x.targets = audit.Targets{Run: acc.RunID, Session: acc.SessionID}
	a.note(x, audit.RunCreate, http.StatusCreated, "") // its end may come much later
	x.stored()
	switch acc.Mode {
	case run.AsyncCallback:
		return accepted{acc.RunID, acc.SessionID, string(acc.Status), "The run continues by itself. Session " +
			parent + " is resumed with its result when it has ended: end your turn now, and do not ask for it."}, nil
	case run.AsyncPoll:
		return accepted{acc.RunID, acc.SessionID, string(acc.Status), pollHint(acc.SessionID)}, nil
	}
	return a.await(x, acc, wait)
}

// request returns the body of POST /runs: the arguments as they were sent, without those of the tool itself.
func request(args json.RawMessage, kind, mode, parent string) ([]byte, error) {
	sent, err := strictjson.Members(args)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "The arguments must be a JSON object")
	}
	var members []strictjson.Member
	ours := func(key, value string) error {
		raw, err := strictjson.Encode(value)
		members = append(members, strictjson.Member{Key: key, Value: raw})
		return err
	}
	if err := ours("type", kind); err != nil {
		return nil, err
	}
	if err := ours("mode", mode); err != nil {
		return nil, err
	}
	if parent != "" {
		if err := ours("parent_session_id", parent); err != nil {
			return nil, err
		}
	}
	for _, m := range sent {
		if null := string(m.Value) == "null"; null || m.Key == "mode" || m.Key == "wait_seconds" && mode == run.Sync {
			continue // models send null for what they leave out
		}
		members = append(members, m)
	}
	return strictjson.Object(members), nil
}

// accepted answers a call that does not wait for the end.
type accepted struct {
	RunID     string `json:"run_id"`
	SessionID string `json:"session_id"`
	Status    string `json:"status"`
	Next      string `json:"next"` // for the model: what to do now
}

// pollHint tells a model how to get the result.
func pollHint(session string) string {
	return fmt.Sprintf(`The run continues. Call get_agent_session_result with {"session_id":%q,"wait_seconds":%d} `+
		`until it gives the result.`, session, defaultWait)
}

// await waits for the end of a run and reports progress. A client that stops waiting ends no run.
func (a *API) await(x *call, acc runs.Accepted, most time.Duration) (any, error) {
	out, ended, err := a.end(x, acc.SessionID, acc.RunID, most, func(ctx context.Context) (runs.Outcome, bool, error) {
		return a.cfg.Runs.Finish(ctx, acc)
	})
	switch {
	// the accepted run goes on, also while NATS cannot be read
	case err != nil && fault.KindOf(err) != fault.Unavailable:
		return nil, err
	case !ended:
		return accepted{acc.RunID, acc.SessionID, string(cmp.Or(out.Status, acc.Status)),
			fmt.Sprintf("It has not ended within %v. ", most) + pollHint(acc.SessionID)}, nil
	}
	return document(out), nil
}

// end waits for the end with wait. Without an end, it returns the run as it is.
func (a *API) end(x *call, session, id string, most time.Duration, wait func(context.Context) (runs.Outcome, bool,
	error)) (runs.Outcome, bool, error) {
	began := time.Now()
	defer func() { x.waited.Add(int64(time.Since(began))) }()
	x.w.start(a.cfg.KeepAlive)
	ctx, cancel := context.WithTimeout(x.ctx, most)
	defer cancel()
	defer context.AfterFunc(a.cfg.Waiting, cancel)()
	defer a.progress(ctx, x, session, id)()
	out, ended, err := wait(ctx)
	if err == nil && !ended && out.ID == "" {
		out.Run, err = a.cfg.Runs.Show(x.detached(), id)
		if err != nil {
			return out, false, err
		}
		if out.Status.Final() { // it has ended just now
			out, err = a.cfg.Runs.Outcome(x.detached(), id)
			return out, err == nil, err
		}
	}
	return out, ended, err
}

// result describes an ended run.
type result struct {
	RunID     string       `json:"run_id"`
	SessionID string       `json:"session_id"`
	Agent     string       `json:"agent_name"`
	Status    run.Status   `json:"status"`
	Result    *run.Result  `json:"result"`          // null: it has none
	Error     *fault.Fault `json:"error,omitempty"` // why it failed or was stopped
	Next      string       `json:"next,omitempty"`
}

// document returns the document of an ended run. A run that did not complete is an error to the model.
func document(o runs.Outcome) any {
	doc := result{RunID: o.ID, SessionID: o.SessionID, Agent: o.Agent, Status: o.Status, Result: o.Result,
		Error: o.Error}
	if o.Status != run.Completed {
		return failure{doc}
	}
	return doc
}
