package serve_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ao/coordinator/ledger"
	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// stopped is what a stop answers.
type stopped struct {
	RunID     string `json:"run_id"`
	SessionID string `json:"session_id"`
	Status    string `json:"status"`
	Below     *struct {
		Count    int      `json:"count"`
		Runs     []string `json:"run_ids"`
		Stopping bool     `json:"stopping"`
	} `json:"open_below"`
}

const blockingRun = `{"agent_name":"mind","prompt":"hold"}`

// under is a run of a session's child.
func under(session, more string) string {
	return fmt.Sprintf(`{"agent_name":"mind","prompt":"hold","parent_session_id":"%s"%s}`, session, more)
}

const callsBack = `,"mode":"async_callback"`

// A stop names what goes on below it; with tree that is stopped too, at every entry point, whether it runs or waits.
func TestATreeIsStopped(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		stop func(s *stack, top runs.Accepted, tree bool) got
	}{
		{"a run over HTTP", func(s *stack, top runs.Accepted, tree bool) got {
			return s.post("/runs/"+top.RunID+"/stop", fmt.Sprintf(`{"tree":%t}`, tree))
		}},
		{"a session over HTTP", func(s *stack, top runs.Accepted, tree bool) got {
			return s.post("/sessions/"+top.SessionID+"/stop", fmt.Sprintf(`{"tree":%t}`, tree))
		}},
		{"a run over NATS", func(s *stack, top runs.Accepted, tree bool) got {
			return s.request(subject.APIRunsStop, fmt.Sprintf(`{"run_id":"%s","tree":%t}`, top.RunID, tree))
		}},
		{"a session over MCP", func(s *stack, top runs.Accepted, tree bool) got {
			body := good[stopped](s.speak(versions[1]), "stop_agent_session",
				fmt.Sprintf(`{"session_id":"%s","tree":%t}`, top.SessionID, tree))
			return got{t: s.t, status: 200, body: string(marshal(s.t, body))}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			think(s)
			top := s.submit(blockingRun)
			child := s.submit(under(top.SessionID, callsBack))
			grandchild := s.submit(under(child.SessionID, callsBack))
			waits := s.submit(under(child.SessionID, `,"additional_demands":{"tags":["nowhere"]}`))
			stranger := s.submit(blockingRun)
			for _, r := range []runs.Accepted{top, child, grandchild, stranger} {
				s.until(r.RunID, run.Running)
			}
			other := s.submit(under(stranger.SessionID, ""))
			below := []string{child.RunID, grandchild.RunID, waits.RunID}

			a := into[stopped](tt.stop(s, top, false), 200)
			if a.Below == nil || a.Below.Stopping || a.Below.Count != 3 || !slices.Equal(a.Below.Runs, below) {
				t.Fatalf("without tree it names %+v, want %v", a.Below, below)
			}
			s.until(top.RunID, run.Stopped)
			for _, id := range below {
				if r := into[run.Run](s.get("/runs/"+id), 200); r.Status.Final() || r.Status == run.Stopping {
					t.Errorf("%s is %s", id, r.Status)
				}
			}

			a = into[stopped](tt.stop(s, top, true), 200)
			if a.Below == nil || !a.Below.Stopping || a.Below.Count != 3 || !slices.Equal(a.Below.Runs, below) {
				t.Fatalf("with tree it names %+v, want %v", a.Below, below)
			}
			for _, id := range below {
				s.until(id, run.Stopped)
			}
			if a := into[stopped](tt.stop(s, top, true), 200); a.Below != nil {
				t.Errorf("once more: %+v", a.Below)
			}
			for _, id := range []string{child.RunID, grandchild.RunID} {
				natstest.Until(t, "its callback is suppressed", func() bool {
					r := into[run.Run](s.get("/runs/"+id), 200)
					return r.Callback != nil && r.Callback.Status == "suppressed" && r.Callback.Reason == "tree_stopped"
				})
			}
			for _, id := range below {
				if r := into[run.Run](s.get("/runs/"+id), 200); r.StoppedWith != top.SessionID {
					t.Errorf("%s was stopped with the tree of %q, want %s", id, r.StoppedWith, top.SessionID)
				}
				if e := s.get("/runs/" + id + "/explain"); !strings.Contains(e.body, "all that is below session "+
					top.SessionID) {
					t.Errorf("nothing explains which tree was stopped: %s", e.body)
				}
			}
			if r := into[run.Run](s.get("/runs/"+top.RunID), 200); r.StoppedWith != "" {
				t.Errorf("the run above was stopped before its tree, and says with that of %s", r.StoppedWith)
			}
			if r := into[run.Run](s.get("/runs/"+waits.RunID), 200); r.Error == nil || r.Error.Code != "stopped" ||
				!strings.Contains(string(marshal(t, r.Error)), `"stopped_with":"`+top.SessionID) {
				t.Errorf("the error of one that waited: %s", marshal(t, r.Error))
			}
			for _, r := range []runs.Accepted{stranger, other} {
				if g := into[run.Run](s.get("/runs/"+r.RunID), 200); g.Status.Final() || g.Status == run.Stopping {
					t.Errorf("another tree's run is %s", g.Status)
				}
			}
			for id, n := range map[string]int{top.SessionID: 1, child.SessionID: 1, grandchild.SessionID: 1} {
				if got := into[run.Session](s.get("/sessions/"+id), 200); got.Runs != n {
					t.Errorf("session %s has %d runs, want %d: nobody is called back", id, got.Runs, n)
				}
			}
			s.verified()
		})
	}
}

