package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/natstest"

	"github.com/nats-io/nats.go"
)

// upGuarded starts a stack with the files of `ao init`: its NATS, inside the first coordinator, requires users and
// TLS.
func upGuarded(t *testing.T, env ...string) (s *stack, ring, address string) {
	t.Helper()
	ring = initKeys(t, today)
	env, address = startBehindUsers(t, ring, env...)
	return upOn(t, "embed", env...), ring, address
}

// initKeys returns a folder created by 'ao init' of a version.
func initKeys(t *testing.T, version string) (ring string) {
	t.Helper()
	if onCluster {
		t.Skip("its NATS is its own")
	}
	ring = filepath.Join(t.TempDir(), "ring")
	initialize(t, version, ring)
	return ring
}

func initialize(t *testing.T, version, ring string) {
	t.Helper()
	maker := &stack{t: t, dir: t.TempDir()}
	if out, errs, code := maker.exec(version+"ao", "", nil, "init", "--dir", ring, "--tls", "--worker",
		"test=procedural.test", "--worker", "mind=autonomous.mind"); code != 0 {
		t.Fatal(out, errs)
	}
}

// startBehindUsers returns the environment of a coordinator whose embedded NATS requires the users of a folder, and
// its address.
func startBehindUsers(t *testing.T, ring string, env ...string) (all []string, address string) {
	t.Helper()
	at := natstest.FreeAddr(t)
	return append([]string{"AO_NATS_LISTEN=" + at, "AO_NATS_USERS=" + ring + "/nats/users.conf"}, env...), "tls://" + at
}

// as returns the environment of a program with a credential.
func as(ring, address, user string) []string {
	return []string{"AO_NATS_URL=" + address, "AO_NATS_CREDS=" + filepath.Join(ring, user, "nats.nk"), "AO_NATS_CA=" +
		filepath.Join(ring, user, "ca.crt")}
}

