package serve_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/coordinator/access"
	"ao/coordinator/serve"
	"ao/nats/backup"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/metric"
	"ao/shared/metric/metrictest"
	"ao/shared/run"
)

// scrape is what a coordinator exports.
func (s *stack) scrape(headers ...string) metrictest.Page {
	s.t.Helper()
	return metrictest.Get(s.t, s.url+"/metrics", headers...)
}

// sums waits until the sums of series, given as `name label=value…`, are these all at once, and gives the page on which
// they are. A page is read while things go on: what it says first may be older than what it says last.
func (s *stack) sums(want map[string]float64) (p metrictest.Page) {
	s.t.Helper()
	var wrong []string
	defer func() {
		for _, w := range wrong {
			s.t.Error(w)
		}
	}()
	natstest.Until(s.t, "metrics say what happened", func() bool {
		p, wrong = s.scrape(), nil
		for series, n := range want {
			parts := strings.Fields(series)
			if got := p.Sum(parts[0], parts[1:]...); got != n {
				wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", series, got, n))
			}
		}
		return len(wrong) == 0
	})
	return p
}

// TestMetricsOfRuns: runs of every outcome, and what they leave behind.
func TestMetricsOfRuns(t *testing.T) {
	t.Parallel()
	s := start(t, brief, func(c *serve.Config) { c.Coordinator.Reports = 0 })
	release := make(chan struct{})
	w := s.work(func(q run.Queued) run.Outcome {
		switch q.Agent {
		case "bad":
			return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "command_failed", "no")}
		case "slow":
			<-release
		}
		return done(`{"ok":true}`)
	}, echo("good"), echo("bad"), echo("slow"))
	t.Cleanup(func() { close(release) })
	run1 := `{"agent_name":"good","parameters":{"x":1},"mode":"sync"}`
	for range 3 {
		s.post("/runs", run1).want(200)
	}
	s.post("/runs", `{"agent_name":"bad","mode":"sync"}`).want(200)
	s.post("/runs", `{"agent_name":"bad","max_attempts":2}`).want(201)
	s.post("/runs", `{"agent_name":"nobody"}`).want(404)
	stopped := s.submit(`{"agent_name":"slow"}`)
	s.until(stopped.RunID, run.Running)
	s.post("/runs/"+stopped.RunID+"/stop", "")
	s.until(stopped.RunID, run.Stopped)
	s.submit(`{"agent_name":"good","additional_demands":{"tags":["none-has-it"]}}`)
	s.submit(`{"agent_name":"slow"}`)

	p := s.sums(map[string]float64{
		"ao_runs state=running":                                               1,
		"ao_runs_accepted_total":                                              8,
		"ao_runs_accepted_total agent=slow type=procedural":                   2,
		"ao_runs_ended_total agent=good profile=procedural outcome=completed": 3,
		"ao_runs_ended_total agent=bad profile=procedural outcome=failed":     2,
		"ao_runs_ended_total agent=slow profile=procedural outcome=stopped":   1,
		"ao_attempts_begun_total profile=procedural":                          8,
		"ao_attempts_failed_total reason=command_failed":                      3,
		"ao_leases_lost_total":                                                0,
		"ao_run_seconds type=procedural":                                      6,
		"ao_run_execution_seconds type=procedural":                            7,
		"ao_run_queued_seconds type=procedural":                               8,
		"ao_run_unqueued_seconds type=procedural":                             7,
		"ao_run_answer_seconds":                                               4,
		"ao_run_input_bytes":                                                  8,
		"ao_runs state=pending":                                               1,
		"ao_runs state=ended":                                                 6,
		"ao_unqueued_runs":                                                    1,
		"ao_runners status=online":                                            1,
		"ao_runner_slots profile=procedural host=here runner=" + w.id:         8,
		"ao_runner_slots_busy runner=" + w.id:                                 1,
		"ao_agents status=active":                                             3,
		"ao_ready":                                                            1,
		"ao_fold_lag_records":                                                 0,
		"ao_nats_connected connection=ao-coordinator":                         1,
		"ao_http_request_seconds method=POST route=/runs code=200":            4,
		"ao_http_request_seconds method=POST route=/runs code=404":            1,
		"ao_http_request_seconds method=POST route=/runs/:id/stop":            1,
		"ao_build_info program=coordinator":                                   1,
		"ao_queue_served queue=procedural._._":                                1,
		"ao_callbacks_owed":                                                   0,
	})
	for _, name := range []string{"ao_nats_append_seconds", "ao_stream_bytes", "ao_fold_sequence", "go_goroutines",
		"process_cpu_seconds_total", "ao_http_requests_open"} {
		if p.Sum(name) <= 0 {
			t.Errorf("%s is %v", name, p.Sum(name))
		}
	}
	if wait := p.Sum("ao_unqueued_oldest_wait_seconds"); wait <= 0 || wait > 600 {
		t.Errorf("the oldest waits %v s", wait)
	}
	// The worker dies: its lease is lost.
	w.die()
	natstest.Until(t, "the lease is lost", func() bool { return s.scrape().Sum("ao_leases_lost_total") == 1 })
}

