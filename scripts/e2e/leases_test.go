package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Runners without heartbeats: stale and back, removed with agents and runs, drained. The lease is too long to matter.
func TestRemoval(t *testing.T) {
	t.Parallel()
	expiry := 10*time.Second + maxStall() // so long that nobody misses that a runner is stale
	s := up(t, "RUNNER_HEARTBEAT_INTERVAL=1s", "RUNNER_STALE_THRESHOLD=2s",
		fmt.Sprint("RUNNER_REMOVE_THRESHOLD=", expiry), "RUN_LEASE=60s")
	s.agent("hang", startNote+`sleep 60`, "")
	s.agent("tool", `echo 1`, "")
	s.write("profiles/lone.json",
		`{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../lone","max_concurrent_runs":2}`)
	s.write("lone/only/agent.json", `{"name":"only","command":"./run"}`)
	s.write("lone/only/run", "#!/bin/sh\ncd "+s.dir+"\n"+gate+"\n")
	a, b, c := s.runner("a"), s.runner("b"), s.runner("c", "AO_PROFILES=lone")
	id := map[string]string{"a": s.online("a"), "b": s.online("b"), "c": s.online("c")}
	b2 := s.another() // it hears the same
	live, there := s.sessions("", ""), b2.sessions("", "")
	pause := func(p *program) {
		p.signal(syscall.SIGSTOP)
		t.Cleanup(func() { p.signal(syscall.SIGCONT) })
	}

	s.story("a stale runner is not counted on, and is online when it beats again", func(s *stack) {
		pause(b)
		s.until("it is stale", func() bool {
			return s.runnerOf("b", "status") == "stale" &&
				b2.runnerOf("b", "status") == "stale"
		})
		s.until("it is not counted on there either", func() bool {
			return b2.post("/runs/validate", `{"agent_name":"tool","additional_demands":{"hostname":"b"}}`).at(
				"runner_available") == "false"
		})
		s.has(s.post("/runs/validate", `{"agent_name":"tool","additional_demands":{"hostname":"b"}}`), 200,
			`"runner_available":false`)
		b.signal(syscall.SIGCONT)
		s.until("it is online", func() bool {
			return s.runnerOf("b", "status") == "online" &&
				b2.runnerOf("b", "status") == "online"
		})
		s.same("its id", s.runnerOf("b", "runner_id"), id["b"])
		r := s.post("/runs", `{"agent_name":"tool","mode":"sync","additional_demands":{"hostname":"b"}}`)
		s.has(r, 200, `"status":"completed"`, id["b"])
	})

	s.story("a removed one takes along its runs, and its agents where nobody else has them", func(s *stack) {
		lost := s.run(`{"agent_name":"hang","additional_demands":{"hostname":"a"}}`)
		only := s.run(`{"agent_name":"only","parameters":{"n":"lost"}}`)
		s.status(lost, "running")
		s.status(only, "running")
		began := time.Now()
		pause(a)
		pause(c)
		for _, run := range []string{lost, only} {
			r := s.ended(run)
			s.has(r, 200, `"status":"failed"`,
				`"error":{"error":"runner_disconnected","message":"Runner disconnected during execution"`)
			s.has(s.get("/sessions/"+r.at("session_id")), 200, `"status":"failed"`)
			for _, st := range []*stream{live, there} {
				st.event(run, "run_failed")
				st.find("run_failed", func(p sseEvent) bool { return p.name == "run_failed" && p.at("run_id") == run })
			}
		}
		t.Logf("removed after %s of silence; the runs had failed after %s", expiry,
			time.Since(began).Round(time.Millisecond))
		s.same("their statuses", s.runnerOf("a", "status")+s.runnerOf("c", "status"), "")
		s.until("and there", func() bool { return b2.runnerOf("a", "status")+b2.runnerOf("c", "status") == "" })
		s.has(s.post("/runs", `{"agent_name":"only","parameters":{"n":"x"}}`), 404)
		s.has(b2.get("/agents/only"), 404)
		s.has(s.sync("tool", `{}`), 200, `"status":"completed"`, id["b"]) // a replica was left
		a.signal(syscall.SIGCONT)
		c.signal(syscall.SIGCONT)
		s.same("back again", s.online("a")+s.online("c"), id["a"]+id["c"])
		s.openGate("x")
		s.has(s.sync("only", `{"n":"x"}`), 200, `"status":"completed"`)
		s.same("the lost run", s.get("/runs/"+lost).at("error.error"), "runner_disconnected")
		s.until("what was given up is killed", func() bool { return s.runnerOf("a", "running") == "0" })
	})

	s.story("a drained one takes no more, finishes, and goes with its agents", func(s *stack) {
		runs := s.run(`{"agent_name":"only","parameters":{"n":"drain"}}`)
		s.waitGate("drain")
		s.status(runs, "running") // a coordinator knows that from a beat
		s.has(b2.do("DELETE", "/runners/"+id["c"], ""), 202, `"status":"draining"`)
		s.until("it is draining", func() bool { return s.runnerOf("c", "status") == "draining" })
		waits := s.run(`{"agent_name":"only","parameters":{"n":"never"}}`)
		s.same("the running one", s.get("/runs/"+runs).at("status"), "running")
		s.openGate("drain")
		s.same("the running one", s.ended(runs).at("status"), "completed")
		if code := c.ends(s); code != 0 {
			t.Errorf("the worker: got exit code %d, want 0", code)
		}
		s.until("it is gone", func() bool { return s.runnerOf("c", "status") == "" })
		s.has(s.get("/agents/only"), 200, `"runners":0`) // its name stays for a grace
		s.has(b2.do("DELETE", "/runners/"+id["c"], ""), 202)
		s.until("the grace is ended", func() bool { return s.get("/agents/only").code == 404 })
		s.same("the waiting one", s.get("/runs/"+waits).at("status"), "pending")
		s.has(s.post("/runs/"+waits+"/stop", ""), 200, `"status":"stopped"`)
	})
}

