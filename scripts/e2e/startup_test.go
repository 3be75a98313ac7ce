package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ao/nats/natstest"
)

// Settings, and the errors of a program that cannot start.
func TestSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{"profiles", "agents"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &stack{t: t, dir: dir, env: []string{"AO_PROFILES_DIR=" + dir + "/profiles", "AO_PROFILES=test",
		"AO_HTTP_ADDR=" + natstest.FreeAddr(t), "AO_NATS_URL=nats://" + natstest.FreeAddr(t)}}
	s.write("profiles/test.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../agents"}`)
	s.write("profiles/broken.json", `{"type":"procedural",`)
	s.write("profiles/typo.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dri":"x"}`)
	s.write("profiles/noagents.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../nowhere"}`)
	s.write("profiles/other.json", `{"type":"procedural","command":"my-own-exec","agents_dir":"../agents"}`)

	s.story("--help lists all settings with their defaults", func(s *stack) {
		both := []string{"AO_NATS_URL", "nats://127.0.0.1:4222", "AO_LOG_LEVEL", "AO_LOG_FORMAT", "AO_MAX_PAYLOAD",
			"16MiB"}
		coordinator := []string{"AO_HTTP_ADDR", "127.0.0.1:8765", "AO_NATS_LISTEN", "AO_DATA_DIR", "AO_NATS_SYNC",
			"always", "AO_NATS_REPLICAS", "AGENT_ORCHESTRATOR_AGENTS_DIR", "RUN_LEASE", "RUN_NO_MATCH_TIMEOUT", "300",
			"RUN_RETENTION", "168h", "RUN_KEEP", "1000000", "AO_MAX_PENDING", "100000", "AO_MAX_QUEUES", "256",
			"AO_MAX_RUNNERS", "4096", "RUNNER_HEARTBEAT_INTERVAL", "RUNNER_STALE_THRESHOLD", "RUNNER_REMOVE_THRESHOLD",
			"600", "AO_INSECURE_LISTEN"}
		worker := []string{"AO_PROFILES_DIR", "AO_PROFILES", "-x, --profiles", "AO_PROJECT_DIR", "AO_HOSTNAME",
			"AO_TAGS", "AO_REQUIRE_MATCHING_TAGS", "AO_DRAIN_GRACE"}
		for name, all := range map[string][]string{
			"coordinator": slices.Concat(both, coordinator), "worker": slices.Concat(both, worker),
			"allinone": slices.Concat(both, coordinator, worker),
		} {
			out, errs, code := s.exec(name, "", nil, "--help")
			if code != 0 || errs != "" {
				t.Errorf("%s --help: %d %s", name, code, errs)
			}
			s.contains(out, append(all, "A flag beats its environment variable")...)
		}
		out, _, code := s.exec("ao-procedural-exec", "", nil, "--help")
		s.contains(out, "Usage: ao-procedural-exec", "schema_version")
		if code != 0 {
			t.Errorf("ao-procedural-exec --help: exit code %d", code)
		}
	})

	s.story("a bad value stops the program with its name, the value, an example", func(s *stack) {
		for _, tt := range []struct {
			program string
			env     string
			args    []string
			want    []string
		}{
			{"coordinator", "RUN_LEASE=soon", nil, []string{`RUN_LEASE: "soon" is not a duration`,
				"for example RUN_LEASE=15"}},
			{"coordinator", "RUN_LEASE=1ms", nil, []string{`RUN_LEASE: "1ms" is too short, at least 1s`}},
			{"coordinator", "AO_MAX_PENDING=-1", nil, []string{`AO_MAX_PENDING: "-1" must be a whole number from 1`,
				"for example AO_MAX_PENDING=100000"}},
			{"coordinator", "AO_HTTP_ADDR=here", nil,
				[]string{`AO_HTTP_ADDR: "here" is not an address (host:port); ` +
					"for example AO_HTTP_ADDR=127.0.0.1:8765"}},
			{"coordinator", "AO_NATS_URL=http://x", nil, []string{`AO_NATS_URL: "http://x" is neither`,
				"for example AO_NATS_URL=nats://127.0.0.1:4222"}},
			{"coordinator", "AO_NATS_SYNC=never", nil,
				[]string{`AO_NATS_SYNC: "never"`, "for example AO_NATS_SYNC=2m"}},
			{"coordinator", "AO_LOG_LEVEL=loud", nil,
				[]string{`AO_LOG_LEVEL: "loud" must be debug or info or warn or error`}},
			{"coordinator", "AO_MAX_PAYLOAD=huge", nil, []string{`AO_MAX_PAYLOAD: "huge" is not a size`,
				"AO_MAX_PAYLOAD=16MiB"}},
			{"coordinator", "AO_PUBLIC_URL=coordinator:8765", nil,
				[]string{`AO_PUBLIC_URL: "coordinator:8765" is not an address of an HTTP server`,
					"for example AO_PUBLIC_URL=http://coordinator:8765"}},
			{"coordinator", "", []string{"--run-lease", "x"},
				[]string{`--run-lease (RUN_LEASE): "x" is not a duration`}},
			// a flag beats its variable
			{"coordinator", "RUN_LEASE=x", []string{"--run-lease=y"}, []string{`--run-lease (RUN_LEASE): "y"`}},
			{"worker", "AO_PROFILE=test", []string{"--drain-grace=x"},
				[]string{"worker: warning: AO_PROFILE is set but is not a setting; do you mean AO_PROFILES?"}},
			{"coordinator", "RUN_LEASE=x", []string{"--max-queues=y"},
				[]string{`RUN_LEASE: "x"`, `(AO_MAX_QUEUES): "y"`}},
			{"coordinator", "AO_MAX_LANES=256", nil,
				[]string{`AO_MAX_LANES=256 was renamed: set AO_MAX_QUEUES instead`}},
			{"allinone", "", []string{"--max-lanes=8"},
				[]string{`--max-lanes (AO_MAX_LANES)=8 was renamed: set AO_MAX_QUEUES instead`}},
			{"coordinator", "", []string{"--colour"}, []string{"unknown flag -colour", "--help lists all settings"}},
			{"coordinator", "", []string{"start"}, []string{`unexpected argument "start"`}},
			{"worker", "AO_PROFILES_DIR=/no/such/folder", nil,
				[]string{`AO_PROFILES_DIR: "/no/such/folder" cannot be used`,
					"for example AO_PROFILES_DIR=worker/profiles"}},
			{"worker", "AO_REQUIRE_MATCHING_TAGS=perhaps", nil,
				[]string{`AO_REQUIRE_MATCHING_TAGS: "perhaps" must be yes or no`}},
			{"worker", "", []string{"-x", "a", "--drain-grace", "-1"}, []string{`(AO_DRAIN_GRACE): "-1" is too short`}},
			{"allinone", "AO_DRAIN_GRACE=x", []string{"--run-keep=0"},
				[]string{`AO_DRAIN_GRACE: "x"`, `(RUN_KEEP): "0" must be`}},
		} {
			_, errs, code := s.exec(tt.program, "", []string{tt.env}, tt.args...)
			if code != 2 {
				t.Errorf("%s %s %v: exit code %d", tt.program, tt.env, tt.args, code)
			}
			s.contains(errs, tt.want...)
		}
	})

	s.story("what cannot work is reported before anything else", func(s *stack) {
		for _, tt := range []struct {
			program, env string
			want         []string
		}{
			{"worker", "AO_PROFILES=nothere",
				[]string{`nothere.json does not exist`,
					"the folder has the profiles broken, noagents, other, test, typo"}},
			{"worker", "AO_PROFILES=test,../x", []string{`profile "../x"`}},
			{"worker", "AO_PROFILES=broken",
				[]string{"profiles/broken.json", "The body is not JSON: it ends too early"}},
			{"worker", "AO_PROFILES=typo", []string{"profiles/typo.json", `Unknown field "agents_dri"`}},
			{"worker", "AO_PROFILES=other", []string{`"my-own-exec": no such file in `}},
			{"worker", "AO_NATS_URL=embed", []string{"a worker needs an address"}},
			{"coordinator", "AO_HTTP_ADDR=192.0.2.1:80", []string{"is reachable from beyond this machine",
				"AO_INSECURE_LISTEN=yes"}},
		} {
			out, errs, code := s.exec(tt.program, "", []string{tt.env})
			if code == 0 {
				t.Errorf("%s %s ended with 0", tt.program, tt.env)
			}
			s.contains(out+errs, tt.want...)
		}
	})
}

// NATS is not running yet, or only NATS is running.
func TestNATSAppearsLater(t *testing.T) {
	t.Parallel()
	at := natstest.FreeAddr(t)
	dir := t.TempDir()
	addr := natstest.FreeAddr(t)
	s := &stack{t: t, dir: dir, url: "http://" + addr}
	s.env = []string{"AO_NATS_URL=nats://" + at, "AO_HTTP_ADDR=" + addr, "AO_PROFILES_DIR=" + dir + "/profiles",
		"AO_URL=" + s.url}
	s.write("profiles/test.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../agents"}`)
	s.agent("tool", `echo 1`, "")
	w := s.runner("w")
	s.coordinator = launch(t, "coordinator", dir, s.env)
	for _, p := range []*program{w, s.coordinator} {
		p.says(s, "nats-server -js")
		s.contains(p.log.String(), "waiting for NATS", at)
	}
	s.until("HTTP answers", func() bool { return s.get("/health").err == nil })
	r := s.post("/runs", `{"agent_name":"tool"}`)
	s.is(r, 503, `{"error":"unavailable","message":"Starting: connecting to NATS; try again in a moment"}`)
	if r.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	s.has(s.get("/health"), 200)
	s.has(s.get("/ready"), 503)
	if _, errs, code := s.ao("health"); code != 1 {
		t.Errorf("ao health: %d %s", code, errs)
	}
	s.coordinator.stop()
	if code := s.coordinator.ends(s); code != 0 {
		t.Errorf("shut down while it waited, the coordinator ended with %d", code)
	}

	s.nats = natstest.Proc(t, natstest.Listen(at)) // nobody but NATS, and a worker
	w.says(s, "waiting for a coordinator")
	s.coordinator.start()
	s.ready()
	s.online("w")
	s.has(s.sync("tool", `{}`), 200, `"status":"completed"`)
}