// A counter has to be exported as 0 first: a burst of a counter that first appears at 20 is no increase.
func TestCountersStartAtZero(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(func(run.Queued) run.Outcome { return done(`1`) }, echo("good"))
	s.post("/agents", `{"name":"mind"}`).want(201)
	natstest.Until(t, "the agent is known", func() bool { return s.get("/agents/good").status == 200 })
	for range 2 { // the first page has them already
		p := s.scrape()
		for _, series := range []string{
			"ao_runs_accepted_total agent=good type=procedural", "ao_runs_accepted_total agent=mind type=autonomous",
			"ao_runs_ended_total agent=good profile=procedural outcome=failed",
			"ao_runs_ended_total agent=good profile=procedural outcome=completed",
			"ao_runs_ended_total agent=good profile=procedural outcome=stopped",
			"ao_runs_ended_total agent=good profile=none outcome=failed",
			"ao_runs_ended_total agent=mind profile=none outcome=failed", "ao_attempts_begun_total profile=procedural",
			"ao_attempts_failed_total reason=no_matching_runner", "ao_attempts_failed_total reason=runner_disconnected",
			"ao_leases_lost_total",
		} {
			parts := strings.Fields(series)
			if all := p.Series(parts[0], parts[1:]...); len(all) != 1 || all[0].GetCounter().GetValue() != 0 {
				t.Errorf("%s: %v", series, all)
			}
		}
		if n := len(p.Series("ao_runs_ended_total", "agent=mind", "profile=procedural")); n != 0 {
			t.Errorf("%d counters of what cannot be", n)
		}
	}
}

// Agents that never run take no labels where there are too few.
func TestOnlyRunAgentsGetLabels(t *testing.T) {
	t.Parallel()
	s := start(t)
	for i := range 105 {
		s.post("/agents", fmt.Sprintf(`{"name":"a%d"}`, i)).want(201)
	}
	natstest.Until(t, "all are known", func() bool { return s.scrape().Sum("ao_agents", "status=active") == 105 })
	s.submit(`{"agent_name":"a104","prompt":"x"}`)
	p := s.sums(map[string]float64{"ao_runs_accepted_total agent=a104": 1})
	if n := len(p.Series("ao_runs_ended_total", "agent=other", "profile=none", "outcome=failed")); n != 1 {
		t.Errorf("%d counters of all others", n)
	}
}

// A second coordinator exports the same of the runs, and counts its own requests.
func TestCoordinatorsCountTheSame(t *testing.T) {
	t.Parallel()
	one := start(t)
	two := one.another()
	one.work(func(run.Queued) run.Outcome { return done(`1`) }, echo("good"))
	natstest.Until(t, "both know the agent", func() bool { return two.get("/agents/good").status == 200 })
	for range 2 {
		one.post("/runs", `{"agent_name":"good","mode":"sync"}`).want(200)
	}
	for _, s := range []*stack{one, two} {
		s.sums(map[string]float64{"ao_runs_ended_total agent=good outcome=completed profile=procedural": 2,
			"ao_run_queued_seconds": 2})
	}
	one.sums(map[string]float64{"ao_http_request_seconds route=/runs": 2, "ao_run_answer_seconds": 2})
	two.sums(map[string]float64{"ao_http_request_seconds route=/runs": 0, "ao_run_answer_seconds": 0})
}

