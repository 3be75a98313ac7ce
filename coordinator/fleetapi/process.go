package fleetapi

import (
	"context"
	"encoding/json"

	"ao/coordinator/audit"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/fleet"
)

// hearBeat answers a heartbeat. A runner's subject is for that runner alone.
func (s *Service) hearBeat(ctx context.Context, subj string, body []byte) ([]byte, error) {
	b, err := fleet.ReadBeat(body)
	if err != nil {
		return nil, err
	}
	reply, err := s.beatAt(ctx, subj, b)
	if fault.KindOf(err) == fault.Forbidden {
		s.record(ctx, audit.Heartbeat, "", claimed{runner: b.RunnerID}, err)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(reply)
}

func (s *Service) beatAt(ctx context.Context, subj string, b fleet.Beat) (fleet.BeatReply, error) {
	if err := fleet.CheckID(b.RunnerID); err != nil {
		return fleet.BeatReply{}, err
	}
	if subj != subject.Beats(b.RunnerID) {
		return fleet.BeatReply{}, fault.Newf(fault.Forbidden, "A heartbeat of this runner is sent to %s", subject.Beats(b.RunnerID))
	}
	return s.Beats.Beat(ctx, b)
}
