package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// executorCases is a oneshot executor that misbehaves as its prompt says.
const executorCases = `#!/bin/sh
document=$(cat)
bind='{"type":"bind","executor_session_id":"m"}'
case "$document" in
*'"prompt":"silent"'*) sleep 1000;;
*'"prompt":"endless"'*) echo "$bind"; yes endless | head -c 3000000; exec sleep 1000;;
*'"prompt":"endless line"'*) echo "$bind"; head -c 18000000 /dev/zero | tr '\0' x;;
*'"prompt":"rubbish"'*) printf '\377\376 \000 rubbish\n{]\n{"type":"event"}\n';;
*'"prompt":"rubbish beside"'*) echo "$bind"; printf '{]\n{"type":"event"}\n{"type":"result",` +
	`"result_data":{"ok":true}}\n';;
*'"prompt":"half"'*) echo "$bind"; printf '{"type":"result","result_data":{"a":';;
*'"prompt":"dies"'*) echo "$bind"; echo "half way" >&2; kill -9 $$;;
*'"prompt":"no"'*) echo 'what is this?' >&2; exit 3;;
*'"prompt":"forks"'*)
  setsid sh -c 'trap "" TERM HUP; echo $$ >>forked; sleep 1000' &
  (sleep 1000 & echo $! >>forked) &
  until [ "$(wc -l <forked 2>/dev/null || echo 0)" -ge 2 ]; do sleep 0.1; done
  echo '{"type":"result","result_text":"forked"}';;
*) echo fine;;
esac
`

// staying is a persistent executor: it answers with its process id, the number of turns and its start mode.
const staying = `#!/bin/sh
n=0
while read -r line; do
  n=$((n+1))
  run=$(printf '%s' "$line" | sed 's/.*"run_id":"\([^"]*\)".*/\1/')
  case "$line" in *'"schema_version"'*) first=$(printf '%s' "$line" | sed 's/.*"mode":"\([^"]*\)".*/\1/');; esac
  case "$line" in
  *'"type":"shutdown"'*) echo $$ >>shut; exit 0;;
  *'"prompt":"wait"'*) sh -c 'trap "" TERM; echo $$ >>waiting; sleep 1000' & echo $$ >>waiting; wait;;
  *'"prompt":"die"'*) echo "I had enough" >&2; exit 4;;
  *'"prompt":"half"'*) printf '{"type":"turn_complete","result":\n'; continue;;
  *'"prompt":"twice"'*) printf '{"type":"turn_complete","result":"one"}\n{"type":"turn_complete","result":"two"}\n'; ` +
	`continue;;
  *'"prompt":"fail"'*) printf '{"type":"turn_failed","run_id":"%s","error":{"error":"quota","message":"no ` +
	`money"}}\n' "$run"; continue;;
  esac
  printf '{"type":"bind","executor_session_id":"m-%s"}\n{"type":"turn_complete","run_id":"%s","result":{"pid":%s,` +
	`"n":%s,"first":"%s"}}\n' "$AGENT_SESSION_ID" "$run" $$ $n "$first"
done
`

// addExecutors starts a worker with these executors and creates an agent for each.
func addExecutors(t *testing.T, programs map[string]string, profiles map[string]string) (*stack, *program) {
	s := up(t)
	var names []string
	for name, text := range programs {
		s.write("profiles/"+name+"-exec", text)
	}
	for name, more := range profiles {
		s.write("profiles/"+name+".json", fmt.Sprintf(`{"type":"autonomous","max_concurrent_runs":8%s}`, more))
		names = append(names, name)
		if r := s.post("/agents",
			fmt.Sprintf(`{"name":%q,"description":"of a story","type":"autonomous","executor_profile":%q}`, name,
				name)); r.code != 201 {
			t.Fatal(r.code, r.text)
		}
	}
	return s, s.worker("AO_PROFILES=" + strings.Join(names, ","))
}

