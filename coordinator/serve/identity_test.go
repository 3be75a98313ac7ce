package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ao/coordinator/audit"
	"ao/coordinator/health"
	"ao/coordinator/runners"
	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/nats/users"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/runnerapi"

	"github.com/nats-io/nats.go"
)

// admitted is a coordinator behind whose NATS these workers log in: the victim's profile is text, the others' is other
// or any.
type admitted struct {
	*stack
	creds map[string]users.Credential
	log   string
}

func admit(t *testing.T, conf func(string) string) *admitted {
	t.Helper()
	a := &admitted{creds: map[string]users.Credential{}, log: filepath.Join(t.TempDir(), "audit.jsonl")}
	var all []users.User
	for name, profiles := range map[string][]users.Profile{
		"coordinator": nil, "worker": nil, "victim": {{Type: "procedural", Name: "text"}},
		"other": {{Type: "procedural", Name: "other"}}, "same": {{Type: "procedural", Name: "text"}},
	} {
		role := users.Worker
		if name == "coordinator" {
			role = users.Coordinator
		}
		c, err := users.New(name, role, profiles...)
		if err != nil {
			t.Fatal(err)
		}
		a.creds[name] = c
		all = append(all, c.User)
	}
	file := filepath.Join(t.TempDir(), "users.conf")
	if err := os.WriteFile(file, []byte(conf(users.Config(all, users.TLS{}))), 0o600); err != nil {
		t.Fatal(err)
	}
	a.stack = start(t, brief, func(c *serve.Config) {
		c.NATS.Listen, c.NATS.Users, c.AuditLog = "127.0.0.1:0", file, a.log
	})
	return a
}

// login is a worker's connection with this credential.
func (a *admitted) login(name string) *bus.Bus {
	a.t.Helper()
	c := a.creds[name]
	nc, err := nats.Connect(a.nats.URL(), nats.Nkey(c.Key, c.Sign), nats.CustomInboxPrefix(c.InboxPrefix()),
		nats.Timeout(20*time.Second))
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(nc.Close)
	b, err := bus.Open(nc, bus.Config{Confined: true, Log: natstest.Log(a.t)})
	if err != nil {
		a.t.Fatal(err)
	}
	return b
}

// ask sends a request; what NATS itself refuses is not answered.
func (a *admitted) ask(b *bus.Bus, subj, body string) (string, error) {
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Second)
	defer cancel()
	raw, err := b.Request(ctx, subj, []byte(body))
	return string(raw), err
}

var text = runnerapi.Identity{Hostname: "here", ProjectDir: "/srv", ExecutorProfile: "text",
	ExecutorType: run.Procedural}

// registration is what a process of a runner announces, as JSON.
func registration(id runnerapi.Identity, instance, secret, credential string) string {
	raw, _ := json.Marshal(map[string]any{
		"hostname": id.Hostname, "project_dir": id.ProjectDir, "executor_profile": id.ExecutorProfile,
		"executor_type": id.ExecutorType,
		"instance":      instance, "secret": secret, "secret_hash": strings.Repeat("0", 64), "door": credential,
		"max_concurrent_runs": 4,
		"agents": []any{map[string]any{"name": "tool", "type": "procedural", "command": "./tool",
			"status": "active"}},
	})
	return string(raw)
}