// NATS stops while everything is up: reads continue, writes are refused, and everything recovers by itself.
func TestNATSGoesAndComes(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.agent("tool", `echo 1`, "")
	w := s.worker()
	s.has(s.post("/agents", `{"name":"plain"}`), 201)
	done := s.sync("tool", `{}`)
	waits := s.run(`{"agent_name":"plain","prompt":"x"}`)
	s.status(waits, "pending") // the coordinator has read it
	s.allServers.Kill()
	at := s.once // that it is refused is the point
	s.until("the coordinator notices", func() bool { return at("GET", "/ready", "").code == 503 })
	for _, r := range []reply{
		at("POST", "/runs", `{"agent_name":"tool"}`), at("POST", "/runs", `{"agent_name":"tool"}`, "Idempotency-Key",
			"k"), at("POST", "/runs", `{"agent_name":"tool","mode":"sync"}`),
		at("POST", "/agents", `{"name":"more"}`), at("PATCH", "/agents/plain", `{"description":"x"}`),
		at("POST", "/runs/"+waits+"/stop", ""), at("DELETE", "/sessions/"+done.at("session_id"), ""),
		at("POST", "/runner/register", `{"hostname":"h","executor_profile":"p","executor_type":"autonomous"}`),
	} {
		s.has(r, 503, `"error":"unavailable"`)
		if r.header.Get("Retry-After") == "" {
			t.Errorf("503 without Retry-After: %s", r.text)
		}
	}
	id, session := done.at("run_id"), done.at("session_id")
	for path, want := range map[string]string{
		"/health": `"ok"`, "/runs": id, "/runs/" + id: `"completed"`, "/runs/" + id + "/result": `"result_data":1`,
		"/runs?status=pending": waits, "/runs/" + waits: `"pending"`, "/sessions": session, "/sessions/" +
			session: `"finished"`,
		"/agents": "plain", "/agents/tool": "tool", "/runners": "host-1",
	} {
		s.has(at("GET", path, ""), 200, want)
	}
	s.has(at("GET", "/runs/run_none", ""), 503) // perhaps another coordinator has just taken it
	s.has(at("POST", "/runs", `{"agent_name":"nobody"}`), 503)
	s.allServers.Start()
	s.until("a run is taken",
		func() bool { return s.post("/runs", `{"agent_name":"tool","mode":"sync"}`).at("status") == "completed" })
	s.has(s.post("/runs/"+waits+"/stop", ""), 200, `"status":"stopped"`)

	// All stop cleanly, the coordinator first: the worker needs it only to deregister.
	s.coordinator.stop()
	w.stop()
	for _, p := range []*program{s.coordinator, w} {
		if code := p.ends(s); code != 0 {
			t.Errorf("%s ended with %d", p.name, code)
		}
	}
	s.contains(s.coordinator.log.String(), "msg=ended")
}

