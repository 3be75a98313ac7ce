package agents

import (
	"testing"

	"ao/shared/agent"
	"ao/shared/run"
)

// The queue that is cached with an agent is that of a run without demands. A run with demands gets its own.
func TestAgentQueueIsThatOfRunsWithoutDemands(t *testing.T) {
	t.Parallel()
	plain := Resolved{Blueprint: agent.Blueprint{Name: "a", Type: run.Procedural, ExecutorProfile: "own",
		Demands: &run.Demands{Tags: []string{"gpu"}, Hostname: "h"}}, Owners: map[string]string{"b": "2", "a": "1"},
		Profile: "p"}
	kept := plain
	kept.queue = plain.RoutingKey(plain.MergedDemands(run.Demands{})).TaskQueue()
	for _, tt := range []struct {
		affinity run.Demands
		asked    []run.Demands
	}{
		{},
		{asked: []run.Demands{{}, {}}},
		{asked: []run.Demands{{ProjectDir: "/p"}, {}}},
		{asked: []run.Demands{{}, {Tags: []string{"x"}}}},
		{asked: []run.Demands{{}, {Hostname: "other"}}},
		{asked: []run.Demands{{}, {ExecutorType: "autonomous"}}},
		{asked: []run.Demands{{}, {ExecutorProfile: "other"}}},
		{affinity: run.Demands{Hostname: "there"}},
	} {
		want := kept.RoutingKey(kept.MergedDemands(tt.affinity, tt.asked...))
		if got := kept.QueueOf(want, append(tt.asked, tt.affinity)...); got != want.TaskQueue() {
			t.Errorf("%+v: queue %s, want %s", tt, got, want.TaskQueue())
		}
	}
}
