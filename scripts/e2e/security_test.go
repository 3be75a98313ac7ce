package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"ao/coordinator/access"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/runnerapi"

	"github.com/nats-io/nats.go"
)

// securityStack is a deployment with NATS users, TLS and API tokens, and every credential that an intruder may have.
type securityStack struct {
	*stack     // as its honest caller, with a token of scope admin
	ring, nats string
	victim     victim
	tokens     map[string]string // what callers over HTTP show, by credential
	gateway    string            // the URL that the executor of the intruder's own run was given
	before     int               // memory of the coordinator in MiB
}

// victim are resources of others: an ended session with a secret, and a session with a run at the honest worker.
type victim struct {
	run, session   string // ended
	held, holds    string // under way: run and session
	runner, secret string
	instance       string // of the honest worker's process: it is in every claim, and no secret
}

// callers are the callers over HTTP, from anonymous to admin.
var callers = []string{"nobody", "made-up", "expired", "revoked", "session", "ended session", "read", "run", "admin"}

// honestTags are the tags of the honest runner.
var honestTags = []string{"a", "b", "c", "d", "e", "f", "g", "h"}

// newSecurityStack starts the deployment. The coordinator, the worker "honest" of profile test and the caller of
// checkHealthy are honest.
func newSecurityStack(t *testing.T, env ...string) *securityStack {
	t.Helper()
	ring := initKeys(t, today)
	tokens := filepath.Join(ring, "coordinator", "tokens")
	env, address := startBehindUsers(t, ring,
		append([]string{"AO_API_TOKENS=" + tokens, "RUN_LEASE=10s", "AO_LOG_LEVEL=info", "AO_DRAIN_GRACE=10s"},
			env...)...)
	s := prepare(t, "embed", env...)
	b := &securityStack{stack: s, ring: ring, nats: address, tokens: map[string]string{
		"nobody": "", "made-up": access.NewToken()}}
	for _, name := range []string{"expired", "revoked", "read", "run", "admin"} {
		scope, expires := name, time.Now().Add(time.Hour)
		if name == "expired" || name == "revoked" {
			scope = "admin"
		}
		if name == "expired" {
			expires = time.Now().Add(2 * time.Second)
		}
		token, err := access.Create(tokens, "the-"+name, []string{scope}, expires)
		if err != nil {
			t.Fatal(err)
		}
		b.tokens[name] = token
	}
	if err := access.Revoke(tokens, "the-revoked"); err != nil {
		t.Fatal(err)
	}
	s.token = b.tokens["admin"]
	s.env = append(s.env, "AO_TOKEN="+s.token)
	s.agent("echo", startNote+`printf '%s' "$2"`, "")
	s.agent("gate", startNote+`env > "env-$2"; echo "$AGENT_ORCHESTRATOR_API_URL" > "url-$2"; `+gate, "")
	s.coordinator = launch(t, "coordinator", s.dir, s.env)
	s.ready()
	s.runner("honest", append(as(ring, address, "worker-test"), "AO_TAGS="+strings.Join(honestTags, ","))...)
	b.victim.runner = s.online("honest")
	b.victim.secret = "the-victims-word"
	b.victim.instance = b.instance(b.victim.runner)
	r := s.sync("echo", `{"word":"`+b.victim.secret+`"}`)
	b.victim.run, b.victim.session = r.at("run_id"), r.at("session_id")
	r = s.post("/runs", `{"agent_name":"gate","parameters":{"name":"victim"}}`)
	b.victim.held, b.victim.holds = r.at("run_id"), r.at("session_id")
	own := s.run(`{"agent_name":"gate","parameters":{"name":"intruder"}}`)
	s.waitGate("victim")
	s.waitGate("intruder")
	s.status(b.victim.held, "running")
	b.gateway = strings.TrimSpace(strings.Join(s.lines("url-intruder"), ""))
	b.tokens["session"], b.tokens["ended session"] = b.sessionToken(own), b.sessionToken(b.victim.run)
	s.until("the token has expired", func() bool { return b.as("expired", "GET", "/runs", "").code == 401 })
	return b
}

// instance returns the instance id of a runner's process.
func (b *securityStack) instance(runner string) string {
	b.t.Helper()
	js, err := b.login("coordinator").JetStream()
	if err != nil {
		b.t.Fatal(err)
	}
	m, err := js.GetLastMsg("KV_"+subject.Runners, "$KV."+subject.Runners+"."+runner)
	if err != nil {
		b.t.Fatal(err)
	}
	var kept struct{ Instance string }
	if err := json.Unmarshal(m.Data, &kept); err != nil || kept.Instance == "" {
		b.t.Fatalf("%s: %v", m.Data, err)
	}
	return kept.Instance
}

// sessionToken returns a run's session token, derived from the attempt's key as its worker does.
func (b *securityStack) sessionToken(id string) string {
	b.t.Helper()
	js, err := b.login("coordinator").JetStream()
	if err != nil {
		b.t.Fatal(err)
	}
	sub, err := js.SubscribeSync("ao.runs.*.queued.*.*.*."+id+".1", nats.OrderedConsumer())
	if err != nil {
		b.t.Fatal(err)
	}
	defer sub.Unsubscribe()
	m, err := sub.NextMsg(10 * time.Second)
	if err != nil {
		b.t.Fatal(err)
	}
	var queued struct{ Key string }
	if err := json.Unmarshal(m.Data, &queued); err != nil || queued.Key == "" {
		b.t.Fatalf("%s: %v", m.Subject, err)
	}
	return runnerapi.SessionToken(id, 1, queued.Key)
}

