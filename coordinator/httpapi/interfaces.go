package httpapi

import (
	"context"
	"encoding/json"

	"ao/coordinator/agents"
	"ao/coordinator/audit"
	"ao/coordinator/insight/explain"
	insight "ao/coordinator/insight/status"
	"ao/coordinator/ledger"
	"ao/coordinator/preview"
	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/coordinator/rejected"
	"ao/coordinator/runners"
	"ao/coordinator/runs"
	"ao/coordinator/schemas"
	"ao/coordinator/sessions"
	"ao/shared/agent"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/schema"
)

// Runs starts, stops and shows runs.
type Runs interface {
	Submit(ctx context.Context, body []byte, scope, key string) (runs.Accepted, error)
	Validate(ctx context.Context, body []byte) (runs.Validation, error)
	Runs(ctx context.Context, q query.Query) (query.Page, error)
	Count(ctx context.Context, q query.Query) (query.Count, error)
	Watch(ctx context.Context, q query.Query, after string, emit func(query.Item) error) error
	Show(ctx context.Context, id string) (run.Run, error)
	Result(ctx context.Context, id string) (run.Result, run.Run, error)
	Finish(ctx context.Context, a runs.Accepted) (o runs.Outcome, ended bool, err error)
	Await(ctx context.Context, id string) (o runs.Outcome, ended bool, err error)
	Outcome(ctx context.Context, id string) (runs.Outcome, error)
	StopRun(ctx context.Context, id string, tree bool) (runs.StoppedRun, error)
}

// Definitions shows what runs run.
type Definitions interface {
	Definition(ctx context.Context, id string) (runs.Definition, error)
}

// Bulk retries runs, and acts on many runs.
type Bulk interface {
	Retry(ctx context.Context, q runs.Retry) (runs.Accepted, error)
	RetryAll(ctx context.Context, m runs.RetrySelection) (runs.BulkResult, error)
	StopAll(ctx context.Context, m runs.Selection, tree bool) (runs.BulkResult, error)
	RedeliverAll(ctx context.Context, m runs.Selection) (runs.BulkResult, error)
}

// Callbacks lists callbacks and redelivers webhooks.
type Callbacks interface {
	Callbacks(ctx context.Context, q query.Query) (query.CallbackPage, error)
	Redeliver(ctx context.Context, id string) (run.Run, error)
}

// Sessions shows, stops and deletes sessions. It resolves session tokens and checks what a session may do with another.
type Sessions interface {
	Sessions(ctx context.Context, q query.Query) (query.SessionPage, error)
	Session(ctx context.Context, id string) (run.Session, error)
	Tree(ctx context.Context, id string, limit int, cursor string) (query.TreePage, error)
	SessionResult(ctx context.Context, id string) (run.Result, run.Run, error)
	Events(ctx context.Context, session, after string, limit int) ([]run.Event, string, error)
	Detail(ctx context.Context, id string) (sessions.SessionDetail, error)
	StopSession(ctx context.Context, id string, how sessions.Stop) (sessions.SessionDetail, error)
	DeleteSession(ctx context.Context, id string) error
	SessionOf(ctx context.Context, token string) (session string, err error)
	RequireDescendant(ctx context.Context, session, own string, itself bool) error
	AsSession(ctx context.Context, session string, body []byte) ([]byte, error)
}

// Agents shows and changes definitions of agents.
type Agents interface {
	InputSchema(ctx context.Context, name string) (*schema.Schema, error)
	Agents(status string) ([]agent.Blueprint, error)
	Views(status string) ([]agents.View, error)
	BrokenFiles(ctx context.Context) []agent.BrokenFile
	View(ctx context.Context, name string) (agents.View, error)
	CreateAgent(ctx context.Context, raw []byte) (agents.View, error)
	ChangeAgent(ctx context.Context, name string, patch []byte, match agents.Match) (agents.View, error)
	ResetAgent(ctx context.Context, name string, match agents.Match) (agents.View, error)
	DeleteAgent(ctx context.Context, name string, match agents.Match) error
}

// Previews shows what definitions would do before they are stored.
type Previews interface {
	Schema(ctx context.Context, raw []byte) (preview.SchemaVerdict, error)
	Preview(ctx context.Context, raw []byte) (preview.AgentPreview, error)
}

// Schemas stores named output schemas.
type Schemas interface {
	Schemas(ctx context.Context) ([]schemas.Schema, error)
	Rows(ctx context.Context) ([]schemas.Listed, error)
	RowOf(ctx context.Context, name string) (schemas.Row, error)
	CreateSchema(ctx context.Context, raw []byte) (schemas.Schema, error)
	Embed(ctx context.Context, raw json.RawMessage) (json.RawMessage, error)
	DeleteSchema(ctx context.Context, name string) error
}

// Runners lists, registers and drains runners.
type Runners interface {
	Runners() []runners.View
	Register(ctx context.Context, r runnerapi.Runner) (runnerapi.Registered, error)
	Drain(ctx context.Context, id string) error
}

// Insight reports the status, explains runs, and audits the stream.
type Insight interface {
	Status(ctx context.Context) insight.Status
	Explain(ctx context.Context, id string, inside bool) (explain.Explanation, error)
	Ledger(ctx context.Context) (ledger.Report, error)
	AcceptDamage(ctx context.Context) (ledger.Accepted, error)
}

// Trail reads the audit log of all coordinators.
type Trail interface {
	Audited(ctx context.Context, q audit.Query) (audit.Page, error)
}

// Rejected lists refused messages of the inbox.
type Rejected interface {
	Rejected(ctx context.Context, cursor string, limit int) (rejected.Page, error)
}

// History reads events of sessions, also live.
type History interface {
	Get(ctx context.Context, id string) (run.Run, error)
	Active(id string) (state.Active, bool)
	Top(session string) string // of its tree
	Stream(ctx context.Context, session, after string, emit func(query.Item) error) error
	Events(ctx context.Context, session, after string, limit int) ([]run.Event, string, error)
}

// Positions reports how far this coordinator has read, and waits for positions.
type Positions interface {
	Position() uint64
	Written() uint64
	WaitPosition(ctx context.Context, seq uint64) error
}
