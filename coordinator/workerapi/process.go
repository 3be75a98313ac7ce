package workerapi

import (
	"context"

	"ao/coordinator/audit"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"
)

// handleHeartbeat answers a heartbeat. It must come on its runner's own subject.
func (s *Service) handleHeartbeat(ctx context.Context, subj string, body []byte) ([]byte, error) {
	b, err := runnerapi.ReadHeartbeat(body)
	if err != nil {
		return nil, err
	}
	reply, err := s.heartbeat(ctx, subj, b)
	if fault.KindOf(err) == fault.Forbidden {
		s.record(ctx, audit.Heartbeat, "", claimedIdentity{runner: b.RunnerID}, err)
	}
	if err != nil {
		return nil, err
	}
	return strictjson.Encode(reply)
}

func (s *Service) heartbeat(ctx context.Context, subj string, b runnerapi.Heartbeat) (runnerapi.HeartbeatReply, error) {
	if err := runnerapi.CheckID(b.RunnerID); err != nil {
		return runnerapi.HeartbeatReply{}, err
	}
	if subj != subject.Heartbeats(b.RunnerID) {
		return runnerapi.HeartbeatReply{}, fault.Newf(fault.Forbidden, "A heartbeat of this runner is sent to %s",
			subject.Heartbeats(b.RunnerID))
	}
	return s.Heartbeats.Heartbeat(ctx, b)
}
