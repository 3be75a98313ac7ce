package serve_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/coordinator/health"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/run"
	"ao/shared/runnerapi"
	"ao/shared/version"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
)

// examined asks for a report; headers as in call.
func (s *stack) examined(headers ...string) health.Report {
	s.t.Helper()
	return into[health.Report](s.get("/doctor", headers...), 200)
}

// finds waits until a check ends like this and says these words.
func (s *stack) finds(check string, v health.Verdict, words string, headers ...string) {
	s.t.Helper()
	var last health.Report
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the report: %+v", last.Checks)
		}
	}()
	natstest.Until(s.t, check+" is "+string(v)+": "+words, func() bool {
		last = s.examined(headers...)
		for _, f := range last.Checks {
			if f.Check == check && f.Verdict == v && strings.Contains(f.Message, words) &&
				(v == health.OK) == (f.Advice == "") {
				return true
			}
		}
		return false
	})
}

// TestHealthyDeployment: nothing fails, and only what is meant here is warned of.
func TestHealthyDeployment(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.NATS.Sync = "always" })
	s.workAs(thinker("p"), nil)
	s.finds("runners", health.OK, "1 online")
	r := s.examined()
	if r.At.IsZero() || time.Since(r.At).Abs() > time.Minute || r.PublicURL != s.url || r.Go == "" || r.Version == "" {
		t.Errorf("%+v", r)
	}
	seen := map[string]bool{}
	for _, f := range r.Checks {
		seen[f.Check] = true
		if f.Verdict != health.OK && f.Check != "disk" { // how full this machine's is, is no business of ours
			t.Errorf("%+v", f)
		}
	}
	for _, check := range []string{"http", "nats-users", "nats-sync", "nats-staging", "secrets", "disk", "nats-version",
		"versions", "clocks", "replicas", "streams", "inbox", "runners", "queues", "waiting", "agents", "callbacks"} {
		if !seen[check] {
			t.Errorf("%s is not looked at", check)
		}
	}
}

// TestDoctorIsForAdministrators: what a deployment lacks is reported to administrators alone.
func TestDoctorIsForAdministrators(t *testing.T) {
	t.Parallel()
	s := secure(t)
	s.get("/doctor").want(401)
	s.get("/doctor", s.run).want(403)
	s.finds("http", health.OK, "requires tokens", s.admin)
}