// For how long a caller waited for a run is the run's time and no latency, at any endpoint.
func TestWaitsAreNotInLatencies(t *testing.T) {
	t.Parallel()
	s := start(t)
	release := make(chan struct{})
	s.work(func(run.Queued) run.Outcome { <-release; return done(`1`) }, echo("slow"))
	t.Cleanup(func() { close(release) })
	acc := s.submit(`{"agent_name":"slow"}`)
	const waiting = `{"agent_name":"slow","mode":"sync","wait_seconds":1}`
	var wg sync.WaitGroup
	wg.Go(func() { s.get("/runs/" + acc.RunID + "/wait?timeout_seconds=1").want(202) })
	wg.Go(func() { s.post("/runs", waiting).want(202) })
	stream := func(path, body string) { // its answer is a stream
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
			t.Errorf("%s: %d, %v", path, res.StatusCode, err)
		}
	}
	wg.Go(func() { stream("/runs", waiting) })
	wg.Go(func() {
		call := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call",`+
			`"params":{"name":"get_agent_session_result","arguments":{"session_id":%q,"wait_seconds":1}}}`,
			acc.SessionID)
		stream("/mcp", call)
	})
	wg.Go(func() {
		if _, err := s.nc.Request(subject.APIRunsCreate, []byte(waiting), 30*time.Second); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	natstest.Until(t, "all are counted", func() bool {
		p := s.scrape()
		return p.Sum("ao_http_request_seconds", "route=/runs") == 3 &&
			p.Sum("ao_http_request_seconds", "route=/mcp") == 1 && p.Sum("ao_nats_api_request_seconds") == 1
	})
	p := s.scrape()
	for _, series := range []string{
		"ao_http_request_seconds route=/runs code=202", "ao_http_request_seconds route=/runs code=200",
		"ao_http_request_seconds route=/runs/:id/wait",
		"ao_http_request_seconds route=/mcp", "ao_nats_api_request_seconds code=202",
	} {
		parts := strings.Fields(series)
		all := p.Series(parts[0], parts[1:]...)
		if len(all) != 1 || all[0].GetHistogram().GetSampleCount() != 1 || all[0].GetHistogram().GetSampleSum() >= 1 {
			t.Errorf("%s: %v", series, all)
		}
	}
}

// Agents beyond the bound share one label.
func TestAgentLabelsAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t)
	for i := range 105 {
		s.post("/agents", fmt.Sprintf(`{"name":"a%d"}`, i)).want(201)
		s.submit(fmt.Sprintf(`{"agent_name":"a%d","prompt":"x"}`, i))
	}
	p := s.sums(map[string]float64{"ao_runs_accepted_total": 105, "ao_runs_accepted_total agent=other": 5,
		"ao_runs_accepted_total agent=a0": 1})
	if n := len(p.Series("ao_runs_accepted_total")); n != 101 {
		t.Errorf("%d series", n)
	}
	req, _ := http.NewRequest("BREW", s.url+"/teapot", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	s.get("/agents/none-of-these")
	s.sums(map[string]float64{"ao_http_request_seconds method=other route=unknown": 1,
		"ao_http_request_seconds route=/agents/:name code=404": 1})
}

