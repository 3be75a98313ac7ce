package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"ao/nats/natstest"
	"ao/shared/agent"
	"ao/shared/executor"
	"ao/shared/run"
	"ao/worker/profile"
)

// TestModels: the profile must allow an agent's model; otherwise the run fails before anything starts.
func TestModels(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		models agent.Models
		model  string
		want   string
	}{
		{nil, "any", "completed"},
		{agent.Models{"small-*"}, "small-1", "completed"},
		{agent.Models{"small-*"}, "own", "completed"},
		{agent.Models{"small-*"}, "", "completed"},
		{agent.Models{"small-*"},
			"large-1",
			`failed {"error":"model_not_allowed","message":"The agent's model \"large-1\" is not allowed by the ` +
				`executor profile p (models of the profile): there may be small-*, own. Change the agent's model, or ` +
				`leave it out",` +
				`"model":"large-1","models":["small-*","own"],"executor_profile":"p"}`},
		{agent.Models{}, "large-1", `failed {"error":"model_not_allowed"`},
	} {
		t.Run(fmt.Sprintf("%q of %q", tt.model, tt.models), func(t *testing.T) {
			t.Parallel()
			b := natstest.Bus(t)
			s := newFakeCoordinator(t, b)
			var began atomic.Bool
			do := func(_ context.Context, inv executor.Invocation, _ executor.Host) run.Outcome {
				began.Store(true)
				return completed(`{}`)
			}
			w := start(t, b, do, func(c *Config) {
				c.Profile = profile.Profile{Name: "p", Type: run.Autonomous, Command: profile.TestExec,
					MaxConcurrentRuns: 4, Models: tt.models, Config: json.RawMessage(`{"model":"own"}`)}
			})
			if got := w.client.Models; (got == nil) != (tt.models == nil) || got != nil && got[len(got)-1] != "own" {
				t.Errorf("it announces %q", got)
			}
			e := s.waitEnded(s.enqueue(func(q *run.Queued) {
				q.AgentType = run.Autonomous
				q.Input = &run.Input{Parameters: json.RawMessage(`{"prompt":"x"}`),
					Blueprint: json.RawMessage(fmt.Sprintf(`{"name":"a","model":%q}`, tt.model))}
			}))
			got := string(e.Status)
			if e.Error != nil {
				raw, _ := json.Marshal(e.Error)
				got += " " + string(raw)
			}
			if !strings.HasPrefix(got, tt.want) || began.Load() != (e.Status == run.Completed) {
				t.Errorf("got  %s (started: %v)\nwant %s", got, began.Load(), tt.want)
			}
		})
	}
}
