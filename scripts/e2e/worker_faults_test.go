package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// line returns the first line of a program's log that contains all parts.
func (p *program) line(parts ...string) string {
next:
	for l := range strings.Lines(p.log.String()) {
		for _, part := range parts {
			if !strings.Contains(l, part) {
				continue next
			}
		}
		return l
	}
	return ""
}

// pauseWorker sends SIGSTOP and returns when all threads have stopped. The process resumes at the end of the test at
// the latest.
func (s *stack) pauseWorker(p *program) {
	s.t.Helper()
	p.signal(syscall.SIGSTOP)
	s.t.Cleanup(func() { p.signal(syscall.SIGCONT) })
	s.until(p.name+" has stopped", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		for _, thread := range threads {
			raw, _ := os.ReadFile(thread)
			if at := strings.LastIndex(string(raw), ") "); at < 0 || raw[at+2] != 'T' {
				return false
			}
		}
		return len(threads) > 0
	})
}

// The end record of a worker that was paused longer than its lease is refused and logged. The log keeps the
// executor's result; a running executor is killed.
func TestAPausedWorkersEndRecordIsRefused(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("late", startNote+
		`echo $$ >> lates; while [ ! -e open-late ]; do sleep 0.1; done; echo '{"evidence":"of the late one"}'`, "")
	s.agent("hang", startNote+`trap "" TERM; echo $$ >> hangs; while :; do sleep 0.1; done`, "")
	s.agent("quick", startNote+`echo '{"ok":true}'`, "")
	s.agent("twice",
		`echo $$ >> twices; [ "$AGENT_ORCHESTRATOR_ATTEMPT" = 2 ] || while :; do echo more; sleep 0.1; done`,
		`"max_attempts":2`)
	w := s.worker()
	late, hang, twice := s.run(`{"agent_name":"late"}`), s.run(`{"agent_name":"hang"}`), s.run(`{"agent_name":"twice"}`)
	s.until("all have begun", func() bool {
		return len(s.lines("lates")) == 1 && len(s.lines("hangs")) == 1 && len(s.lines("twices")) == 1
	})
	s.pauseWorker(w)
	lost := func(id string) {
		t.Helper()
		r := s.ended(id)
		s.has(r, 200, `"status":"failed"`,
			`"error":{"error":"runner_disconnected","message":"Runner disconnected during execution"`)
		if all := r.text + s.get("/runs/"+id+"/result").text; strings.Contains(all, "evidence") ||
			r.at("result") != "" {
			t.Errorf("a result that came too late is in the run: %s", all)
		}
	}
	lost(late)
	lost(hang)
	s.pauseWorker(s.coordinator) // so that it is the stream that says no, before a coordinator can
	s.openGate("late")
	w.signal(syscall.SIGCONT)
	s.until("the worker logs that its end record was refused",
		func() bool { return w.line("level=WARN", "end record refused", late) != "" })
	s.contains(w.line("end record refused", late), "of the late one", "status=completed")
	s.until("the worker says what happened",
		func() bool { return w.line("level=WARN", "this process was not scheduled for a while") != "" })
	s.coordinator.signal(syscall.SIGCONT)
	s.exited(s.lines("hangs"))
	s.until("the worker says that it killed the others", func() bool {
		return w.line("level=WARN", "abandoned by the coordinator", hang) != "" &&
			w.line("level=WARN", "the run may be attempted again", twice) != ""
	})
	s.same("an attempt that the freeze ended", s.ended(twice).at("attempt"), "2")
	if l := w.line("context canceled"); l != "" {
		t.Errorf("the log says %s", l)
	}
	lost(late)
	lost(hang)
	again := s.run(`{"agent_name":"quick"}`)
	s.same("a run after it", s.ended(again).at("status"), "completed")
	s.verify([]string{late, hang, again})
}

