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

// readRegistration tells whether a registration is for the profile that its subject names: that is what the server's
// permissions are about.
func readRegistration(as string, body []byte) (r runnerapi.Registration, err error) {
	if err := json.Unmarshal(body, &r); err != nil {
		return r, fault.Wrap(fault.Invalid, "", "The request is not readable", err)
	}
	if as != r.ExecutorType+"."+r.ExecutorProfile {
		return r, fault.Newf(fault.Forbidden, "This subject registers runners of %q only", as)
	}
	return r, nil
}

// lookupRecord tells a worker, which may not read the history, what stands under a subject of its own attempt. The subject
// holds the attempt's key, which nobody finds by trying; one with wildcards is none.
func (s *Service) lookupRecord(ctx context.Context, r bus.RecordRequest) (any, error) {
	at, err := subject.Parse(r.Subject)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, "", "The subject is not that of a record", err)
	}
	if !at.Kind.Keyed() {
		return nil, fault.New(fault.Forbidden, "", "Only what an attempt's own key leads to is told")
	}
	for _, token := range []string{at.Partition, at.Run, at.Key} {
		if subject.Check(token) != nil {
			return nil, fault.New(fault.Forbidden, "", "Only what an attempt's own key leads to is told")
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
