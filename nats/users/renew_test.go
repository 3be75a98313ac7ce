package users_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/nats/embed"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/nats/users"

	"github.com/nats-io/nats.go"
)

// olderKeys is a folder that 'ao init' of commit 073a48e made, with --worker text=procedural.text --worker
// mind=autonomous.mind,autonomous.llm.
func olderKeys(t *testing.T) (conf string, all map[string]users.Credential, list []users.User) {
	t.Helper()
	all = map[string]users.Credential{}
	for _, name := range []string{"coordinator", "worker", "publisher", "worker-mind", "worker-text"} {
		file, err := os.ReadFile("testdata/keys/" + name + "/nats.nk")
		if err != nil {
			t.Fatal(err)
		}
		c, err := users.Read(name, file)
		if err != nil {
			t.Fatal(err)
		}
		all[name], list = c, append(list, c.User)
	}
	text, err := os.ReadFile("testdata/keys/nats/users.conf")
	if err != nil {
		t.Fatal(err)
	}
	return string(text), all, list
}

// own is what an operator may have added: a publisher of his own, and an account.
func own(t *testing.T, conf string) (string, users.Credential) {
	t.Helper()
	c, err := users.New("grafana", users.Publisher)
	if err != nil {
		t.Fatal(err)
	}
	for _, add := range [][2]string{
		{"  PUBLISHERS {\n    users: [\n",
			"      # grafana\n      {nkey: " + c.Key +
				", permissions: {\n        publish: {allow: [\"ao.api.runs.get\"]}\n        subscribe: {allow: [\"" +
				c.InboxPrefix() + ".>\"]}\n      }}\n"},
		{"accounts {\n", "  SYS: {users: [{user: admin, password: secret}]}\n"},
		{"}\n", "system_account: SYS\n"},
	} {
		at := strings.LastIndex(conf, add[0])
		if at < 0 {
			t.Fatal(add[0])
		}
		at += len(add[0])
		conf = conf[:at] + add[1] + conf[at:]
	}
	return "# ours, 2026\n" + conf, c
}

