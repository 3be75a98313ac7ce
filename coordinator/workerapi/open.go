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

// Open makes workers find us; what it returns answers them.
func (s *Service) Open() (serve func(context.Context) error, err error) {
	beats, err := s.Doors.Listen(subject.AllHeartbeats, "") // every coordinator hears every beat
	if err != nil {
		return nil, err
	}
	asks, err := s.Doors.Listen(subject.AllRunnerAPI, subject.Coordinators)
	return func(ctx context.Context) error { return s.serve(ctx, beats, asks) }, err
}

func (s *Service) serve(ctx context.Context, beats, asks *bus.Endpoint) error {
	ops := map[string]func(context.Context, []byte) ([]byte, error){
		runnerapi.OpRegister: answer(func(ctx context.Context, r runnerapi.Registration) (any, error) {
			runner, err := r.Admitted()
			var done runnerapi.Registered
			if err == nil {
				done, err = s.Runners.Register(ctx, runner)
			}
			s.record(ctx, audit.Register, "", claimed{r.ID(), r.Hostname}, err)
			return done, err
		}),
		runnerapi.OpDeregister: answer(func(ctx context.Context, f runnerapi.Farewell) (any, error) {
			err := s.Leaving.Deregister(ctx, f)
			proven := ""
			if f.Secret != "" && err == nil {
				proven = f.RunnerID
			}
			s.record(ctx, audit.Deregister, proven, claimed{runner: f.RunnerID}, err)
			return struct{}{}, err
		}),
		runnerapi.OpGetPart:   bytesOf(s.Payloads.Get),
		runnerapi.OpPutPart:   bytesOf(s.Payloads.Put),
		runnerapi.OpDropState: bytesOf(s.Payloads.Drop),
		subject.OpRecord:      answer(s.recordOf),
	}
	heard := make(chan error, 1)
	go func() {
		heard <- beats.Serve(ctx, s.hearBeat)
	}()
	err := asks.Serve(ctx, func(ctx context.Context, subj string, body []byte) ([]byte, error) {
		name, as, _ := strings.Cut(strings.TrimPrefix(subj, subject.RunnerAPI("")), ".")
		op, ok := ops[name]
		if !ok || as != "" && name != runnerapi.OpRegister {
			return nil, fault.Newf(fault.NotFound, "no operation %q", subj)
		}
		if name == runnerapi.OpRegister {
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
		if name != runnerapi.OpRegister && name != runnerapi.OpDeregister {
			s.recordRefusal(ctx, name, err)
		}
		return answer, err
	})
	return errors.Join(err, <-heard)
}
