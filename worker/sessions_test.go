package worker

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/worker/profile"
)

// persistentProfile returns a profile of a persistent program that answers with its number, the line, and its
// environment.
func persistentProfile(t *testing.T) func(*Config) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"model.json": `{"type":"autonomous","command":"./model","lifecycle":"persistent","max_concurrent_runs":4}`,
		"model": `#!/bin/sh
while read -r line; do
  case "$line" in
  *'"type":"shutdown"'*) sleep 0.3; exit 0;;
  *"please wait"*) echo '{"type":"event","event_type":"message","role":"assistant","content":[]}'; sleep 100;;
  esac
  printf '{"type":"turn_complete","result":{"pid":%s,"first":"%s","line":%s}}\n' $$ "$AGENT_ORCHESTRATOR_RUN_ID" "$line"
done
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p, err := profile.Read(dir, "model")
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Executor, c.Profile = nil, p }
}

// persistentReply is the result of such a program.
type persistentReply struct {
	PID   int
	First string
	Line  struct {
		Kind string `json:"type"`
		Run  string `json:"run_id"`
	}
}

func (s *fakeCoordinator) persistentReply(q run.Queued) (a persistentReply) {
	s.t.Helper()
	e := s.waitEnded(q)
	if e.Status != run.Completed || json.Unmarshal(e.Result.Data, &a) != nil {
		s.t.Fatalf("%s %v %+v", e.Status, e.Error, e.Result)
	}
	return a
}

// idleSessions returns the idle sessions in the last heartbeat.
func (s *fakeCoordinator) idleSessions() (all []string) {
	s.with(func() {
		if len(s.heartbeats) > 0 {
			all = s.heartbeats[len(s.heartbeats)-1].Idle
		}
	})
	return all
}

func alivePid(pid int) bool { return syscall.Kill(pid, 0) == nil }

// TestPersistentProcess: heartbeats list the idle process, it gets the next turn, and it ends when its session is
// deleted or the worker ends.
func TestPersistentProcess(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, nil, persistentProfile(t))
	model := func(q *run.Queued) { q.AgentType, q.Timeout = run.Autonomous, 60 }
	q := s.enqueue(model)
	first := s.persistentReply(q)
	natstest.Until(t, "the beat lists the session", func() bool {
		return slices.Equal(s.idleSessions(), []string{q.SessionID})
	})
	next := s.enqueue(model, func(n *run.Queued) {
		n.Type, n.SessionID, n.PreviousRunID = run.Resume, q.SessionID, q.ID
	})
	if a := s.persistentReply(next); a.PID != first.PID || a.Line.Kind != "turn" || a.Line.Run != next.ID ||
		a.First != q.ID {
		t.Errorf("the next turn: %+v after %+v", a, first)
	}
	last := s.enqueue(model, func(n *run.Queued) {
		n.Type, n.SessionID, n.PreviousRunID = run.Resume, q.SessionID, "run_elsewhere"
	})
	second := s.persistentReply(last)
	if second.PID == first.PID || second.Line.Kind != "" || alivePid(first.PID) {
		t.Errorf("after a turn elsewhere: %+v after %+v", second, first)
	}
	s.with(func() {
		s.answer = func(b runnerapi.Heartbeat) runnerapi.HeartbeatReply {
			r := knownReply(b)
			r.Forget = b.Idle
			return r
		}
	})
	natstest.Until(t, "the process of a deleted session ends", func() bool { return !alivePid(second.PID) })
	s.with(func() { s.answer = knownReply })
	q = s.enqueue(model)
	pid := s.persistentReply(q).PID
	w.end(t)
	if alivePid(pid) {
		t.Error("the worker has ended, and its idle process lives")
	}
}

// TestDrainWaitsForATurn: idle processes end immediately, others after their turn.
func TestDrainWaitsForATurn(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, nil, persistentProfile(t), func(c *Config) { c.Grace = 30 * time.Second })
	model := func(q *run.Queued) { q.AgentType = run.Autonomous }
	idle := s.persistentReply(s.enqueue(model)).PID
	busy := s.enqueue(model, func(q *run.Queued) { q.Parameters = json.RawMessage(`{"prompt":"please wait"}`) })
	natstest.Until(t, "the turn is under way", func() bool {
		return strings.Contains(strings.Join(w.attempts.runIDs(), " "), busy.ID)
	})
	w.stop()
	natstest.Until(t, "the idle one has ended", func() bool { return !alivePid(idle) })
	if got := w.attempts.runIDs(); len(got) != 1 {
		t.Errorf("runs %v", got)
	}
	if !w.Worker.attempts.stop(busy.Key) {
		t.Error("no such attempt")
	}
	if e := s.waitEnded(busy); e.Status != run.Stopped {
		t.Errorf("got %s %v", e.Status, e.Error)
	}
	w.wait(t, nil)
}
