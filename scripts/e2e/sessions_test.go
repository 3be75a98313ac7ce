package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/worker"
	"ao/worker/profile"
)

// model is a simulated model: it answers prompts one by one when their gates open.
type model struct {
	mu   sync.Mutex
	seen []string
	most int // at once in one session
	now  map[string]int
	let  map[string]chan struct{}
}

func (m *model) gate(prompt string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.let[prompt] == nil {
		m.let[prompt] = make(chan struct{})
	}
	return m.let[prompt]
}

func (m *model) enter(session string, by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now[session] += by
	m.most = max(m.most, m.now[session])
}

// Run answers "wait …" when its gate opens, fails on "fail …", and answers anything else at once.
func (m *model) Run(ctx context.Context, v executor.Invocation, host executor.Host) run.Outcome {
	prompt := reply{text: string(v.Parameters)}.at("prompt")
	m.enter(v.SessionID, 1)
	defer m.enter(v.SessionID, -1)
	m.mu.Lock()
	m.seen = append(m.seen, v.Mode+" "+prompt)
	m.mu.Unlock()
	host.Emit(run.EventMessage, run.TextMessage("assistant", "I think of "+prompt))
	switch {
	case strings.HasPrefix(prompt, "wait"):
		select {
		case <-m.gate(prompt):
		case <-ctx.Done():
			return run.Outcome{Status: run.Stopped}
		}
	case strings.HasPrefix(prompt, "fail"):
		return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "model_failed", "no answer to "+prompt)}
	}
	text := "answer to " + prompt
	return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Text: &text}}
}

func (m *model) prompts() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.seen, ", ")
}

