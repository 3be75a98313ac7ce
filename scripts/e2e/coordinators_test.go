package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/nats/natstest"
)

// simulatedAgent is the program of an autonomous profile. It records the start and end of each turn and obeys its
// prompt. wait-NAME waits for a gate, fail-… fails, and big-… gives a large answer. Anything else is answered at once.
const simulatedAgent = `#!/bin/sh
p=$(sed 's/.*"prompt":"\([^"]*\)".*/\1/' | cut -c1-40)
echo "begin:$AGENT_SESSION_ID:$p" >> turns
trap 'echo "end:$AGENT_SESSION_ID:$p" >> turns; exit 1' TERM
case $p in
wait-*) while [ ! -e "open-$p" ]; do sleep 0.1; done;;
esac
echo "end:$AGENT_SESSION_ID:$p" >> turns
case $p in
fail-*) echo "no answer to $p" >&2; exit 1;;
big-*) head -c 300000 /dev/zero | tr '\0' x;;
esac
echo "answer to $p"
`

// simulatedWorker starts a worker for procedural and autonomous agents and creates the agent "plain".
func (s *stack) simulatedWorker(host string, more ...string) *program {
	s.t.Helper()
	s.write("profiles/think", simulatedAgent)
	s.write("profiles/think.json", `{"type":"autonomous","command":"./think","max_concurrent_runs":8}`)
	p := s.runner(host, append([]string{"AO_PROFILES=test,think"}, more...)...)
	s.until("both runners of "+host+" are online",
		func() bool { return strings.Count(s.get("/runners").text, `"hostname":"`+host+`"`) == 2 })
	if s.get("/agents/plain").code == 404 {
		s.has(s.post("/agents", `{"name":"plain"}`), 201)
	}
	return p
}

// resume starts another run of a session.
func (s *stack) resume(session, prompt string) string {
	s.t.Helper()
	return s.run(fmt.Sprintf(`{"type":"resume_session","session_id":%q,"prompt":%q}`, session, prompt))
}

// turns returns the prompts of a session in the order of their starts. Two at once are an error.
func (s *stack) turns(session string) (prompts []string) {
	s.t.Helper()
	running := ""
	for _, line := range s.lines("turns") {
		what, rest, _ := strings.Cut(line, ":")
		at, prompt, _ := strings.Cut(rest, ":")
		switch {
		case at != session:
		case what == "begin":
			if running != "" {
				s.t.Errorf("session %s: %s began while %s ran", session, prompt, running)
			}
			running, prompts = prompt, append(prompts, prompt)
		default:
			running = ""
		}
	}
	return prompts
}

