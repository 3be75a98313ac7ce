package runs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// The sessions that a retry's run may go to.
const (
	InNewSession  = "new_session"
	InSameSession = "same_session"
)

// Retry asks for a run like an existing one.
type Retry struct {
	RunID   string
	Changes []byte // members of the request to change; empty: none
	Scope   string // of the idempotency key: who asks
	Key     string // idempotency key; empty: none

	// ForSession turns the request into one of a session. It is nil for other callers.
	ForSession func(ctx context.Context, request []byte) ([]byte, error)
}

// Bulk retries runs, and stops, retries or redelivers many at once.
type Bulk struct {
	runs      *Service
	index     Index
	redeliver func(ctx context.Context, id string) (run.Run, error)
}

// Index looks up runs and sessions.
type Index interface {
	Spec(ctx context.Context, id string) (run.Spec, error)
	Session(ctx context.Context, id string) (run.Session, error)
	lists
}

// NewBulk makes a Bulk. redeliver tries the webhook of a run again.
func NewBulk(s *Service, of Index, redeliver func(ctx context.Context, id string) (run.Run, error)) *Bulk {
	return &Bulk{s, of, redeliver}
}

// Retry starts a run with the request of an existing one and the given changes.
func (a *Bulk) Retry(ctx context.Context, q Retry) (Accepted, error) {
	// The request is checked against the agent as it is now.
	if len(q.Key) > maxKey {
		return Accepted{}, errKeyTooLong()
	}
	return a.retry(ctx, q)
}

func (a *Bulk) retry(ctx context.Context, q Retry) (Accepted, error) {
	c, err := readChanges(q.Changes)
	if err != nil {
		return Accepted{}, err
	}
	again := &retrying{Bulk: a, q: q, changes: c}
	acc, err := a.runs.accept(ctx, again, slices.Concat([]byte("retry "+q.RunID+"\n"), q.Changes), q.Scope, q.Key)
	acc.RetryOf, acc.Changed = q.RunID, again.changed
	if err == nil && !acc.fresh { // a repeat: its run was made before
		acc.Changed = a.differ(ctx, q.RunID, acc.RunID)
	}
	return acc, err
}

// differ reports whether two runs of one agent carry different definitions, as far as both are known.
func (a *Bulk) differ(ctx context.Context, id, other string) bool {
	one, err := a.runs.History.Get(ctx, id)
	two, errTwo := a.runs.History.Get(ctx, other)
	return err == nil && errTwo == nil && changed(one.Agent, one.AgentHash, two.Agent, two.AgentHash)
}

// changed reports whether the definition of an agent differs from what it was.
func changed(name, was, nowName, now string) bool {
	return name == nowName && was != "" && now != "" && was != now
}

// retrying checks and stores a retry. It is a submission.
type retrying struct {
	*Bulk
	q       Retry
	changes changes
	changed bool // the agent has another definition than the first run
}

// Check builds the request and checks it like any other.
func (r *retrying) Check(ctx context.Context, _ []byte, scope string) (*Plan, error) {
	of, err := r.index.Spec(ctx, r.q.RunID)
	if err != nil {
		return nil, err
	}
	body, err := r.request(ctx, of, r.q, r.changes)
	if err != nil {
		return nil, err
	}
	p, err := r.runs.Check(ctx, body, scope)
	if err == nil {
		p.Spec.RetryOf = r.q.RunID
		r.changed = changed(of.Agent, hashOf(&of), p.Spec.Agent, p.agentHash)
	}
	return p, err
}

// Place stores the run.
func (r *retrying) Place(ctx context.Context, p *Plan, runID, sessionID string) (Accepted, error) {
	return r.runs.Place(ctx, p, runID, sessionID)
}

// WaitMode returns how the caller wants to learn of the end. The default is not to wait.
func (r *retrying) WaitMode([]byte) (mode string, seconds *int, err error) {
	return r.changes.Mode, r.changes.WaitSeconds, nil
}

// changes are the members that a retry sets anew. null removes a member.
type changes struct {
	In          string
	Mode        string
	WaitSeconds *int
	members     []strictjson.Member // all but In
}

