package serve_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"ao/coordinator/control/webhook"
	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
)

// TestNothingDelaysADeadWorkersFailure: receivers of webhooks hang, and 99,000 runs become due at once. The run of a
// worker that died fails within a second of when it would fail without them.
func TestNothingDelaysADeadWorkersFailure(t *testing.T) {
	t.Parallel()
	const hanging = 40
	due := natstest.Load(4_000, 99_000) // with the others 100,000 is as many as may wait
	release := make(chan struct{})
	arrived := make(chan struct{}, hanging)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	t.Cleanup(receiver.Close)
	t.Cleanup(func() { close(release) })
	s := start(t, brief, func(c *serve.Config) {
		c.Callbacks = webhook.Policy{
			Hosts: []string{"*"}, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Secret: "whsec_" +
				base64.StdEncoding.EncodeToString(make([]byte, 32)),
		}
	})
	dying := s.work(func(q run.Queued) run.Outcome {
		if q.Agent == "quick" {
			return done(`"ok"`)
		}
		<-t.Context().Done()
		return done(`"too late"`)
	}, echo("quick"), echo("endless"))
	first := dying.runner
	first.Hostname, first.Tags = "first", []string{"first"}
	alone := s.dies(s.workAs(first, dying.do), `,"additional_demands":{"tags":["first"]}`, func() {})
	waits := s.submit(`{"agent_name":"quick","additional_demands":{"tags":["later"]}}`)
	s.waiting(waits, due)
	for range hanging {
		s.submit(`{"agent_name":"quick","callback_url":"` + receiver.URL + `"}`)
	}
	<-arrived // four of one host at a time
	took := s.dies(dying, `,"additional_demands":{"hostname":"here"}`, func() {
		later := dying.runner
		later.Hostname, later.Instance, later.Tags = "later", "two", []string{"later"}
		s.workAs(later, func(run.Queued) run.Outcome { return done(`"ok"`) })
	})
	t.Logf("it fails after %v, and after %v with nothing beside it", took, alone)
	if took > alone+3*time.Second { // a lease more: this machine may have other work
		t.Errorf("got a failure after %v, want at most 3s more than the %v with nothing beside it", took, alone)
	}
	if n := len(arrived); n > 8 {
		t.Errorf("%d webhooks are under way, to one host", n)
	}
}

// dies has a worker die in an endless run, and returns how long it takes until that has failed.
func (s *stack) dies(w *worker, demands string, meanwhile func()) time.Duration {
	s.t.Helper()
	id := s.submit(`{"agent_name":"endless"` + demands + `}`).RunID
	s.until(id, run.Running)
	began := time.Now()
	w.die()
	meanwhile()
	s.until(id, run.Failed)
	return time.Since(began)
}

// waiting appends so many more runs like one that waits for its runner.
func (s *stack) waiting(like runs.Accepted, n int) {
	s.t.Helper()
	m, err := s.bus.Last(s.t.Context(), subject.Accepted(subject.Partition(like.SessionID), like.SessionID, like.RunID))
	if err != nil {
		s.t.Fatal(err)
	}
	var a run.Accepted
	if err := json.Unmarshal(m.Body, &a); err != nil {
		s.t.Fatal(err)
	}
	batch := make([]bus.Entry, 0, 1000)
	for i := range n {
		a.ID, a.SessionID = run.NewID(), run.NewSessionID()
		body, err := json.Marshal(a)
		if err != nil {
			s.t.Fatal(err)
		}
		batch = append(batch, bus.Entry{Subject: subject.Accepted(subject.Partition(a.SessionID), a.SessionID, a.ID),
			Body: body})
		if len(batch) < cap(batch) && i < n-1 {
			continue
		}
		if _, err := s.bus.AppendBatch(s.t.Context(), batch...); err != nil {
			s.t.Fatal(err)
		}
		batch = batch[:0]
	}
}