// A dead worker's run fails, and its parent gets the callback. That takes at most the lease and 2 s if a coordinator
// was running, and one lease more if none was.
func TestTakeover(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	s := up(t, "RUN_LEASE=2s")
	s.simulatedWorker("home")
	for i, tt := range []struct {
		name          string
		kill, another bool
		most          time.Duration
	}{
		{"a coordinator listened throughout", false, false, lease + 2*time.Second},
		{"the coordinator was restarted meanwhile", true, false, 2*lease + 2*time.Second},
		{"one of two coordinators was killed meanwhile", true, true, lease + 2*time.Second},
	} {
		s.story(tt.name, func(s *stack) {
			host, parent, first := fmt.Sprint("dies-", i), fmt.Sprint("ses_top-", i), s.coordinator
			if tt.another {
				s = s.another() // looked at from here; the first one dies
			}
			w := s.simulatedWorker(host)
			r := s.post("/runs", `{"agent_name":"plain","prompt":"hello","mode":"sync","session_id":"`+parent+
				`","additional_demands":{"hostname":"home"}}`)
			s.has(r, 200, `"status":"completed"`)
			child := s.run(`{"agent_name":"plain","prompt":"wait-ever","mode":"async_callback","parent_session_id":"` +
				parent + `","additional_demands":{"hostname":"` + host + `"}}`)
			s.status(child, "running")
			s.has(s.get("/runs/"+child), 200, `"callback":{"status":"waiting"}`)
			killed, heard := time.Now(), s.coordinator.restartsOfLeases()
			w.kill()
			if tt.kill {
				first.kill()
			}
			if tt.kill && !tt.another {
				first.start()
				s.ready()
				heard = first.restartsOfLeases()
			}
			var took, calledBack time.Duration
			s.until("the run has failed", func() bool {
				took = time.Since(killed)
				return s.get("/runs/"+child).at("status") == "failed"
			})
			s.until("the parent is called back", func() bool {
				calledBack = time.Since(killed)
				return s.get("/runs/"+child).at("callback.status") == "delivered"
			})
			s.has(s.get("/runs/"+child), 200, `"error":"runner_disconnected"`)
			t.Logf("lease %s, %s: failed after %s, the parent called back after %s", lease, tt.name,
				took.Round(time.Millisecond), calledBack.Round(time.Millisecond))
			most := tt.most + 3*time.Second + s.leaseMargin(heard, lease) + maxStall() // 3 s are this machine's
			if tt.kill && !tt.another {
				// the start of a coordinator needs a leader, and afterwards the end of the run does
				most += maxStall()
			}
			if calledBack > most {
				t.Errorf("the parent was called back after %s, not %s", calledBack, tt.most)
			}
			turn := s.ended(s.get("/runs/" + child).at("callback.callback_run_id"))
			s.has(turn, 200, `"status":"completed"`, `"session_id":"`+parent+`"`, `status=\"failed\"`,
				`Runner disconnected during execution`)
		})
	}
}