// TestBadExecutors: whatever a program does, its run ends clearly and no process is left.
func TestBadExecutors(t *testing.T) {
	t.Parallel()
	s, _ := addExecutors(t, map[string]string{"odd": executorCases},
		map[string]string{"odd": `,"command":"./odd-exec"`})
	for _, tt := range []struct {
		prompt, status string
		parts          []string // of the run and its result
	}{
		{"silent", "failed", []string{`"error":"timeout"`, "Run timed out after 2 seconds"}},
		{"endless", "failed", []string{`"error":"timeout"`, `endless\nendless`}},
		{"endless line", "failed", []string{`"error":"result_too_large"`, "xxxxx", "bytes cut"}},
		{"rubbish", "completed", []string{"rubbish", `{]`}},
		{"rubbish beside", "completed", []string{`"result_data":{"ok":true}`}},
		{"half", "failed", []string{`"error":"executor_result_unreadable"`,
			"the executor's result line is unreadable: it is not JSON"}},
		{"dies", "failed", []string{`"error":"executor_failed"`, `"message":"half way"`, `"exit_code":137`}},
		{"no", "failed", []string{`"error":"executor_failed"`, `"message":"what is this?"`, `"exit_code":3`}},
		{"forks", "completed", []string{`"result_text":"forked"`}},
		{"anything else", "completed", []string{`"result_text":"fine"`}},
	} {
		s.story(tt.prompt, func(s *stack) {
			s.t.(*testing.T).Parallel()
			limit := 120
			switch tt.prompt {
			case "silent":
				limit = 2
			case "endless":
				limit = 4 // time for it to begin to speak
			}
			id := s.run(fmt.Sprintf(`{"agent_name":"odd","prompt":%q,"timeout_seconds":%d}`, tt.prompt, limit))
			r := s.ended(id)
			s.same("status", r.at("status"), tt.status)
			s.contains(r.text+s.get("/runs/"+id+"/result").text, tt.parts...)
			if tt.prompt == "forks" {
				s.exited(s.lines("forked"))
			}
		})
	}
}

// chat is a session of a persistent executor.
type chat struct {
	s       *stack
	session string
}

// turn runs the session's next turn and returns the ended run and its result.
func (c *chat) turn(prompt string) (reply, reply) {
	c.s.t.Helper()
	body := fmt.Sprintf(`{"agent_name":"stay","prompt":%q}`, prompt)
	if c.session != "" {
		body = fmt.Sprintf(`{"session_id":%q,"prompt":%q}`, c.session, prompt)
	}
	r := c.s.ended(c.s.run(body))
	c.session = r.at("session_id")
	return r, c.s.get("/runs/" + r.at("run_id") + "/result")
}

func (c *chat) is(want string) {
	c.s.t.Helper()
	c.s.until("the session is "+want+" over every route", func() bool {
		return c.s.get("/sessions/"+c.session).at("status") == want && c.s.get("/sessions/"+c.session+
			"/status").at("status") == want &&
			c.s.get("/sessions?status="+want+"&session_id="+c.session).at("sessions.0.session_id") == c.session
	})
}