// A stop and a normal end leave no process of an executor.
func TestNothingOfATreeIsLeft(t *testing.T) {
	t.Parallel()
	s := up(t)
	const hold = `while [ ! -e open-end ]; do sleep 0.1; done
`
	trees := map[string]string{
		"grandchildren that ignore SIGTERM": `sh -c 'trap "" TERM; echo $$ >> pids; (echo >> pids; while :; do sleep ` +
			`1; done); sleep 60' &`,
		"a daemon, twice forked": `(setsid sh -c 'trap "" TERM; (echo $$ >> pids; while :; do sleep 1; done) & ` +
			`exit' </dev/null >/dev/null 2>&1 &)`,
		"a daemon that holds the pipes": `(setsid sh -c 'trap "" TERM; sh -c "echo \$\$ >> pids; sleep 60" & exit' &)`,
	}
	n := 0
	for what, script := range trees {
		n++
		name := fmt.Sprintf("tree%d", n)
		s.agent(name, `echo $$ >> pids; `+script+"\nsleep 60 & echo $! >> pids; "+hold+`echo '"the end"'`, "")
		trees[what] = name
	}
	s.worker()
	for what, name := range trees {
		s.story(what, func(s *stack) {
			for _, end := range []string{"by itself", "by a stop"} {
				s.write("pids", "")
				os.Remove(s.dir + "/open-end")
				id := s.run(`{"agent_name":"` + name + `"}`)
				s.until("its tree stands", func() bool { return len(s.lines("pids")) >= 3 })
				want := "stopped"
				if end == "by itself" {
					s.openGate("end")
					want = "completed"
				} else {
					var wg sync.WaitGroup
					for range 5 { // five want it at once
						wg.Go(func() { s.has(s.post("/runs/"+id+"/stop", ""), 200) })
					}
					wg.Wait()
				}
				r := s.ended(id)
				s.same("the end "+end, r.at("status"), want)
				s.exited(s.lines("pids"))
				s.same("events of its end", s.ends(r), "run_"+want)
			}
		})
	}
}

// ends returns the end events of a run.
func (s *stack) ends(r reply) string {
	s.t.Helper()
	var all []string
	text := s.get("/sessions/" + r.at("session_id") + "/events?limit=1000").text
	for _, kind := range []string{"run_completed", "run_failed", "run_stopped"} {
		for range strings.Count(text, `"event_type":"`+kind+`"`) {
			all = append(all, kind)
		}
	}
	return strings.Join(all, " ")
}

// Stops concurrent with the normal end: each run has one end, which never changes and matches the answer to the stop.
func TestStopsThatCrossWithTheEnd(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("short", startNote+`sleep 0.2; echo '{"ok":true}'`, "")
	s.worker()
	var wg sync.WaitGroup
	var mu sync.Mutex
	count := map[string]int{}
	var ids []string
	for i := range 24 {
		id := s.run(`{"agent_name":"short"}`)
		ids = append(ids, id)
		wg.Go(func() {
			if i%2 == 0 {
				s.until("it has begun", func() bool { return s.get("/runs/"+id).at("status") != "pending" })
			}
			began := time.Now()
			s.until("some time has passed",
				func() bool { return time.Since(began) > time.Duration(i)*12*time.Millisecond })
			a := s.post("/runs/"+id+"/stop", "")
			r := s.ended(id)
			status := r.at("status")
			switch {
			case a.code == 409 && status == "completed": // the end was first, and the answer says so
			case a.code == 200 && (status == "stopped" || status == "completed"):
			default:
				t.Errorf("the stop was answered %d %s, and the run ended %s", a.code, a.text, r.text)
			}
			if status == "completed" && s.get("/runs/"+id+"/result").at("result_data.ok") != "true" {
				t.Errorf("completed without its result: %s", s.get("/runs/"+id+"/result").text)
			}
			s.same("events of its end", s.ends(r), "run_"+status)
			mu.Lock()
			count[status]++
			mu.Unlock()
		})
	}
	wg.Wait()
	s.verify(ids)
	if again := s.verify(ids); fmt.Sprint(again) != fmt.Sprint(count) {
		t.Errorf("ends changed from %v to %v", count, again)
	}
	t.Logf("ends: %v", count)
}

// A stop for an unreachable runner is answered at once and carried out when it is back. If it stays away its lease
// expires, and the run is stopped.
func TestStopWhileTheRunnerIsUnreachable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, lease string
		back        bool
	}{{"comes back", "20s", true}, {"stays away", "2s", false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := up(t, "RUN_LEASE="+tt.lease)
			s.agent("hang", startNote+`echo $$ >> pids; sleep 60`, "")
			w := s.worker()
			id := s.run(`{"agent_name":"hang"}`)
			s.until("it has begun", func() bool { return len(s.lines("pids")) == 1 })
			s.pauseWorker(w)
			for range 2 {
				s.has(s.post("/runs/"+id+"/stop", ""), 200, `"status":"stopping"`)
			}
			if tt.back {
				w.signal(syscall.SIGCONT)
			}
			r := s.ended(id)
			s.same("its end", r.at("status"), "stopped")
			w.signal(syscall.SIGCONT)
			s.exited(s.lines("pids"))
			s.same("the run later", s.get("/runs/"+id).text, r.text)
			s.same("events of its end", s.ends(r), "run_"+r.at("status"))
			s.has(s.post("/runs/"+id+"/stop", ""), 200, `"status":"stopped"`) // again
		})
	}
}

