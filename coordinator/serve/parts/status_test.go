package parts

import (
	"slices"
	"testing"

	"ao/coordinator/insight/status"
	"ao/coordinator/projection/state"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// TestStatusDecidesNothing: a run waits in a queue whose entry was deleted, so that only its name is known. A status
// lookup does not make the coordinators believe that a runner matches.
func TestStatusDecidesNothing(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	f := newFixture(t, c)
	acc := f.start(`,"additional_demands":{"hostname":"elsewhere"}`)
	a := active(t, c, acc.RunID, "waits", func(state.Active) bool { return true })
	deleted := runnerapi.NewRoutingKey(a.Spec.AgentType, a.Spec.Demands, nil)
	put(t, c.bus, subject.Queued(subject.Partition(acc.SessionID), deleted.TaskQueue(), acc.RunID, 1),
		run.Queued{V: run.Version, Attempt: 1, Key: c.keys.Of(acc.RunID, 1), Spec: *a.Spec})
	active(t, c, acc.RunID, "is queued", isQueued)
	for range 20 { // between two scans for stale runners
		s := c.Overview.Status(t.Context())
		i := slices.IndexFunc(s.Queues, func(l status.QueueStatus) bool {
			return l.Queue == deleted.TaskQueue() &&
				l.Runs == 1
		})
		if i < 0 || s.Queues[i].Served || c.Registry.Matches(deleted) {
			t.Fatalf("%+v; a runner matches: %t", s.Queues, c.Registry.Matches(deleted))
		}
	}
}