// TestWorldReadableSecrets: files that every user can read are found.
func TestWorldReadableSecrets(t *testing.T) {
	t.Parallel()
	var data string
	s := secure(t, func(c *serve.Config) { data = c.NATS.DataDir })
	s.finds("secrets", health.OK, s.file, s.admin)
	for _, path := range []string{s.file, data, filepath.Dir(data)} { // the last closes what is in it
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.finds("secrets", health.Fail, "AO_API_TOKENS "+s.file+" is open to every user", s.admin)
	s.finds("secrets", health.OK, "AO_DATA_DIR "+data+": its files are closed", s.admin)
	if err := os.WriteFile(filepath.Join(data, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(data, "open"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.finds("secrets", health.Fail, "AO_DATA_DIR "+data+"/open is open to every user", s.admin)
}

// TestUnprotectedEntryPoints: who gets in without a login, and who can listen on the way.
func TestUnprotectedEntryPoints(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) {
		c.HTTPAddr, c.InsecureListen = "0.0.0.0:0", true
		c.NATS.Listen, c.NATS.Insecure = "0.0.0.0:0", true
	})
	s.url = strings.Replace(s.url, "[::]", "127.0.0.1", 1)
	s.finds("http", health.Fail, "anyone who can reach it can do everything")
	s.finds("tls", health.Warn, "is not encrypted")
	s.finds("nats-users", health.Fail, "requires no login")
	s.finds("nats-sync", health.Warn, "every 2m")
	s.finds("runners", health.Warn, "there are no runners")
}

// TestAPrivateNetwork: in a container engine's network on one machine nobody is on the way, so no TLS is missed.
func TestAPrivateNetwork(t *testing.T) {
	t.Parallel()
	s := secure(t, func(c *serve.Config) { c.HTTPAddr, c.PrivateNetwork = "0.0.0.0:0", true })
	s.url = strings.Replace(s.url, "[::]", "127.0.0.1", 1)
	s.finds("tls", health.OK, "in a private network", s.admin)
	if !s.examined(s.admin).Private {
		t.Error("the report does not say that the network is private")
	}
}

// TestRunnerFindings: stale runners, wrong clocks, queues that nobody serves, agents that do not load, too many waiting
// runs.
func TestRunnerFindings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "crooked"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "crooked", "agent.json"), []byte(`{"name":`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, func(c *serve.Config) {
		c.Coordinator.AgentsDirs, c.Coordinator.MaxPending = []string{dir, filepath.Join(dir, "nowhere")}, 4
		c.Coordinator.AgentsWritable = true
		c.Coordinator.Patience.Stale = 2 * time.Second
	})
	s.finds("agents", health.Fail, "crooked")
	s.finds("agents", health.Warn, "nowhere cannot be changed")
	s.post("/agents", `{"name":"plain"}`).want(201)
	s.submit(`{"agent_name":"plain","prompt":"x"}`)
	s.finds("queues", health.Warn, "autonomous._._")
	s.submit(`{"agent_name":"plain","prompt":"x"}`)
	s.finds("waiting", health.Warn, "2 runs wait, of at most 4")

	r := thinker("late")
	r.Identity.ExecutorType = run.Procedural // takes none of them
	raw, err := json.Marshal(runnerapi.Registration{Runner: r})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.bus.Request(t.Context(), subject.RunnerAPI(runnerapi.OpRegister), raw); err != nil {
		t.Fatal(err)
	}
	natstest.Until(t, "its clock is seen to be wrong", func() bool { // while it is heard
		raw, err := json.Marshal(runnerapi.Heartbeat{RunnerID: r.ID(), Instance: r.Instance, At: time.Now().
			Add(-210 * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.bus.Request(t.Context(), subject.Heartbeats(r.ID()), raw); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(s.examined().Checks, func(f health.Result) bool {
			return f.Check == "clocks" && f.Verdict == health.Fail &&
				strings.Contains(f.Message, "late on brain ("+r.ID()+") is 3m")
		})
	})
	s.finds("runners", health.Warn, "no heartbeat: late on brain")
}

// TestInventedAnswersBesideAModels: whoever has a model wants no invented answers.
func TestInventedAnswersBesideAModels(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, r := range []runnerapi.Runner{thinker("test"), thinker("thinks")} {
		raw, err := json.Marshal(runnerapi.Registration{Runner: r})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.bus.Request(t.Context(), subject.RunnerAPI(runnerapi.OpRegister), raw); err != nil {
			t.Fatal(err)
		}
	}
	s.finds("test-workers", health.Warn, "test on brain")
}

// TestFullStreams: before they refuse, and when they do.
func TestFullStreams(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.finds("streams", health.OK, "stream RUNS holds")
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	s.post("/agents", `{"name":"plain"}`).want(201)
	for range 20 {
		s.submit(`{"agent_name":"plain","prompt":"x"}`)
	}
	resize := func(times float64) {
		t.Helper()
		stream, err := js.Stream(t.Context(), subject.Runs)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.MaxBytes = int64(float64(stream.CachedInfo().State.Bytes) * times)
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	resize(1.2)
	s.finds("streams", health.Warn, "stream RUNS holds")
	resize(1.05)
	s.finds("streams", health.Fail, "new runs are refused")
	limit := func(most int64) {
		t.Helper()
		stream, err := js.Stream(t.Context(), subject.Runs)
		if err != nil {
			t.Fatal(err)
		}
		cfg := stream.CachedInfo().Config
		cfg.MaxBytes, cfg.MaxMsgs = 1<<30, most
		if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	s.finds("nats-memory", health.OK, "(AO_NATS_MEMORY)")
	limit(21)
	s.finds("streams", health.Fail, "new runs are refused")
	limit(1 << 40)
	s.finds("nats-memory", health.Warn, "with a subject each")
	limit(-1)
	s.finds("nats-memory", health.Warn, "RUNS has no limit of messages")
}

// TestExpiringCertificate is warned of two weeks before: that of the tests is good for an hour.
func TestExpiringCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	a.sign(certFile, keyFile)
	s := start(t, func(c *serve.Config) { c.TLSCert, c.TLSKey = certFile, keyFile })
	res, err := a.client(0).Get(s.url + "/doctor")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var r health.Report
	if err := json.NewDecoder(res.Body).Decode(&r); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Checks {
		if f.Check == "tls" {
			if f.Verdict != health.Warn || !strings.Contains(f.Message, "expires in 0 days") {
				t.Errorf("%+v", f)
			}
			return
		}
	}
	t.Errorf("no word of TLS: %+v", r.Checks)
}

// TestTheDoctorReportsVersions: of every coordinator and every runner.
func TestTheDoctorReportsVersions(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.another()
	for _, v := range []string{"v8", "v9"} {
		svc, err := micro.AddService(s.nc, micro.Config{Name: subject.APIService, Version: "1.0.0",
			Metadata: map[string]string{"program_version": v}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = svc.Stop() })
	}
	r := thinker("p")
	r.Version = "v8"
	s.workAs(r, nil)
	s.finds("versions", health.Warn, "coordinators: 2 of version "+
		version.Current()+", 1 of version v8, 1 of version v9; runners: 1 of version v8")
}