// A coordinator that was not running fails no runs: after a suspend of the machine it waits for workers that wake up
// later.
func TestAMachineThatSleptLosesNothing(t *testing.T) {
	t.Parallel()
	s := up(t, "RUN_LEASE=2s")
	s.agent("gate", gate, "")
	s.agent("quick", `echo 1`, "")
	w := s.worker()
	id := s.run(`{"agent_name":"gate","parameters":{"n":"on"}}`)
	s.status(id, "running")
	w.signal(syscall.SIGSTOP)
	t.Cleanup(func() { w.signal(syscall.SIGCONT) })
	s.coordinator.signal(syscall.SIGSTOP)
	t.Cleanup(func() { s.coordinator.signal(syscall.SIGCONT) })
	asleep := time.Now()
	s.until("two leases are over", func() bool { return time.Since(asleep) > 4*time.Second })
	s.coordinator.signal(syscall.SIGCONT)
	back := time.Now()
	lives := func(most time.Duration) {
		t.Helper()
		s.until("some time is over", func() bool {
			if r := s.get("/runs/" + id); r.at("status") != "running" {
				t.Fatalf("%s after it came back: %s", time.Since(back), r.text)
			}
			return time.Since(back) > most
		})
	}
	lives(1200 * time.Millisecond) // longer than a coordinator asks the worker itself
	w.signal(syscall.SIGCONT)
	lives(3 * time.Second)
	s.has(s.sync("quick", `{}`), 200, `"status":"completed"`)
	s.openGate("on")
	s.has(s.ended(id), 200, `"status":"completed"`, `"attempt":1`)
}