// readChanges reads the body of a retry.
func readChanges(raw []byte) (c changes, err error) {
	c.In, c.Mode = InNewSession, run.AsyncPoll
	if len(bytes.TrimSpace(raw)) == 0 {
		return c, nil
	}
	if err := strictjson.Check(raw); err != nil {
		return c, err
	}
	all, err := strictjson.Members(raw)
	if err != nil {
		return c, fault.New(fault.Invalid, "", `The body must be empty or a JSON object with the members to change: `+
			`{"parameters":{…}}`)
	}
	for _, m := range all {
		switch m.Key {
		case "in":
			err = json.Unmarshal(m.Value, &c.In)
			if err != nil || c.In != InNewSession && c.In != InSameSession {
				return c, fault.New(fault.Invalid, "", "in must be new_session or same_session").With("field", "in")
			}
			continue
		case "type":
			return c, fault.New(fault.Invalid, "", `A retry has no type: send "in":"same_session" for another turn `+
				`of the run's session`).With("field", "type")
		case "mode", "execution_mode":
			_ = json.Unmarshal(m.Value, &c.Mode) // Check reports what is wrong with it
		case "wait_seconds":
			_ = json.Unmarshal(strictjson.Whole(m.Value), &c.WaitSeconds)
		}
		c.members = append(c.members, m)
	}
	if c.In == InSameSession &&
		slices.ContainsFunc(c.members, func(m strictjson.Member) bool { return m.Key == "session_id" }) {
		return c, fault.New(fault.Invalid, "", `session_id cannot be given with "in":"same_session"; leave one of `+
			`them out`).With("field", "session_id")
	}
	return c, nil
}

// replaces lists the members that a member takes the place of.
var replaces = map[string][]string{
	"prompt":             {"parameters"},
	"execution_mode":     {"mode"},
	"output_schema":      {"output_schema_name"},
	"output_schema_name": {"output_schema"},
}

// request returns the body of POST /runs for a retry of a run: its request with the changes.
func (a *Bulk) request(ctx context.Context, s run.Spec, q Retry, c changes) ([]byte, error) {
	parent := s.Parent
	if c.In == InSameSession {
		if of, err := a.index.Session(ctx, s.SessionID); err == nil && of.Parent == parent {
			parent = "" // the session has its own parent, also one that was deleted
		}
	}
	if q.ForSession != nil {
		parent = ""
	}
	members, err := requestMembers(s, c.In, parent)
	if err != nil {
		return nil, err
	}
	members = slices.DeleteFunc(members, func(m strictjson.Member) bool {
		return slices.ContainsFunc(c.members, func(other strictjson.Member) bool {
			return other.Key == m.Key || slices.Contains(replaces[other.Key], m.Key)
		})
	})
	for _, m := range c.members {
		if string(m.Value) != "null" {
			members = append(members, m)
		}
	}
	body := strictjson.Object(members)
	if q.ForSession != nil {
		return q.ForSession(ctx, body)
	}
	return body, nil
}

// requestMembers returns the original request, member by member. Parameters and schemas keep their bytes.
func requestMembers(s run.Spec, in, parent string) (all []strictjson.Member, err error) {
	put := func(key string, v any) {
		raw, wrong := strictjson.Encode(v)
		err = cmp.Or(err, wrong)
		all = append(all, strictjson.Member{Key: key, Value: raw})
	}
	text := func(key, v string) {
		if v != "" {
			put(key, v)
		}
	}
	if in == InSameSession {
		put("type", run.Resume)
		put("session_id", s.SessionID)
	} else {
		put("type", run.Start)
		put("agent_name", s.Agent)
	}
	if s.Input != nil {
		all = append(all, strictjson.Member{Key: "parameters", Value: s.Parameters})
	}
	if s.Mode != run.Sync { // a retry does not wait by default
		put("mode", s.Mode)
	}
	text("parent_session_id", parent)
	text("callback_url", s.CallbackURL)
	if s.Input != nil && s.Output != nil {
		switch s.Output.Source {
		case run.SourceRequest:
			all = append(all, strictjson.Member{Key: "output_schema", Value: s.Output.Schema})
		case run.SourceRegistry:
			put("output_schema_name", s.Output.Name)
		}
	}
	a := s.Requested
	if a == nil {
		return all, err
	}
	text("project_dir", a.ProjectDir)
	if a.Demands != nil {
		put("additional_demands", a.Demands)
	}
	if a.Timeout != nil {
		put("timeout_seconds", *a.Timeout)
	}
	if a.Attempts != nil {
		put("max_attempts", *a.Attempts)
	}
	if a.Options != nil {
		put("output_schema_options", a.Options.Consistent())
	}
	return all, err
}

// derivedKey returns an idempotency key that no caller can send.
func derivedKey(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return "\x00" + hex.EncodeToString(h.Sum(nil))
}

func errKeyTooLong() *fault.Fault {
	return fault.Newf(fault.Invalid, "Idempotency-Key must be at most %d bytes", maxKey).
		With("field", "Idempotency-Key")
}