// TestUsersOfAnOlderVersionAreRenewed: the same keys log in with the rights of today, and what an operator added is
// there.
func TestUsersOfAnOlderVersionAreRenewed(t *testing.T) {
	before, all, list := olderKeys(t)
	if users.Current(before) || !users.Current(users.Config(list, users.TLS{})) {
		t.Error("the two versions are not distinguished")
	}
	if got, err := users.Renew(before, list, users.TLS{}); err != nil || got != users.Config(list, users.TLS{}) {
		t.Errorf("%v\n%s", err, got)
	}
	before, grafana := own(t, before)
	after, err := users.Renew(before, list, users.TLS{})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := users.Renew(after, list, users.TLS{}); err != nil || again != after {
		t.Errorf("renewed once more: %v\n%s", err, again)
	}
	for conf, named := range map[string]bool{before: false, after: true} {
		file := filepath.Join(t.TempDir(), "users.conf")
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		s := natstest.Server(t, natstest.Listen("127.0.0.1:0"), func(c *embed.Config) { c.Users = file })
		login := func(c users.Credential) *nats.Conn {
			t.Helper()
			nc, err := nats.Connect(s.URL(), nats.Nkey(c.Key, c.Sign), nats.CustomInboxPrefix(c.InboxPrefix()),
				nats.Timeout(20*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			return nc
		}
		co := login(all["coordinator"])
		if _, err := co.Subscribe("ao.>",
			func(m *nats.Msg) { m.Respond([]byte(m.Header.Get("Nats-Request-Info"))) }); err != nil {
			t.Fatal(err)
		}
		co.Flush()
		for name, subj := range map[string]string{"worker": subject.RunnerAPI("deregister"),
			"worker-text": subject.Heartbeats("rnr_1"), "worker-mind": subject.Register("autonomous", "llm")} {
			forged := &nats.Msg{Subject: subj,
				Header: nats.Header{"Nats-Request-Info": {`{"user":"` + all["publisher"].Key + `","kind":"Client"}`}}}
			m, err := login(all[name]).RequestMsg(forged, 20*time.Second)
			if err != nil {
				t.Fatalf("%s: %v", subj, err)
			}
			var info struct{ User, Kind string }
			if err := json.Unmarshal(m.Data, &info); err != nil {
				t.Fatalf("%s: %v", m.Data, err)
			}
			if want := map[bool]string{true: all[name].Key}[named]; info.User != want ||
				(info.Kind == "Client") != named {
				t.Errorf("%s: the server says that %s of kind %q asks, not %q", subj, info.User, info.Kind, want)
			}
		}
		login(grafana)
		login(all["publisher"])
		s.Close()
	}
}

// TestRenewRefusesWhatItCannotKeep: nothing that an operator changed is lost without a word, and no key that was
// replaced stays.
func TestRenewRefusesWhatItCannotKeep(t *testing.T) {
	old, _, list := olderKeys(t)
	for conf, want := range map[string]string{
		strings.Replace(old, `"ao.fleet.*", "ao.beats.*"`, `"ao.fleet.*"`,
			1): "changed or removed by hand",
		strings.Replace(old, "    jetstream: enabled\n", "    jetstream: {max_file: 1G}\n",
			1): `"jetstream: enabled"`,
		strings.Replace(old, "      {service: \"ao.inbox.runs\", accounts: [PUBLISHERS]}\n", "", 1): "ao.inbox.runs",
	} {
		if got, err := users.Renew(conf, list, users.TLS{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q:\n%s", err, want, got)
		}
	}
	conf, grafana := own(t, old)
	replaced, err := users.New("worker-text", users.Worker, list[4].Profiles...)
	if err != nil {
		t.Fatal(err)
	}
	more, err := users.New("worker-more", users.Worker, users.Profile{Type: "procedural", Name: "more"})
	if err != nil {
		t.Fatal(err)
	}
	tls := users.TLS{Cert: "/etc/ao/nats/server.crt", Key: "/etc/ao/nats/server.key"}
	got, err := users.Renew(conf, []users.User{list[0], list[1], list[2], list[3], more.User, replaced.User}, tls)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{list[4].Key: false, replaced.Key: true, more.Key: true, grafana.Key: true,
		"system_account: SYS": true, "# ours, 2026": true, tls.Cert: true} {
		if strings.Contains(got, key) != want {
			t.Errorf("%s is there: %v\n%s", key, !want, got)
		}
	}
	removed, err := users.Renew(got, list[:4], users.TLS{Cert: "/new/nats/server.crt", Key: "/new/nats/server.key"})
	if err != nil || strings.Contains(removed, replaced.Key) || strings.Contains(removed, "/etc/ao") ||
		!strings.Contains(removed, grafana.Key) {
		t.Errorf("%v\n%s", err, removed)
	}
}

// TestUsersWithoutLimitsAreRenewed: what 'ao init' made before there were limits becomes what it makes today, with what
// an operator added.
func TestUsersWithoutLimitsAreRenewed(t *testing.T) {
	_, _, list := olderKeys(t)
	want := users.Config(list, users.TLS{})
	before := users.Unlimited(want)
	if strings.Contains(before, "limits:") || strings.Count(before, "ao.events.") != 3+2 ||
		users.Current(before) || !users.Current(want) {
		t.Fatalf("the two versions are not distinguished: %s", before)
	}
	if got, err := users.Renew(before, list, users.TLS{}); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	added, _ := own(t, before)
	got, err := users.Renew(added, list, users.TLS{})
	if err != nil || !users.Current(got) || !strings.Contains(got, "# grafana\n") ||
		!strings.HasSuffix(got, "}\nsystem_account: SYS\n") {
		t.Errorf("%v\n%s", err, got)
	}
	if again, err := users.Renew(got, list, users.TLS{}); err != nil || again != got {
		t.Errorf("a second time: %v\n%s", err, again)
	}
}