// A run that failed or was lost is retried only up to max_attempts, and readers see one run.
func TestAttempts(t *testing.T) {
	t.Parallel()
	s := up(t, "RUN_LEASE=2s")
	const flaky = `echo "$AGENT_ORCHESTRATOR_ATTEMPT" >> "tries-$2"
[ "$AGENT_ORCHESTRATOR_ATTEMPT" -ge "$4" ] || { echo "not yet: $AGENT_ORCHESTRATOR_ATTEMPT" >&2; exit 1; }
echo "{\"attempt\":$AGENT_ORCHESTRATOR_ATTEMPT}"`
	s.agent("thrice", flaky, `"max_attempts":3`)
	s.agent("once", flaky, "")
	s.agent("dies", `echo "$AGENT_ORCHESTRATOR_ATTEMPT" >> "tries-$2"; [ "$AGENT_ORCHESTRATOR_ATTEMPT" = 2 ] || sleep `+
		`60; echo '{"ok":true}'`, "")
	s.runner("a")
	s.online("a")
	live := s.sessions("", "")
	tries := func(s *stack, name, want string) {
		s.t.Helper()
		s.same("the attempts", strings.Join(s.lines("tries-"+name), " "), want)
	}
	failures := func(id string) (n int) {
		for _, p := range live.pieces() {
			if p.name == "run_failed" && p.at("run_id") == id {
				n++
			}
		}
		return n
	}

	s.story("two fail, the third is the run's end: those who wait see only that", func(s *stack) {
		answer := make(chan reply, 1)
		go func() {
			answer <- s.post("/runs",
				`{"agent_name":"thrice","parameters":{"n":"three","good":3},"mode":"sync","session_id":"ses_three"}`)
		}()
		s.until("it is there", func() bool { return s.get("/sessions/ses_three").code == 200 })
		id := s.get("/sessions/ses_three").at("last_run_id")
		waited := make(chan reply, 1)
		go func() { waited <- s.get("/runs/" + id + "/wait?timeout_seconds=30") }()
		s.until("the next attempt is waited for, and looks so everywhere", func() bool {
			r, session, result := s.get("/runs/"+id), s.get("/sessions/ses_three"), s.get("/runs/"+id+"/result")
			return strings.HasPrefix(r.at("waiting_for"), "its next attempt: number ") &&
				strings.Contains(r.at("waiting_for"), " is queued at 20") &&
				r.at("status") == "pending" && strings.Contains(r.text, `"error":null`) &&
				r.at("max_attempts") == "3" &&
				session.at("status") == "pending" && result.code == 409 && result.at("error") == "run_not_ended"
		})
		for _, r := range []reply{<-answer, <-waited} {
			s.has(r, 200, `"run_id":"`+id+`"`, `"status":"completed"`, `"attempt":3`, `"error":null`,
				`"result_data":{"attempt":3}`)
		}
		s.has(s.get("/runs/"+id), 200, `"status":"completed"`, `"attempt":3`, `"max_attempts":3`)
		s.has(s.get("/sessions/ses_three"), 200, `"status":"finished"`, `"runs":1`)
		tries(s, "three", "1 2 3")
		s.has(s.get("/sessions/ses_three/events"), 200, "attempt 1 of 3 failed: ", "attempt 2 of 3 failed: ")
		live.event(id, "run_completed")
		if n := failures(id); n != 0 {
			t.Errorf("run_failed was sent %d times", n)
		}
		if strings.Contains(s.get("/sessions/ses_three/events?limit=1000").text, `"run_failed"`) {
			t.Errorf("an attempt's end is reported as the run's: %s", s.get("/sessions/ses_three/events").text)
		}
	})

	s.story("all fail: the last one's error, reported once", func(s *stack) {
		r := s.post("/runs", `{"agent_name":"once","parameters":{"n":"two","good":9},"max_attempts":2,"mode":"sync"}`)
		s.has(r, 200, `"status":"failed"`, `"attempt":2`, `"message":"not yet: 2"`)
		tries(s, "two", "1 2")
		live.event(r.at("run_id"), "run_failed")
		live.find("run_failed", func(p sseEvent) bool {
			return p.name == "run_failed" && p.at("run_id") == r.at("run_id")
		})
		if n := failures(r.at("run_id")); n != 1 {
			t.Errorf("run_failed was sent %d times", n)
		}
	})

	s.story("the request's word beats the agent's", func(s *stack) {
		r := s.post("/runs", `{"agent_name":"thrice","parameters":{"n":"one","good":3},"max_attempts":1,"mode":"sync"}`)
		s.has(r, 200, `"status":"failed"`, `"attempt":1`, `"message":"not yet: 1"`)
		s.has(s.post("/runs", `{"agent_name":"once","parameters":{"n":"none","good":3},"mode":"sync"}`), 200,
			`"status":"failed"`, `"attempt":1`)
		tries(s, "one", "1")
		tries(s, "none", "1")
		s.has(s.post("/runs", `{"agent_name":"once","max_attempts":0}`), 400, `"field":"max_attempts"`)
	})

	s.story("a stop between two attempts ends it at once", func(s *stack) {
		id := s.run(`{"agent_name":"once","parameters":{"n":"stop","good":9},"max_attempts":4}`)
		s.until("the fourth attempt is waited for, for four seconds", func() bool {
			return strings.HasPrefix(s.get("/runs/"+id).at("waiting_for"), "its next attempt: number 4 ")
		})
		began := time.Now()
		s.has(s.post("/runs/"+id+"/stop", ""), 200, `"status":"stopped"`)
		session := s.get("/runs/" + id).at("session_id")
		s.has(s.get("/sessions/"+session), 200, `"status":"stopped"`)
		live.event(id, "run_stopped")
		s.until("its time is over", func() bool { return time.Since(began) > 5*time.Second })
		tries(s, "stop", "1 2 3")
		s.has(s.get("/runs/"+id), 200, `"status":"stopped"`)
	})

	s.story("one that is stopped while it runs is not begun again", func(s *stack) {
		id := s.run(`{"agent_name":"dies","parameters":{"n":"halt"},"max_attempts":2}`)
		s.until("it runs", func() bool { return len(s.lines("tries-halt")) == 1 })
		s.has(s.post("/runs/"+id+"/stop", ""), 200)
		s.has(s.ended(id), 200, `"status":"stopped"`, `"attempt":1`)
		tries(s, "halt", "1")
	})

	s.story("a lost one goes on elsewhere where it may, and else never", func(s *stack) {
		w := s.runner("b", "AO_TAGS=both")
		s.online("b")
		again := s.run(`{"agent_name":"dies","parameters":{"n":"again"},"max_attempts":2,` +
			`"additional_demands":{"tags":["both"]}}`)
		never := s.run(`{"agent_name":"dies","parameters":{"n":"never"},"additional_demands":{"tags":["both"]}}`)
		s.until("both run", func() bool { return len(s.lines("tries-again")) == 1 && len(s.lines("tries-never")) == 1 })
		there := s.get("/runs/" + again).at("runner_id")
		waited := make(chan reply, 1)
		go func() { waited <- s.get("/runs/" + again + "/wait?timeout_seconds=30") }()
		w.kill()
		s.runner("c", "AO_TAGS=both")
		elsewhere := s.online("c")
		r := <-waited
		s.has(r, 200, `"status":"completed"`, `"attempt":2`, `"result_data":{"ok":true}`)
		if r.at("runner_id") != elsewhere || there == elsewhere {
			t.Errorf("it was %s's and then %s's, not %s's", there, r.at("runner_id"), elsewhere)
		}
		tries(s, "again", "1 2")
		s.has(s.ended(never), 200, `"status":"failed"`, `"error":"runner_disconnected"`, `"attempt":1`)
		tries(s, "never", "1")
		if n := failures(again); n != 0 {
			t.Errorf("run_failed was sent %d times", n)
		}
	})
}