// TestASessionShowsWhatIsOpenBelow: at any depth; and its stop is refused where others are open than its caller has
// seen.
func TestASessionShowsWhatIsOpenBelow(t *testing.T) {
	t.Parallel()
	s := start(t)
	think(s)
	top := s.submit(`{"agent_name":"mind","prompt":"x"}`)
	s.until(top.RunID, run.Completed)
	session := "/sessions/" + top.SessionID
	if a := into[stopped](s.get(session), 200); a.Below != nil {
		t.Errorf("nothing is below it, and it tells of %+v", a.Below)
	}
	child := s.submit(fmt.Sprintf(`{"agent_name":"mind","prompt":"x","parent_session_id":"%s"}`, top.SessionID))
	s.until(child.RunID, run.Completed)
	grandchildren := []string{s.submit(under(child.SessionID, "")).RunID, s.submit(under(child.SessionID, "")).RunID}
	for _, id := range grandchildren {
		s.until(id, run.Running)
	}
	if a := into[stopped](s.get(session), 200); a.Below == nil || a.Below.Count != 2 || a.Below.Stopping ||
		!slices.Equal(a.Below.Runs, grandchildren) {
		t.Errorf("%+v", a.Below)
	}
	for _, body := range []string{`{"tree":true,"expect":1}`, `{"expect":2}`} {
		if m := s.post(session+"/stop", body).want(409); m["error"] != "expect_mismatch" {
			t.Errorf("%s: %v", body, m)
		}
	}
	for _, id := range grandchildren {
		if r := into[run.Run](s.get("/runs/"+id), 200); r.Status != run.Running {
			t.Errorf("%s is %s after a refusal", id, r.Status)
		}
	}
	s.post(session+"/stop", `{"expect":0}`).want(200)
	s.post(session+"/stop", `{"tree":true,"expect":-1}`).want(409)
	s.post(session+"/stop", `{"tree":true,"expect":2}`).want(200)
	for _, id := range grandchildren {
		s.until(id, run.Stopped)
	}
	s.post(session+"/stop", `{"tree":true,"expect":0}`).want(200)
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// verified waits until the ledger has no violation and no callback is pending.
func (s *stack) verified() {
	s.t.Helper()
	natstest.Until(s.t, "the ledger is OK", func() bool { return into[ledger.Report](s.get("/ledger"), 200).OK })
}

// nothingBelow waits until nothing below a session is open.
func (s *stack) nothingBelow(session string) {
	s.t.Helper()
	natstest.Until(s.t, "nothing is open below "+session, func() bool {
		return into[stopped](s.post("/sessions/"+session+"/stop", ""), 200).Below == nil
	})
}

// A run that is submitted later below a stopped tree ends as stopped and never starts, at every coordinator and
// endpoint. That lasts until a runner claims a later run of the root, and a restart changes nothing. A session that was
// stopped itself stays so.
func TestAStoppedTreeStaysStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept := func(c *serve.Config) { c.Coordinator.DataDir, c.NATS.DataDir = dir, dir }
	s := start(t, kept)
	think(s)
	outside := s.submit(`{"agent_name":"mind","prompt":"outside"}`)
	s.until(outside.RunID, run.Completed)
	top := s.submit(under(outside.SessionID, callsBack))
	child := s.submit(under(top.SessionID, callsBack))
	s.until(child.RunID, run.Running)
	s.post("/runs/"+top.RunID+"/stop", `{"tree":true}`).want(200)

	stopped := func(s *stack, r runs.Accepted) {
		t.Helper()
		if r := s.until(r.RunID, run.Stopped); r.RunnerID != "" || r.StartedAt != nil || r.Error == nil ||
			r.Error.Code != "stopped" {
			t.Errorf("%s was started: %s", r.ID, marshal(t, r))
		}
	}
	another := s.another()
	all := []runs.Accepted{s.submit(under(top.SessionID, "")), s.submit(under(child.SessionID, callsBack)),
		another.submit(under(top.SessionID, callsBack)),
		into[runs.Accepted](s.request(subject.APIRunsCreate, under(child.SessionID, "")), 201),
		s.submit(fmt.Sprintf(`{"type":"resume_session","session_id":"%s","prompt":"hold"}`, child.SessionID))}
	all = append(all, s.submit(under(all[0].SessionID, ""))) // below what is stopped
	for _, r := range all {
		stopped(s, r)
	}
	s.until(top.RunID, run.Stopped)
	// The stop covers the root's tree only: the session above it is called back.
	natstest.Until(t, "the session above it is called back", func() bool {
		r := into[run.Run](s.get("/runs/"+top.RunID), 200)
		return r.Callback != nil && r.Callback.Status == run.CallbackDelivered
	})
	s.until(child.RunID, run.Stopped)
	s.stop()
	another.stop()
	s = start(t, kept, func(c *serve.Config) { c.Server = s.nats })
	stopped(s, s.submit(under(top.SessionID, "")))

	// The root goes on, and may start children again.
	s.post("/sessions/"+child.SessionID+"/stop", `{"tree":true}`).want(200)
	goesOn := s.submit(fmt.Sprintf(`{"type":"resume_session","session_id":"%s","prompt":"hold"}`, top.SessionID))
	s.until(goesOn.RunID, run.Running)
	later := s.submit(under(top.SessionID, ""))
	s.until(later.RunID, run.Running)
	stopped(s, s.submit(under(child.SessionID, ""))) // which was stopped for itself
	if r := into[run.Session](s.get("/sessions/"+top.SessionID), 200); r.Runs != 2 {
		t.Errorf("the root has %d runs, want 2: it was called back", r.Runs)
	}
	// stopped before; a later run of its session is no business of it
	s.post("/runs/"+top.RunID+"/stop", `{"tree":true}`).want(200)
	for _, r := range []runs.Accepted{goesOn, later} {
		if g := into[run.Run](s.get("/runs/"+r.RunID), 200); g.Status != run.Running {
			t.Errorf("%s is %s", g.ID, g.Status)
		}
	}
	s.post("/sessions/"+top.SessionID+"/stop", `{"tree":true}`).want(200)
	s.nothingBelow(top.SessionID)
	s.until(goesOn.RunID, run.Stopped)
	s.verified()
}

