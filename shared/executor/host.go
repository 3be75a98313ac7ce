package executor

import (
	"context"
	"encoding/json"
)

// Host is what an executor is given beside its invocation, by the worker that it runs in.
type Host struct {
	// Emit shows an event to the session's readers: kind is run.EventMessage, run.EventPreTool or run.EventPostTool,
	// body an object. With the kind LineBind and that line as body it binds the model side's session to this one. It
	// may be called by several goroutines, waits while NATS cannot take it, and must not be called after the run has
	// returned.
	Emit func(kind string, body json.RawMessage)
	Env  []string // the whole environment of the programs it starts
	// the gateway of this run, where programs bind, tell events and their result, and keep state; empty: there is none
	URL string
	MCP string // the orchestrator's MCP server, as this session; empty: there is none

	// Kill is closed when the programs it starts must be gone at once, whatever grace they are in: the run may be
	// attempted again elsewhere. The run's context ends before or with it. Nil: that never comes.
	Kill <-chan struct{}

	// Listen has hear take what the run's programs tell over the gateway, as the lines of the protocol that it is, one
	// after the other, until the function that it returns has returned. What nobody listens to is shown if it is an
	// event, and refused otherwise. Nil: there is no gateway.
	Listen func(hear func(Line)) (stop func())

	// LoadState is what the session's earlier run kept, nil: nothing. Keep keeps what the next run of the session, on
	// whatever worker, is to find; it replaces what was kept before, once it returns nil it is durable, and it binds
	// the session. Both are nil where nothing can be kept.
	LoadState func(ctx context.Context) ([]byte, error)
	SaveState func(ctx context.Context, state []byte) error
}
