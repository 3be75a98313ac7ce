package executor

import (
	"context"
	"encoding/json"
)

// Host is what the worker provides to an executor besides its invocation.
type Host struct {
	// Emit shows an event to the session's readers. kind is run.EventMessage, run.EventPreTool or run.EventPostTool,
	// body an object. With the kind LineBind and that line as body it binds the executor session. It may be called
	// concurrently, blocks while NATS is not available, and must not be called after the run has returned.
	Emit func(kind string, body json.RawMessage)
	Env  []string // the whole environment of child processes
	// the run's gateway for child processes; empty: none
	URL string
	MCP string // the orchestrator's MCP server for this session; empty: none

	// Kill is closed when child processes must be killed at once, even within their grace period: the run may
	// be attempted again elsewhere. The run's context ends before that. Nil: never.
	Kill <-chan struct{}

	// Listen passes what the run's programs send to the gateway to hear, one line of the protocol at a time, until stop
	// has returned. Without a listener, events are shown and other lines refused. Nil: there is no gateway.
	Listen func(hear func(Line)) (stop func())

	// LoadState returns what the session's earlier run saved, nil if nothing. SaveState replaces what the
	// session's next run gets, on any worker. When it returns nil, the state is durable and the session is
	// bound to it. Both are nil if no state can be kept.
	LoadState func(ctx context.Context) ([]byte, error)
	SaveState func(ctx context.Context, state []byte) error
}
