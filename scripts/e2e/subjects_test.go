package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/nats/users"
	"ao/shared/run"

	"github.com/nats-io/nats.go"
)

// natsMessage is one hostile message.
type natsMessage struct{ to, body string }

// wires lists every subject that clients other than coordinators may publish to (nats/users), their users, and an
// intruder's messages. Other users are refused, and accepted messages must harm no one.
var wires = []struct {
	subject string
	by      []string
	shots   func(b *securityStack) []natsMessage
}{
	{subject.Claimed("*", "*", "*"), workers, func(b *securityStack) []natsMessage {
		return b.records(subject.Claimed)
	}},
	{subject.Bound("*", "*", "*"), workers, func(b *securityStack) []natsMessage { return b.records(subject.Bound) }},
	{subject.Offered("*", "*", "*"), workers, func(b *securityStack) []natsMessage {
		return b.records(subject.Offered)
	}},
	{subject.Ended("*", "*", "*"), workers, func(b *securityStack) []natsMessage { return b.records(subject.Ended) }},
	{subject.Event("*", "*", "*", run.EventMessage), workers, forgedEvents(run.EventMessage)},
	{subject.Event("*", "*", "*", run.EventPreTool), workers, forgedEvents(run.EventPreTool)},
	{subject.Event("*", "*", "*", run.EventPostTool), workers, forgedEvents(run.EventPostTool)},
	{subject.Event("*", "*", "*", run.EventMetadata), workers, forgedEvents(run.EventMetadata)},
	{subject.Event("*", "*", "*", run.PackKind), workers, (*securityStack).packs},
	{subject.Event("*", "*", "*", "*"), nil, forgedEvents("run_start", "run_completed", "run_failed", "run_stopped",
		"result", "session_deleted", "evil")},
	{subject.RejectedRuns, workers, func(b *securityStack) []natsMessage {
		return each(subject.RejectedRuns, malformedBodies...)
	}},
	{subject.Heartbeats("*"), workers, (*securityStack).heartbeats},
	{subject.RunnerAPI("*"), workers, (*securityStack).asks},
	{subject.Register("*", "*"), workers[:1], func(b *securityStack) []natsMessage {
		return b.registrations(subject.Register("procedural", "evil"))
	}},
	{subject.Register("autonomous", "mind"), workers, func(b *securityStack) []natsMessage {
		return b.registrations(subject.Register("autonomous", "mind"))
	}},
	{subject.Pull("*"), workers, func(b *securityStack) []natsMessage {
		return each(subject.Pull(subject.TaskQueueDurable(subject.TaskQueue("autonomous", "mind", "_"))),
			append(malformedBodies, `{"batch":2000000000,"expires":9000000000000000000}`, `{"batch":-1}`,
				`{"batch":1,"idle_heartbeat":1}`)...)
	}},
	{subject.APIRunsCreate, publishers, func(b *securityStack) []natsMessage {
		return each(subject.APIRunsCreate, append(malformedBodies, `{"agent_name":"nobodys"}`,
			`{"session_id":"ses_nobodys","prompt":"x"}`)...)
	}},
	{subject.APIRunsGet, publishers, func(b *securityStack) []natsMessage {
		return each(subject.APIRunsGet, append(malformedBodies, "run_nobodys", "*", ">")...)
	}},
	{subject.APIRunsStop, publishers, func(b *securityStack) []natsMessage {
		return each(subject.APIRunsStop, append(malformedBodies, "run_nobodys", "*", ">")...)
	}},
	{subject.APIAgentsList, publishers, func(b *securityStack) []natsMessage {
		return each(subject.APIAgentsList, malformedBodies...)
	}},
	{subject.InboxRuns, publishers, func(b *securityStack) []natsMessage {
		return each(subject.InboxRuns, append(malformedBodies, `{"agent_name":"nobodys"}`,
			`{"agent_name":"echo","mode":"sync"}`)...)
	}},
}

// Users of NATS: "worker" may have any profile, "worker-mind" only its own.
var (
	workers    = []string{"worker", "worker-mind"}
	publishers = []string{"publisher"}
)

var malformedBodies = []string{``, `{`, `null`, `[]`, `{"zz":1}`, "\x00\xff", strings.Repeat("[", 50_000),
	strings.Repeat(`{"a":`, 50_000), strings.Repeat("x", 900_000)}

func each(to string, bodies ...string) (all []natsMessage) {
	for _, body := range bodies {
		all = append(all, natsMessage{to, body})
	}
	return all
}