// Where tokens are required, monitoring needs one that reads; a listener of its own needs none.
func TestWhoMayReadMetrics(t *testing.T) {
	t.Parallel()
	reg := metric.New("mine")
	var log lockedLog
	s := secure(t, func(c *serve.Config) {
		c.Metrics, c.Ports.Metrics, c.Log = reg, "127.0.0.1:0", slog.New(slog.NewTextHandler(&log, nil))
	})
	_, at, _ := strings.Cut(log.text(), "setting=AO_METRICS_ADDR url=")
	at, _, _ = strings.Cut(at, "\n")
	for _, tt := range []struct {
		headers []string
		status  int
	}{{nil, 401}, {[]string{bearer("aot_WRONG")}, 401}, {[]string{s.read}, 200}, {[]string{s.run}, 200},
		{[]string{s.admin}, 200}} {
		if got := s.get("/metrics", tt.headers...); got.status != tt.status {
			t.Errorf("%v: %d %.200s", tt.headers, got.status, got.body)
		}
	}
	if got := s.get("/metrics?x=1", s.read); got.status != 400 {
		t.Errorf("a parameter that nobody knows: %d", got.status)
	}
	if p := metrictest.Get(t, at); p.Sum("ao_ready") != 1 || p.Sum("ao_build_info", "program=mine") != 1 {
		t.Error("the listener tells something else")
	}
	if got := s.get("/runs"); got.status != 401 {
		t.Errorf("the rest is open: %d", got.status)
	}
}

// Expiry times are exported before they come, and the age of the last backup.
func TestExpiriesAndBackupAreExported(t *testing.T) {
	t.Parallel()
	a, reg, dir, now := newAuthority(t), metric.New("mine"), t.TempDir(), time.Now()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	a.sign(certFile, keyFile)
	s := secure(t, func(c *serve.Config) { c.TLSCert, c.TLSKey, c.Metrics = certFile, keyFile, reg })
	exporter := httptest.NewServer(reg.Handler())
	t.Cleanup(exporter.Close)
	p := metrictest.Get(t, exporter.URL)
	if end := p.Sum("ao_certificate_expiry_timestamp_seconds", "certificate=http"); end < float64(now.Unix()) ||
		end > float64(now.Unix())+2*3600 {
		t.Errorf("the certificate ends at %v", end)
	}
	if all := p.Series("ao_token_expiry_timestamp_seconds"); len(all) != 0 {
		t.Errorf("tokens without an end end: %v", all)
	}
	if all := p.Series("ao_backup_timestamp_seconds"); len(all) != 1 || all[0].GetGauge().GetValue() != 0 {
		t.Errorf("without a backup: %v", all)
	}
	next := now.Add(40 * 24 * time.Hour).Truncate(time.Second)
	for name, end := range map[string]time.Time{"ci": now.Add(time.Hour), "app": next, "later": next.Add(time.Hour)} {
		if _, err := access.Create(s.file, name, []string{"run"}, end); err != nil {
			t.Fatal(err)
		}
	}
	began := now.Add(-time.Hour)
	if err := backup.RecordTime(t.Context(), s.nc, began); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "both are exported", func() bool {
		p := metrictest.Get(t, exporter.URL)
		return p.Sum("ao_token_expiry_timestamp_seconds") == float64(next.Unix()) &&
			p.Sum("ao_backup_timestamp_seconds") == float64(began.Unix())
	})
}

// What is refused at the inbox, and results that do not match their schema, are counted.
func TestRejectionsAreCounted(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(func(q run.Queued) run.Outcome { return done(`{"n":"no number"}`) }, echo("good"))
	if err := s.nc.Publish(subject.InboxRuns, []byte(`{"agent_name":"nobody","mode":"sync"}`)); err != nil {
		t.Fatal(err)
	}
	acc := s.submit(`{"agent_name":"good","output_schema":{"type":"object","properties":{"n":{"type":"integer"}}}}`)
	s.until(acc.RunID, run.Failed)
	if _, err := s.nc.Request(subject.APIRunsGet, []byte(acc.RunID), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "both are counted", func() bool {
		p := s.scrape()
		return p.Sum("ao_rejected_messages_total") == 1 && p.Sum("ao_stream_messages", "stream=REJECTED") == 1 &&
			p.Sum("ao_offers_refused_total") == 1 &&
			p.Sum("ao_offers_checked_total", "outcome=failed") == 1 &&
			p.Sum("ao_attempts_failed_total", "reason=OutputSchemaValidationError") == 1 &&
			p.Sum("ao_nats_api_request_seconds", "endpoint=runs-get", "code=200") == 1
	})
}
