package workerapi

import (
	"context"
	"encoding/json"
	"errors"

	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// readRegistration reads a registration and checks that it is for the profile in its subject. The NATS server's
// permissions are for that subject.
func readRegistration(as string, body []byte) (r runnerapi.Registration, err error) {
	if err := json.Unmarshal(body, &r); err != nil {
		return r, fault.Wrap(fault.Invalid, "", "The request is not valid JSON", err)
	}
	if as != r.ExecutorType+"."+r.ExecutorProfile {
		return r, fault.Newf(fault.Forbidden, "This subject registers runners of %q only", as)
	}
	return r, nil
}

// lookupRecord returns a record of the worker's own attempt; workers may not read the history. The subject has the
// attempt's key, which cannot be guessed. Wildcards are refused.
func (s *Service) lookupRecord(ctx context.Context, r bus.RecordRequest) (any, error) {
	at, err := subject.Parse(r.Subject)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", "The subject is not the subject of a record", err)
	}
	if !at.Kind.Keyed() {
		return nil, fault.New(fault.Forbidden, "", "Only records with the key of an attempt can be read")
	}
	for _, token := range []string{at.Partition, at.Run, at.Key} {
		if subject.Check(token) != nil {
			return nil, fault.New(fault.Forbidden, "", "Only records with the key of an attempt can be read")
		}
	}
	m, err := s.Stream.Last(ctx, r.Subject)
	if errors.Is(err, bus.ErrNotFound) {
		return nil, fault.New(fault.NotFound, "", "There is no such record")
	}
	if err != nil {
		return nil, err
	}
	return bus.Record{Seq: m.Seq, Body: m.Body, At: m.Time}, nil
}
