package e2e

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The procedural executor with real programs.
func TestProcedural(t *testing.T) {
	t.Parallel()
	s := up(t, "AO_MAX_PAYLOAD=4MiB", "NOT_ALLOWED=secret", "MY_OWN=allowed")
	for name, script := range map[string]string{
		"json":    `cat "$2"`,
		"fails":   `echo '{"done":"half"}'; echo 'line one' >&2; echo 'no such thing' >&2; exit 3`,
		"told":    `echo 'on stdout only'; exit 4`,
		"silent":  `exit 5`,
		"kills":   `kill -9 $$`,
		"env":     `env | sort; pwd`,
		"stderr":  `echo 1 >&2; echo text; echo 2 >&2`,
		"many":    `yes 0123456789abcdef | head -c "$2"`,
		"jsonbig": `printf '"'; yes 0123456789abcdef | tr -d '\n' | head -c "$2"; printf '"'`,
		"size":    `printf '{"args":%d,"bytes":%d}' $# ${#2}`,
		"binary":  `printf '\377\376 \000 x'`,
		"slow":    `echo begun; echo $$ >> pids; sh -c 'echo $$ >> pids; sleep 60' & sleep 60`,
		"stubborn": `trap '' TERM; echo $$ >> pids; (trap '' TERM; sh -c 'echo $$ >> pids; sleep 60') & setsid sh -c ` +
			`'echo $$ >> pids; sleep 60' &
while :; do sleep 1; done`,
		"daemon": `(sleep 60 </dev/null >/dev/null 2>&1 & echo $! >> daemons); echo '"left one behind"'`,
	} {
		s.agent(name, script, "")
	}
	s.agent("short", `sleep 60`, `"timeout_seconds":2`)
	s.write("agents/onpath.json", `{"name":"onpath","command":"echo"}`)
	s.write("profiles/test.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../agents",`+
		`"max_concurrent_runs":8,"env":["MY_OWN"]}`)
	w := s.worker()

	s.story("one JSON value on stdout is the result, kept as it is", func(s *stack) {
		for i, data := range []string{`{}`, `[]`, `0`, `false`, `null`, `""`, `{"b":1.10,"a":12345678901234567890}`,
			`"<&>ä"`, `[1,{"x":null}]`, `-0.0`, `1e5`} {
			name := fmt.Sprintf("data%d", i)
			s.write(name, " \n"+data+"\n")
			r := s.sync("json", `{"f":"`+name+`"}`)
			s.same("the result", s.result(r.at("run_id")),
				`{"result_type":"procedural","result_text":null,"result_data":`+data+`,"exit_code":0}`)
			s.contains(r.text, `"status":"completed"`,
				`"result":{"result_type":"procedural","result_text":null,"result_data":`+data+`,"exit_code":0}`)
		}
	})

	s.story("anything else is kept as text", func(s *stack) {
		for body, want := range map[string]string{
			"one\ntwo":    `{"return_code":0,"stdout":"one\ntwo","stderr":""}`,
			`{"a":1}{`:    `{"return_code":0,"stdout":"{\"a\":1}{","stderr":""}`,
			`{"a":1} {}`:  `{"return_code":0,"stdout":"{\"a\":1} {}","stderr":""}`,
			``:            `{"return_code":0,"stdout":"","stderr":""}`,
			"<b>&</b> \\": `{"return_code":0,"stdout":"<b>&</b> \\","stderr":""}`,
		} {
			s.write("text", body)
			s.has(s.sync("json", `{"f":"text"}`), 200, `"status":"completed"`, `"result_data":`+want)
		}
		s.has(s.sync("stderr", `{}`), 200, `"result_data":{"return_code":0,"stdout":"text\n","stderr":"1\n2\n"}`)
		s.has(s.sync("binary", `{}`), 200, `"status":"completed"`, `"stdout":"� \u0000 x"`)
	})

	s.story("a failed run keeps its result and exit code", func(s *stack) {
		for _, tt := range []struct{ agent, message, code, data string }{
			{"fails", `line one\nno such thing`, "3", `{"done":"half"}`},
			{"told", `on stdout only`, "4", `{"return_code":4,"stdout":"on stdout only\n","stderr":""}`},
			{"silent", `Process exited with code 5`, "5", `{"return_code":5,"stdout":"","stderr":""}`},
			{"kills", `Process was killed by signal 9 (SIGKILL)`, "137", `{"return_code":137,"stdout":"","stderr":""}`},
		} {
			r := s.sync(tt.agent, `{}`)
			s.has(r, 200, `"status":"failed"`, `"error":{"error":"command_failed","message":"`+tt.message+
				`","exit_code":`+tt.code+cmp.Or(map[string]string{"137": `,"signal":"SIGKILL"}`}[tt.code], "}"))
			s.same("the result", s.result(r.at("run_id")),
				`{"result_type":"procedural","result_text":null,"result_data":`+tt.data+`,"exit_code":`+tt.code+`}`)
			s.same("the session", s.get("/sessions/"+r.at("session_id")+"/status").at("status"), "failed")
			s.same("its result", s.get("/sessions/"+r.at("session_id")+"/result").text,
				s.get("/runs/"+r.at("run_id")+"/result").text)
		}
	})

	s.story("a command of PATH", func(s *stack) {
		s.has(s.sync("onpath", `{"x":"y"}`), 200, `"status":"completed"`, `"stdout":"--x y\n"`)
	})

	s.story("the environment is built from empty, and the work is done in project_dir", func(s *stack) {
		r := s.sync("env", `{}`)
		out := r.at("result.result_data.stdout")
		s.contains(out, "PATH=", "MY_OWN=allowed\n", r.at("run_id")+"\n", r.at("session_id")+"\n", "\n"+s.dir+"\n")
		for _, foreign := range []string{"NOT_ALLOWED", "AO_NATS_URL", "AO_HTTP_ADDR", "AO_URL", "GOCACHE"} {
			if strings.Contains(out, foreign) {
				t.Errorf("the executor sees %s:\n%s", foreign, out)
			}
		}
	})

	s.story("time is over", func(s *stack) {
		for _, tt := range []struct{ body, by string }{
			{`{"agent_name":"short","mode":"sync"}`, "agent"},
			{`{"agent_name":"short","mode":"sync","timeout_seconds":50}`, "agent"}, // the agent's is the upper bound
			{`{"agent_name":"slow","mode":"sync","timeout_seconds":2}`, "request"},
		} {
			began := time.Now()
			r := s.post("/runs", tt.body)
			s.has(r, 200, `"status":"failed"`, `"error":{"error":"timeout","message":"Command timed out after 2 `+
				`seconds","timeout_seconds":2,"timeout_by":"`+tt.by+`"}`, `"exit_code":124`)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
			if r.at("timeout_at") <= r.at("started_at") || r.at("timeout_at") == "" {
				t.Errorf("timeout_at: %s", r.text)
			}
		}
	})

	s.story("a stop leaves nothing of the tree", func(s *stack) {
		for _, agent := range []string{"slow", "stubborn"} {
			os.Remove(s.dir + "/pids")
			id := s.run(`{"agent_name":"` + agent + `"}`)
			s.until("its processes run", func() bool { return len(s.lines("pids")) >= 2 })
			pids := s.lines("pids")
			s.has(s.post("/runs/"+id+"/stop", ""), 200)
			s.has(s.post("/runs/"+id+"/stop", ""), 200) // again
			r := s.ended(id)
			s.same("the run", r.at("status"), "stopped")
			s.same("the session", s.get("/sessions/"+r.at("session_id")).at("status"), "stopped")
			s.exited(append(pids, s.lines("pids")...))
			s.has(s.post("/runs/"+id+"/stop", ""), 200, `"status":"stopped"`)
		}
	})

	s.story("nor does a run that ends by itself", func(s *stack) {
		s.has(s.sync("daemon", `{}`), 200, `"result_data":"left one behind"`)
		s.exited(s.lines("daemons"))
	})

	s.story("large bodies go both ways", func(s *stack) {
		const size = 300 << 10
		big := strings.Repeat("x", size)
		s.write("big", `{"text":"`+big+`"}`)
		r := s.sync("json", `{"f":"big"}`)
		if r.at("result.result_data.text") != big || s.get("/runs/"+r.at("run_id")+
			"/result").at("result_data.text") != big {
			t.Errorf("a result of %d bytes does not come back as it was: %.300s", size, r.text)
		}
		// Several arguments, because one is limited to 128 KiB.
		parts := make([]string, 3)
		for i := range parts {
			parts[i] = fmt.Sprintf(`"p%d":"%s"`, i, strings.Repeat("y", 110<<10))
		}
		parameters := "{" + strings.Join(parts, ",") + "}"
		r = s.sync("size", parameters)
		s.has(r, 200, `"result_data":{"args":6,"bytes":112640}`)
		if s.get("/runs/"+r.at("run_id")).at("parameters.p2") != strings.Repeat("y", 110<<10) {
			t.Error("large parameters do not come back as they were")
		}
		const most = 128<<10 - 1
		s.has(s.sync("size", `{"one":"`+strings.Repeat("z", most)+`"}`), 200, `"result_data":{"args":2,"bytes":131071}`)
		s.has(s.post("/runs", `{"agent_name":"size","parameters":{"one":"`+strings.Repeat("z", most+1)+`"}}`), 400,
			`"field":"parameters.one"`, `"limit":131071`)
	})

	s.story("too much output is cut visibly, too large a result is reported", func(s *stack) {
		r := s.sync("many", `{"n":3000000}`)
		out := r.at("result.result_data.stdout")
		if r.at("status") != "completed" || len(out) > 2<<20 || !strings.HasPrefix(out, "0123456789abcdef\n") ||
			!strings.Contains(out, "bytes cut") {
			t.Errorf("3 MB of text: %s, %d bytes, %.200s", r.at("status"), len(out), r.at("error"))
		}
		r = s.sync("jsonbig", `{"n":4000000}`)
		if len(r.at("result.result_data")) != 4_000_000 {
			t.Errorf("4 MB of JSON, below the limit: %s, %d bytes", r.at("status"), len(r.at("result.result_data")))
		}
		s.has(s.sync("jsonbig", `{"n":4194300}`), 200, `"status":"failed"`,
			`"error":{"error":"result_too_large","message":"the result has 4194378 bytes, at most 4194304 are kept `+
				`(AO_MAX_PAYLOAD)"`)
		r = s.sync("jsonbig", `{"n":5000000}`) // so much is no longer read as JSON
		if out := r.at("result.result_data.stdout"); r.at("status") != "completed" || len(out) > 2<<20 ||
			!strings.Contains(out, "bytes cut") {
			t.Errorf("5 MB of JSON: %s, %d bytes", r.at("status"), len(out))
		}
	})

	s.story("a worker that shuts down lets its runs finish", func(s *stack) {
		s.agent("later", `echo > started; while [ ! -e go ]; do sleep 0.1; done; echo '"finished"'`, "")
		w.stop()
		w.start()
		s.online("host-1")
		id := s.run(`{"agent_name":"later"}`)
		s.until("it has begun", func() bool { _, err := os.Stat(s.dir + "/started"); return err == nil })
		shutdowns := func() int { return strings.Count(w.log.String(), "shutting down") }
		before := shutdowns()
		w.signal(syscall.SIGTERM)
		s.until("it logs that it is shutting down", func() bool { return shutdowns() > before })
		waits := s.post("/runs", `{"agent_name":"later"}`)
		s.write("go", "")
		s.has(s.get("/runs/"+id+"/wait?timeout_seconds=20"), 200, `"status":"completed"`, `"result_data":"finished"`)
		if code := w.ends(s); code != 0 {
			t.Errorf("the worker: got exit code %d, want 0", code)
		}
		if waits.code == 201 { // it was not claimed, so another one takes it
			w.start()
			s.same("the run that waited", s.ended(waits.at("run_id")).at("status"), "completed")
		}
	})

	s.story("one whose grace is over hands back the rest", func(s *stack) {
		s.write("profiles/short.json",
			`{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../brief","max_concurrent_runs":1}`)
		s.write("brief/hangs/agent.json", `{"name":"hangs","command":"./run"}`)
		s.write("brief/hangs/run",
			"#!/bin/sh\nif [ -e open-end ]; then echo $$ >> hanging; else echo $$ >> hanging; sleep 60; fi\n")
		p := s.runner("f", "AO_PROFILES=short", "AO_DRAIN_GRACE=1")
		s.online("f")
		ids := []string{s.run(`{"agent_name":"hangs"}`), s.run(`{"agent_name":"hangs"}`),
			s.run(`{"agent_name":"hangs"}`)}
		s.until("the first has begun", func() bool { return len(s.lines("hanging")) == 1 })
		s.openGate("end")
		p.signal(syscall.SIGTERM)
		if code := p.ends(s); code != 0 {
			t.Errorf("the worker: got exit code %d, want 0", code)
		}
		s.has(s.ended(ids[0]), 200, `"status":"failed"`,
			`"error":{"error":"runner_disconnected","message":"Runner disconnected during execution"`)
		s.exited(s.lines("hanging"))
		s.same("those that waited", s.get("/runs/"+ids[1]).at("status")+" "+s.get("/runs/"+ids[2]).at("status"),
			"pending pending")
		s.runner("g", "AO_PROFILES=short")
		for _, id := range ids[1:] {
			s.same("those that waited", s.ended(id).at("status"), "completed")
		}
		if n := len(s.lines("hanging")); n != 3 {
			t.Errorf("got %d starts, want 3", n)
		}
	})
}
