package natsapi

import (
	"context"

	"ao/coordinator"
	"ao/shared/agent"
)

// Runs starts and stops runs, and tells how they end.
type Runs interface {
	Submit(ctx context.Context, body []byte, scope, key string) (coordinator.Accepted, error)
	Finish(ctx context.Context, a coordinator.Accepted) (o coordinator.Outcome, ended bool, err error)
	Outcome(ctx context.Context, id string) (coordinator.Outcome, error)
	StopRun(ctx context.Context, id string, tree bool) (coordinator.StoppedRun, error)
}

// Agents tells which agents there are.
type Agents interface {
	Agents(status string) ([]agent.Blueprint, error)
	BrokenAgents() []agent.Bad
}
