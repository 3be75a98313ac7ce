// Package workerapi answers what workers ask over NATS. It checks each request, passes it on, and writes the audit
// entry.
package workerapi

import (
	"context"
	"encoding/json"

	"ao/coordinator/audit"
	"ao/coordinator/runners"
	"ao/nats/bus"
	"ao/shared/fault"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

// Service answers the requests of workers. Audit may be nil.
type Service struct {
	Endpoints interface {
		Listen(subj, queue string) (*bus.Endpoint, error)
	}
	Stream interface {
		Last(ctx context.Context, subj string) (bus.Message, error)
	}
	Runners interface {
		Register(ctx context.Context, r runnerapi.Runner) (runnerapi.Registered, error)
	}
	Deregistrar interface {
		Deregister(ctx context.Context, f runnerapi.Deregistration) error
	}
	Heartbeats *Heartbeats
	Payloads   *Payloads
	Audit      *audit.Log
}

// checkAgentCount refuses a registration with too many agents before decoding them, since each may take hundreds of
// times its size.
func checkAgentCount(body []byte) error {
	var in struct {
		Agents []json.RawMessage `json:"agents"`
	}
	if json.Unmarshal(body, &in) == nil && len(in.Agents) > runners.MaxAgents {
		return fault.Newf(fault.Invalid, "agents: at most %d", runners.MaxAgents).With("field", "agents")
	}
	return nil
}

// handler decodes a request of type T and encodes what f returns.
func handler[T any](f func(context.Context, T) (any, error)) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, body []byte) ([]byte, error) {
		var in T
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, fault.Wrap(fault.Invalid, "", "The request is not valid JSON", err)
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return strictjson.Encode(out)
	}
}

func partHandler(f func(context.Context, runnerapi.PartRequest) ([]byte, error)) func(context.Context, []byte) ([]byte,
	error) {
	return func(ctx context.Context, body []byte) ([]byte, error) {
		var in runnerapi.PartRequest
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, fault.Wrap(fault.Invalid, "", "The request is not valid JSON", err)
		}
		return f(ctx, in)
	}
}
