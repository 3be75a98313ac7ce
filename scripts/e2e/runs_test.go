package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// gate is an agent's script that records its start and waits for a file before it ends.
const gate = `echo $$ >> "began-$2"; while [ ! -e "open-$2" ]; do sleep 0.1; done; echo "{\"gate\":\"$2\"}"`

func (s *stack) waitGate(name string) {
	s.t.Helper()
	s.until("gate "+name+" is waited at", func() bool { return len(s.lines("began-"+name)) > 0 })
}

func (s *stack) openGate(name string) { s.write("open-"+name, "") }

// How a run is started, waited for, found and stopped.
func TestRuns(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("quick", `echo '{"status":"success"}'`, "")
	s.agent("gate", gate, "")
	s.agent("fails", `echo 'no such file' >&2; exit 2`, "")
	s.worker()
	s.has(s.post("/agents", `{"name":"plain"}`), 201)

	s.story("async: started, polled, read", func(s *stack) {
		r := s.post("/runs", `{"agent_name":"quick"}`)
		id, session := r.at("run_id"), r.at("session_id")
		s.is(r, 201, `{"run_id":"`+id+`","session_id":"`+session+`","status":"pending"}`)
		s.same("Location", r.header.Get("Location"), "/runs/"+id)
		done := s.ended(id)
		s.same("the run", bare(done.text), `{"run_id":"run_ID","type":"start_session","session_id":"ses_ID",`+
			`"agent_name":"quick","agent_hash":"HASH","parameters":{},"status":"completed","mode":"async_poll",`+
			`"demands":{"executor_profile":"test","executor_type":"procedural"},"runner_id":"rnr_ID","attempt":1,`+
			`"error":null,"created_at":"T","claimed_at":"T","started_at":"T","completed_at":"T","timeout_at":"T"}`)
		var at []string
		for _, name := range []string{"created_at", "claimed_at", "started_at", "completed_at", "timeout_at"} {
			moment, err := time.Parse(time.RFC3339Nano, done.at(name))
			if err != nil {
				t.Error(err)
			}
			at = append(at, moment.Format("2006-01-02T15:04:05.000000000"))
		}
		if !slices.IsSorted(at) {
			t.Errorf("times are not in order: %v", at)
		}
		const result = `{"result_type":"procedural","result_text":null,` +
			`"result_data":{"status":"success"},"exit_code":0}`
		s.is(s.get("/runs/"+id+"/result"), 200, result)
		s.is(s.get("/sessions/"+session+"/result"), 200, result)
		s.is(s.get("/sessions/"+session+"/status"), 200, `{"session_id":"`+session+`","status":"finished"}`)
		s.same("the session", bare(s.get("/sessions/"+session).text),
			`{"session_id":"ses_ID","status":"finished","agent_name":"quick","agent_type":"procedural",`+
				`"last_run_id":"run_ID","runs":1,"created_at":"T","modified_at":"T"}`)
	})

	s.story("sync: the run and its result in one document", func(s *stack) {
		for _, mode := range []string{"mode", "execution_mode"} {
			r := s.post("/runs", `{"agent_name":"quick","`+mode+`":"sync"}`)
			s.has(r, 200, `"status":"completed"`, `"mode":"sync"`, `"result":{"result_type":"procedural",`+
				`"result_text":null,"result_data":{"status":"success"},"exit_code":0}}`)
			s.same("Location", r.header.Get("Location"), "/runs/"+r.at("run_id"))
			s.has(s.get("/runs/"+r.at("run_id")), 200, `"status":"completed"`)
		}
		s.has(s.post("/runs", `{"agent_name":"fails","mode":"sync"}`), 200, `"status":"failed"`,
			`"message":"no such file"`, `"exit_code":2`)
	})

	s.story("sync as a stream of events that ends with the result", func(s *stack) {
		st := s.openStream("POST", "/runs", `{"agent_name":"quick","mode":"sync"}`)
		s.until("the stream has ended", st.over)
		var names []string
		for _, p := range st.pieces() {
			names = append(names, p.name+p.at("event_type"))
		}
		s.same("the stream", strings.Join(names, " "), "accepted"+
			" eventrun_start eventresult eventrun_completed result")
		last := st.pieces()[len(names)-1]
		if st.code != 200 || st.header.Get("Content-Type") != "text/event-stream" ||
			last.at("result.result_data.status") != "success" || last.at("status") != "completed" {
			t.Errorf("got %d %v %s, want 200, an event stream and the completed run with its result", st.code,
				st.header, last.data)
		}
		s.has(s.post("/runs", `{"agent_name":"nobody","mode":"sync"}`, "Accept", "text/event-stream"), 404,
			`"error":"not_found"`)
	})

	s.story("waiting for a run, and for too short", func(s *stack) {
		r := s.post("/runs", `{"agent_name":"gate","parameters":{"n":"wait"},"mode":"sync","wait_seconds":0}`)
		id := r.at("run_id")
		s.is(r, 202, `{"run_id":"`+id+`","session_id":"`+r.at("session_id")+
			`","status":"pending","limit":"wait_seconds","timeout_seconds":0,"timeout_by":"request"}`)
		s.same("Location", r.header.Get("Location"), "/runs/"+id)
		s.waitGate("wait")
		s.status(id, "running")
		s.has(s.get("/runs/"+id+"/wait?timeout_seconds=0"), 202, `"run_id":"`+id+`"`, `"status":"running"`)
		s.has(s.get("/runs/"+id+"/result"), 409, `"error":"run_not_ended"`, `"status":"running"`)
		s.has(s.get("/sessions/"+r.at("session_id")+"/status"), 200, `"status":"running"`)
		stream := s.openStream("POST", "/runs",
			`{"agent_name":"gate","parameters":{"n":"wait"},"mode":"sync","wait_seconds":1}`)
		s.until("the stream has ended", stream.over)
		s.same("its last piece", stream.pieces()[len(stream.pieces())-1].name, "timeout")
		waited := make(chan reply, 1)
		go func() { waited <- s.get("/runs/" + id + "/wait?timeout_seconds=30") }()
		s.openGate("wait")
		s.has(<-waited, 200, `"status":"completed"`, `"result_data":{"gate":"wait"}`)
		s.has(s.get("/runs/"+id+"/wait"), 200, `"result_data":{"gate":"wait"}`)
		s.has(s.get("/runs/"+id+"/wait?timeout_seconds=601"), 400, `"field":"timeout_seconds"`)
	})

	s.story("a caller that hangs up does not stop the run", func(s *stack) {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, "POST", s.url+
			"/runs", strings.NewReader(`{"agent_name":"gate","parameters":{"n":"hung"},"mode":"sync"}`))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if res, err := http.DefaultClient.Do(req); err == nil {
				res.Body.Close()
			}
		}()
		s.waitGate("hung")
		cancel()
		<-ended
		stream := s.openStream("POST", "/runs", `{"agent_name":"gate","parameters":{"n":"hung2"},"mode":"sync"}`)
		s.waitGate("hung2")
		stream.stop()
		s.openGate("hung")
		s.openGate("hung2")
		s.until("both have ended well",
			func() bool { return s.runs("agent_name=gate&status=pending,claimed,running") == 0 })
		if n := s.runs("agent_name=gate&status=completed"); n != 4 {
			t.Errorf("%d gates were passed, want 4", n)
		}
	})

	s.story("an idempotency key gives the first answer again, also after a restart", func(s *stack) {
		const body = `{"agent_name":"quick","parameters":{"a":1}}`
		before := s.runs("")
		first := s.post("/runs", body, "Idempotency-Key", "k 1")
		s.is(s.post("/runs", body, "Idempotency-Key", "k 1"), 201, strings.TrimSpace(first.text))
		s.has(s.post("/runs", `{"agent_name":"quick","parameters":{"a":2}}`, "Idempotency-Key", "k 1"), 409,
			`"error":"`, `Idempotency-Key`)
		s.ended(first.at("run_id"))
		s.coordinator.kill()
		s.coordinator.start()
		s.ready()
		r := s.post("/runs", body, "Idempotency-Key", "k 1")
		if s.has(r, 201); r.at("run_id") != first.at("run_id") || r.at("session_id") != first.at("session_id") {
			t.Errorf("first %s, after a restart %s", first.text, r.text)
		}
		s.has(s.post("/runs", `{"agent_name":"quick","parameters":{"a":2}}`, "Idempotency-Key", "k 1"), 409)
		if n := s.runs(""); n != before+1 {
			t.Errorf("%d runs came of one key", n-before)
		}
		s.has(s.post("/runs", `{"agent_name":"nobody"}`, "Idempotency-Key", "k 2"), 404) // a refusal uses no key up
		s.has(s.post("/runs", body, "Idempotency-Key", "k 2"), 201)
	})

	s.story("a session under the caller's own id", func(s *stack) {
		r := s.post("/runs", `{"agent_name":"quick","session_id":"ses_My-own_1"}`)
		s.has(r, 201, `"session_id":"ses_My-own_1"`)
		const taken = `{"error":"conflict","message":"session ses_My-own_1 exists already; leave ` +
			`session_id out for a ` +
			`new one, or resume it","session_id":"ses_My-own_1","field":"session_id"}`
		s.is(s.post("/runs", `{"agent_name":"quick","session_id":"ses_My-own_1"}`), 409, taken)
		s.ended(r.at("run_id"))
		s.is(s.post("/runs", `{"agent_name":"quick","session_id":"ses_My-own_1","type":"start_session"}`), 409, taken)
		s.has(s.get("/sessions/ses_My-own_1"), 200, `"runs":1`, `"last_run_id":"`+r.at("run_id")+`"`)
		// One of many concurrent requests wins.
		codes := make(chan int, 8)
		for range cap(codes) {
			go func() { codes <- s.post("/runs", `{"agent_name":"quick","session_id":"ses_race"}`).code }()
		}
		count := map[int]int{}
		for range cap(codes) {
			count[<-codes]++
		}
		if count[201] != 1 || count[409] != cap(codes)-1 {
			t.Errorf("answers: %v", count)
		}
	})

	s.story("a child names its parent", func(s *stack) {
		parent := s.sync("quick", `{}`)
		r := s.post("/runs", `{"agent_name":"quick","parent_session_id":"`+parent.at("session_id")+`","mode":"sync"}`)
		s.has(r, 200, `"parent_session_id":"`+parent.at("session_id")+`"`)
		s.same("its child", s.get("/runs?parent_session_id="+parent.at("session_id")).at("runs.0.run_id"),
			r.at("run_id"))
		s.same("its child's session", s.get("/sessions?parent_session_id="+parent.at("session_id")).at(
			"sessions.0.session_id"), r.at("session_id"))
	})

	s.story("lists: newest first, filtered, page by page", func(s *stack) {
		since := s.sync("quick", `{}`).at("created_at")
		var made []string
		for i := range 7 {
			made = append(made, s.sync([]string{"quick", "fails"}[i%2], `{}`).at("run_id"))
		}
		slices.Reverse(made)
		after := "created_after=" + url.QueryEscape(since)
		var paged []string
		for cursor := ""; ; {
			r := s.get("/runs?limit=3&" + after + "&cursor=" + cursor)
			var page struct {
				Runs []struct {
					ID string `json:"run_id"`
				}
				Next string `json:"next_cursor"`
			}
			if err := json.Unmarshal([]byte(r.text), &page); err != nil || r.code != 200 || len(page.Runs) > 3 {
				t.Fatalf("got %d %s, %v; want a page of 3 runs at most", r.code, r.text, err)
			}
			for _, one := range page.Runs {
				paged = append(paged, one.ID)
			}
			if len(paged) == 3 { // what comes meanwhile does not shift the pages
				s.sync("quick", `{}`)
			}
			cursor = page.Next
			if cursor == "" {
				break
			}
		}
		s.same("the pages", strings.Join(paged, " "), strings.Join(made, " "))
		for query, want := range map[string]int{
			"status=failed&": 3, "status=completed&": 5, "status=completed,failed&": 8, "agent_name=fails&": 3,
			"status=pending,running&":                                      0,
			"session_id=" + s.get("/runs/"+made[0]).at("session_id") + "&": 1, "session_id=ses_none&": 0,
		} {
			if n := s.runs(query + after); n != want {
				t.Errorf("%s: %d, want %d", query, n, want)
			}
		}
		first := s.get("/sessions?limit=3&" + after)
		second := s.get("/sessions?limit=3&" + after + "&cursor=" + first.at("next_cursor"))
		if first.at("sessions.2.session_id") <= second.at("sessions.0.session_id") ||
			second.at("sessions.2.session_id") == "" {
			t.Errorf("sessions: %s then %s", first.text, second.text)
		}
		s.has(s.get("/sessions?status=failed&"+after), 200, `"status":"failed"`, `"agent_name":"fails"`)
		s.has(s.get("/runs?limit=3&cursor="+first.at("next_cursor")), 400, `"field":"cursor"`)
	})

	s.story("stop: of a waiting run, a running one, an ended one", func(s *stack) {
		waits := s.get("/runs/" + s.run(`{"agent_name":"plain","prompt":"x"}`))
		s.has(s.post("/runs/"+waits.at("run_id")+"/stop", ""), 200, `"status":"stopped"`,
			`"error":{"error":"stopped","message":"Stopped before it began"}`)
		s.has(s.post("/runs/"+waits.at("run_id")+"/stop", `{}`), 200, `"status":"stopped"`)
		if r := s.get("/runs/" + waits.at("run_id")); r.at("claimed_at") != "" || r.at("started_at") != "" ||
			r.at("completed_at") == "" {
			t.Errorf("nobody began it: %s", r.text)
		}
		s.has(s.get("/sessions/"+waits.at("session_id")), 200, `"status":"stopped"`)
		s.has(s.get("/runs/"+waits.at("run_id")+"/result"), 409, `"error":"no_result"`, `"status":"stopped"`)

		runs := s.get("/runs/" + s.run(`{"agent_name":"gate","parameters":{"n":"stop"}}`))
		s.waitGate("stop")
		s.has(s.do("DELETE", "/sessions/"+runs.at("session_id"), ""), 409, runs.at("run_id"))
		r := s.post("/sessions/"+runs.at("session_id")+"/stop", "")
		if st := r.at("status"); r.code != 200 || st != "stopping" && st != "stopped" {
			t.Errorf("stop: got %d %s, want 200 and stopping or stopped", r.code, r.text)
		}
		s.has(s.ended(runs.at("run_id")), 200, `"status":"stopped"`)
		s.exited(s.lines("began-stop"))

		done := s.sync("quick", `{}`)
		s.is(s.post("/runs/"+done.at("run_id")+"/stop", ""), 409,
			`{"error":"conflict","message":"run `+done.at("run_id")+` has ended already: completed","run_id":"`+
				done.at("run_id")+`","status":"completed"}`)
		s.has(s.post("/runs/"+done.at("run_id")+"/stop", `{"force":true}`), 400, `"field":"force"`, "known are tree")
		s.has(s.post("/sessions/"+done.at("session_id")+"/stop", ""), 200, `"status":"finished"`)
	})

	s.story("a deleted session is gone, and so is all of it", func(s *stack) {
		done := s.sync("quick", `{}`)
		id, session := done.at("run_id"), done.at("session_id")
		if r := s.do("DELETE", "/sessions/"+session, ""); r.code != 204 {
			t.Errorf("DELETE %s: got %d %s, want 204", "/sessions/"+session, r.code, r.text)
		}
		for _, path := range []string{"/runs/" + id, "/runs/" + id + "/result", "/sessions/" + session, "/sessions/" +
			session + "/events"} {
			s.has(s.get(path), 404)
		}
		if n := s.runs("session_id=" + session); n != 0 {
			t.Errorf("%d runs of it are listed", n)
		}
		s.has(s.do("DELETE", "/sessions/"+session, ""), 404)
		s.has(s.post("/runs", `{"agent_name":"quick","session_id":"`+session+`"}`), 409, "was deleted")
		s.coordinator.kill()
		s.coordinator.start()
		s.ready()
		s.has(s.get("/sessions/"+session), 404)
	})

	s.story("first in, first out", func(s *stack) {
		s.agent("order", `echo "$2" >> order`, "")
		s.write("profiles/one.json",
			`{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../single","max_concurrent_runs":1}`)
		s.write("single/turn/agent.json", `{"name":"turn","command":"./run"}`)
		s.write("single/turn/run", "#!/bin/sh\n"+
			`echo "$2" >> order; while [ ! -e open-order ]; do sleep 0.1; done; echo 1`+"\n")
		s.runner("one", "AO_PROFILES=one")
		s.online("one")
		var ids, want []string
		for i := range 10 {
			ids = append(ids, s.run(fmt.Sprintf(`{"agent_name":"turn","parameters":{"n":%d}}`, i)))
			want = append(want, fmt.Sprint(i))
		}
		s.until("the first has begun", func() bool { return len(s.lines("order")) == 1 })
		s.has(s.get("/runs/"+ids[9]), 200, `"status":"pending"`, `"waiting_for":"a free slot of a matching runner"`)
		s.openGate("order")
		for _, id := range ids {
			s.same("the run", s.ended(id).at("status"), "completed")
		}
		s.same("the order", strings.Join(s.lines("order"), " "), strings.Join(want, " "))
	})

	s.story("too many that wait", func(s *stack) {
		small := s.another("AO_MAX_PENDING=6")
		for i := range 3 {
			small.run(`{"agent_name":"plain","prompt":"x"}`)
			small.until("it is counted", func() bool { return small.runs("status=pending") == i+1 })
		}
		r := small.post("/runs", `{"agent_name":"plain","prompt":"x"}`)
		small.has(r, 429, `"error":"too_many_pending"`, "AO_MAX_PENDING")
		if r.header.Get("Retry-After") == "" {
			t.Error("429 without Retry-After")
		}
		s.until("the other has seen them", func() bool { return s.runs("status=pending") >= 3 })
		if n := s.runs("status=pending"); n != 3 {
			t.Errorf("got %d pending runs, want 3", n)
		}
		s.post("/runs/"+s.get("/runs?status=pending").at("runs.0.run_id")+"/stop", "")
		small.until("there is room again",
			func() bool { return small.post("/runs", `{"agent_name":"plain","prompt":"x"}`).code == 201 })
		s.until("both list the same",
			func() bool { return s.get("/runs?limit=1000").text == small.get("/runs?limit=1000").text })
	})

	s.story("history outlives every process", func(s *stack) {
		before := s.get("/runs?limit=1000").text
		s.coordinator.stop()
		if code := s.coordinator.ends(s); code != 0 {
			t.Errorf("the coordinator: got exit code %d, want 0", code)
		}
		s.allServers.Kill()
		s.allServers.Start()
		s.coordinator.start()
		s.ready()
		s.same("the list", s.get("/runs?limit=1000").text, before)
	})
}