// join registers a process and has it answer commands and send heartbeats until the test ends, or it is silenced.
func (a *admitted) join(who, instance, secret string) (id string, mute *atomic.Bool) {
	a.t.Helper()
	b, credential := a.login(who), a.creds[who].CredentialID()
	id, mute = text.ID(), new(atomic.Bool)
	natstest.Until(a.t, "it is registered", func() bool {
		_, err := a.ask(b, subject.Register(run.Procedural, "text"), registration(text, instance, secret, credential))
		if err != nil && fault.KindOf(err) != fault.Unavailable && !errors.Is(err, context.DeadlineExceeded) {
			a.t.Fatal(err)
		}
		return err == nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	a.t.Cleanup(func() { cancel(); <-done; <-done })
	commands, err := b.Listen(subject.CommandsFor(credential, id), "")
	if err != nil {
		a.t.Fatal(err)
	}
	go func() {
		defer func() { done <- struct{}{} }()
		commands.Serve(ctx, func(_ context.Context, _ string, body []byte) ([]byte, error) {
			return fmt.Appendf(nil, `{"instance":%q,"secret":%q,"has":true}`, instance, secret), nil
		})
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		for ctx.Err() == nil {
			if !mute.Load() {
				raw, _ := json.Marshal(map[string]any{"runner_id": id, "instance": instance, "secret": secret})
				b.Request(ctx, subject.Heartbeats(id), raw)
			}
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return id, mute
}

const mine = "the victim's own secret"

// TestWorkerCannotActAsAnotherRunner: an admitted worker cannot deregister another's runner, send its heartbeats, or
// register as it. The audit log names the credential that tried, not the victim's.
func TestWorkerCannotActAsAnotherRunner(t *testing.T) {
	t.Parallel()
	a := admit(t, func(conf string) string { return conf })
	id, _ := a.join("victim", "one", mine)
	before, _, err := a.bus.Bucket(subject.Runners).Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(before), mine) || strings.Contains(string(before), strings.Repeat("0", 64)) {
		t.Errorf("what is stored: %s", before)
	}
	table, _, err := a.bus.Bucket(subject.Runners).Get(t.Context(), "_owners")
	if err != nil {
		t.Fatal(err)
	}
	victim, other := a.creds["victim"].CredentialID(), a.creds["other"].CredentialID()
	leave, register := subject.RunnerAPI(runnerapi.OpDeregister), subject.RunnerAPI(runnerapi.OpRegister)
	own := text
	own.ExecutorProfile = "other"
	bad := "a guess of the secret"
	for _, tt := range []struct{ name, who, subject, body string }{
		{"deregister: no instance", "other", leave, `{"runner_id":"` + id + `"}`},
		{"deregister: empty", "other", leave, `{"runner_id":"` + id + `","instance":"","secret":""}`},
		{"deregister: guessed instance", "other", leave, `{"runner_id":"` + id + `","instance":"two"}`},
		{"deregister: known instance", "other", leave, `{"runner_id":"` + id + `","instance":"one"}`},
		{"deregister: known instance, guessed secret", "worker", leave, `{"runner_id":"` +
			id + `","instance":"one","secret":"` + bad + `"}`},
		{"deregister: stolen secret, another credential", "other", leave, `{"runner_id":"` +
			id + `","instance":"one","secret":"` + mine + `"}`},
		{"deregister: the owners' table", "other", leave, `{"runner_id":"_owners","instance":""}`},
		{"deregister: no id", "worker", leave, `{"runner_id":""}`},
		{"heartbeat: known instance", "other", subject.Heartbeats(id), `{"runner_id":"` +
			id + `","instance":"one","idle":["ses_1"]}`},
		{"heartbeat: guessed secret", "worker", subject.Heartbeats(id), `{"runner_id":"` +
			id + `","instance":"one","secret":"` + bad + `","draining":true}`},
		{"heartbeat: stolen secret, another credential", "other", subject.Heartbeats(id), `{"runner_id":"` +
			id + `","instance":"one","secret":"` + mine + `"}`},
		{"heartbeat: under its own subject", "other", subject.Heartbeats(own.ID()), `{"runner_id":"` +
			id + `","instance":"one","secret":"` + mine + `"}`},
		{"heartbeat: the owners' table", "other", subject.Heartbeats("_owners"),
			`{"runner_id":"_owners","instance":"one"}`},
		{"register: from another profile", "other", subject.Register(run.Procedural, "other"),
			registration(text, "two", bad, other)},
		{"register: the profile's subject", "other", subject.Register(run.Procedural, "text"),
			registration(text, "two", bad, other)},
		{"register: with any profile's credential", "worker", register, registration(text, "two", bad, "")},
		{"register: known instance", "worker", register, registration(text, "one", bad, "")},
		{"register: known instance, no secret", "worker", register, registration(text, "one", "", "")},
		{"register: with the profile", "same", subject.Register(run.Procedural, "text"),
			registration(text, "one", "", "")},
		{"register: at the victim's door", "other", subject.Register(run.Procedural, "other"),
			registration(own, "two", bad, victim)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if answer, err := a.ask(a.login(tt.who), tt.subject, tt.body); err == nil {
				t.Errorf("answered with %s", answer)
			}
		})
	}
	a.call("DELETE", "/runners/_owners", "").want(400)
	if after, _, err := a.bus.Bucket(subject.Runners).Get(t.Context(), id); err != nil ||
		string(after) != string(before) {
		t.Errorf("registered is %s, %v\nit was %s", after, err, before)
	}
	if after, _, err := a.bus.Bucket(subject.Runners).Get(t.Context(), "_owners"); err != nil ||
		string(after) != string(table) {
		t.Errorf("owners are %s, %v\nthey were %s", after, err, table)
	}
	if list := into[struct{ Runners []runners.View }](a.get("/runners"), 200); len(list.Runners) != 1 ||
		list.Runners[0].Status != runnerapi.Online {
		t.Errorf("%+v", list)
	}
	if agent := a.get("/agents/tool").want(200); agent["runner_id"] != id {
		t.Errorf("%v", agent)
	}
	refused := func() (all []audit.Entry) {
		for _, e := range record(t, a.log) {
			if e.EntryPoint == "fleet" && e.Status != 200 {
				all = append(all, e)
			}
		}
		return all
	}
	for _, f := range a.examined().Checks {
		if f.Check == "nats-users" && f.Verdict != health.OK {
			t.Errorf("%+v", f)
		}
	}
	natstest.Until(t, "what reached a coordinator is recorded", func() bool { return len(refused()) >= 18 })
	for _, e := range refused() {
		if e.Actor.Runner != "" || e.Actor.Credential == "" || e.Actor.Credential == victim {
			t.Errorf("refused was %+v", *e.Actor)
		}
	}
	if answer, err := a.ask(a.login("victim"), leave, `{"runner_id":"`+id+`","instance":"one","secret":"`+
		mine+`"}`); err != nil {
		t.Errorf("its own farewell: %s, %v", answer, err)
	}
	if agent := a.get("/agents/tool").want(200); agent["runners"] != float64(0) { // its name stays for a grace
		t.Errorf("after its farewell the agent is %v", agent)
	}
	natstest.Until(t, "its own farewell is recorded", func() bool {
		for _, e := range record(t, a.log) {
			if e.Action == "runner.deregister" && e.Status == 200 && e.Actor.Kind == "runner" && e.Actor.Runner == id &&
				e.Actor.Credential == victim {
				return true
			}
		}
		return false
	})
}

// TestOnlyARunnerAnswersForItself: another process with the same credential replies to requests for a dead one. That
// keeps neither its identity nor its run.
func TestOnlyARunnerAnswersForItself(t *testing.T) {
	t.Parallel()
	a := admit(t, func(conf string) string { return conf })
	id, dead := a.join("victim", "one", mine)
	acc := a.submit(`{"agent_name":"tool"}`)
	m := queuedOf(t, a, acc)
	put(t, a, subject.Claimed(subject.Partition(acc.SessionID), acc.RunID, m.Key),
		run.Claim{V: run.Version, SessionID: acc.SessionID, RunnerID: id, Instance: "one", Nonce: "n", Attempt: 1,
			At: time.Now()})
	impostor := a.login("victim")
	commands, err := impostor.Listen(subject.CommandsFor(a.creds["victim"].CredentialID(), id), "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		commands.Serve(ctx, func(context.Context, string, []byte) ([]byte, error) {
			return []byte(`{"instance":"one","has":true}`), nil
		})
	}()
	dead.Store(true)
	if r := a.until(acc.RunID, run.Failed); r.Error.Code != "runner_disconnected" {
		t.Errorf("%+v", r.Error)
	}
	natstest.Until(t, "the identity is free", func() bool {
		_, err := a.ask(a.login("victim"), subject.Register(run.Procedural, "text"),
			registration(text, "two", "another secret of its own", a.creds["victim"].CredentialID()))
		return err == nil
	})
}