// TestEveryCredentialAtEverySubject: the server refuses what a user may not publish, and accepted messages change
// nothing of others.
func TestEveryCredentialAtEverySubject(t *testing.T) {
	t.Parallel()
	b := newSecurityStack(t)
	b.everySubjectHasARow()
	b.loginIsRefused()
	for _, wire := range wires {
		for _, user := range []string{"worker", "worker-mind", "publisher"} {
			b.row(user+" at "+wire.subject, func(b *securityStack) {
				shots, may, want := wire.shots(b), slices.Contains(wire.by, user), 0
				if !may {
					shots = shots[:min(len(shots), natstest.Load(3, 20))]
					want = len(shots)
				}
				if got := b.publish(user, shots); got != want {
					b.t.Errorf("the server refused %d of %d messages, want %d", got, len(shots), want)
				}
				if may {
					b.checkHealthy("it")
				}
			})
		}
	}
	b.row("a worker with a run of its own", (*securityStack).ownRun)
	b.checkNothingForged()
	b.checkLateWorkers()
	b.checkAtEnd()
}

// publish sends messages as a user, each as a request, and returns how many the server refused.
func (b *securityStack) publish(user string, shots []natsMessage) (refused int) {
	b.t.Helper()
	nc := b.login(user)
	defer nc.Close()
	const last = "no.user.may.write.here" // what the server refused before comes before the refusal of this
	no, done := 0, make(chan int, 1)
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if strings.Contains(err.Error(), last) {
			done <- no
		}
		no++
	})
	for _, s := range shots {
		if err := nc.PublishRequest(s.to, nc.NewInbox(), []byte(s.body)); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := nc.Publish(last, nil); err != nil {
		b.t.Fatal(err)
	}
	select {
	case refused = <-done:
	case <-time.After(30 * time.Second):
		b.t.Fatalf("%s is cut off: %v", user, nc.LastError())
	}
	return refused
}

// everySubjectHasARow fails if nats/users allows a subject that has no row in wires.
func (b *securityStack) everySubjectHasARow() {
	b.t.Helper()
	var all []users.User
	for _, name := range []string{"coordinator", "worker", "worker-test", "worker-mind", "publisher"} {
		file, err := os.ReadFile(filepath.Join(b.ring, name, "nats.nk"))
		if err != nil {
			b.t.Fatal(err)
		}
		c, err := users.Read(name, file)
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, c.User)
	}
	rows := map[string][]string{}
	for _, wire := range wires {
		rows[wire.subject] = wire.by
	}
	for _, u := range all {
		if u.Role == users.Coordinator || u.Name == "worker-test" { // the honest one's
			continue
		}
		for _, to := range u.Permissions(all).Publish {
			if !slices.Contains(rows[to], u.Name) {
				b.t.Errorf("%s may write to %s, and wires has no row for that: say what an intruder would send there",
					u.Name, to)
			}
		}
	}
}

// nobodyLogsIn: a client without a credential of this deployment gets no connection.
func (b *securityStack) loginIsRefused() {
	b.t.Helper()
	foreign := initKeys(b.t.(*testing.T), today)
	for name, from := range map[string]string{"no key": "", "a key of another deployment": foreign} {
		opts := []nats.Option{nats.RootCAs(filepath.Join(b.ring, "worker", "ca.crt")), nats.Timeout(20 * time.Second)}
		if from != "" {
			key, err := nats.NkeyOptionFromSeed(filepath.Join(from, "coordinator", "nats.nk"))
			if err != nil {
				b.t.Fatal(err)
			}
			opts = append(opts, key)
		}
		if nc, err := nats.Connect(b.nats, opts...); err == nil {
			nc.Close()
			b.t.Errorf("with %s one is let in", name)
		}
	}
}

// records returns records for attempts of others, and for attempts that do not exist.
func (b *securityStack) records(at func(partition, run, key string) string) (all []natsMessage) {
	bodies := append([]string{
		`{"v":99}`, `{"v":2}`, `{"v":-1}`, `{"v":1e99}`,
		`{"v":1,"session_id":"` + b.victim.holds + `","runner_id":"` + b.victim.runner +
			`","instance":"x","nonce":"x","attempt":1,"status":"completed","result":{"result_type":"procedural",` +
			`"result_text":"forged"},"at":"2026-01-01T00:00:00Z"}`,
		`{"v":1,"session_id":"` + b.victim.session + `","attempt":100,"status":"failed","error":{"error":"forged",` +
			`"message":"forged"},"executor_session_id":"forged"}`,
	}, malformedBodies...)
	for _, run := range []string{b.victim.held, b.victim.run, "run_nobodys"} {
		for i, body := range bodies {
			all = append(all, natsMessage{at(subject.Partition(b.victim.holds), run, fmt.Sprintf("%031xf", i)), body})
		}
	}
	return append(all, natsMessage{at("64", "run_a", "k"), `{"v":99}`}, natsMessage{at("x", "_", "-"), `{"v":99}`})
}

// forgedMessages must not be shown to any reader.
const forgedMessages = "forged-by-a-worker"

