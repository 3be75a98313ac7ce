package users_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/nats/bus"
	"ao/nats/embed"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/nats/users"

	"github.com/nats-io/nats.go"
)

// place is a server with users of every role, and streams on it as coordinators make them.
type place struct {
	t      *testing.T
	server *embed.Server
	users  map[string]users.Credential
	co     *nats.Conn
	bus    *bus.Bus
	before string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, users: map[string]users.Credential{}}
	var all []users.User
	for _, u := range []struct {
		name     string
		role     users.Role
		profiles []users.Profile
	}{
		{"coordinator", users.Coordinator, nil}, {"worker", users.Worker, nil}, {"publisher", users.Publisher, nil},
		{"second", users.Publisher, nil},
		{"worker-text", users.Worker, []users.Profile{{Type: "procedural", Name: "text"}}},
		{"worker-mind", users.Worker, []users.Profile{{Type: "autonomous", Name: "mind"}}},
	} {
		c, err := users.New(u.name, u.role, u.profiles...)
		if err != nil {
			t.Fatal(err)
		}
		p.users[u.name] = c
		all = append(all, c.User)
	}
	file := filepath.Join(t.TempDir(), "users.conf")
	if err := os.WriteFile(file, []byte(users.Config(all, users.TLS{})), 0o600); err != nil {
		t.Fatal(err)
	}
	p.server = natstest.Server(t, natstest.Listen("127.0.0.1:0"), func(c *embed.Config) { c.Users = file })
	p.co, _ = p.login("coordinator")
	var err error
	p.bus, err = bus.Open(p.co, bus.Config{Log: natstest.Log(t)})
	if err == nil {
		err = p.bus.Setup(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"procedural.text._", "autonomous.mind._", "autonomous._._",
		"procedural.text.0123456789abcdef"} {
		if err := p.bus.EnsureTaskQueue(t.Context(), queue, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := p.bus.Append(t.Context(),
			bus.Entry{Subject: subject.Queued("7", queue, "run_"+strings.ReplaceAll(queue, ".", "-"), 1),
				Body: []byte(`{"key":"secret"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []bus.Entry{{Subject: subject.Claimed("7", "run_a", "key_a"), Body: []byte("{}")}} {
		if _, err := p.bus.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.bus.Bucket(subject.Secrets).Create(t.Context(), "attempts", []byte("the secret")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.co.Subscribe("ao.fleet.>", func(m *nats.Msg) { m.Respond([]byte("{}")) }); err != nil {
		t.Fatal(err)
	}
	if _, err := p.co.Subscribe("ao.api.>", func(m *nats.Msg) { m.Respond([]byte("{}")) }); err != nil {
		t.Fatal(err)
	}
	p.co.Flush()
	p.before = p.all()
	return p
}

// login connects over the network, as another process does. What the server refuses later comes over the channel.
func (p *place) login(name string) (*nats.Conn, <-chan string) {
	p.t.Helper()
	c, refused := p.users[name], make(chan string, 64)
	nc, err := nats.Connect(p.server.URL(), nats.Nkey(c.Key, c.Sign), nats.CustomInboxPrefix(c.InboxPrefix()),
		nats.Timeout(20*time.Second), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			refused <- err.Error()
		}))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(nc.Close)
	return nc, refused
}

// all is what is in every stream.
func (p *place) all() string {
	p.t.Helper()
	js, err := p.co.JetStream()
	if err != nil {
		p.t.Fatal(err)
	}
	var b strings.Builder
	for s := range js.Streams() {
		if s.Config.Name == subject.Events || s.Config.Name == subject.Inbox {
			continue // theirs to write
		}
		raw, _ := json.Marshal([]any{s.Config.Name, s.State.Msgs, s.State.FirstSeq, s.State.LastSeq})
		b.Write(raw)
	}
	return b.String()
}

// refusal is what the server says no to; "" when it says nothing for long.
func refusal(t *testing.T, nc *nats.Conn, refused <-chan string) string {
	return within(t, nc, refused, 10*time.Second)
}

// quiet fails when the server said no to anything that was sent.
func quiet(t *testing.T, nc *nats.Conn, refused <-chan string) {
	t.Helper()
	if text := within(t, nc, refused, 20*time.Millisecond); text != "" {
		t.Error(text)
	}
}

// within waits until the server has dealt with all that was sent. What it refused it says before that, but another
// goroutine hears it.
func within(t *testing.T, nc *nats.Conn, refused <-chan string, d time.Duration) string {
	t.Helper()
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case text := <-refused:
		return text
	case <-time.After(d):
		return ""
	}
}

// forbidden is what nobody but a coordinator may publish or ask for.
var forbidden = []string{
	// JetStream's own interface
	"$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.RUNS",
	"$JS.API.STREAM.CREATE.EVIL", "$JS.API.STREAM.UPDATE.RUNS",
	"$JS.API.STREAM.DELETE.RUNS", "$JS.API.STREAM.PURGE.RUNS", "$JS.API.STREAM.MSG.GET.RUNS",
	"$JS.API.STREAM.MSG.DELETE.RUNS", "$JS.API.STREAM.SNAPSHOT.RUNS",
	"$JS.API.DIRECT.GET.RUNS", "$JS.API.DIRECT.GET.RUNS.ao.runs.7.claimed.run_a.key_a",
	"$JS.API.DIRECT.GET.RUNS.ao.runs.*.claimed.*.*",
	"$JS.API.DIRECT.GET.RUNS.ao.runs.7.queued.procedural.text._.run_1.1",
	"$JS.API.DIRECT.GET.EVENTS", "$JS.API.DIRECT.GET.AUDIT", "ao.audit.entries",
	"$JS.API.DIRECT.GET.KV_logins.$KV.logins.x", "$KV.logins.x",
	"$JS.API.DIRECT.GET.KV_secrets.$KV.secrets.attempts", "$JS.API.STREAM.MSG.GET.KV_secrets",
	"$JS.API.DIRECT.GET.KV_drafts.$KV.drafts.x.input",
	"$JS.API.CONSUMER.CREATE.RUNS", "$JS.API.CONSUMER.CREATE.RUNS.evil",
	"$JS.API.CONSUMER.CREATE.RUNS.evil.ao.runs.>", "$JS.API.CONSUMER.DURABLE.CREATE.RUNS.evil",
	"$JS.API.CONSUMER.LIST.RUNS", "$JS.API.CONSUMER.NAMES.RUNS", "$JS.API.CONSUMER.INFO.RUNS.lane=procedural=text=_",
	"$JS.API.CONSUMER.DELETE.RUNS.lane=procedural=text=_",
	"$JS.API.CONSUMER.MSG.NEXT.EVENTS.evil", "$JS.API.CONSUMER.MSG.NEXT.INBOX.inbox",
	"$JS.API.CONSUMER.MSG.NEXT.KV_secrets.evil",
	"$JS.ACK.RUNS.lane=procedural=text=_.1.1.1.1.0", "$JS.ACK.INBOX.inbox.1.1.1.1.0", "$JS.FC.RUNS.x",
	// buckets and objects
	"$KV.secrets.attempts", "$KV.agents.evil", "$KV.runners.rnr_x", "$KV.lanes.x", "$KV.idempotency.x",
	"$KV.schemas.x", "$KV.drafts.x.input", "$O.payloads.M.x", "$O.payloads.C.x",
	// records that only coordinators write
	"ao.runs.7.queued.procedural.text._.run_1.1", "ao.runs.7.session.ses_1", "ao.runs.7.accepted.ses_1.run_1",
	"ao.runs.7.stopping.run_1", "ao.runs.7.callback.ses_1.run_1",
	"ao.runs.7.notified.run_1.1", "ao.runs.7.deleted.ses_1", "ao.runs.7.evil", "ao.runs.7.ended.run_1.key.more",
	// others' answers and commands, and the server's own account
	"_INBOX.x", "_R_.x", "ao.commands.rnr_1", "ao.commands.door.rnr_1", "ao.fleet", "ao.inbox.evil",
	"ao.events.evil", "ao.evil",
	"$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SRV.PING", "$SRV.INFO.ao",
}

// deaf is what nobody but a coordinator may listen to.
var unsubscribed = []string{
	">", "ao.>", "*.*", "ao.runs.>", "ao.runs.*.queued.>", "ao.runs.*.claimed.*.*", "ao.events.>", "ao.fleet.>",
	"ao.fleet.*", "ao.fleet.register.procedural.text", "ao.beats.>", "ao.beats.rnr_1",
	"ao.commands.>", "ao.commands.*.*", "ao.commands.rnr_1", "ao.commands.door.rnr_1", "ao.api.runs.create",
	"ao.inbox.runs", "ao.rejected.>",
	"_INBOX.>", "_INBOX_>", "*.>", "_R_.>", "$JS.>", "$JS.API.>", "$JS.ACK.>", "$JS.EVENT.ADVISORY.>", "$KV.>",
	"$KV.secrets.>", "$O.>", "$SYS.>", "$SRV.>",
}

func TestServerRefusesWhatACredentialMayNot(t *testing.T) {
	p := newPlace(t)
	inboxes := func(but string) (all []string) {
		for name, c := range p.users {
			if name != but {
				all = append(all, c.InboxPrefix()+".>", subject.CommandsFor(c.CredentialID(), "*"),
					subject.CommandsFor(c.CredentialID(), "rnr_1"))
			}
		}
		return all
	}
	for _, tt := range []struct {
		name      string
		publish   []string
		subscribe []string
	}{
		{"worker", []string{"ao.api.runs.create", "ao.api.runs.get", "ao.api.runs.stop", "ao.api.agents.list",
			"ao.inbox.runs"}, nil},
		{"worker-text", []string{
			"ao.fleet.register", "ao.fleet.register.procedural.other", "ao.fleet.register.autonomous.text",
			"ao.fleet.register.autonomous.mind", "ao.api.runs.create", "ao.inbox.runs",
			subject.Pull("lane=autonomous=mind=_"), subject.Pull("lane=autonomous=_=_"),
		}, nil},
		{"worker-mind", []string{"ao.fleet.register.procedural.text", subject.Pull("lane=procedural=text=_"),
			subject.Pull("lane=procedural=_=_")}, nil},
		{"publisher", []string{
			"ao.fleet.register", "ao.fleet.register.procedural.text", "ao.fleet.payload_get", "ao.fleet.record",
			"ao.beats.rnr_1", "ao.runs.7.claimed.run_a.key_a", "ao.runs.7.bound.run_a.key_a",
			"ao.runs.7.offered.run_a.key_a",
			"ao.runs.7.ended.run_a.key_a", "ao.events.7.ses_1.run_1.message", "ao.rejected.runs",
			subject.Pull("lane=procedural=text=_"), subject.Pull("inbox"), "ao.api.runs.evil", "ao.api.>",
		}, []string{"ao.commands.*"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nc, refused := p.login(tt.name)
			for _, subj := range append(tt.publish, forbidden...) {
				if err := nc.PublishRequest(subj, nc.NewInbox(), []byte(`{"seq":1}`)); err != nil {
					t.Fatal(err)
				}
				if got := refusal(t, nc, refused); !strings.Contains(got, "Permissions Violation for Publish to") {
					t.Errorf("publish %s: got %q, want it refused", subj, got)
				}
			}
			for _, subj := range append(append(tt.subscribe, unsubscribed...), inboxes(tt.name)...) {
				s, err := nc.SubscribeSync(subj)
				if err != nil {
					continue // not even the client takes it for a subject
				}
				if got := refusal(t, nc, refused); !strings.Contains(got, "Permissions Violation for Subscription to") {
					t.Errorf("subscribe %s: got %q, want it refused", subj, got)
				}
				s.Unsubscribe()
			}
		})
	}
	if after := p.all(); after != p.before {
		t.Errorf("the streams changed:\n%s\n%s", p.before, after)
	}
}

// TestReplySubjectGrantsNoRights: a reply is sent with the replier's rights to the subject that the requester names.
func TestReplySubjectGrantsNoRights(t *testing.T) {
	p := newPlace(t)
	for _, tt := range []struct {
		who  string
		asks []string
	}{
		{"worker", []string{"ao.events.7.ses_1.run_1.message", "ao.fleet.deregister", "ao.fleet.record",
			subject.Pull("lane=procedural=text=_")}},
		{"publisher", []string{"ao.inbox.runs", "ao.api.runs.get"}},
	} {
		nc, refused := p.login(tt.who)
		for _, ask := range tt.asks {
			for _, to := range []string{
				"$JS.API.STREAM.DELETE.RUNS", "$JS.API.STREAM.PURGE.RUNS", "$KV.secrets.attempts", "$KV.agents.evil",
				"ao.runs.7.stopping.run_a", "ao.runs.7.queued.procedural.text._.run_evil.1",
				"ao.runs.7.deleted.ses_a", "$O.payloads.M.x", "$JS.API.CONSUMER.DELETE.RUNS.lane=procedural=text=_",
			} {
				if err := nc.PublishRequest(ask, to, []byte("{}")); err != nil {
					t.Fatal(err)
				}
			}
		}
		quiet(t, nc, refused)
	}
	p.co.Flush()
	var seq uint64
	// a message of the coordinator's own comes after all of it
	natstest.Until(t, "what was sent has arrived", func() bool {
		js, _ := p.co.JetStream()
		s, err := js.StreamInfo(subject.Events)
		if err == nil {
			seq = s.State.LastSeq
		}
		return err == nil && seq >= 9
	})
	if after := p.all(); after != p.before {
		t.Errorf("the streams changed:\n%s\n%s", p.before, after)
	}
	if body, _, err := p.bus.Bucket(subject.Secrets).Get(t.Context(), "attempts"); err != nil ||
		string(body) != "the secret" {
		t.Errorf("the secret is %q, %v", body, err)
	}
}

// TestCredentialMayDoItsWork is the other side: these requests are allowed.
func TestCredentialMayDoItsWork(t *testing.T) {
	p := newPlace(t)
	w, refused := p.login("worker-text")
	for _, subj := range []string{
		subject.Claimed("7", "run_1", "k"), subject.Bound("7", "run_1", "k"), subject.Offered("7", "run_1", "k"),
		subject.Ended("7", "run_1", "k"),
		subject.Event("7", "ses_1", "run_1", "message"), subject.RejectedRuns,
	} {
		r, err := w.Request(subj, []byte("{}"), 30*time.Second)
		if err != nil || !strings.Contains(string(r.Data), `"seq"`) {
			t.Errorf("%s: %v", subj, err)
		}
	}
	for _, subj := range []string{subject.RunnerAPI("deregister"), subject.RunnerAPI("record"),
		subject.Register("procedural", "text")} {
		if r, err := w.Request(subj, nil, 30*time.Second); err != nil || string(r.Data) != "{}" {
			t.Errorf("%s: %v", subj, err)
		}
	}
	for _, queue := range []string{"procedural.text._", "procedural.text.0123456789abcdef"} {
		m, err := w.Request(subject.Pull(subject.TaskQueueDurable(queue)), []byte(`{"batch":1,"expires":5000000000}`),
			30*time.Second)
		if err != nil || !strings.HasPrefix(m.Reply, "$JS.ACK.RUNS.") {
			t.Fatalf("%s: %v", queue, err)
		}
		quiet(t, w, refused)
		for range users.MaxResponses {
			w.Publish(m.Reply, []byte("+ACK"))
		}
		quiet(t, w, refused)
		natstest.Until(t, "it is acknowledged", func() bool {
			s, err := p.bus.TaskQueueState(t.Context(), queue)
			return err == nil && s.AckFloor > 0 && s.AckPending == 0
		})
		if w.Publish(m.Reply, []byte("+ACK")); refusal(t, w, refused) == "" {
			t.Error("acknowledged for ever")
		}
	}
	credential := p.users["worker-text"].CredentialID()
	if _, err := w.Subscribe(subject.CommandsFor(credential, "rnr_1"),
		func(m *nats.Msg) { m.Respond([]byte("yes")) }); err != nil {
		t.Fatal(err)
	}
	quiet(t, w, refused)
	if r, err := p.co.Request(subject.CommandsFor(credential, "rnr_1"), nil, 30*time.Second); err != nil ||
		string(r.Data) != "yes" {
		t.Errorf("command: %v", err)
	}
	pub, refused := p.login("publisher")
	for _, subj := range []string{subject.APIRunsCreate, subject.APIRunsGet, subject.APIRunsStop,
		subject.APIAgentsList} {
		if r, err := pub.Request(subj, nil, 30*time.Second); err != nil || string(r.Data) != "{}" {
			t.Errorf("%s: %v", subj, err)
		}
	}
	if r, err := pub.Request(subject.InboxRuns, []byte("{}"), 30*time.Second); err != nil ||
		!strings.Contains(string(r.Data), `"seq"`) {
		t.Errorf("inbox: %v", err)
	}
	answers, err := pub.SubscribeSync(p.users["publisher"].InboxPrefix() + ".later")
	if err != nil {
		t.Fatal(err)
	}
	quiet(t, pub, refused)
	p.co.Publish(p.users["publisher"].InboxPrefix()+".later", []byte("taken"))
	if m, err := answers.NextMsg(5 * time.Second); err != nil || string(m.Data) != "taken" {
		t.Errorf("the answer to an inbox message: %v", err)
	}
}

// TestOnlyUsersLogIn: nobody else is let in, and a user's file is read as it was written.
func TestOnlyUsersLogIn(t *testing.T) {
	p := newPlace(t)
	if nc, err := nats.Connect(p.server.URL()); err == nil {
		nc.Close()
		t.Error("nobody in particular was let in")
	}
	stranger, err := users.New("stranger", users.Coordinator)
	if err != nil {
		t.Fatal(err)
	}
	if nc, err := nats.Connect(p.server.URL(), nats.Nkey(stranger.Key, stranger.Sign)); err == nil {
		nc.Close()
		t.Error("a stranger was let in")
	}
	for name, c := range p.users {
		file := c.File()
		got, err := users.Read(name, file)
		if err != nil || got.Key != c.Key || got.Role != c.Role || len(got.Profiles) != len(c.Profiles) ||
			string(got.File()) != string(file) {
			t.Errorf("%s: got %+v, %v", name, got.User, err)
		}
		at := filepath.Join(t.TempDir(), "nats.nk")
		if err := os.WriteFile(at, file, 0o600); err != nil {
			t.Fatal(err)
		}
		nc, err := bus.Connect(t.Context(), p.server.URL(), "test", natstest.Log(t),
			must(t)(bus.Login{Creds: at}.Options())...)
		if err != nil {
			t.Fatal(err)
		}
		b, err := bus.Open(nc, bus.Config{})
		if err != nil || b.CredentialID() != c.CredentialID() {
			t.Errorf("%s: door %q, %v, want %q", name, b.CredentialID(), err, c.CredentialID())
		}
		nc.Close()
	}
	for _, bad := range []string{"", "# role: worker\n",
		"# role: king\nSUAGMJH5XLGZKQQWAWKRZJIGMOU4HPFUYLXJMXOO5NLFEO2OOQJ5LPRDPM\n",
		"# role: worker\n# profiles: text\n"} {
		if _, err := users.Read("bad", []byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestOlderHistoryMovesIntoTheAccount: as the decision and the operators' page say.
func TestOlderHistoryMovesIntoTheAccount(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "users.conf")
	co, err := users.New("coordinator", users.Coordinator)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(users.Config([]users.User{co.User}, users.TLS{})), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, with := range []string{"", file} {
		if with != "" {
			if err := os.Rename(filepath.Join(dir, "jetstream", "$G"),
				filepath.Join(dir, "jetstream", users.AccountCoordinators)); err != nil {
				t.Fatal(err)
			}
		}
		s, err := embed.Start(embed.Config{StoreDir: dir, Listen: "none", Users: with, Log: natstest.Log(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		b := natstest.Open(t, s)
		if err := b.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		e := bus.Entry{Subject: subject.Stopping("7", "run_1"), Body: []byte("{}")}
		if with == "" {
			if _, err := b.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		} else if m, err := b.Last(t.Context(), e.Subject); err != nil || m.Seq != 1 {
			t.Errorf("got %+v, %v", m, err)
		}
		s.Close()
	}
}

func must(t *testing.T) func([]nats.Option, error) []nats.Option {
	return func(o []nats.Option, err error) []nats.Option {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
}