// TestWorkersWithoutSecret are of an older version: their instance counts, and nothing else does.
func TestWorkersWithoutSecret(t *testing.T) {
	t.Parallel()
	// and users.conf is as old
	a := admit(t, func(conf string) string { return strings.ReplaceAll(conf, ", share: true", "") })
	id, _ := a.join("victim", "one", "")
	leave := subject.RunnerAPI(runnerapi.OpDeregister)
	for _, body := range []string{`{"runner_id":"` + id + `"}`, `{"runner_id":"` + id + `","instance":"two"}`} {
		if _, err := a.ask(a.login("other"), leave, body); fault.KindOf(err) != fault.Forbidden {
			t.Errorf("%s: %v", body, err)
		}
	}
	natstest.Until(t, "it is heard", func() bool {
		answer, err := a.ask(a.login("victim"), subject.Heartbeats(id), `{"runner_id":"`+id+`","instance":"one"}`)
		return err == nil && strings.Contains(answer, `"known":true,"superseded":false`)
	})
	a.finds("nats-users", health.Warn, "older version: coordinators do not get the credential of a worker's "+
		"request, or NATS does not limit connections and subscriptions (AO_NATS_USERS")
	a.finds("nats-users", health.Warn, "(heartbeats of text on here ("+id+"))")
	if _, err := a.ask(a.login("victim"), leave, `{"runner_id":"`+id+`","instance":"one"}`); err != nil {
		t.Error(err)
	}
	if agent := a.get("/agents/tool").want(200); agent["runners"] != float64(0) { // its name stays for a grace
		t.Errorf("after its farewell the agent is %v", agent)
	}
	for _, e := range record(t, a.log) {
		if e.EntryPoint == "fleet" && (e.Actor.Kind != "nats" || e.Actor.Runner != "" || e.Actor.Credential != "" ||
			e.Actor.Claimed == nil || e.Actor.Claimed.Runner != id) {
			t.Errorf("%+v, %+v", *e.Actor, e.Actor.Claimed)
		}
	}
}

// queuedOf is a run's queue record.
func queuedOf(t *testing.T, a *admitted, acc runs.Accepted) (q run.Queued) {
	t.Helper()
	natstest.Until(t, "it is queued", func() bool {
		m, err := a.bus.Last(t.Context(), "ao.runs.*.queued.*.*.*."+acc.RunID+".1")
		return err == nil && json.Unmarshal(m.Body, &q) == nil
	})
	return q
}

func put(t *testing.T, a *admitted, subj string, record any) {
	t.Helper()
	body, err := json.Marshal(record)
	if err == nil {
		_, err = a.bus.Append(t.Context(), bus.Entry{Subject: subj, Body: body})
	}
	if err != nil {
		t.Fatal(err)
	}
}
