package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/query"
	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// request asks over NATS, as `nats request` does.
func (s *stack) request(subj, body string, headers ...string) got {
	s.t.Helper()
	m := &nats.Msg{Subject: subj, Data: []byte(body), Header: nats.Header{}}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		m.Header.Set(name, value)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	r, err := s.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		s.t.Fatalf("%s: %v", subj, err)
	}
	return answered(s.t, r)
}

func answered(t testing.TB, r *nats.Msg) got {
	var status int
	if _, err := fmt.Sscan(r.Header.Get("status"), &status); err != nil {
		t.Fatalf("header status: %v: %v", err, r.Header)
	}
	return got{t, status, http.Header(r.Header), string(r.Data)}
}

// TestTheServiceIsDiscoverable: `nats micro ls` and `info` show it.
func TestTheServiceIsDiscoverable(t *testing.T) {
	t.Parallel()
	s := start(t)
	var info micro.Info
	// it is there before its endpoints are
	natstest.Until(t, "the service answers, with all that it will have", func() bool {
		info = micro.Info{}
		r, err := s.nc.Request("$SRV.INFO.ao", nil, time.Second)
		return err == nil && json.Unmarshal(r.Data, &info) == nil && len(info.Endpoints) == 4
	})
	var subjects []string
	for _, e := range info.Endpoints {
		subjects = append(subjects, e.Subject)
		if e.QueueGroup != subject.Coordinators {
			t.Errorf("%s: queue group %q", e.Subject, e.QueueGroup)
		}
	}
	slices.Sort(subjects)
	if want := []string{"ao.api.agents.list", "ao.api.runs.create", "ao.api.runs.get",
		"ao.api.runs.stop"}; !slices.Equal(subjects, want) {
		t.Errorf("endpoints %v, want %v", subjects, want)
	}
	s.request(subject.APIRunsGet, "run_none").want(404)
	var stats micro.Stats
	natstest.Until(t, "the refusal is counted", func() bool {
		r, err := s.nc.Request("$SRV.STATS.ao", nil, time.Second)
		if err != nil || json.Unmarshal(r.Data, &stats) != nil {
			return false
		}
		return slices.ContainsFunc(stats.Endpoints, func(e *micro.EndpointStats) bool {
			return e.Subject == subject.APIRunsGet && strings.Contains(string(e.Data), `"refused":1`)
		})
	})
}

// TestAgentsOverNATS: the list is that of HTTP. Unknown fields of a request are refused.
func TestAgentsOverNATS(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/agents", crawler).want(201)
	s.post("/agents", `{"name":"asleep","status":"inactive"}`).want(201)
	natstest.Until(t, "the service is there", func() bool {
		_, err := s.nc.Request(subject.APIAgentsList, nil, time.Second)
		return err == nil
	})
	if a, b := s.request(subject.APIAgentsList, ""), s.get("/agents"); a.body != b.body || a.status != 200 {
		t.Errorf("agents over NATS %s\nover HTTP %s", a.body, b.body)
	}
	if a, b := s.request(subject.APIAgentsList, `{"status":"inactive"}`),
		s.get("/agents?status=inactive"); a.body != b.body {
		t.Errorf("inactive ones over NATS %s\nover HTTP %s", a.body, b.body)
	}
	s.request(subject.APIAgentsList, `{"state":1}`).want(400)
	s.request(subject.APIRunsGet, `run_a*b`).want(400)
	s.request(subject.APIRunsGet, `{"id":"run_1"}`).want(400)
	s.request(subject.APIRunsStop, `{"run_id":"run_none"}`).want(404)
}

// TestRunsOverNATS: created once per key, shown, waited for, stopped.
func TestRunsOverNATS(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(parrot, echo("tool"))
	const body = `{"agent_name":"tool","parameters":{"a":1}}`
	first := s.request(subject.APIRunsCreate, body, "Nats-Msg-Id: m1")
	acc := into[runs.Accepted](first, 201)
	if again := s.request(subject.APIRunsCreate, body, "Idempotency-Key: m1"); again.body != first.body {
		t.Errorf("one key, two answers: %s %s", first.body, again.body)
	}
	s.until(acc.RunID, run.Completed)
	shown := into[runs.Outcome](s.request(subject.APIRunsGet, acc.RunID), 200)
	if shown.Result == nil || string(shown.Result.Data) != `{"a":1}` {
		t.Errorf("%+v", shown)
	}
	out := into[runs.Outcome](s.request(subject.APIRunsCreate, `{"agent_name":"tool","mode":"sync"}`), 200)
	if out.Status != run.Completed || string(out.Result.Data) != `{}` {
		t.Errorf("%+v", out)
	}
	s.request(subject.APIRunsStop, `{"run_id":"`+out.ID+`"}`).want(409)
	s.post("/agents", `{"name":"plain"}`).want(201)
	waiting := into[runs.Accepted](s.request(subject.APIRunsCreate,
		`{"agent_name":"plain","prompt":"x","mode":"sync","wait_seconds":0}`), 202)
	if m := s.request(subject.APIRunsStop, `{"run_id":"`+waiting.RunID+`"}`).want(200); m["status"] != "stopped" {
		t.Errorf("%v", m)
	}
}

