package workerapi

import (
	"context"
	"errors"
	"strings"

	"ao/coordinator/audit"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// Open subscribes to the requests of workers. serve answers them until ctx ends.
func (s *Service) Open() (serve func(context.Context) error, err error) {
	beats, err := s.Endpoints.Listen(subject.AllHeartbeats, "") // every coordinator gets every heartbeat
	if err != nil {
		return nil, err
	}
	requests, err := s.Endpoints.Listen(subject.AllRunnerAPI, subject.Coordinators)
	return func(ctx context.Context) error { return s.serve(ctx, beats, requests) }, err
}

func (s *Service) serve(ctx context.Context, beats, requests *bus.Endpoint) error {
	ops := map[string]func(context.Context, []byte) ([]byte, error){
		runnerapi.OpRegister: handler(func(ctx context.Context, r runnerapi.Registration) (any, error) {
			runner, err := r.HashSecret()
			var done runnerapi.Registered
			if err == nil {
				done, err = s.Runners.Register(ctx, runner)
			}
			s.record(ctx, audit.Register, "", claimedIdentity{r.ID(), r.Hostname}, err)
			return done, err
		}),
		runnerapi.OpDeregister: handler(func(ctx context.Context, f runnerapi.Deregistration) (any, error) {
			err := s.Deregistrar.Deregister(ctx, f)
			proven := ""
			if f.Secret != "" && err == nil {
				proven = f.RunnerID
			}
			s.record(ctx, audit.Deregister, proven, claimedIdentity{runner: f.RunnerID}, err)
			return struct{}{}, err
		}),
		runnerapi.OpGetPart:   partHandler(s.Payloads.Get),
		runnerapi.OpPutPart:   partHandler(s.Payloads.Put),
		runnerapi.OpDropState: partHandler(s.Payloads.Drop),
		subject.OpRecord:      handler(s.lookupRecord),
	}
	heard := make(chan error, 1)
	go func() {
		heard <- beats.Serve(ctx, s.handleHeartbeat)
	}()
	err := requests.Serve(ctx, func(ctx context.Context, subj string, body []byte) ([]byte, error) {
		name, as, _ := strings.Cut(strings.TrimPrefix(subj, subject.RunnerAPI("")), ".")
		op, ok := ops[name]
		if !ok || as != "" && name != runnerapi.OpRegister {
			return nil, fault.Newf(fault.NotFound, "no operation %q", subj)
		}
		if name == runnerapi.OpRegister {
			if err := checkAgentCount(body); err != nil {
				return nil, err
			}
		}
		if as != "" {
			if r, err := readRegistration(as, body); err != nil {
				s.record(ctx, audit.Register, "", claimedIdentity{r.ID(), r.Hostname}, err)
				return nil, err
			}
		}
		answer, err := op(ctx, body)
		if name != runnerapi.OpRegister && name != runnerapi.OpDeregister {
			s.recordRefusal(ctx, name, err)
		}
		return answer, err
	})
	return errors.Join(err, <-heard)
}