// Several coordinators on one NATS, with clients that switch between them.
func TestTwoCoordinators(t *testing.T) {
	t.Parallel()
	a := up(t, "RUN_NO_MATCH_TIMEOUT=2s")
	a.agent("quick", `echo '{"ok":true}'`, "")
	a.agent("fails", `exit 3`, "")
	a.agent("gate", gate, "")
	b := a.another()
	a.simulatedWorker("one")
	// story runs a story with both coordinators.
	story := func(name string, tell func(a, b *stack)) {
		a.story(name, func(a *stack) {
			own := *b
			own.t = a.t
			tell(a, &own)
		})
	}
	b.until("the other knows the runners",
		func() bool { return strings.Count(b.get("/runners").text, `"status":"online"`) == 2 })

	story("what one has answered the other knows at once", func(a, b *stack) {
		for i := range natstest.Load(4, 10) {
			a, b = b, a
			a.has(a.post("/agents", fmt.Sprintf(`{"name":"made-%d"}`, i)), 201)
			b.has(b.post("/runs/validate", fmt.Sprintf(`{"agent_name":"made-%d","prompt":"x"}`, i)), 200,
				`"valid":true`)
			r := a.post("/runs", `{"agent_name":"quick"}`)
			id, session := r.at("run_id"), r.at("session_id")
			b.checkGet("/runs/"+id, 200, `"session_id":"`+session+`"`)
			b.checkGet("/sessions/"+session, 200, `"last_run_id":"`+id+`"`)
			b.checkGet("/sessions/"+session+"/events", 200)
			b.checkGet("/runs/"+id+"/wait", 200, `"status":"completed"`)
			a.checkGet("/runs?limit=5", 200, id)
			a.checkGet("/sessions?limit=5", 200, session)

			hello := func() (run, session string) { // ended when this is back, as far as this one is concerned
				r := a.post("/runs", `{"agent_name":"plain","prompt":"hello","mode":"sync"}`)
				a.has(r, 200, `"result_text":"answer to hello"`)
				return r.at("run_id"), r.at("session_id")
			}
			id, _ = hello()
			b.checkGet("/runs/"+id, 200, `"status":"completed"`)
			id, _ = hello()
			b.checkGet("/runs/"+id+"/result", 200, `"result_text":"answer to hello"`)
			_, session = hello()
			b.checkGet("/sessions/"+session, 200, `"status":"finished"`)
			_, session = hello()
			b.checkGet("/sessions/"+session+"/result", 200, `"result_text":"answer to hello"`)
			_, session = hello()
			b.checkGet("/sessions/"+session+"/events", 200, `"run_completed"`)
			_, session = hello()
			b.has(b.post("/runs", `{"session_id":"`+session+`","prompt":"again","mode":"sync"}`), 200,
				`"result_text":"answer to again"`)
			a.checkGet("/sessions/"+session, 200, `"status":"finished"`, `"runs":2`)
			if r := a.do("DELETE", "/sessions/"+session, ""); r.code != 204 {
				a.t.Errorf("DELETE: %d %s", r.code, r.text)
			}
			b.checkGet("/sessions/"+session, 404)
		}
	})

	story("a stop reaches what the other accepted a moment ago", func(a, b *stack) {
		for i := range natstest.Load(4, 6) {
			a, b = b, a
			r := a.post("/runs", fmt.Sprintf(`{"agent_name":"plain","prompt":"wait-stop%d"}`, i))
			first, session := r.at("run_id"), r.at("session_id")
			if i%2 == 0 {
				b.has(b.post("/runs/"+first+"/stop", ""), 200)
			} else {
				a.status(first, "running")
				later := a.resume(session, "never")
				b.has(b.post("/sessions/"+session+"/stop", ""), 200)
				a.same("what waited", a.ended(later).at("status"), "stopped")
			}
			b.same("the run", b.ended(first).at("status"), "stopped")
			a.checkGet("/runs/"+first+"/wait", 200, `"status":"stopped"`)
			a.has(a.post("/runs/"+first+"/stop", ""), 200, `"status":"stopped"`)
		}
	})

	story("a stream at either shows all, and goes on at the other", func(a, b *stack) {
		here, there := a.sessions("", ""), b.sessions("", "")
		from := here.pieces()[0]
		var ids []string
		for i := range 4 {
			a, b = b, a
			ids = append(ids, a.run(`{"agent_name":"quick"}`), a.run(`{"agent_name":"fails"}`),
				a.run(fmt.Sprintf(`{"agent_name":"plain","prompt":"say-%d"}`, i)))
		}
		// both see it expire
		ids = append(ids, a.run(`{"agent_name":"quick","additional_demands":{"hostname":"nowhere"}}`))
		failed := map[string]string{}
		for _, id := range ids {
			r := a.ended(id)
			failed[id] = r.at("error.error")
			for _, st := range []*stream{here, there} {
				st.event(id, "run_"+r.at("status"))
				st.find("the end of "+id, func(p sseEvent) bool {
					return p.name == "run_updated" && p.at("run_id") == id && p.at("status") == r.at("status")
				})
				if r.at("status") == "failed" {
					st.find("run_failed of "+id, func(p sseEvent) bool {
						return p.name == "run_failed" && p.at("run_id") == id
					})
				}
			}
		}
		a.same("its error", failed[ids[len(ids)-1]], "no_matching_runner")
		for _, st := range []*stream{here, there} {
			ends := map[string]int{}
			for _, p := range st.pieces() {
				if p.name == "run_failed" {
					ends[p.at("run_id")]++
				}
			}
			for id, code := range failed {
				if n := ends[id]; code != "" && n != 1 || code == "" && n != 0 {
					a.t.Errorf("run_failed of %s (%s) was sent %d times", id, code, n)
				}
			}
		}
		all := events(here.pieces())
		a.same("both streams", strings.Join(events(there.pieces()), "\n"), strings.Join(all, "\n"))
		for _, at := range []int{0, len(here.pieces()) / 3, len(here.pieces()) / 2} {
			id := from.id
			if at > 0 {
				id = here.pieces()[at].id
			}
			again := b.sessions("", id)
			rest := all[len(events(here.pieces()[:at+1])):]
			b.until("the rest is sent", func() bool { return len(events(again.pieces())) >= len(rest) })
			b.same(fmt.Sprintf("after piece %d", at), strings.Join(events(again.pieces()), "\n"),
				strings.Join(rest, "\n"))
			again.stop()
		}
	})

	story("one key at both is one run", func(a, b *stack) {
		ids := make([]string, 12)
		var wg sync.WaitGroup
		for i := range ids {
			at := []*stack{a, b}[i%2]
			wg.Go(func() {
				ids[i] = at.post("/runs", `{"agent_name":"quick","session_id":"ses_key"}`, "Idempotency-Key",
					"one of both").at("run_id")
			})
		}
		wg.Wait()
		if slices.Sort(ids); ids[0] == "" || ids[0] != ids[len(ids)-1] {
			a.t.Errorf("got %q", ids)
		}
		b.coordinator.kill()
		b.coordinator.start()
		b.ready()
		b.same("after a crash", b.post("/runs", `{"agent_name":"quick","session_id":"ses_key"}`, "Idempotency-Key",
			"one of both").at("run_id"), ids[0])
		b.has(b.post("/runs", `{"agent_name":"quick"}`, "Idempotency-Key", "one of both"), 409,
			`"error":"idempotency_key_reused"`)
		a.checkGet("/sessions/ses_key", 200, `"runs":1`)
	})

	story("turns in order over both", func(a, b *stack) {
		a.has(a.post("/runs", `{"agent_name":"plain","prompt":"wait-order","session_id":"ses_order"}`), 201)
		want := []string{"wait-order"}
		var last string
		for i := range 10 {
			at := []*stack{b, a}[i%2]
			prompt := fmt.Sprint("turn-", i)
			last, want = at.resume("ses_order", prompt), append(want, prompt)
		}
		s := []*stack{a, b}
		s[0].checkGet("/sessions/ses_order", 200, `"runs":11`)
		a.openGate("wait-order")
		b.same("the last", b.ended(last).at("status"), "completed")
		a.same("the turns", strings.Join(a.turns("ses_order"), " "), strings.Join(want, " "))
		var wg sync.WaitGroup
		for i := range 10 {
			at := s[i%2]
			wg.Go(func() {
				r := at.post("/runs", fmt.Sprintf(`{"session_id":"ses_order","prompt":"many-%d","mode":"sync"}`, i))
				at.has(r, 200, fmt.Sprintf(`"result_text":"answer to many-%d"`, i))
			})
		}
		wg.Wait()
		if n := len(a.turns("ses_order")); n != 21 {
			a.t.Errorf("got %d turns, want 21", n)
		}
	})

	story("runners and agents of either are those of both", func(a, b *stack) {
		r := a.post("/runner/register",
			`{"hostname":"far","project_dir":"/p","executor_profile":"far","executor_type":"autonomous"}`)
		a.has(r, 200)
		b.until("the other shows it", func() bool { return b.runnerOf("far", "runner_id") == r.at("runner_id") })
		b.has(b.do("DELETE", "/runners/"+r.at("runner_id"), ""), 202)
		a.until("it is gone at the first", func() bool { return a.runnerOf("far", "status") == "" })
		a.write("others/own/agent.json", `{"name":"own","command":"pwd"}`)
		a.write("profiles/other.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../others"}`)
		p := a.runner("two", "AO_PROFILES=other")
		for i := range 2 {
			a.until("its agent is known", func() bool { return a.get("/agents/own").code == 200 })
			b.has(b.post("/runs", `{"agent_name":"own","mode":"sync"}`), 200, `"status":"completed"`)
			a, b = b, a
			if i == 0 {
				p.stop()
				a.until("its agent is gone", func() bool { return a.get("/agents/own").code == 404 })
				p.start()
			}
		}
	})
}

// events returns the session events of a stream, one per line.
func events(all []sseEvent) (lines []string) {
	for _, p := range all {
		if p.name == "event" || p.name == "run_failed" {
			lines = append(lines, p.name+" "+p.at("run_id")+" "+p.at("event_type"))
		}
	}
	return lines
}

// Either coordinator may die at any time: nothing is lost and nothing waits longer than a lease.
func TestEitherCoordinatorDiesUnderLoad(t *testing.T) {
	t.Parallel()
	a := up(t)
	a.agent("quick", startNote+`echo '{"ok":true}'`, "")
	b := a.another()
	a.worker()
	b.until("the other knows the agent", func() bool { return b.get("/agents/quick").code == 200 })
	const all, clients = 200, 4
	both := []*stack{a, b}
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range all / clients {
				key := fmt.Sprintf("die-%d-%d", c, i)
				id := createRun(t, key, `{"agent_name":"quick"}`, both[(c+i)%2], both[(c+i+1)%2])
				if id == "" {
					return
				}
				mu.Lock()
				ids = append(ids, id)
				mu.Unlock()
			}
		})
	}
	accepted := func() int { mu.Lock(); defer mu.Unlock(); return len(ids) }
	for i, at := range []int{30, 80, 130, 170} {
		a.until("some more are accepted", func() bool { return accepted() >= at })
		s := both[i%2]
		s.coordinator.kill()
		s.coordinator.start()
		s.ready()
	}
	wg.Wait()
	if statuses := a.verify(ids); statuses["completed"] != all || len(ids) != all {
		t.Errorf("statuses %v of %d", statuses, len(ids))
	}
	if n := len(a.starts()); n != all {
		t.Errorf("%d executors were started for %d accepted runs", n, all)
	}
	var ends []time.Time
	for _, s := range both {
		var page struct {
			Runs []struct {
				At time.Time `json:"completed_at"`
			}
		}
		if r := s.get("/runs?limit=1000&status=completed"); json.Unmarshal([]byte(r.text), &page) != nil ||
			len(page.Runs) != all {
			t.Errorf("the list at %s has %d runs", s.url, len(page.Runs))
		}
		ends = ends[:0]
		for _, r := range page.Runs {
			ends = append(ends, r.At)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	var longest time.Duration
	for i := 1; i < len(ends); i++ {
		longest = max(longest, ends[i].Sub(ends[i-1]))
	}
	t.Logf("%d runs in %s, four coordinators killed; the longest time between two ends was %s", all,
		ends[len(ends)-1].Sub(ends[0]).Round(time.Millisecond), longest.Round(time.Millisecond))
	// the lease is 2 s and restarts if this machine stalls; the rest allows for stalls
	if longest > 10*time.Second+maxStall() {
		t.Errorf("nothing ended for %s", longest)
	}
}