// TestInbox: what publishers leave becomes a run, once, or is kept with the reason; both is reported where they ask for
// it.
func TestInbox(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keep := func(c *serve.Config) { c.NATS.DataDir = dir }
	s := start(t, keep)
	s.post("/agents", `{"name":"plain"}`).want(201)
	s.stop() // nobody is up
	leave := func(body string, headers ...string) {
		t.Helper()
		m := &nats.Msg{Subject: subject.InboxRuns, Data: []byte(body), Header: nats.Header{}}
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			m.Header.Set(name, value)
		}
		if r, err := s.nc.RequestMsg(m, 5*time.Second); err != nil || strings.Contains(string(r.Data), "error") {
			t.Fatalf("publish: %v %s", err, r.Data)
		}
	}
	answers, err := s.nc.SubscribeSync("answers.*")
	if err != nil {
		t.Fatal(err)
	}
	leave(`{"agent_name":"plain","prompt":"left"}`, "Ao-Reply-To: answers.good")
	leave(`{"agent_name":"plain"}`, "Ao-Reply-To: answers.bad")
	leave(`{"agent_name":"plain","prompt":"x","mode":"sync"}`)
	leave(`{"agent_name":"plain","prompt":"x"}`, "Ao-Reply-To: ao.commands.rnr_1")
	leave(`{"agent_name":"plain","prompt":"once"}`, "Idempotency-Key: k")
	leave(`{"agent_name":"plain","prompt":"once"}`, "Idempotency-Key: k")

	// Another coordinator comes up on the same server.
	serving := make(chan string, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Config{HTTPAddr: "127.0.0.1:0", Log: natstest.Log(t), Server: s.nats,
			Serving: func(url string) { serving <- url }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.url = <-serving
	replies := map[string]got{}
	for range 2 {
		m, err := answers.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		replies[m.Subject] = answered(t, m)
	}
	acc := into[runs.Accepted](replies["answers.good"], 201)
	if m := replies["answers.bad"].want(400); m["error"] != "parameter_validation_failed" {
		t.Errorf("%v", m)
	}
	var page query.Page
	natstest.Until(t, "both runs are there", func() bool {
		page = into[query.Page](s.get("/runs"), 200)
		return len(page.Runs) >= 2
	})
	var rejected map[string]string
	natstest.Until(t, "three are rejected", func() bool {
		rejected = s.rejected()
		return len(rejected) == 3
	})
	page = into[query.Page](s.get("/runs"), 200)
	if len(page.Runs) != 2 || !slices.ContainsFunc(page.Runs, func(r run.Run) bool { return r.ID == acc.RunID }) {
		t.Errorf("%d runs, want 2: %+v", len(page.Runs), page.Runs)
	}
	for body, reason := range map[string]string{
		`{"agent_name":"plain"}`: "Parameters do not match agent's parameters_schema: " +
			"$.prompt: 'prompt' is a required property",
		`{"agent_name":"plain","prompt":"x","mode":"sync"}`: "The inbox does not wait for results: use mode " +
			"async_poll, or " +
			"request ao.api.runs.create",
		`{"agent_name":"plain","prompt":"x"}`: `Ao-Reply-To "ao.commands.rnr_1" is not a valid subject for a reply: ` +
			"it must not have wildcards or spaces, or begin with ao. or $",
	} {
		if rejected[body] != reason {
			t.Errorf("%s rejected with %q, want %q", body, rejected[body], reason)
		}
	}
}

// TestInboxWaitsForReturningRunners: after a restart a run may be taken out of the inbox before its agent is there
// again.
func TestInboxWaitsForReturningRunners(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		patience time.Duration
		waits    bool
	}{"it has just begun": {time.Hour, true}, "runners had their time": {time.Nanosecond, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(c *serve.Config) { c.Coordinator.NoMatch = tt.patience })
			const body = `{"agent_name":"late","parameters":{"prompt":"x"}}`
			if r, err := s.nc.Request(subject.InboxRuns, []byte(body), 5*time.Second); err != nil ||
				strings.Contains(string(r.Data), "error") {
				t.Fatalf("publish: %v %s", err, r.Data)
			}
			js, err := s.nc.JetStream()
			if err != nil {
				t.Fatal(err)
			}
			natstest.Until(t, "it was looked at", func() bool {
				c, err := js.ConsumerInfo(subject.Inbox, subject.InboxDurable)
				return err == nil && c.Delivered.Consumer > 0 && (tt.waits || len(s.rejected()) > 0)
			})
			s.work(func(run.Queued) run.Outcome { return done("1") }, echo("late"))
			if !tt.waits {
				if why := s.rejected()[body]; why != `There is no agent "late"; GET /agents lists them` {
					t.Errorf("rejected with %q", why)
				}
				return
			}
			natstest.Until(t, "it is done",
				func() bool { return len(into[query.Page](s.get("/runs?status=completed"), 200).Runs) == 1 })
			if all := s.rejected(); len(all) > 0 {
				t.Errorf("rejected: %v", all)
			}
		})
	}
}