// scripts/up keeps its history over a restart.
func TestAllInOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addr, bus := natstest.FreeAddr(t), natstest.FreeAddr(t)
	s := &stack{t: t, dir: dir, url: "http://" + addr}
	s.env = []string{"AO_NATS_URL=embed", "AO_NATS_LISTEN=" + bus, "AO_HTTP_ADDR=" + addr, "AO_DATA_DIR=" + dir +
		"/data", "AO_PROFILES=procedural", "AO_PROFILES_DIR=" + filepath.Join(root(), "worker/profiles"),
		"AGENT_ORCHESTRATOR_AGENTS_DIR=" + filepath.Join(root(), "worker/agents/autonomous"), "AO_URL=" + s.url}
	s.write("file.txt", "one two three\nfour five\n")
	s.env = append(s.env, withNATS(s))
	p := launch(t, "allinone", dir, s.env)
	p.says(s, "nats -s nats://"+bus+" request ao.api.runs.create")
	ao := filepath.Join(bin, "ao") // beside the program, and not below the folder it was started in
	start, _, _ := strings.Cut(p.log.String(), "Agent Orchestrator is up: ")
	for line := range strings.Lines(start) {
		if strings.Contains(line, "level=INFO") && !strings.Contains(line, "still starting") { // on a slow machine
			t.Errorf("before the welcome it tells its internals: %s", line)
		}
	}
	s.contains(p.log.String(), "Agent Orchestrator is up: "+s.url,
		"  "+ao+" --url "+s.url+" run hello --param name=you",
		"curl -s "+s.url, "\nDashboard: "+s.url+"/\n")
	out, errs, code := s.ao("run", "hello", "--param", "name=you")
	if code != 0 {
		t.Fatalf("hello: %d %s %s", code, out, errs)
	}
	s.contains(out, `"Hello, you!"`)
	s.contains(s.get("/settings").text, `{"name":"AO_HTTP_ADDR","value":"`+strings.TrimPrefix(s.url, "http://")+
		`","default":"127.0.0.1:8765","source":"environment"`, `{"name":"AO_PROFILES",`)
	first := s.get("/runs").at("runs.0.run_id")
	result := s.result(first)
	key := s.post("/runs", `{"agent_name":"text-stats","parameters":{"file":"file.txt"}}`, "Idempotency-Key", "k")
	s.ended(key.at("run_id"))
	before := s.get("/runs").text

	for _, end := range []func(){p.stop, p.kill} {
		end()
		if s.get("/health").err == nil {
			t.Error("something still answers")
		}
		p.start()
		s.ready()
		p.says(s, ao+" --url "+s.url+" run hello")
		s.until("its worker is online", func() bool { return s.get("/runners").at("runners.0.status") == "online" })
		s.same("the history", s.get("/runs").text, before)
		s.same("the result", s.result(first), result)
		s.same("the key's run", s.post("/runs", `{"agent_name":"text-stats","parameters":{"file":"file.txt"}}`,
			"Idempotency-Key", "k").at("run_id"), key.at("run_id"))
	}
	s.has(s.sync("text-stats", `{"file":"file.txt"}`), 200, `"status":"completed"`)
	s.has(s.do("DELETE", "/runners/"+s.get("/runners").at("runners.0.runner_id"), ""), 202)
	p.says(s, "the worker was drained and the coordinator continues")
	s.same("the history without a worker", s.result(first), result)
	p.stop()
	if code := p.ends(s); code != 0 || strings.Contains(p.log.String(), "level=ERROR") {
		t.Errorf("got exit code %d, want 0 and no error in the log", code)
	}
	if text, err := os.ReadDir(filepath.Join(dir, "data")); err != nil || len(text) == 0 {
		t.Errorf("no data in AO_DATA_DIR: %v", err)
	}
}