// forgedEvents returns events of some kinds for sessions of others.
func forgedEvents(kinds ...string) func(b *securityStack) []natsMessage {
	return func(b *securityStack) (all []natsMessage) {
		for _, kind := range kinds {
			for _, at := range [][2]string{{b.victim.holds, b.victim.held}, {b.victim.session, b.victim.run}} {
				all = append(all, each(subject.Event(subject.Partition(at[0]), at[0], at[1], kind), append([]string{
					fmt.Sprintf(`{"event_type":%q,"session_id":%q,"run_id":%q,"timestamp":"2026-01-01T00:00:00Z",`+
						`"status":"failed","error":{"error":%[4]q,"message":%[4]q},"role":%[4]q,`+
						`"content":[{"type":"text","text":%[4]q}]}`, kind, at[0], at[1], forgedMessages)},
					malformedBodies...)...)...)
			}
		}
		return all
	}
}

// packs returns packs of events for a session of others.
func (b *securityStack) packs() []natsMessage {
	member := fmt.Sprintf(`{"event_type":"message","session_id":%q,"run_id":%q,"timestamp":"2026-01-01T00:00:00Z",`+
		`"role":%[3]q,"content":[{"type":"text","text":%[3]q}]}`, b.victim.holds, b.victim.held, forgedMessages)
	proof := fmt.Sprintf(`"proof":"%032x"`, 1)
	packs := append([]string{
		`{"events":[` + member + `]}`, `{"events":[` + member + `,` + member + `],` + proof + `}`, `{"events":[` +
			strings.Repeat("{},", 100_000) + `{}],` + proof + `}`,
		`{"events":[` + strings.Repeat(member+",", 2000) + member + `],` + proof + `}`, `{"events":[{"x":` +
			strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}],` + proof + `}`,
	}, malformedBodies...)
	return each(subject.Event(subject.Partition(b.victim.holds), b.victim.holds, b.victim.held, run.PackKind), packs...)
}

// heartbeats returns heartbeats that claim others are dead, or thousands are alive.
func (b *securityStack) heartbeats() (all []natsMessage) {
	for _, instance := range []string{"", "x", b.victim.instance} {
		for _, more := range []string{"", `,"draining":true`, `,"attempts":[{"run_id":"` + b.victim.held +
			`","session_id":"` + b.victim.holds + `","key":"00000000000000000000000000000000"}]`, `,"idle":["` +
			b.victim.holds + `","` + b.victim.session + `"]`} {
			all = append(all, natsMessage{subject.Heartbeats(b.victim.runner), `{"runner_id":"` + b.victim.runner +
				`","instance":"` + instance + `"` + more + `}`})
		}
	}
	for i := range natstest.Load(10, 50) {
		sessions := make([]string, 22_000)
		for j := range sessions {
			sessions[j] = fmt.Sprintf(`"ses_%d_%d"`, i, j)
		}
		all = append(all, natsMessage{subject.Heartbeats(fmt.Sprintf("rnr_%d", i)),
			fmt.Sprintf(`{"runner_id":"rnr_%d","instance":"x","idle":[%s]}`, i, strings.Join(sessions, ","))})
	}
	return append(all, each(subject.Heartbeats(b.victim.runner), malformedBodies...)...)
}

// asks returns requests to coordinators with ids of other runners.
func (b *securityStack) asks() (all []natsMessage) {
	for _, id := range []string{b.victim.runner, "_owners", "", ">", "../x", "rnr_nobodys"} {
		for _, instance := range []string{"", "x", b.victim.instance} {
			all = append(all, natsMessage{subject.RunnerAPI("deregister"), `{"runner_id":"` + id + `","instance":"` +
				instance + `"}`})
		}
	}
	for _, op := range []string{"payload_get", "payload_put", "state_drop"} {
		for _, name := range []string{b.victim.run + ".in", b.victim.held + ".out", b.victim.held +
			".1.state", "../../x", ""} {
			all = append(all, natsMessage{subject.RunnerAPI(op), `{"run_id":"` + b.victim.held + `","session_id":"` +
				b.victim.holds + `","attempt":1,"key":"00000000000000000000000000000000","name":"` + name +
				`","part":-1,"body":"eA=="}`})
		}
	}
	for _, of := range []string{"ao.runs.>", "ao.runs.*.claimed." + b.victim.held + ".*", "ao.runs.*.queued.>",
		"$KV.secrets.attempts", subject.Session("1", b.victim.holds)} {
		all = append(all, natsMessage{subject.RunnerAPI("record"), `{"subject":"` + of + `"}`})
	}
	for _, op := range []string{"deregister", "payload_get", "payload_put", "state_drop", "record", "nothing"} {
		all = append(all, each(subject.RunnerAPI(op), malformedBodies...)...)
	}
	return all
}

