package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ao/nats/natstest"
)

// TestAnOldDataFolder: the current scripts/up continues with the data of the older release, with waiting runs and
// idle sessions. Then the older release continues with it again: a downgrade is supported.
func TestAnOldDataFolder(t *testing.T) {
	t.Parallel()
	withOld(t)
	s := prepare(t, "embed", "AO_NATS_LISTEN="+natstest.FreeAddr(t), "AO_PROFILES=test,mind", "AO_HOSTNAME=all",
		"RUN_LEASE=15s")
	s.write("profiles/test.json",
		`{"type":"procedural","command":"ao-procedural-exec","agents_dir":"../agents","max_concurrent_runs":1}`)
	s.write("profiles/mind.json", `{"type":"autonomous","command":"ao-test-exec"}`)
	s.agent("echo", startNote+`printf '%s' "$2"`, "")
	s.agent("gate", startNote+gate, "")
	all := launch(t, old+"allinone", s.dir, s.env)
	startVersion := func(version string) {
		t.Helper()
		if all.name != version+"allinone" {
			all.name = version + "allinone"
			all.start()
		}
		s.ready()
		s.until("both runners are online",
			func() bool { return strings.Count(s.get("/runners").text, `"status":"online"`) == 2 })
	}
	startVersion(old)
	s.has(s.post("/agents", `{"name":"talker","executor_profile":"mind"}`), 201)
	s.has(s.post("/schemas", `{"name":"findings","schema":`+findings+`}`), 201)
	ended := s.sync("echo", `{"word":"first"}`).at("run_id")
	session := s.sync("talker", promptParams("word 0\n@say noted")).at("session_id")

	for turn, version := range []string{today, old, today} {
		// One is running and ends with the program; the others wait behind it for the next program.
		held := fmt.Sprintf("turn-%d", turn)
		under := s.run(`{"agent_name":"gate","parameters":{"name":"` + held + `"}}`)
		s.waitGate(held)
		var waiting []string
		for i := range 5 {
			waiting = append(waiting, s.run(fmt.Sprintf(`{"agent_name":"echo","parameters":{"word":"waits %d"}}`, i)))
		}
		all.signal(syscall.SIGTERM)
		s.openGate(held)
		all.ends(s)
		startVersion(version)

		s.same("what was under way", s.ended(under).at("status"), "completed")
		for i, id := range waiting {
			s.same("what waited", s.ended(id).at("status"), "completed")
			s.has(s.get("/runs/"+id+"/result"), 200, fmt.Sprintf("waits %d", i))
		}
		s.has(s.get("/runs/"+ended+"/result"), 200, "first")
		r := s.post("/runs", `{"session_id":"`+session+`","parameters":`+promptParams("@recall")+`,"mode":"sync"}`)
		s.has(r, 200, `word 0`)
		s.contains(s.messages(session), "noted")
		r = s.post("/runs", `{"agent_name":"talker","output_schema_name":"findings","mode":"sync","parameters":`+
			promptParams(`@json {"issues":[],"summary":"fits"}`)+`}`)
		s.has(r, 200, `"summary":"fits"`)
		for id, n := range s.starts() {
			if n != 1 {
				t.Errorf("run %s was started %d times", id, n)
			}
		}
		s.verifiedByBoth()
	}
	if n := s.runs("status=failed"); n != 0 {
		t.Errorf("got %d failed runs, want 0", n)
	}
}

// TestAnOldFolderOfKeys: credentials of the older release's 'ao init' work for programs of both versions. The current
// 'ao init' updates them in place: no key changes, and no worker needs a restart.
func TestAnOldFolderOfKeys(t *testing.T) {
	t.Parallel()
	withOld(t)
	ring := initKeys(t, old)
	env, address := startBehindUsers(t, ring, "RUN_LEASE=15s")
	s := prepare(t, "embed", env...)
	s.version = old
	s.agent("echo", startNote+`printf '%s' "$2"`, "")
	s.coordinator = launch(t, old+"coordinator", s.dir, s.env)
	s.ready()
	s.write("profiles/mind.json", `{"type":"autonomous","command":"ao-test-exec"}`)
	workers := map[string]*program{}
	for _, version := range []string{old, today} {
		host := map[string]string{old: "host-before", today: "host-new"}[version]
		workers[host] = launch(t, version+"worker", s.dir, slices.Concat(s.env, as(ring, address, "worker-test"),
			[]string{"AO_HOSTNAME=" + host, "AO_PROFILES=test"}))
		s.online(host)
	}
	mind := launch(t, old+"worker", s.dir, slices.Concat(s.env, as(ring, address, "worker-mind"),
		[]string{"AO_HOSTNAME=mind", "AO_PROFILES=mind"}))
	s.online("mind")
	s.has(s.post("/agents", `{"name":"talker","executor_profile":"mind"}`), 201)
	session := s.sync("talker", promptParams("remember the milk\n@say noted")).at("session_id")
	work := func(coordinators ...*stack) {
		t.Helper()
		for _, c := range coordinators {
			for host := range workers {
				r := c.post("/runs", `{"agent_name":"echo","parameters":{"word":"`+host+
					`"},"additional_demands":{"hostname":"`+host+`"},"mode":"sync"}`)
				c.has(r, 200, `"status":"completed"`, `"stdout":"`+host+`"`)
			}
			c.has(c.post("/runs", `{"session_id":"`+session+`","parameters":`+promptParams("@recall")+
				`,"mode":"sync"}`), 200, "remember the milk")
		}
	}
	beside := *s
	beside.version = today
	second := beside.another(as(ring, address, "coordinator")...)
	work(s, second)

	files := func() (all string) {
		for _, user := range []string{"coordinator", "worker", "worker-test", "worker-mind", "publisher"} {
			raw, err := os.ReadFile(filepath.Join(ring, user, "nats.nk"))
			if err != nil {
				t.Fatal(err)
			}
			all += string(raw)
		}
		return all
	}
	held := files()
	initialize(t, today, ring)
	s.same("the keys", files(), held)
	second.coordinator.stop()
	s.coordinator.stop()
	s.coordinator.name = "coordinator" // with NATS inside, which reads the users anew
	s.coordinator.start()
	s.ready()
	second.coordinator.name = old + "coordinator" // and the other way round
	second.coordinator.start()
	second.ready()
	for host := range workers {
		s.online(host)
		second.online(host)
	}
	work(s, second)
	s.verifiedByBoth()
	second.verifiedByBoth()
	for host, w := range workers {
		w.stop()
		s.until(host+" has said farewell", func() bool { return s.runnerOf(host, "status") != "online" })
	}
	mind.stop()
	if n := s.runs("status=failed"); n != 0 {
		t.Errorf("got %d failed runs, want 0", n)
	}
	for _, p := range []*program{s.coordinator, second.coordinator, mind, workers["host-before"], workers["host-new"]} {
		if text := p.log.String(); strings.Contains(strings.ToLower(text), "permissions violation") {
			t.Errorf("%s was refused something:\n%s", p.name, tail(text, 4000))
		}
	}
}

// verifiedByBoth runs 'ao verify' of both versions.
func (s *stack) verifiedByBoth() {
	s.t.Helper()
	for _, version := range []string{old, today} {
		if out, errs, code := s.exec(version+"ao", "", nil, "verify"); code != 0 {
			s.t.Errorf("%sao verify at %scoordinator: %d\n%s%s", version, s.version, code, out, errs)
		}
	}
}