// withNATS returns a PATH with the nats command line: only then does the welcome text mention it.
func withNATS(s *stack) string {
	s.write("tools/nats", "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(s.dir, "tools", "nats"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	return "PATH=" + filepath.Join(s.dir, "tools") + ":" + os.Getenv("PATH")
}

// TestWelcomeTextNamesExistingPrograms: the welcome text names ao by its path from the current folder, and no missing
// programs.
func TestWelcomeTextNamesExistingPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home := filepath.Join(dir, "bin")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ao", "allinone"} {
		if err := os.Link(filepath.Join(bin, name), filepath.Join(home, name)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	addr := natstest.FreeAddr(t)
	s := &stack{t: t, dir: dir, url: "http://" + addr}
	cmd := exec.Command(filepath.Join(home, "allinone"))
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + dir, "HOME=" + dir, "AO_NATS_URL=embed", "AO_NATS_LISTEN=" + natstest.FreeAddr(t),
		"AO_HTTP_ADDR=" + addr, "AO_DATA_DIR=" + dir + "/data",
		"AO_PROFILES=procedural", "AO_PROFILES_DIR=" + filepath.Join(root(), "worker/profiles")}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1)
	go func() {
		text := ""
		for in := bufio.NewScanner(out); in.Scan(); text += in.Text() + "\n" {
			if strings.Contains(in.Text(), "curl -s") {
				_ = cmd.Process.Signal(os.Interrupt)
			}
		}
		lines <- text
	}()
	text := <-lines
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(text, "  bin/ao --url "+s.url+" run hello") || strings.Contains(text, "  nats ") {
		t.Errorf("it says\n%s", text)
	}
}

