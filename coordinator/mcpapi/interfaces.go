package mcpapi

import (
	"context"
	"encoding/json"

	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/coordinator/schemas"
	"ao/coordinator/sessions"
	"ao/shared/agent"
	"ao/shared/run"
	"ao/shared/schema"
)

// Runs starts runs and waits for their end.
type Runs interface {
	Submit(ctx context.Context, body []byte, scope, key string) (runs.Accepted, error)
	Show(ctx context.Context, id string) (run.Run, error)
	Finish(ctx context.Context, a runs.Accepted) (o runs.Outcome, ended bool, err error)
	Await(ctx context.Context, id string) (o runs.Outcome, ended bool, err error)
	Outcome(ctx context.Context, id string) (runs.Outcome, error)
}

// Sessions shows and stops sessions, and checks what a session may do with another.
type Sessions interface {
	Session(ctx context.Context, id string) (run.Session, error)
	Sessions(ctx context.Context, q query.Query) (query.SessionPage, error)
	SessionResult(ctx context.Context, id string) (run.Result, run.Run, error)
	StopSession(ctx context.Context, id string, how sessions.Stop) (sessions.SessionDetail, error)
	RequireDescendant(ctx context.Context, session, own string, itself bool) error
	AsSession(ctx context.Context, session string, body []byte) ([]byte, error)
}

// Agents finds and lists agents.
type Agents interface {
	InputSchema(ctx context.Context, name string) (*schema.Schema, error)
	Agents(status string) ([]agent.Blueprint, error)
}

// Schemas stores named output schemas.
type Schemas interface {
	Schemas(ctx context.Context) ([]schemas.Schema, error)
	Embed(ctx context.Context, raw json.RawMessage) (json.RawMessage, error)
	CreateSchema(ctx context.Context, raw []byte) (schemas.Schema, error)
}

// History follows the events of a run.
type History interface {
	Get(ctx context.Context, id string) (run.Run, error)
	Active(id string) (state.Active, bool)
	Stream(ctx context.Context, session, after string, emit func(query.Item) error) error
}