// TestAPersistentExecutor: the process lives between turns while the session is idle. Whatever ends it, the session
// continues with a new process.
func TestAPersistentExecutor(t *testing.T) {
	t.Parallel()
	s, w := addExecutors(t, map[string]string{"stay": staying},
		map[string]string{"stay": `,"command":"./stay-exec","lifecycle":"persistent"`})
	live := s.sessions("", "")
	c := chat{s: s}
	_, first := c.turn("hello")
	pid := first.at("result_data.pid")
	s.contains(first.text, `"n":1,"first":"start"`)
	c.is("idle")
	live.find("that the session is idle", func(p sseEvent) bool {
		return p.name == "session_updated" && p.at("session_id") == c.session && p.at("status") == "idle"
	})
	_, next := c.turn("again")
	s.contains(next.text, `"pid":`+pid+`,"n":2,"first":"start"`)

	failed, _ := c.turn("fail")
	s.contains(failed.text, `"status":"failed"`, `"error":{"error":"quota","message":"no money"}`)
	c.is("failed")
	_, next = c.turn("go on")
	s.contains(next.text, `"pid":`+pid+`,"n":4,"first":"start"`)

	for _, tt := range []struct{ prompt, status, part string }{
		{"die", "failed", `"error":{"error":"executor_failed","message":"I had enough","exit_code":4}`},
		{"half", "failed", `"error":"executor_result_unreadable"`},
		{"twice", "completed", ""},
	} {
		r, _ := c.turn(tt.prompt)
		s.contains(r.text, `"status":"`+tt.status+`"`, tt.part)
		s.exited([]string{pid})
		_, next = c.turn("go on")
		s.contains(next.text, `"n":1,"first":"resume"`)
		pid = next.at("result_data.pid")
	}

	waiting := s.run(fmt.Sprintf(`{"session_id":%q,"prompt":"wait"}`, c.session))
	s.until("the turn is under way", func() bool { return len(s.lines("waiting")) == 2 })
	s.post("/runs/"+waiting+"/stop", "")
	s.same("the stopped turn", s.ended(waiting).at("status"), "stopped")
	s.exited(s.lines("waiting"))
	c.is("stopped")
	_, next = c.turn("go on")
	s.contains(next.text, `"n":1,"first":"resume"`)
	c.is("idle")

	late := s.ended(s.run(fmt.Sprintf(`{"session_id":%q,"prompt":"wait","timeout_seconds":1}`, c.session)))
	s.contains(late.text, `"error":"timeout"`)
	s.exited(s.lines("waiting"))
	_, next = c.turn("go on")
	other := chat{s: s}
	_, second := other.turn("hello")
	pids := []string{next.at("result_data.pid"), second.at("result_data.pid")}

	s.same("deletion", fmt.Sprint(s.do("DELETE", "/sessions/"+other.session, "").code/100), "2")
	s.exited(pids[1:]) // nobody will ask it again
	w.signal(syscall.SIGKILL)
	s.exited(pids)
	c.is("finished")

	w = s.runner("host-1", "AO_PROFILES=stay")
	_, next = c.turn("go on")
	s.contains(next.text, `"n":1,"first":"resume"`)
	c.is("idle")
	w.stop()
	s.exited([]string{next.at("result_data.pid")})
	c.is("finished")
	if shut := s.lines("shut"); len(shut) == 0 || shut[len(shut)-1] != next.at("result_data.pid") {
		t.Errorf("the last process was not asked to shut down: %v", shut)
	}
}

// TestTheExamplesOfExecutors: the documented examples work in the whole stack; the Python one continues its
// conversation on another worker process.
func TestTheExamplesOfExecutors(t *testing.T) {
	t.Parallel()
	examples := filepath.Join(root(), "worker", "executors")
	profiles := map[string]string{"echo": fmt.Sprintf(`,"command":%q`, filepath.Join(examples, "echo-sh"))}
	if _, err := exec.LookPath("python3"); err == nil {
		profiles["stay"] = fmt.Sprintf(`,"command":%q,"lifecycle":"persistent"`, filepath.Join(examples, "chat-py"))
	}
	s, w := addExecutors(t, nil, profiles)
	id := s.run(`{"agent_name":"echo","prompt":"say \"ünïcödé\" & \\n"}`)
	s.ended(id)
	s.contains(s.result(id), `"result_text":"say \"ünïcödé\" & \\n"`)
	if profiles["stay"] == "" {
		t.Skip("python3 is not on this machine, so the example chat-py is not tried")
	}
	c := chat{s: s}
	c.turn("my name is Ada")
	c.is("idle")
	_, r := c.turn("and now?")
	s.contains(r.text, "Turn 2. You said: and now?. You began with: my name is Ada")
	w.stop()
	s.runner("host-1", "AO_PROFILES=stay") // where the session is at home
	_, r = c.turn("still there?")
	s.contains(r.text, "Turn 3. You said: still there?. You began with: my name is Ada")
}