// The welcome text of scripts/up with tokens works with the files of 'ao init'.
func TestAllInOneWithTokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	addr := natstest.FreeAddr(t)
	s := &stack{t: t, dir: dir, url: "https://" + addr}
	made := filepath.Join(dir, "made")
	if out, errs, code := s.exec("ao", "", nil, "init", "--dir", made, "--tls"); code != 0 {
		t.Fatal(out, errs)
	}
	in := func(name string) string { return filepath.Join(made, name) }
	s.env = []string{"AO_NATS_URL=embed", "AO_NATS_LISTEN=" + natstest.FreeAddr(t), "AO_NATS_USERS=" +
		in("nats/users.conf"), "AO_NATS_CREDS=" + in("coordinator/nats.nk"),
		"AO_HTTP_ADDR=" + addr, "AO_API_TOKENS=" + in("coordinator/tokens"), "AO_TLS_CERT=" +
			in("coordinator/http.crt"), "AO_TLS_KEY=" + in("coordinator/http.key"), "AO_CA=" + in("coordinator/ca.crt"),
		"AO_DATA_DIR=" + dir + "/data", "AO_PROFILES=procedural", "AO_PROFILES_DIR=" +
			filepath.Join(root(), "worker/profiles")}
	s.env = append(s.env, withNATS(s))
	p := launch(t, "allinone", dir, s.env)
	p.says(s, " dashboard logs a browser in)") // its last line
	s.contains(p.log.String(), "Agent Orchestrator is up: "+s.url, "export AO_TOKEN=…", "export AO_CA=…",
		`curl -s -H "Authorization: Bearer $AO_TOKEN" --cacert "$AO_CA" `+s.url, "\nDashboard: "+s.url+"/   ("+
			filepath.Join(bin, "ao")+" --url "+s.url+" dashboard logs a browser in)\n")
	_, line, _ := strings.Cut(p.log.String(), filepath.Join(bin, "ao")+" ")
	line, _, _ = strings.Cut(line, "\n")
	token, err := os.ReadFile(in("client/run.token"))
	if err != nil {
		t.Fatal(err)
	}
	try := func(env ...string) (string, string, int) { return s.exec("ao", "", env, strings.Fields(line)...) }
	s.until("the line that it prints works", func() bool {
		out, _, code := try("AO_TOKEN="+strings.TrimSpace(string(token)), "AO_CA="+in("client/ca.crt"))
		return code == 0 && strings.Contains(out, "Hello, you!")
	})
	if out, errs, code := try("AO_TOKEN="+strings.TrimSpace(string(token)), "AO_CA="); code == 0 ||
		!strings.Contains(errs, "AO_CA") {
		t.Errorf("without the authority: %d %s %s", code, out, errs)
	}
}
