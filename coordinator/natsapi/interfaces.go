package natsapi

import (
	"context"

	"ao/coordinator/runs"
	"ao/shared/agent"
)

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