// Sessions with several turns, with the real worker and a simulated executor.
func TestSessions(t *testing.T) {
	t.Parallel()
	s := up(t)
	m := &model{now: map[string]int{}, let: map[string]chan struct{}{}}
	w, err := worker.New(worker.Config{Bus: s.nats.Bus(t), Host: "thinker", ProjectDir: s.dir, Executor: m, Grace: -1,
		Log:     natstest.Log(t),
		Profile: profile.Profile{Name: "model", Type: run.Autonomous, MaxConcurrentRuns: 4}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	s.online("thinker")
	s.has(s.post("/agents", `{"name":"plain"}`), 201)
	s.has(s.post("/agents", `{"name":"strict","parameters_schema":{"type":"object","required":["topic"],`+
		`"properties":{"topic":{"type":"string"},"prompt":{"type":"string"}},"additionalProperties":false}}`), 201)
	resume := func(s *stack, session, prompt string) string {
		s.t.Helper()
		return s.run(fmt.Sprintf(`{"type":"resume_session","session_id":%q,"prompt":%q}`, session, prompt))
	}

	s.story("one turn at a time, in order of arrival, also across a crash of the coordinator", func(s *stack) {
		s.has(s.post("/runs", `{"agent_name":"plain","prompt":"wait 1","session_id":"ses_turns"}`), 201)
		first := s.get("/sessions/ses_turns").at("last_run_id")
		s.status(first, "running")
		var ids []string
		for i := range 6 {
			ids = append(ids, resume(s, "ses_turns", fmt.Sprint("turn ", i)))
		}
		last := resume(s, "ses_turns", "wait 2")
		after := resume(s, "ses_turns", "turn 9")
		s.same("the second waits", s.get("/runs/"+ids[0]).at("waiting_for"), "its turn: run "+first+
			" of the session comes first")
		s.has(s.get("/sessions/ses_turns"), 200, `"status":"running"`, `"runs":9`)
		s.has(s.get("/sessions/ses_turns/result"), 409)
		s.has(s.do("DELETE", "/sessions/ses_turns", ""), 409)
		s.coordinator.kill()
		s.coordinator.start()
		s.ready()
		close(m.gate("wait 1"))
		s.status(last, "running")
		for _, id := range append([]string{first}, ids...) {
			s.has(s.get("/runs/"+id), 200, `"status":"completed"`)
		}
		s.has(s.get("/runs/"+after), 200, `"status":"pending"`, "its turn: run "+last)
		s.is(s.get("/sessions/ses_turns/result"), 200,
			`{"result_type":"autonomous","result_text":"answer to turn 5","result_data":null}`)
		close(m.gate("wait 2"))
		s.same("the last", s.ended(after).at("status"), "completed")
		s.same("the order", m.prompts(), "start wait 1, resume turn 0, resume turn 1, resume turn 2, resume turn 3, "+
			"resume turn 4, resume turn 5, resume wait 2, resume turn 9")
		s.is(s.get("/sessions/ses_turns/status"), 200, `{"session_id":"ses_turns","status":"finished"}`)
		var started []string
		for i := range 40 {
			if r := s.get("/sessions/ses_turns/events?limit=100"); r.at(
				fmt.Sprintf("events.%d.event_type", i)) == "run_start" {
				started = append(started, r.at(fmt.Sprintf("events.%d.run_id", i)))
			}
		}
		s.same("the events' order", strings.Join(started, " "),
			strings.Join(append(append([]string{first}, ids...), last, after), " "))
	})

	s.story("many that resume at once", func(s *stack) {
		opening := s.post("/runs", `{"agent_name":"plain","prompt":"x","mode":"sync"}`)
		session := opening.at("session_id")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if r := s.post("/runs", fmt.Sprintf(`{"session_id":%q,"prompt":"many %d","mode":"sync"}`, session,
					i)); r.at("result.result_text") != fmt.Sprint("answer to many ", i) {
					t.Errorf("turn %d: got %d %s, want its own answer", i, r.code, r.text)
				}
			})
		}
		wg.Wait()
		m.mu.Lock()
		if m.most != 1 {
			t.Errorf("%d turns of one session ran at once", m.most)
		}
		m.mu.Unlock()
		s.has(s.get("/sessions/"+session), 200, `"status":"finished"`, `"runs":21`)
	})

	s.story("a resume is a prompt, whatever the agent's schema", func(s *stack) {
		s.has(s.post("/runs", `{"agent_name":"strict","prompt":"x"}`), 400, `'topic' is a required property`)
		r := s.post("/runs", `{"agent_name":"strict","parameters":{"topic":"x"},"mode":"sync"}`)
		session := r.at("session_id")
		s.has(r, 200, `"status":"completed"`)
		s.has(s.post("/runs", `{"session_id":"`+session+`","parameters":{"topic":"x"}}`), 400, `"parameters_schema":`+
			implicit, `'prompt' is a required property`)
		s.has(s.post("/runs", `{"session_id":"`+session+`","agent_name":"plain","type":"resume_session","prompt":"x"}`),
			400, `"field":"agent_name"`)
		s.has(s.post("/runs", `{"session_id":"`+session+
			`","agent_name":"strict","type":"resume_session","prompt":"x","mode":"sync"}`), 200,
			`"type":"resume_session"`, `"agent_name":"strict"`)
	})

	s.story("after a failed turn and after a stopped one it can go on", func(s *stack) {
		s.has(s.post("/runs", `{"agent_name":"plain","prompt":"fail 1","session_id":"ses_again","mode":"sync"}`), 200,
			`"status":"failed"`, `"error":{"error":"model_failed","message":"no answer to fail 1"}`, `"result":null`)
		s.has(s.get("/sessions/ses_again"), 200, `"status":"failed"`)
		s.has(s.get("/sessions/ses_again/result"), 409, `"error":"no_result"`, `"run_error":{"error":"model_failed"`)
		id := resume(s, "ses_again", "wait for a stop")
		s.status(id, "running")
		s.has(s.post("/runs/"+id+"/stop", ""), 200)
		s.has(s.ended(id), 200, `"status":"stopped"`)
		s.has(s.get("/sessions/ses_again"), 200, `"status":"stopped"`)
		s.has(s.post("/runs", `{"session_id":"ses_again","prompt":"go on","mode":"sync"}`), 200,
			`"result_text":"answer to go on"`)
		s.has(s.get("/sessions/ses_again"), 200, `"status":"finished"`, `"runs":3`)
	})

	s.story("a session that is stopped stops what runs and cancels what waits", func(s *stack) {
		s.has(s.post("/runs", `{"agent_name":"plain","prompt":"wait for ever","session_id":"ses_stop"}`), 201)
		ids := []string{s.get("/sessions/ses_stop").at("last_run_id")}
		s.status(ids[0], "running")
		for range 3 {
			ids = append(ids, resume(s, "ses_stop", "never said"))
		}
		s.has(s.post("/runs/"+ids[2]+"/stop", ""), 200, `"status":"stopped"`) // one of those that wait
		s.has(s.post("/sessions/ses_stop/stop", ""), 200)
		for _, id := range ids {
			s.same("the run", s.ended(id).at("status"), "stopped")
		}
		s.has(s.get("/sessions/ses_stop"), 200, `"status":"stopped"`)
		if strings.Contains(m.prompts(), "never said") {
			t.Error("a cancelled turn was started")
		}
		if r := s.do("DELETE", "/sessions/ses_stop", ""); r.code != 204 {
			t.Errorf("DELETE %s: got %d %s, want 204", "/sessions/ses_stop", r.code, r.text)
		}
		s.has(s.post("/runs", `{"session_id":"ses_stop","prompt":"x"}`), 404)
	})

	s.story("a turn's time is over", func(s *stack) {
		began := time.Now()
		r := s.post("/runs", `{"agent_name":"plain","prompt":"wait too long","timeout_seconds":1,"mode":"sync"}`)
		s.has(r, 200, `"status":"failed"`, `"error":"timeout"`, `after 1 second`)
		if strings.Contains(r.text, "exit_code") || time.Since(began) > 10*time.Second {
			t.Errorf("after %s: %s", time.Since(began), r.text)
		}
	})
}