// rejected is what the stream of refused messages holds: bodies with their reasons.
func (s *stack) rejected() map[string]string {
	js, err := s.nc.JetStream()
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := js.StreamInfo(subject.Rejected)
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]string{}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && seq > 0; seq++ {
		if m, err := js.GetMsg(subject.Rejected, seq); err == nil {
			all[string(m.Data)] = m.Header.Get("Ao-Reason")
		}
	}
	return all
}

// TestNATSAway: writes are refused for the moment, reads go on, and all is well again by itself.
func TestNATSAway(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	s := start(t, func(c *serve.Config) { c.NATS = serve.NATSConfig{URL: p.URL()} })
	s.post("/agents", `{"name":"plain"}`).want(201)
	acc := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	s.until(acc.RunID, run.Pending)
	p.Kill()
	natstest.Until(t, "the coordinator notices", func() bool { return s.get("/ready").status == 503 })
	g := s.post("/runs", `{"agent_name":"plain","prompt":"x"}`)
	if m := g.want(503); m["error"] != "unavailable" || g.header.Get("Retry-After") == "" {
		t.Errorf("%s", g.body)
	}
	if g := s.post("/agents", `{"name":"other"}`); g.status != 503 {
		t.Errorf("agents: %d %s", g.status, g.body)
	}
	for _, path := range []string{"/health", "/runs", "/runs/" + acc.RunID, "/sessions", "/sessions/" + acc.SessionID,
		"/agents", "/agents/plain", "/runners", "/runs/" + acc.RunID + "/wait?timeout_seconds=0"} {
		if g := s.get(path); g.status != 200 && g.status != 202 {
			t.Errorf("GET %s: %d %s", path, g.status, g.body)
		}
	}
	p.Start()
	natstest.Until(t, "a run is taken again", func() bool {
		return s.post("/runs", `{"agent_name":"plain",`+
			`"prompt":"x"}`).status == 201
	})
}

// TestNATSNotThereAtStart: the coordinator waits, and HTTP reports for what.
func TestNATSNotThereAtStart(t *testing.T) {
	t.Parallel()
	at := natstest.FreeAddr(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx,
			serve.Config{HTTPAddr: at, NATS: serve.NATSConfig{URL: "nats://" + natstest.FreeAddr(t)},
				Log: natstest.Log(t)})
	}()
	s := &stack{t: t, url: "http://" + at}
	natstest.Until(t, "HTTP answers", func() bool {
		res, err := http.Get(s.url + "/health")
		if err == nil {
			res.Body.Close()
		}
		return err == nil && res.StatusCode == 200
	})
	g := s.post("/runs", `{}`)
	literal(t, g, 503, `{"error":"unavailable","message":"Starting: connecting to NATS; try again in a moment"}`)
	if g.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "nats-server -js") {
		t.Errorf("the error does not say how to start one: %v", err)
	}
}

// TestShutdown: waits are answered that the run continues, streams end, and nobody new is accepted.
func TestShutdown(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/agents", `{"name":"plain"}`).want(201)
	next, _ := s.listen("GET", "/sse/sessions", "")
	if e, ok := next(); !ok || e.name != query.ItemInit {
		t.Fatalf("%v", e)
	}
	answers := s.later(func() got { return s.post("/runs", `{"agent_name":"plain","prompt":"x","mode":"sync"}`) })
	natstest.Until(t, "the run waits", func() bool { return len(into[query.Page](s.get("/runs"), 200).Runs) == 1 })
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > 19*time.Second { // the timeout is 20 s
		t.Errorf("the end took %v", took)
	}
	if m := (<-answers).want(202); m["run_id"] == nil {
		t.Errorf("%v", m)
	}
	for {
		if _, more := next(); !more {
			break
		}
	}
	if _, err := http.Get(s.url + "/health"); err == nil {
		t.Error("somebody still answers")
	}
}

func TestAnEmbeddedNATSIsNotOpenToAll(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		n, err := serve.OpenNATS(serve.NATSConfig{URL: "embed", Listen: listen, DataDir: t.TempDir()})
		if err == nil {
			n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "AO_NATS_LISTEN") ||
			!strings.Contains(err.Error(), "AO_INSECURE_LISTEN=yes") {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

// TestReadyMeansServingOverNATS: a caller that learns that a coordinator serves is answered over NATS at once.
func TestReadyMeansServingOverNATS(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.stop()
	asked := make(chan error, 1)
	start(t, func(c *serve.Config) {
		c.Server = s.nats
		c.Serving = func(string) {
			_, err := s.nc.Request(subject.APIAgentsList, nil, 10*time.Second)
			_, other := s.nc.Request(subject.RunnerAPI(runnerapi.OpGetPart), []byte("{}"), 10*time.Second)
			asked <- errors.Join(err, other)
		}
	})
	if err := <-asked; err != nil {
		t.Error(err)
	}
}
