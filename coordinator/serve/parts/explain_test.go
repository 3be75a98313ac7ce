package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"ao/coordinator/control/webhook"
	"ao/coordinator/insight/explain"
	"ao/coordinator/projection/query"
	"ao/coordinator/projection/state"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

func explained(t *testing.T, c *Coordinator, id string) explain.Explanation {
	t.Helper()
	e, err := c.Explainer.Explain(t.Context(), id, false)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// story is what happened, in words, and the detail of the last step of a kind.
func story(e explain.Explanation) (steps string, last map[string]string) {
	last = map[string]string{}
	for _, s := range e.Story {
		steps += " " + s.What
		last[s.What] = s.Detail
	}
	return strings.TrimSpace(steps), last
}

// TestExplainASessionWithoutItsHost: what it bound, and where it waits for.
func TestExplainASessionWithoutItsHost(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	c := start(t, b, Config{NoMatch: time.Minute})
	f := newFixture(t, c)
	first := f.start("")
	a := f.claim(first.RunID)
	put(t, b, subject.Bound(subject.Partition(first.SessionID), first.RunID, a.Key),
		run.Bound{V: run.Version, SessionID: first.SessionID,
			RunnerID: f.r.ID(), Attempt: 1, ExecutorSessionID: "private", Hostname: "here", Profile: "mind",
			At: time.Now()})
	f.end(a, results("one"))
	steps, last := story(explained(t, c, first.RunID))
	if steps != "accepted queued claimed bound completed" ||
		last["bound"] != "its session is stored only on host here, profile mind" {
		t.Errorf("%s: %q", steps, last["bound"])
	}
	if err := c.Deregister(t.Context(), runnerapi.Deregistration{
		RunnerID: f.r.ID(), Instance: f.r.Instance}); err != nil {
		t.Fatal(err)
	}
	waits := submit(t, c, `{"session_id":"`+first.SessionID+`","prompt":"more"}`, "")
	e := explained(t, c, waits.RunID)
	if e.WaitsFor.Reason != "session_host_gone" || e.WaitsFor.Wants.Hostname != "here" ||
		!strings.Contains(e.Summary, `It waits for host "here", where its session is stored `+
			`(profile mind): no runner is registered`) || !strings.HasSuffix(e.Summary, ", or start a new session.") {
		t.Errorf("%+v %q", e.WaitsFor, e.Summary)
	}
}

// TestExplainCallbacks: who called a parent back, what a turn contains, and how the attempts of an HTTP callback went.
func TestExplainCallbacks(t *testing.T) {
	t.Parallel()
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	t.Cleanup(to.Close)
	receivers, err := webhook.New(webhook.Config{Policy: webhook.Policy{
		Hosts: []string{"127.0.0.1"}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := start(t, natstest.Bus(t), Config{Webhooks: receivers})
	f := newFixture(t, c)
	parent := f.start("")
	f.ends(parent.RunID, results("well"))
	child := f.start(`,"mode":"async_callback","parent_session_id":"` + parent.SessionID + `","callback_url":"` +
		to.URL + `"`)
	f.ends(child.RunID, results("done"))
	turn, _ := f.turn(parent.SessionID)
	natstest.Until(t, "a try was made", func() bool {
		r, err := c.Show(t.Context(), child.RunID)
		return err == nil && r.HTTPCallback != nil && r.HTTPCallback.Tries > 0
	})
	e := explained(t, c, child.RunID)
	steps, last := story(e)
	if strings.Count(steps, " webhook") == 2 { // the next try is made 5 s later: a slow machine sees it
		steps = strings.TrimSuffix(steps, " webhook")
	}
	if steps != "accepted queued claimed completed callback webhook" &&
		steps != "accepted queued claimed completed webhook callback" {
		t.Errorf("the child: %s", steps)
	}
	if last["callback"] != "run "+turn.Spec.ID+" reports its end to the parent session "+parent.SessionID ||
		!strings.HasPrefix(last["webhook"], "a delivery of the webhook failed: 503: ") ||
		!strings.Contains(last["webhook"], "; the next delivery is at 20") {
		t.Errorf("the child: %v", last)
	}
	if raw, _ := json.Marshal(e); strings.Contains(string(raw), to.URL) {
		t.Errorf("where to is shown: %s", raw)
	}
	steps, last = story(explained(t, c, turn.Spec.ID))
	if !strings.HasPrefix(steps, "callback accepted") || last["callback"] != "this turn reports to its session that "+
		"1 run ended" {
		t.Errorf("the turn: %s %v", steps, last)
	}
}

// TestExplainManyAttempts: a story is bounded, however often a run was claimed, and both of its ends are right.
func TestExplainManyAttempts(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	f := newFixture(t, c)
	acc := f.start(`,"max_attempts":100`)
	part := subject.Partition(acc.SessionID)
	a := active(t, c, acc.RunID, "is queued", isQueued)
	const attempts = 30
	for n := 1; n <= attempts; n++ {
		write := func(subj string, record any) {
			body, err := json.Marshal(record)
			if err == nil {
				_, err = c.bus.Append(t.Context(), bus.Entry{Subject: subj, Body: body})
			}
			if err != nil && !errors.Is(err, bus.ErrTaken) { // the coordinator may have been as fast
				t.Fatal(err)
			}
		}
		key := c.keys.Of(acc.RunID, n)
		if n > 1 {
			write(subject.Queued(part, a.Queue, acc.RunID, n), run.Queued{V: run.Version, Attempt: n, Key: key,
				Spec: *a.Spec})
		}
		write(subject.Claimed(part, acc.RunID, key), run.Claim{V: run.Version, SessionID: acc.SessionID,
			RunnerID: f.r.ID(), Instance: "one", Nonce: "secret", Attempt: n, At: time.Now()})
		write(subject.Ended(part, acc.RunID, key), run.Ended{V: run.Version, SessionID: acc.SessionID,
			RunnerID: f.r.ID(), Nonce: "secret", Attempt: n, Status: run.Failed,
			Error: fault.New(fault.Internal, "command_failed", fmt.Sprintf("try %d", n)), At: time.Now()})
	}
	if err := c.reads.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := explained(t, c, acc.RunID)
	failed := map[string]bool{}
	for _, s := range e.Story {
		if s.What == "attempt_failed" {
			failed[s.Detail[:len("try 1")+1]] = true
		}
	}
	steps, last := story(e)
	if len(failed) != 20 || !failed["try 1 "] || !failed["try 2 "] || !failed["try 13"] || failed["try 12"] ||
		!failed["try 30"] {
		t.Errorf("shown: %v", failed)
	}
	if strings.Count(steps, "left_out") != 1 || last["left_out"] != "the steps between the first attempts and "+
		"attempt 13" || e.WaitsFor.Reason != "retry_pause" {
		t.Errorf("%s: %v", steps, last)
	}
	if raw, _ := json.Marshal(e); strings.Contains(string(raw), "secret") ||
		strings.Contains(string(raw), c.keys.Of(acc.RunID, attempts)) {
		t.Errorf("%s", raw)
	}
}

// TestExplainAnAttemptAboveItsVersion: a record above the attempt's version is why another attempt follows, and nothing
// under its key is described. A worker of that version writes all its records so.
func TestExplainAnAttemptAboveItsVersion(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	f := newFixture(t, c)
	for _, claims := range []int{run.Version, 99} {
		acc := f.start(`,"max_attempts":2`)
		part := subject.Partition(acc.SessionID)
		a := active(t, c, acc.RunID, "is queued", isQueued)
		put(t, c.bus, subject.Claimed(part, acc.RunID, a.Key), run.Claim{V: claims, SessionID: acc.SessionID,
			RunnerID: f.r.ID(), Nonce: "n", Attempt: 1, At: time.Now()})
		put(t, c.bus, subject.Ended(part, acc.RunID, a.Key),
			run.Ended{V: 99, SessionID: acc.SessionID, RunnerID: f.r.ID(), Nonce: "n", Attempt: 1,
				Status: run.Completed, At: time.Now()})
		if err := c.reads.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		steps, last := story(explained(t, c, acc.RunID))
		if why := last["attempt_failed"]; !strings.Contains(why, "in a newer version") ||
			!strings.HasSuffix(why, "(record_version); attempt 2 follows after 1s") ||
			strings.Count(steps, "attempt_failed") != 1 {
			t.Errorf("claimed in version %d: %s: %q", claims, steps, why)
		}
		if claims != run.Version && last["claimed"] != "" {
			t.Errorf("a record that is not read is shown: %q", last["claimed"])
		}
	}
}

// TestExplainAMovedRun: its queue is no longer served, and another is.
func TestExplainAMovedRun(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	f := newFixture(t, c)
	acc := f.start("")
	a := active(t, c, acc.RunID, "is queued", isQueued)
	put(t, c.bus, subject.Queued(subject.Partition(acc.SessionID), "autonomous.mind.0123456789abcdef", acc.RunID, 1),
		run.Queued{V: run.Version, Attempt: 1, Key: a.Key, Spec: *a.Spec})
	active(t, c, acc.RunID, "has moved", func(a state.Active) bool { return strings.HasSuffix(a.Queue, "abcdef") })
	steps, last := story(explained(t, c, acc.RunID))
	if !strings.HasPrefix(steps, "accepted queued moved") || !strings.Contains(last["moved"], "in queue autonomous.") {
		t.Errorf("%s: %v", steps, last)
	}
}

// TestExplainWithoutNATS: a coordinator describes what it knows by itself, and that it is not all.
func TestExplainWithoutNATS(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	c := start(t, p.Bus(t), Config{})
	f := newFixture(t, c)
	claimed, waits := f.start(""), f.start("")
	f.claim(claimed.RunID)
	p.Kill()
	natstest.Until(t, "that is noticed", func() bool { return !c.bus.Connected() })
	for id, want := range map[string]string{claimed.RunID: "accepted claimed", waits.RunID: "accepted"} {
		e := explained(t, c, id)
		if steps, _ := story(e); steps != want || !strings.Contains(e.Incomplete, "NATS does not answer") {
			t.Errorf("%s, want %s; %q", steps, want, e.Incomplete)
		}
		if e.WaitsFor.Reason != "coordinator_not_ready" || e.WaitsFor.Message == "" ||
			!strings.Contains(e.Summary, "This coordinator is not ready: NATS is not reachable") {
			t.Errorf("%+v %q", e.WaitsFor, e.Summary)
		}
	}
}

// TestExplainWhatHasJustHappened: the record of an end may be read before the index has it. Then it is no failed
// attempt that another follows, and once the index has it the run is explained by that.
func TestExplainWhatHasJustHappened(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	f := newFixture(t, c)
	acc := f.start("")
	a := f.claim(acc.RunID)
	read := c.History.Seq()
	before, err := c.History.Trace(t.Context(), acc.RunID)
	if err != nil {
		t.Fatal(err)
	}
	f.end(a, results("one"))
	behind := *c.Explainer
	behind.History = stale{behind.History, before, read}
	e, err := behind.Explain(t.Context(), acc.RunID, false)
	if steps, _ := story(e); err != nil || steps != "accepted queued claimed" {
		t.Errorf("%v: %s", err, steps)
	}
	e = explained(t, c, acc.RunID)
	if !strings.HasPrefix(e.Summary, "It completed ") || e.WaitsFor != nil {
		t.Errorf("%q", e.Summary)
	}
}

// stale is an index that does not have what has just been written.
type stale struct {
	explain.History
	trace query.Trace
	seq   uint64
}

func (s stale) Trace(context.Context, string) (query.Trace, error) { return s.trace, nil }
func (s stale) Seq() uint64                                        { return s.seq }