// A worker without a coordinator kills runs with attempts left before the lease ends, and the next attempt runs. Runs
// without another attempt continue, and their result counts.
func TestUnansweredWorkerFencesItself(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("twice", `trap "" TERM; echo $$ >> first; [ "$AGENT_ORCHESTRATOR_ATTEMPT" = 1 ] || { echo `+
		`"{\"attempt\":$AGENT_ORCHESTRATOR_ATTEMPT}"; exit; }; while :; do sleep 0.1; done`, `"max_attempts":2`)
	s.agent("once", startNote+`echo $$ >> once; while [ ! -e open-once ]; do sleep 0.1; done; echo '{"ok":true}'`, "")
	w := s.worker()
	twice, once := s.run(`{"agent_name":"twice"}`), s.run(`{"agent_name":"once"}`)
	s.until("both have begun", func() bool { return len(s.lines("first")) == 1 && len(s.lines("once")) == 1 })
	s.pauseWorker(s.coordinator)
	s.exited(s.lines("first"))
	s.until("the worker says why", func() bool {
		return w.line("level=WARN", "heartbeats were not answered", "the run may be attempted again", twice) != ""
	})
	if w.line("level=WARN", "attempted again", once) != "" {
		t.Error("it killed a run that has a single attempt")
	}
	s.coordinator.signal(syscall.SIGCONT)
	r := s.ended(twice)
	s.has(r, 200, `"status":"completed"`, `"attempt":2`)
	s.same("its result", s.get("/runs/"+twice+"/result").at("result_data.attempt"), "2")
	s.openGate("once")
	s.same("the other run", s.ended(once).at("status"), "completed")
	s.verify([]string{once})
}

// An executor's binding comes back at the session's next turn, also on another worker and after a failed run.
// Results, events and errors are those of the program.
func TestCustomExecutor(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.write("profiles/own.json",
		`{"type":"autonomous","command":"./own","config":{"model":"m-1"},"resume_anywhere":true}`)
	s.write("profiles/own", `#!/bin/sh
in=$(cat)
case $in in *'"mode":"start"'*) echo '{"type":"bind","executor_session_id":"model-'$AGENT_SESSION_ID'"}';; esac
echo '{"type":"event","event_type":"pre_tool","tool_name":"think","tool_input":{}}'
case $in in *fail*) echo "no model today" >&2; exit 2;; esac
echo "{\"type\":\"result\",\"result_data\":$in}"
`)
	w := s.runner("first", "AO_PROFILES=own")
	s.online("first")
	s.has(s.post("/agents", `{"name":"thinker","system_prompt":"think"}`), 201)
	r := s.post("/runs", `{"agent_name":"thinker","prompt":"please fail","mode":"sync"}`)
	s.has(r, 200, `"status":"failed"`, `"error":{"error":"executor_failed","message":"no model today","exit_code":2}`)
	session := r.at("session_id")
	w.kill()
	s.runner("second", "AO_PROFILES=own")
	s.online("second")
	r = s.post("/runs", fmt.Sprintf(`{"type":"resume_session","session_id":%q,"prompt":"again","mode":"sync"}`,
		session))
	s.has(r, 200, `"status":"completed"`, `"result_type":"autonomous"`)
	for path, want := range map[string]string{"mode": "resume", "executor_session_id": "model-" +
		session, "session_id": session, "run_id": r.at("run_id"),
		"parameters.prompt": "again", "executor_config.model": "m-1", "agent_blueprint.system_prompt": "think",
		"project_dir": s.dir} {
		s.same(path, r.at("result.result_data."+path), want)
	}
	s.contains(s.get("/sessions/"+session+"/events").text, `"event_type":"pre_tool"`, `"tool_name":"think"`)
}
