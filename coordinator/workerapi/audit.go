package workerapi

import (
	"context"

	"ao/coordinator/audit"
	"ao/nats/bus"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/runnerapi"
)

// claimedIdentity is who a worker says it is. Nothing of it is proven.
type claimedIdentity struct{ runner, host string }

// record writes an audit entry of a worker's request. The actor is the credential that the server names and the runner
// whose process proved its secret; as is only claimed.
func (s *Service) record(ctx context.Context, action, proven string, as claimedIdentity, err error) {
	if s.Audit == nil {
		return
	}
	as = claimedIdentity{as.runner[:min(len(as.runner), 80)], as.host[:min(len(as.host), 255)]}
	who := &audit.Actor{Kind: audit.Publisher, Credential: bus.CallerOf(ctx).Credential, Runner: proven}
	if who.Credential != "" || proven != "" {
		who.Kind = audit.Runner
	}
	if as != (claimedIdentity{}) {
		who.Claimed = &audit.Claim{Runner: as.runner, Host: as.host}
	}
	e := audit.Entry{EntryPoint: audit.Fleet, Actor: who, Action: action, Targets: audit.Targets{Runner: as.runner}}
	e.Status, e.Error = audit.Outcome(200, err)
	s.Audit.Record(e)
}

// recordRefusal writes an audit entry of a refused request. The worker is unknown.
func (s *Service) recordRefusal(ctx context.Context, op string, err error) {
	if kind := fault.KindOf(err); err == nil || kind != fault.Forbidden && kind != fault.Unauthorized {
		return
	}
	action := "request"
	if op == runnerapi.OpGetPart || op == subject.OpRecord {
		action = audit.Read
	}
	s.record(ctx, action, "", claimedIdentity{}, err)
}
