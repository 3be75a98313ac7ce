package serve_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

// heap is how many bytes are in use after everything that can go has gone.
func heap() uint64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Heartbeats of runners that do not exist, each with all the sessions that fit into a message, leave nothing behind.
func TestHeartbeatsOfUnknownRunnersStoreNothing(t *testing.T) {
	s := start(t)
	var sessions strings.Builder
	for i := range 22_000 {
		fmt.Fprintf(&sessions, `%q,`, fmt.Sprintf("ses_%032x", i))
	}
	list := strings.TrimSuffix(sessions.String(), ",")
	before := heap()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range natstest.Load(20, 60) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			id := fmt.Sprintf("rnr_%d", i)
			body := fmt.Appendf(nil, `{"runner_id":%q,"instance":"x","attempts":[],"idle":[%s]}`, id, list)
			answer, err := s.bus.Request(t.Context(), subject.Heartbeats(id), body)
			if err != nil {
				t.Errorf("a heartbeat that fits is answered: %v", err)
				return
			}
			var r runnerapi.HeartbeatReply
			if err := json.Unmarshal(answer, &r); err != nil || r.Known {
				t.Errorf("%s: %v", answer, err)
			}
		})
	}
	wg.Wait()
	if after := heap(); after > before+15<<20 {
		t.Errorf("the heap has %d MiB after them, want at most 15 more than %d", after>>20, before>>20)
	}
}

// A heartbeat with more elements than one may have is refused before they are read, and says what to do.
func TestAHeartbeatThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	for what, body := range map[string]string{
		"elements": `{"runner_id":"rnr_x","instance":"x","attempts":[` + strings.Repeat(`{},`, 300_000) + `{}]}`,
		"attempts": `{"runner_id":"rnr_x","instance":"x","attempts":[` +
			strings.Repeat(`{"run_id":"run_1"},`, runnerapi.MaxHeartbeatAttempts) + `{}]}`,
	} {
		_, err := s.bus.Request(t.Context(), subject.Heartbeats("rnr_x"), []byte(body))
		if fault.KindOf(err) != fault.TooLarge || !strings.Contains(fault.Of(err).Message, "several heartbeats") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// The largest heartbeat that a worker sends is accepted: a thousand attempts, and its idle sessions beside them.
func TestLargestHeartbeatIsAccepted(t *testing.T) {
	t.Parallel()
	s := start(t)
	do, free := blocking()
	defer free()
	w := s.work(do, echo("tool"))
	acc := s.submit(`{"agent_name":"tool"}`)
	s.until(acc.RunID, run.Running)
	b := runnerapi.Heartbeat{RunnerID: w.id, Instance: w.runner.Instance,
		Attempts: make([]runnerapi.Attempt, runnerapi.MaxHeartbeatAttempts),
		Idle:     make([]string, runnerapi.MaxHeartbeatIdle)}
	long := strings.Repeat("x", 64)
	for i := range b.Attempts {
		b.Attempts[i] = runnerapi.Attempt{RunID: fmt.Sprintf("run_%032d", i), SessionID: "ses_" + long, Key: long[:32],
			StartedAt: new(time.Now().UTC())}
	}
	for i := range b.Idle {
		b.Idle[i] = "ses_" + long
	}
	body, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.bus.Request(t.Context(), subject.Heartbeats(w.id), body)
	if err != nil {
		t.Fatalf("%d bytes: %v", len(body), err)
	}
	var r runnerapi.HeartbeatReply
	if err := json.Unmarshal(answer, &r); err != nil || !r.Known {
		t.Errorf("%s: %v", answer, err)
	}
}

// A worker cannot make answers unreadable for others: JSON holds no time whose year in UTC is beyond 9999.
func TestImpossibleTimesOfAWorker(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:00", "0000-01-01T00:00:00+23:00"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				t.Fatal(err)
			}
			s := start(t)
			keys, gate := make(chan string, 1), make(chan struct{})
			defer close(gate)
			w := s.work(func(q run.Queued) run.Outcome {
				if q.Attempt == 1 {
					return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "broken", "Broken")}
				}
				keys <- q.Key
				<-gate
				return done(`1`)
			}, echo("tool"))
			w.mu.Lock()
			w.dead, w.clock = true, at
			w.mu.Unlock()
			acc := s.submit(`{"agent_name":"tool","max_attempts":2}`)
			heartbeat, err := json.Marshal(runnerapi.Heartbeat{RunnerID: w.id, Instance: w.runner.Instance, At: at,
				Attempts: []runnerapi.Attempt{
					{RunID: acc.RunID, SessionID: acc.SessionID, Key: <-keys, StartedAt: &at}}})
			if err != nil {
				t.Fatal(err)
			}
			s.until(acc.RunID, run.Claimed)
			if answer, err := s.bus.Request(t.Context(), subject.Heartbeats(w.id), heartbeat); err != nil {
				t.Fatalf("%s: %v", answer, err)
			}
			one, session := "/runs/"+acc.RunID, "/sessions/"+acc.SessionID
			for _, path := range []string{"/runs", "/runs?format=csv", one, one + "/explain",
				session, session + "/tree", "/runners", "/status"} {
				if g := s.get(path); g.status != 200 {
					t.Errorf("%s: %d %s", path, g.status, g.body)
				}
			}
		})
	}
}