// registrations returns registrations with ids of others, or of no one.
func (b *securityStack) registrations(to string) (all []natsMessage) {
	parts := strings.Split(to, ".")
	kind, profile := parts[3], parts[4]
	runner := func(host, dir, profile, more string) string {
		return fmt.Sprintf(`{"hostname":%q,"project_dir":%q,"executor_profile":%q,"executor_type":%q,"instance":"x",`+
			`"max_concurrent_runs":1000,"tags":[],"agents":[]%s}`, host, dir, profile, kind, more)
	}
	all = each(to,
		runner("honest", b.dir, "test", ""), // of another profile than the subject's
		strings.Replace(runner("honest", b.dir, "test", ""), kind, "procedural", 1),
		strings.Replace(runner("evil", "/evil", profile, ""), `"agents":[]`,
			`"agents":[{"name":"echo","type":"procedural","command":"./evil","status":"active"}]`, 1),
		strings.Replace(runner("evil", "/evil", profile, ""), `"agents":[]`, `"agents":[`+
			strings.Repeat(`{"name":"a","type":"procedural","command":"x","status":"active"},`, 5000)+`{}]`, 1),
		runner(strings.Repeat("h", 100_000), "/evil", profile, ""), runner("../../x", "\\u0000", profile, ""),
		runner("*", ">", profile, `,"max_concurrent_runs":-1`))
	for i := range natstest.Load(60, 300) {
		all = append(all, natsMessage{to, strings.Replace(runner(fmt.Sprintf("made-up-%d", i), "/evil", profile, ""),
			`"agents":[]`, fmt.Sprintf(
				`"agents":[{"name":"evil-%d","type":"procedural","command":"./evil","status":"active"}]`, i), 1)})
	}
	return append(all, each(to, malformedBodies...)...)
}

// checkNothingForged: readers of others' sessions see only what the records say.
func (b *securityStack) checkNothingForged() {
	b.t.Helper()
	for _, session := range []string{b.victim.session, b.victim.holds} {
		for _, path := range []string{"", "/status", "/result", "/events?limit=1000"} {
			if r := b.get("/sessions/" + session + path); strings.Contains(r.text, "forged") {
				b.t.Errorf("GET /sessions/%s%s shows what a worker made up: %.2000s", session, path, r.text)
			}
		}
	}
}

// ownRun is claimed by the intruder like a worker. With its key the intruder can end that run and no other.
func (b *securityStack) ownRun() {
	b.t.Helper()
	nc := b.login("worker-mind")
	ask := func(to, body string) *nats.Msg {
		b.t.Helper()
		m, err := nc.Request(to, []byte(body), 20*time.Second)
		if err != nil || m.Header.Get("Ao-Fault") != "" {
			b.t.Fatalf("%s: %v %v", to, m, err)
		}
		return m
	}
	ask(subject.Register("autonomous", "mind"), `{"hostname":"evil","project_dir":"/evil","executor_profile":"mind",`+
		`"executor_type":"autonomous","instance":"evil","tags":[],"max_concurrent_runs":8,"agents":[]}`)
	b.has(b.post("/agents", `{"name":"taken","executor_profile":"mind"}`), 201)
	r := b.post("/runs", `{"agent_name":"taken","prompt":"x"}`)
	b.has(r, 201)
	m := ask(subject.Pull(subject.TaskQueueDurable(subject.TaskQueue("autonomous", "mind", "_"))),
		`{"batch":1,"expires":15000000000}`)
	key, p := reply{text: string(m.Data)}.at("key"), subject.Partition(r.at("session_id"))
	if key == "" || (reply{text: string(m.Data)}).at("run_id") != r.at("run_id") {
		b.t.Fatalf("it was handed %s %s", m.Subject, m.Data)
	}
	ask(subject.Claimed(p, r.at("run_id"), key), `{"v":1,"session_id":"`+r.at("session_id")+
		`","runner_id":"rnr_evil","instance":"evil","nonce":"evil","attempt":1}`)
	for _, at := range []func(p, run, key string) string{subject.Bound, subject.Offered, subject.Ended} {
		ask(at(p, r.at("run_id"), key), `{"v":99,"session_id":"`+b.victim.session+`","status":"completed"}`)
	}
	b.same("the intruder's run", b.ended(r.at("run_id")).at("status"), "failed")
	b.checkHealthy("it")
}

// checkLateWorkers: honest workers with their own demands still register and get their runs.
func (b *securityStack) checkLateWorkers() {
	b.t.Helper()
	late := b.runner("late", append(as(b.ring, b.nats, "worker-test"), "AO_TAGS=late")...)
	b.online("late")
	r := b.post("/runs", `{"agent_name":"echo","parameters":{"word":"late"},"additional_demands":{"tags":["late"]},`+
		`"mode":"sync","wait_seconds":30}`)
	b.has(r, 200, `"status":"completed"`, `"stdout":"late"`)
	late.stop()
}