// A run that waits behind another one has nothing below it. An ended one has, until a later one is claimed.
func TestOpenRunsBelowARun(t *testing.T) {
	t.Parallel()
	s := start(t)
	think(s)
	top := s.submit(`{"agent_name":"mind","prompt":"x"}`)
	s.until(top.RunID, run.Completed)
	child := s.submit(under(top.SessionID, ""))
	s.until(child.RunID, run.Running)
	second := s.submit(fmt.Sprintf(`{"type":"resume_session","session_id":"%s","prompt":"hold"}`, top.SessionID))
	s.until(second.RunID, run.Running)
	third := s.submit(fmt.Sprintf(`{"type":"resume_session","session_id":"%s","prompt":"hold"}`, top.SessionID))
	if g := s.post("/runs/"+top.RunID+"/stop", `{"tree":true}`); g.status != 409 ||
		!strings.Contains(g.body, "a later run of its session was claimed") {
		t.Errorf("the first: %d %s", g.status, g.body)
	}
	if a := into[stopped](s.post("/runs/"+third.RunID+"/stop", `{"tree":true}`), 200); a.Status != "stopped" ||
		a.Below != nil {
		t.Errorf("the third: %+v", a)
	}
	if r := into[run.Run](s.get("/runs/"+child.RunID), 200); r.Status != run.Running {
		t.Errorf("the child is %s", r.Status)
	}
	s.post("/runs/"+second.RunID+"/stop", ``).want(200)
	s.until(second.RunID, run.Stopped)
	if a := into[stopped](s.post("/runs/"+second.RunID+"/stop", `{"tree":true}`), 200); a.Status != "stopped" ||
		a.Below == nil || a.Below.Count != 1 {
		t.Errorf("the second: %+v", a)
	}
	s.until(child.RunID, run.Stopped)
	for _, body := range []string{`{"tree":"yes"}`, `{"trees":true}`, `[]`, `{"tree":true}{}`} {
		s.post("/runs/"+second.RunID+"/stop", body).want(400)
		s.post("/sessions/"+top.SessionID+"/stop", body).want(400)
	}
	s.request(subject.APIRunsGet, `{"run_id":"`+top.RunID+`","tree":true}`).want(400)
	s.verified()
}

