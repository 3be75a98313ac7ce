package e2e

import (
	"fmt"
	"strings"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
)

// Sessions in order, deleted sessions, and children of deleted parents, with real programs.
func TestTurns(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("gate", gate, "")
	s.simulatedWorker("one")
	submit := func(s *stack, session, prompt, more string) string {
		s.t.Helper()
		return s.run(fmt.Sprintf(`{"agent_name":"plain","prompt":%q,"session_id":%q%s}`, prompt, session, more))
	}
	parent := func(id string) string { return `,"mode":"async_callback","parent_session_id":"` + id + `"` }

	s.story("who resumes while a turn runs waits for it, also across a crash", func(s *stack) {
		first := submit(s, "ses_a", "wait-a", "")
		s.status(first, "running")
		want := []string{"wait-a"}
		var last string
		for i := range 5 {
			want = append(want, fmt.Sprint("a-", i))
			last = s.resume("ses_a", want[i+1])
			s.has(s.get("/runs/"+last), 200, `"status":"pending"`, `"waiting_for":"its turn: run `+first+
				` of the session comes first"`)
		}
		failing := s.resume("ses_a", "fail-a") // a turn that fails holds nobody up
		after := s.resume("ses_a", "a-9")
		s.coordinator.kill()
		s.coordinator.start()
		s.ready()
		s.same("the turns so far", strings.Join(s.turns("ses_a"), " "), "wait-a")
		s.openGate("wait-a")
		s.same("the last", s.ended(after).at("status"), "completed")
		s.has(s.get("/runs/"+last), 200, `"status":"completed"`)
		s.has(s.get("/runs/"+failing), 200, `"status":"failed"`, `no answer to fail-a`)
		s.same("the turns", strings.Join(s.turns("ses_a"), " "), strings.Join(append(want, "fail-a", "a-9"), " "))
		s.has(s.get("/sessions/ses_a/result"), 200, `"result_text":"answer to a-9"`)
	})

	s.story("a stopped session: what runs is stopped, what waits never begins", func(s *stack) {
		ids := []string{submit(s, "ses_b", "wait-b", "")}
		s.until("it has begun", func() bool { return len(s.turns("ses_b")) == 1 })
		for i := range 3 {
			ids = append(ids, s.resume("ses_b", fmt.Sprint("b-", i)))
		}
		s.has(s.post("/sessions/ses_b/stop", ""), 200)
		for _, id := range ids {
			s.has(s.ended(id), 200, `"status":"stopped"`)
		}
		s.has(s.get("/sessions/ses_b"), 200, `"status":"stopped"`)
		s.ended(s.resume("ses_b", "b-9"))
		s.same("the turns", strings.Join(s.turns("ses_b"), " "), "wait-b b-9")
		s.has(s.get("/sessions/ses_b"), 200, `"status":"finished"`, `"runs":5`)
	})

	s.story("deleted: not while something runs or waits; then nothing of it is left", func(s *stack) {
		b := s.nats.Bus(s.t)
		first := submit(s, "ses_c", "wait-c", "")
		s.status(first, "running")
		s.has(s.do("DELETE", "/sessions/ses_c", ""), 409, `"run_id":"`+first+`"`, `stop it first`)
		big := s.resume("ses_c", "big-"+strings.Repeat("y", 300_000))
		s.has(s.do("DELETE", "/sessions/ses_c", ""), 409, `2 open runs`)
		s.openGate("wait-c")
		r := s.ended(big)
		s.has(r, 200, `"status":"completed"`)
		s.has(s.get("/runs/"+big+"/result"), 200, `xxxxanswer to big-yyy`)
		waits := s.run(`{"agent_name":"plain","prompt":"never","session_id":"ses_w",` +
			`"additional_demands":{"hostname":"nowhere"}}`)
		s.has(s.do("DELETE", "/sessions/ses_w", ""), 409, `"run_id":"`+waits+`"`)
		s.has(s.post("/runs/"+waits+"/stop", ""), 200)
		ids := []string{"ses_c", "ses_w", first, big, waits}
		if left := missingIDs(s, b, ids...); len(left) < 12 || !strings.Contains(strings.Join(left, " "), "payload") {
			s.t.Errorf("before: %q", left)
		}
		for _, session := range ids[:2] {
			if r := s.do("DELETE", "/sessions/"+session, ""); r.code != 204 {
				s.t.Errorf("DELETE %s: got %d %s, want 204", "/sessions/"+session, r.code, r.text)
			}
			s.has(s.get("/sessions/"+session), 404)
			s.has(s.get("/sessions/"+session+"/events"), 404)
			s.has(s.post("/runs", `{"session_id":"`+session+`","prompt":"x"}`), 404)
			s.has(s.post("/runs", `{"agent_name":"plain","prompt":"x","session_id":"`+session+`"}`), 409,
				"ids are not reused")
		}
		s.has(s.get("/runs/"+big), 404)
		s.has(s.get("/runs/"+big+"/result"), 404)
		s.same("the list", fmt.Sprint(s.runs("session_id=ses_c")), "0")
		s.same("what is left", strings.Join(missingIDs(s, b, ids...), "\n"), countSessions("ses_c", "ses_w"))
		s.has(s.do("DELETE", "/sessions/ses_c", ""), 404)
	})

	s.story("children live on and say that their parent is gone", func(s *stack) {
		s.ended(submit(s, "ses_p", "hello", ""))
		poll := submit(s, "ses_p1", "hello", `,"parent_session_id":"ses_p"`)
		called := submit(s, "ses_p2", "wait-p2", parent("ses_p"))
		s.ended(poll)
		s.status(called, "running")
		s.has(s.get("/runs/"+called), 200, `"callback":{"status":"waiting"}`)
		if r := s.do("DELETE", "/sessions/ses_p", ""); r.code != 204 {
			s.t.Fatalf("DELETE %s: got %d %s, want 204", "/sessions/ses_p", r.code, r.text)
		}
		deleted := `"parent_gone":true`
		check := func() {
			s.t.Helper()
			s.has(s.get("/runs/"+poll), 200, `"status":"completed"`, deleted, `"parent_session_id":"ses_p"`)
			s.has(s.get("/sessions/ses_p1"), 200, `"status":"finished"`, deleted)
			s.has(s.get("/runs/"+called), 200, deleted, `"callback":{"status":"undeliverable","reason":"parent_gone"}`)
			s.has(s.get("/sessions/ses_p2"), 200, deleted)
			s.has(s.get("/callbacks?status=undeliverable"), 200, called)
			if strings.Contains(s.get("/runs/"+poll).text, `"callback"`) {
				s.t.Error("a run that calls nobody back has a callback")
			}
		}
		s.same("it goes on", s.get("/runs/"+called).at("status"), "running")
		check()
		s.openGate("wait-p2")
		s.has(s.ended(called), 200, `"status":"completed"`)
		s.has(s.get("/runs/"+called+"/result"), 200, `answer to wait-p2`)
		check()
		s.coordinator.kill()
		s.coordinator.start()
		s.ready()
		check()
		s.has(s.post("/runs", `{"session_id":"ses_p2","prompt":"on","mode":"sync"}`), 200,
			`"result_text":"answer to on"`, deleted)
		s.has(s.post("/runs", `{"agent_name":"plain","prompt":"x","parent_session_id":"ses_p"}`), 404,
			`"field":"parent_session_id"`)
		for _, session := range []string{"ses_p1", "ses_p2"} {
			if r := s.do("DELETE", "/sessions/"+session, ""); r.code != 204 {
				s.t.Errorf("DELETE %s: got %d %s, want 204", "/sessions/"+session, r.code, r.text)
			}
		}
	})

	s.story("a child whose parent is yet to be called back stays until that has been done", func(s *stack) {
		top := submit(s, "ses_q", "wait-q", "")
		s.status(top, "running")
		child := submit(s, "ses_q1", "hello", parent("ses_q"))
		s.has(s.ended(child), 200, `"callback":{"status":"owed"}`)
		s.has(s.do("DELETE", "/sessions/ses_q1", ""), 409, `"run_id":"`+child+`"`, `is pending until`)
		s.openGate("wait-q")
		s.until("the parent is called back",
			func() bool { return s.get("/runs/"+child).at("callback.status") == "delivered" })
		turn := s.get("/runs/" + child).at("callback.callback_run_id")
		s.has(s.ended(turn), 200, `"status":"completed"`, `"session_id":"ses_q"`)
		if r := s.do("DELETE", "/sessions/ses_q1", ""); r.code != 204 {
			s.t.Errorf("DELETE %s: got %d %s, want 204", "/sessions/ses_q1", r.code, r.text)
		}
		s.has(s.get("/runs/"+turn), 200, `ses_q1`) // what the parent got stays its own
	})
}

// countSessions counts the tombstones, which are all that may be left of deleted sessions.
func countSessions(sessions ...string) string {
	var deleted []string
	for _, id := range sessions {
		deleted = append(deleted, subject.Deleted(subject.Partition(id), id))
	}
	return strings.Join(deleted, "\n")
}

// missingIDs returns everything in NATS that contains one of these ids: records, events, payloads.
func missingIDs(s *stack, b *bus.Bus, ids ...string) (all []string) {
	s.t.Helper()
	add := func(kind, name, body string) {
		for _, id := range ids {
			if strings.Contains(name, id) || strings.Contains(body, id) {
				all = append(all, kind+name)
				return
			}
		}
	}
	for _, read := range []func() ([]bus.Message, error){
		func() ([]bus.Message, error) { return b.Records(s.t.Context(), subject.AllRuns, 0, 10_000) },
		func() ([]bus.Message, error) { return b.Events(s.t.Context(), subject.AllEvents, 0, 10_000) },
	} {
		records, err := read()
		if err != nil {
			s.t.Fatal(err)
		}
		for _, m := range records {
			add("", m.Subject, string(m.Body))
		}
	}
	for name := range natstest.Payloads(s.t, b) {
		add("payload ", name, "")
	}
	return all
}
