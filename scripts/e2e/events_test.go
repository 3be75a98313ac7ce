package e2e

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// The events that a reader of a session gets, live and later, at this and at another coordinator.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := up(t, "RUN_NO_MATCH_TIMEOUT=2s")
	s.agent("talks", `echo 'half of it' >&2; echo 'all of it' >&2; echo '{"a":[1.10]}'`, "")
	s.agent("fails", `echo bad >&2; exit 1`, "")
	s.agent("hang", startNote+`sleep 60`, "")
	s.agent("gate", gate, "")
	s.worker()
	s.has(s.post("/agents", `{"name":"plain"}`), 201)

	s.story("a session's events, afterwards", func(s *stack) {
		r := s.sync("talks", `{}`)
		id, session := r.at("run_id"), r.at("session_id")
		head := func(kind string) string {
			return fmt.Sprintf(`{"event_type":"%s","session_id":"%s","run_id":"%s","timestamp":"T"`, kind, session, id)
		}
		want := []string{
			head("run_start") + `,"attempt":1,"runner_id":"` + r.at("runner_id") + `"}`,
			head("message") + `,"role":"system","content":[{"type":"text","text":"half of it"}]}`,
			head("message") + `,"role":"system","content":[{"type":"text","text":"all of it"}]}`,
			head("result") + `,"result_type":"procedural","result_text":null,"result_data":{"a":[1.10]},"exit_code":0}`,
			head("run_completed") + `}`,
		}
		all := s.get("/sessions/" + session + "/events")
		next := all.at("next")
		s.same("the events", strings.TrimSpace(times.ReplaceAllString(all.text, `"T"`)), `{"events":[`+
			strings.Join(want, ",")+`],"next":"`+next+`"}`)
		s.is(s.get("/sessions/"+session+"/events?after="+next), 200, `{"events":[],"next":"`+next+`"}`)
		for limit := 1; limit <= 4; limit++ { // any cut gives the same, each once
			var got []string
			for after := ""; ; {
				page := s.get(fmt.Sprintf("/sessions/%s/events?limit=%d&after=%s", session, limit,
					url.QueryEscape(after)))
				if page.at("events.0.event_type") == "" {
					break
				}
				for i := range limit {
					if kind := page.at(fmt.Sprintf("events.%d.event_type", i)); kind != "" {
						got = append(got, kind)
					}
				}
				after = page.at("next")
			}
			s.same(fmt.Sprintf("the events by %d", limit), strings.Join(got, " "),
				"run_start message message result run_completed")
		}
		s.has(s.get("/sessions/"+session+"/events?after=yesterday"), 400, `"field":"after"`)
		s.has(s.get("/sessions/"+session+"/events?limit=0"), 400, `"field":"limit"`)
	})

	s.story("live, and on from where a reader was", func(s *stack) {
		live := s.sessions("", "")
		first := live.pieces()[0]
		s.contains(first.data, `{"sessions":[`, `"runs":[`, `"agent_name":"talks"`)
		r := s.sync("talks", `{}`)
		id, session := r.at("run_id"), r.at("session_id")
		live.event(id, "run_completed")
		live.find("the end", func(p sseEvent) bool {
			return p.name == "run_updated" && p.at("run_id") == id && p.at("status") == "completed"
		})
		live.find("the session's end", func(p sseEvent) bool {
			return p.name == "session_updated" && p.at("session_id") == session && p.at("status") == "finished"
		})
		live.find("the session", func(p sseEvent) bool {
			return p.name == "session_created" &&
				p.at("session_id") == session
		})
		s.same("the events", strings.Join(live.finished(), " "), "run_start message message result run_completed")
		live.stop()
		// The state running is in no record: only live readers get it, once, at their position.
		shown := slices.CompactFunc(slices.Clone(live.pieces()), func(a, b sseEvent) bool { return a.id == b.id })[1:]

		// After any position the rest comes again, without duplicates or gaps. Runs and sessions are sent in their
		// current state.
		text := func(all []sseEvent) string {
			var b strings.Builder
			for _, p := range all {
				if p.name != "event" {
					p.data = p.at("session_id")
				}
				fmt.Fprintln(&b, p.id, p.name, p.data)
			}
			return b.String()
		}
		for i := range shown {
			again := s.sessions("", append([]sseEvent{first}, shown...)[i].id)
			s.until("all that follows is sent", func() bool { return len(again.pieces()) >= len(shown)-i })
			s.same(fmt.Sprintf("after piece %d", i), text(again.pieces()), text(shown[i:]))
			again.stop()
		}
		one := s.sessions("?session_id="+session, "")
		s.contains(one.find("init", func(p sseEvent) bool { return p.name == "init" }).data,
			`{"sessions":[{"session_id":"`+session+`"`, `"run_id":"`+id+`"`)

		if r := s.do("DELETE", "/sessions/"+session, ""); r.code != 204 {
			t.Errorf("DELETE %s: got %d %s, want 204", "/sessions/"+session, r.code, r.text)
		}
		s.same("session_deleted",
			one.find("the deletion", func(p sseEvent) bool { return p.name == "session_deleted" }).at("session_id"),
			session)
		s.has(s.do("GET", "/sse/sessions", "", "Last-Event-ID", "not-a-position"), 400, `"error":"invalid_request"`)
		gap := s.sessions("", "999999999-0")
		s.until("a position that is not kept", func() bool { return len(gap.pieces()) >= 2 })
		s.same("its first pieces", gap.pieces()[0].name+" "+gap.pieces()[1].name, "gap init")
	})

	s.story("run_failed goes out for every failure", func(s *stack) {
		live := s.sessions("", "")
		failed := func(id, code string) {
			s.t.Helper()
			p := live.find("run_failed of "+
				code, func(p sseEvent) bool { return p.name == "run_failed" && p.at("run_id") == id })
			s.same("its code", p.at("error.error"), code)
			s.same("the event's code", live.event(id, "run_failed").at("error.error"), code)
		}
		failed(s.run(`{"agent_name":"fails"}`), "command_failed")
		failed(s.run(`{"agent_name":"hang","timeout_seconds":1}`), "timeout")
		failed(s.run(`{"agent_name":"plain","prompt":"nobody is there"}`), "no_matching_runner")
		p := s.runner("lost")
		s.online("lost")
		id := s.run(`{"agent_name":"hang","additional_demands":{"hostname":"lost"}}`)
		s.status(id, "running")
		p.kill()
		failed(id, "runner_disconnected")
		stopped := s.run(`{"agent_name":"hang"}`)
		s.status(stopped, "running")
		s.has(s.post("/runs/"+stopped+"/stop", ""), 200)
		live.event(stopped, "run_stopped")
		for _, p := range live.pieces() {
			if p.name == "run_failed" && p.at("run_id") == stopped {
				t.Errorf("a stop is reported as a failure: %s", p.data)
			}
		}
	})

	s.story("two coordinators are one", func(s *stack) {
		b := s.another()
		live := b.sessions("", "")
		for range 50 { // known there as soon as it is answered here
			r := s.post("/runs", `{"agent_name":"talks"}`)
			if there := b.get("/runs/" + r.at("run_id")); r.code != 201 || there.code != 200 {
				t.Fatalf("answered %d %s, at the other %d %s", r.code, r.text, there.code, there.text)
			}
			if there := b.get("/sessions/" + r.at("session_id")); there.code != 200 {
				t.Fatalf("at the other %d %s", there.code, there.text)
			}
		}
		id := s.run(`{"agent_name":"gate","parameters":{"n":"two"}}`)
		s.waitGate("two")
		waited := make(chan reply, 1)
		go func() { waited <- b.get("/runs/" + id + "/wait?timeout_seconds=30") }()
		s.openGate("two")
		s.has(<-waited, 200, `"status":"completed"`)
		live.event(id, "run_completed")
		s.same("the result", s.result(id), b.result(id))
		s.has(b.post("/agents", `{"name":"shared"}`), 201)
		s.until("an agent made there is here", func() bool { return s.get("/agents/shared").code == 200 })
		a := s.run(`{"agent_name":"hang"}`)
		b.status(a, "running")
		b.has(b.post("/runs/"+a+"/stop", ""), 200)
		s.same("stopped there", s.ended(a).at("status"), "stopped")
		key := func(at *stack) string {
			return at.post("/runs", `{"agent_name":"talks"}`, "Idempotency-Key", "both").at("run_id")
		}
		s.same("one key at both", key(s), key(b))
		for _, p := range live.pieces() {
			if p.name == "gap" {
				t.Error("a gap at the other")
			}
		}
		for _, at := range []*stack{s, b} {
			at.until("all runs have ended", func() bool {
				return at.runs("status=pending,claimed,running,stopping") == 0 && at.runs("") == s.runs("")
			})
		}
		s.same("both lists", s.get("/runs?limit=1000").text, b.get("/runs?limit=1000").text)
	})
}