// A session inside a stopped tree says that what is open below it is stopping. A run that was stopped by its own name
// before says with which tree, also when it has ended.
func TestInsideAStoppedTree(t *testing.T) {
	t.Parallel()
	s := start(t)
	end := make(chan struct{})
	w := s.workAs(thinker("minds"), func(run.Queued) run.Outcome {
		<-end
		return run.Outcome{Status: run.Stopped, Error: fault.New(fault.Internal, "stopped", "Stopped")}
	})
	s.post("/agents", `{"name":"mind"}`).want(201)
	top := s.submit(blockingRun)
	child := s.submit(under(top.SessionID, ""))
	grandchild := s.submit(under(child.SessionID, ""))
	other := s.submit(under(child.SessionID, ""))
	for _, r := range []runs.Accepted{top, child, grandchild, other} {
		s.until(r.RunID, run.Running)
	}
	w.die() // nothing ends before the test says so
	for _, r := range []runs.Accepted{grandchild, top} {
		if a := into[stopped](s.post("/runs/"+r.RunID+"/stop", ""), 200); a.Status != string(run.Stopping) {
			t.Fatalf("%+v", a)
		}
	}
	if a := into[stopped](s.get("/sessions/"+child.SessionID), 200); a.Below == nil || a.Below.Stopping {
		t.Errorf("before the tree is stopped: %+v", a.Below)
	}
	s.post("/sessions/"+top.SessionID+"/stop", `{"tree":true}`).want(200)
	for _, r := range []runs.Accepted{top, child} {
		if a := into[stopped](s.get("/sessions/"+r.SessionID), 200); a.Below == nil || !a.Below.Stopping {
			t.Errorf("session %s: %+v", r.SessionID, a.Below)
		}
	}
	all := []runs.Accepted{top, child, grandchild, other}
	for _, r := range all {
		if got := into[run.Run](s.get("/runs/"+r.RunID), 200); got.StoppedWith != top.SessionID {
			t.Errorf("%s is stopping with the tree of %q, want %s", r.RunID, got.StoppedWith, top.SessionID)
		}
	}
	close(end)
	for _, r := range all {
		s.until(r.RunID, run.Stopped)
		if got := into[run.Run](s.get("/runs/"+r.RunID), 200); got.StoppedWith != top.SessionID {
			t.Errorf("%s was stopped with the tree of %q, want %s", r.RunID, got.StoppedWith, top.SessionID)
		}
		if e := s.get("/runs/" + r.RunID + "/explain"); !strings.Contains(e.body, "all that is below session "+
			top.SessionID) {
			t.Errorf("nothing explains which tree was stopped: %s", e.body)
		}
	}
	s.post("/sessions/"+child.SessionID+"/stop", `{"tree":true}`).want(200) // later: it changes nothing
	if got := into[run.Run](s.get("/runs/"+other.RunID), 200); got.StoppedWith != top.SessionID {
		t.Errorf("after a later stop: %q", got.StoppedWith)
	}
}

// A session's token stops a tree only below its own session.
func TestATreeIsStoppedByItsOwn(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := think(s)
	top := s.submit(blockingRun)
	mine := bearer(m.token(top.RunID))
	child := s.submit(blockingRun, mine)
	theirs := bearer(m.token(child.RunID))
	grandchild := s.submit(blockingRun, theirs)
	stranger := s.submit(blockingRun)
	strange := bearer(m.token(stranger.RunID))
	s.until(grandchild.RunID, run.Running)
	for _, tt := range []struct {
		name, token string
		of          runs.Accepted
		say         string
	}{
		{"its own", mine, top, "cannot do that to itself"}, {"its parent's", theirs, top, "was not started by"},
		{"a stranger's", mine, stranger, "was not started by"}, {"a stranger", strange, child, "was not started by"},
	} {
		for _, path := range []string{"/runs/" + tt.of.RunID, "/sessions/" + tt.of.SessionID} {
			if g := s.post(path+"/stop", `{"tree":true}`, tt.token); g.status != 403 ||
				!strings.Contains(g.body, tt.say) {
				t.Errorf("%s: %d %s", tt.name, g.status, g.body)
			}
		}
		s.speak(versions[1], tt.token).refused("stop_agent_session", `{"session_id":"`+tt.of.SessionID+`","tree":true}`,
			tt.say)
	}
	for _, r := range []runs.Accepted{top, child, grandchild, stranger} {
		if g := into[run.Run](s.get("/runs/"+r.RunID), 200); g.Status != run.Running {
			t.Errorf("%s is %s", g.ID, g.Status)
		}
	}
	if a := into[stopped](s.post("/sessions/"+child.SessionID+"/stop", `{"tree":true}`, mine), 200); a.Below == nil ||
		a.Below.Count != 1 {
		t.Errorf("its child's: %+v", a)
	}
	s.until(grandchild.RunID, run.Stopped)
	if r := into[run.Run](s.get("/runs/"+top.RunID), 200); r.Status != run.Running {
		t.Errorf("it is %s itself", r.Status)
	}
}
