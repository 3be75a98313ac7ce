package parts

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/shared/runnerapi"
)

// An attempt counts as alive if a heartbeat has its key, whichever runner sends it. Nothing is kept of keys that no
// attempt has. No runner can report the idle sessions of another one.
func TestHeartbeatRenewsProvenAttempts(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	r := runner("one", echo("a"))
	id := register(t, c, r).RunnerID
	waits := active(t, c, submit(t, c, `{"agent_name":"a"}`, "").RunID, "is queued", isQueued)
	claimed := claim(t, c, submit(t, c, `{"agent_name":"a"}`, "").RunID, r)
	made := make([]runnerapi.Attempt, runnerapi.MaxHeartbeatAttempts)
	for i := range made {
		made[i] = runnerapi.Attempt{RunID: []string{waits.Spec.ID, claimed.Spec.ID}[i%2], Key: fmt.Sprint(i)}
	}
	made[0].Key = ""
	for _, who := range []string{id, "rnr_unknown"} {
		c.WorkerAPI.Heartbeats.Heartbeat(t.Context(), runnerapi.Heartbeat{RunnerID: who, Instance: "one",
			Attempts: made})
	}
	for _, key := range append(keysOf(made), waits.Key) {
		natstest.Until(t, fmt.Sprintf("nobody was heard to have %q", key), func() bool {
			// each time: a late scan starts to listen again
			c.Hearing.Restart("long ago", time.Now().Add(-2*time.Hour))
			_, _, known := c.Hearing.Of(key)
			return !known && c.Hearing.NotHeard(key)
		})
	}
	sent := time.Now()
	c.WorkerAPI.Heartbeats.Heartbeat(t.Context(), runnerapi.Heartbeat{RunnerID: "rnr_unknown", Instance: "one",
		Attempts: []runnerapi.Attempt{
			{RunID: waits.Spec.ID, Key: waits.Key}, {RunID: claimed.Spec.ID, Key: claimed.Key},
		}})
	c.Hearing.Restart("long ago", time.Now().Add(-2*time.Hour))
	if seen, _, _ := c.Hearing.Of(claimed.Key); c.Hearing.NotHeard(waits.Key) || seen.Before(sent) {
		t.Errorf("the right keys do not count: %v, %t", seen, c.Hearing.NotHeard(waits.Key))
	}

	finish(t, c, claimed)
	other := runner("two")
	other.Hostname = "there"
	register(t, c, other)
	for _, tt := range []struct {
		runner string
		want   []string
	}{{id, []string{claimed.Spec.SessionID}}, {other.ID(), nil}, {"rnr_unknown", nil}} {
		c.History.ExpireIdle(0)
		instance := map[string]string{other.ID(): "two"}[tt.runner]
		if instance == "" {
			instance = "one"
		}
		c.WorkerAPI.Heartbeats.Heartbeat(t.Context(), runnerapi.Heartbeat{RunnerID: tt.runner, Instance: instance,
			Idle: []string{claimed.Spec.SessionID, "ses_none", waits.Spec.SessionID}})
		var idle []string
		for _, session := range []string{claimed.Spec.SessionID, waits.Spec.SessionID} {
			if s, err := c.History.Session(t.Context(), session); err == nil && s.Status == "idle" {
				idle = append(idle, session)
			}
		}
		if !slices.Equal(idle, tt.want) {
			t.Errorf("by %s's word %v are idle, want %v", tt.runner, idle, tt.want)
		}
	}
}

func keysOf(all []runnerapi.Attempt) (keys []string) {
	for _, at := range all {
		keys = append(keys, at.Key)
	}
	return keys
}