// All features work with restricted NATS users, and nothing is refused.
func TestUsersMayDoTheirWork(t *testing.T) {
	t.Parallel()
	s, ring, address := upGuarded(t)
	s.agent("echo", `printf '%s' "$2"`, "")
	s.agent("big", `printf '"'; head -c 600000 /dev/zero | tr '\0' x; printf '"'`, "")
	s.agent("wait", `exec sleep 60`, "")
	second := s.another(as(ring, address, "coordinator")...)
	test := s.runner("test-host", as(ring, address, "worker-test")...)
	s.write("profiles/mind.json", `{"type":"autonomous","command":"ao-test-exec","max_concurrent_runs":8}`)
	mind := s.runner("mind-host", append(as(ring, address, "worker-mind"), "AO_PROFILES=mind")...)
	s.online("test-host")
	s.online("mind-host")
	for _, a := range []string{`{"name":"talker"}`, `{"name":"scanner","output_schema":` + findings + `}`} {
		if r := s.post("/agents", a); r.code != 201 {
			t.Fatalf("agent %s: %d %s", a, r.code, r.text)
		}
	}

	s.same("a plain run", s.sync("echo", `{"word":"hello"}`).at("result.result_data.stdout"), "hello")
	s.same("a large input", s.sync("talker", promptParams("@say "+strings.Repeat("z", 400_000))).at("status"),
		"completed")
	s.same("a large result", fmt.Sprint(len(s.sync("big", `{}`).at("result.result_data"))), "600000")

	var burst []string
	for i := range 40 {
		burst = append(burst, s.run(fmt.Sprintf(`{"agent_name":"echo","parameters":{"word":"%d"}}`, i)))
	}
	for i, id := range burst {
		s.same("run of a burst", s.ended(id).at("status"), "completed")
		s.has(s.get("/runs/"+id+"/result"), 200, fmt.Sprintf(`"result_data":%d,`, i))
	}

	waits := s.run(`{"agent_name":"wait"}`)
	s.until("it runs", func() bool { return s.get("/runs/"+waits).at("status") == "running" })
	second.post("/runs/"+waits+"/stop", "")
	s.same("a stopped run", s.ended(waits).at("status"), "stopped")

	r := s.sync("talker", promptParams("remember the milk\n@say noted"))
	session := r.at("session_id")
	r = s.post("/runs", `{"session_id":"`+session+`","parameters":`+promptParams("@recall")+`,"mode":"sync"}`)
	s.same("what a session remembers", r.at("result.result_text"), "remember the milk\n@say noted")
	s.contains(s.messages(session), "noted", "remember the milk")

	r = s.sync("scanner", promptParams("@json {\"found\":1}\n@next\n@json {\"issues\":[],\"summary\":\"clean\"}"))
	s.same("an offered result", r.at("result.result_data.summary"), "clean")
	parent := s.ended(s.run(`{"agent_name":"talker","parameters":` +
		promptParams("@child talker async_callback @say from below\n@say I wait") + `}`))
	s.until("the child's result has come", func() bool {
		return strings.Contains(s.messages(parent.at("session_id")), "from below")
	})

	login := bus.Login{Creds: ring + "/publisher/nats.nk", CA: ring + "/publisher/ca.crt"}
	opts, err := login.Options()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := bus.Connect(t.Context(), address, "publisher", natstest.Log(t), opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	m, err := nc.Request("ao.api.runs.create",
		[]byte(`{"agent_name":"echo","parameters":{"word":"published"},"mode":"sync"}`), 30*time.Second)
	if err != nil || m.Header.Get("status") != "200" || !strings.Contains(string(m.Data), `"stdout":"published"`) {
		t.Errorf("published: %v %v", m, err)
	}
	answers, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	if m, err := nc.RequestMsg(&nats.Msg{Subject: "ao.inbox.runs", Header: nats.Header{
		"Ao-Reply-To": {answers.Subject}}, Data: []byte(`{"agent_name":"echo","parameters":{"word":"left"}}`)},
		10*time.Second); err != nil || !strings.Contains(string(m.Data), `"stream":"INBOX"`) {
		t.Errorf("left in the inbox: %v %v", m, err)
	}
	if m, err := answers.NextMsg(30 * time.Second); err != nil || m.Header.Get("status") != "201" {
		t.Errorf("the answer to what was left: %v %v", m, err)
	}

	if out, errs, code := s.exec("ao", "", nil, "verify"); code != 0 {
		t.Errorf("ao verify: %s %s", out, errs)
	}
	test.stop()
	mind.stop()
	for _, p := range []*program{s.coordinator, second.coordinator, test, mind} {
		if text := p.log.String(); strings.Contains(strings.ToLower(text), "permissions violation") {
			t.Errorf("%s was refused something:\n%s", p.name, tail(text, 4000))
		}
	}
}

// A program without access exits at once and names the setting to check.
func TestRefusedUsers(t *testing.T) {
	t.Parallel()
	s, ring, address := upGuarded(t)
	s.agent("echo", `printf '%s' "$2"`, "")
	stranger := filepath.Join(t.TempDir(), "ring")
	if out, errs, code := s.exec("ao", "", nil, "init", "--dir", stranger, "--tls"); code != 0 {
		t.Fatal(out, errs)
	}
	nothing := filepath.Join(t.TempDir(), "nothing")
	if err := os.WriteFile(nothing, []byte("no seed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	creds, ca := "AO_NATS_CREDS="+ring+"/worker-test/nats.nk", "AO_NATS_CA="+ring+"/worker-test/ca.crt"
	for _, tt := range []struct {
		name, program string
		env           []string
		want          string
	}{
		{"no authority", "worker", []string{creds}, "AO_NATS_CA"},
		{"another authority", "worker", []string{creds, "AO_NATS_CA=" + stranger + "/worker/ca.crt"}, "AO_NATS_CA"},
		{"no authority for a coordinator", "coordinator", []string{"AO_NATS_CREDS=" + ring + "/coordinator/nats.nk"},
			"AO_NATS_CA"},
		{"no user", "worker", []string{ca}, "AO_NATS_CREDS"},
		{"a user of another server", "worker", []string{ca, "AO_NATS_CREDS=" + stranger + "/worker/nats.nk"},
			"AO_NATS_CREDS"},
		{"no seed", "worker", []string{ca, "AO_NATS_CREDS=" + nothing}, "AO_NATS_CREDS"},
		{"no file", "worker", []string{ca, "AO_NATS_CREDS=" + nothing + "x"}, "AO_NATS_CREDS"},
		{"no certificate", "worker", []string{creds, "AO_NATS_CA=" + nothing}, "AO_NATS_CA"},
		{"half a pair", "worker", []string{creds, ca, "AO_NATS_CERT=" + nothing}, "AO_NATS_KEY"},
		{"an embedded NATS without users", "coordinator", []string{"AO_NATS_URL=embed", "AO_NATS_LISTEN=0.0.0.0:0",
			"AO_DATA_DIR=" + t.TempDir()}, "AO_NATS_USERS"},
		{"a file of users that is none", "coordinator", []string{"AO_NATS_URL=embed", "AO_NATS_LISTEN=127.0.0.1:0",
			"AO_NATS_USERS=" + nothing, "AO_DATA_DIR=" + t.TempDir()}, "AO_NATS_USERS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			own := *s
			own.t = t
			env := append([]string{"AO_PROFILES=test", "AO_NATS_USERS=", "AO_NATS_URL=" + address, "AO_HTTP_ADDR=" +
				natstest.FreeAddr(t)}, tt.env...)
			out, errs, code := own.exec(tt.program, "", env)
			if code == 0 || !strings.Contains(out+errs, tt.want) {
				t.Errorf("ended with %d: %s%s", code, out, errs)
			}
		})
	}
	t.Run("another profile", func(t *testing.T) {
		own := *s
		own.t = t
		p := own.runner("wrong", append(as(ring, address, "worker-mind"), "AO_PROFILES=test")...)
		own.until("it is told that it may not", func() bool {
			return strings.Contains(p.log.String(), "ao.fleet.register.procedural.test")
		})
		if own.runnerOf("wrong", "runner_id") != "" {
			t.Error("it is registered")
		}
	})
}
