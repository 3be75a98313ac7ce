// Package fleetapi is the wall towards workers: what they ask over NATS is read, refused or handed on, and written down.
package fleetapi

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"ao/coordinator/audit"
	"ao/coordinator/runners"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/fleet"
)

// Service is what workers ask over NATS. Its Audit may be nil.
type Service struct {
	Doors interface {
		Open(subj, queue string) (*bus.Door, error)
	}
	Stream interface {
		Last(ctx context.Context, subj string) (bus.Message, error)
	}
	Runners interface {
		Register(ctx context.Context, r fleet.Runner) (fleet.Registered, error)
	}
	Leaving interface {
		Deregister(ctx context.Context, f fleet.Farewell) error
	}
	Beats    *Beats
	Payloads *Payloads
	Audit    *audit.Log
}

// Open makes workers find us; what it returns answers them.
func (s *Service) Open() (serve func(context.Context) error, err error) {
	beats, err := s.Doors.Open(subject.AllBeats, "") // every coordinator hears every beat
	if err != nil {
		return nil, err
	}
	asks, err := s.Doors.Open(subject.AllFleet, subject.Coordinators)
	return func(ctx context.Context) error { return s.serve(ctx, beats, asks) }, err
}

func (s *Service) serve(ctx context.Context, beats, asks *bus.Door) error {
	ops := map[string]func(context.Context, []byte) ([]byte, error){
		fleet.OpRegister: answer(func(ctx context.Context, r fleet.Registration) (any, error) {
			runner, err := r.Admitted()
			var done fleet.Registered
			if err == nil {
				done, err = s.Runners.Register(ctx, runner)
			}
			s.record(ctx, audit.Register, "", claimed{r.ID(), r.Hostname}, err)
			return done, err
		}),
		fleet.OpDeregister: answer(func(ctx context.Context, f fleet.Farewell) (any, error) {
			err := s.Leaving.Deregister(ctx, f)
			proven := ""
			if f.Secret != "" && err == nil {
				proven = f.RunnerID
			}
			s.record(ctx, audit.Deregister, proven, claimed{runner: f.RunnerID}, err)
			return struct{}{}, err
		}),
		fleet.OpGetPart:   bytesOf(s.Payloads.Get),
		fleet.OpPutPart:   bytesOf(s.Payloads.Put),
		fleet.OpDropState: bytesOf(s.Payloads.Drop),
		subject.OpRecord:  answer(s.recordOf),
	}
	heard := make(chan error, 1)
	go func() {
		heard <- beats.Serve(ctx, s.hearBeat)
	}()
	err := asks.Serve(ctx, func(ctx context.Context, subj string, body []byte) ([]byte, error) {
		name, as, _ := strings.Cut(strings.TrimPrefix(subj, subject.Fleet("")), ".")
		op, ok := ops[name]
		if !ok || as != "" && name != fleet.OpRegister {
			return nil, fault.Newf(fault.NotFound, "no operation %q", subj)
		}
		if name == fleet.OpRegister {
			if err := fewAgents(body); err != nil {
				return nil, err
			}
		}
		if as != "" {
			if r, err := registersAs(as, body); err != nil {
				s.record(ctx, audit.Register, "", claimed{r.ID(), r.Hostname}, err)
				return nil, err
			}
		}
		answer, err := op(ctx, body)
		if name != fleet.OpRegister && name != fleet.OpDeregister {
			s.recordRefusal(ctx, name, err)
		}
		return answer, err
	})
	return errors.Join(err, <-heard)
}

// fewAgents refuses a registration with too many agents before they are read: a few bytes each would take hundreds.
func fewAgents(body []byte) error {
	var in struct {
		Agents []json.RawMessage `json:"agents"`
	}
	if json.Unmarshal(body, &in) == nil && len(in.Agents) > runners.MaxAgents {
		return fault.Newf(fault.Invalid, "agents: at most %d", runners.MaxAgents).With("field", "agents")
	}
	return nil
}

// answer reads a request of type T and writes what f makes of it.
func answer[T any](f func(context.Context, T) (any, error)) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, body []byte) ([]byte, error) {
		var in T
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, fault.Wrap(fault.Invalid, "", "The request is not readable", err)
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
}

func bytesOf(f func(context.Context, fleet.PartRequest) ([]byte, error)) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, body []byte) ([]byte, error) {
		var in fleet.PartRequest
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, fault.Wrap(fault.Invalid, "", "The request is not readable", err)
		}
		return f(ctx, in)
	}
}