// login connects to NATS with the credential of a user.
func (b *securityStack) login(user string) *nats.Conn {
	b.t.Helper()
	opts, err := bus.Login{Creds: filepath.Join(b.ring, user, "nats.nk"),
		CA: filepath.Join(b.ring, user, "ca.crt")}.Options()
	if err != nil {
		b.t.Fatal(err)
	}
	var nc *nats.Conn
	if !natstest.Poll(20*time.Second, func() bool { // the server gives up a login that takes a busy machine two seconds
		nc, err = nats.Connect(b.nats, append(opts, nats.Timeout(20*time.Second),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
		return err == nil
	}) {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	return nc
}

// as sends a request with a credential.
func (b *securityStack) as(who, method, path, body string, header ...string) reply {
	own := *b.stack
	own.token = b.tokens[who]
	return own.once(method, path, body, header...)
}

// row runs one row of a table as a subtest. The coordinator's memory must stay bounded.
func (b *securityStack) row(name string, tell func(*securityStack)) {
	b.t.(*testing.T).Run(name, func(t *testing.T) {
		own, at := *b, *b.stack
		own.stack, at.t = &at, t
		own.before = own.memory("VmRSS")
		peaks := fmt.Sprintf("/proc/%d/clear_refs", b.coordinator.cmd.Process.Pid)
		if err := os.WriteFile(peaks, []byte("5"), 0); err != nil { // VmHWM begins anew
			t.Fatal(err)
		}
		tell(&own)
		own.checkMemory()
	})
}

// checkHealthy fails unless the deployment completes a run, and is unharmed.
func (b *securityStack) checkHealthy(what string) {
	b.t.Helper()
	b.checkUnharmed(what)
	r := b.once("POST", "/runs",
		`{"agent_name":"echo","parameters":{"word":"as ever"},"mode":"sync","wait_seconds":20}`)
	if r.code != 200 || r.at("status") != "completed" || !strings.Contains(r.text, "as ever") {
		b.t.Fatalf("after %s: an honest run: %d %s", what, r.code, r.text)
	}
}

// checkUnharmed fails unless the deployment is ready and the victim's resources are unchanged.
func (b *securityStack) checkUnharmed(what string) {
	b.t.Helper()
	if r := b.once("GET", "/ready", ""); r.code != 200 {
		b.t.Fatalf("after %s: GET /ready: %d %s", what, r.code, r.text)
	}
	if r := b.once("GET", "/runs/"+b.victim.held, ""); r.at("status") != "running" ||
		r.at("runner_id") != b.victim.runner {
		b.t.Fatalf("after %s: what was under way: %d %s", what, r.code, r.text)
	}
	if r := b.once("GET", "/runs/"+b.victim.run+"/result", ""); r.code != 200 ||
		!strings.Contains(r.text, b.victim.secret) {
		b.t.Fatalf("after %s: what had ended: %d %s", what, r.code, r.text)
	}
	if got := b.runnerOf("honest", "status"); got != "online" {
		b.t.Fatalf("after %s: the honest runner is %q", what, got)
	}
}

// checkAtEnd ends every attack. Running runs complete, and 'ao verify' finds no violation. The same holds for a
// coordinator that rebuilds its state from the history.
func (b *securityStack) checkAtEnd() {
	b.t.Helper()
	b.checkHealthy("all of it")
	b.coordinator.stop()
	b.forgetSnapshots()
	b.coordinator.start()
	b.ready()
	b.online("honest")
	b.status(b.victim.held, "running") // its next heartbeat says so
	b.checkHealthy("a restart")
	b.openGate("victim")
	b.openGate("intruder")
	b.same("what was under way", b.ended(b.victim.held).at("status"), "completed")
	b.checkLedger()
	for id, n := range b.starts() {
		if n != 1 {
			b.t.Errorf("run %s was started %d times", id, n)
		}
	}
	if text := b.coordinator.log.String(); strings.Contains(text, "panic") {
		b.t.Errorf("the coordinator panicked: %s", tail(text, 4000))
	}
}

// forgetSnapshots makes the next coordinator read all records.
func (b *securityStack) forgetSnapshots() {
	b.t.Helper()
	err := filepath.WalkDir(filepath.Join(b.dir, "data"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".snapshot") {
			err = os.Remove(path)
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// memory returns VmRSS or VmHWM (the peak) of the coordinator in MiB.
func (b *securityStack) memory(which string) int {
	b.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.coordinator.cmd.Process.Pid))
	if err != nil {
		b.t.Skip("memory is read in /proc: ", err)
	}
	m := regexp.MustCompile(which + `:\s+(\d+) kB`).FindSubmatch(raw)
	if m == nil {
		b.t.Fatalf("no %s in %s", which, raw)
	}
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		b.t.Fatal(err)
	}
	return kib >> 10
}

// maxGrowth limits the growth of a coordinator's memory under a flood, in MiB; the race detector needs five times as
// much.
func maxGrowth() int {
	if len(buildFlags) > 0 {
		return 1500
	}
	return 400
}

// checkMemory fails if the coordinator's peak memory in this row is above the limit.
func (b *securityStack) checkMemory() {
	b.t.Helper()
	if peak := b.memory("VmHWM"); peak > b.before+maxGrowth() {
		b.t.Errorf("memory went from %d to %d MiB", b.before, peak)
	}
}

// refused reports whether an answer refuses the caller.
func refused(r reply) bool {
	return r.code == http.StatusUnauthorized || r.code == http.StatusForbidden
}
