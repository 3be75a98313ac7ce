package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ao/coordinator/health"
	"ao/nats/embed"
	"ao/nats/natstest"
	"ao/nats/users"
)

// has checks that a result has these words.
func has(t *testing.T, all []health.Result, check string, v health.Verdict, words string) {
	t.Helper()
	for _, f := range all {
		if f.Check == check && f.Verdict == v && strings.Contains(f.Message, words) &&
			(v == health.OK) == (f.Advice == "") {
			return
		}
	}
	t.Errorf("no %s %s %q among\n%+v", check, v, words, all)
}

// env is an environment.
type env map[string]string

func (e env) get(name string) string { return e[name] }

// coordinator answers as one does: with this report, made at each request.
func coordinator(t *testing.T, doctor func(w http.ResponseWriter)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/doctor" {
			doctor(w)
			return
		}
		fmt.Fprint(w, `{"status":"ready"}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestTheCoordinator(t *testing.T) {
	here, _ := os.Hostname()
	respond := func(change func(*health.Report)) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			r := health.Report{At: time.Now(), Version: "unknown", Go: "go1", Host: here, Checks: []health.Result{
				health.Failed("streams", "x", "full")}}
			change(&r)
			_ = json.NewEncoder(w).Encode(r)
		}
	}
	refuse := func(status int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(status)
			fmt.Fprint(w, `{"error":"forbidden","message":"no"}`)
		}
	}
	reached := coordinator(t, respond(func(*health.Report) {}))
	closed := httptest.NewServer(nil)
	closed.Close()
	for _, tt := range []struct {
		name     string
		doctor   func(http.ResponseWriter)
		check    string
		want     health.Verdict
		wantText string
	}{
		{"what it sees", respond(func(*health.Report) {}), "streams", health.Fail, "full"},
		{"well", respond(func(*health.Report) {}), "coordinator", health.OK, "version unknown (go1) on " + here},
		{"its clock", respond(func(*health.Report) {}), "clocks", health.OK, "agrees"},
		{"its clock is behind", respond(func(r *health.Report) { r.At = r.At.Add(-5 * time.Minute) }), "clocks",
			health.Fail, "the coordinator's clock is"},
		{"its clock is ahead", respond(func(r *health.Report) { r.At = r.At.Add(20 * time.Second) }), "clocks",
			health.Warn, "ahead"},
		{"no token that does", refuse(403), "coordinator", health.Skip, "its report needs another token"},
		{"an older one", refuse(404), "coordinator", health.Fail, "gives no report"},
		{"another one", func(w http.ResponseWriter) { fmt.Fprint(w, `{"x":1}`) }, "coordinator", health.Fail,
			"cannot be read"},
		{"its address", respond(func(r *health.Report) { r.PublicURL = reached }), "public-url", health.OK,
			"can be reached from here"},
		{"a wrong address", respond(func(r *health.Report) { r.PublicURL = closed.URL }), "public-url", health.Warn,
			"cannot be reached from here"},
		{"an address of a container's network", respond(func(r *health.Report) {
			r.PublicURL, r.Host =
				"http://coordinator.invalid:8765", "a777c1e87cd5"
		}), "public-url", health.Skip, "it may not be a worker's"},
		{"a name that its own machine does not know",
			respond(func(r *health.Report) { r.PublicURL = "http://coordinator.invalid:8765" }), "public-url",
			health.Warn, "cannot be reached from here"},
		{"an address of its machine", respond(func(r *health.Report) { r.PublicURL, r.Host = reached, "elsewhere" }),
			"public-url", health.Warn, "only the coordinator's machine can reach"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			has(t, Check(t.Context(), Config{URL: coordinator(t, tt.doctor), Env: env{}.get}), tt.check, tt.want,
				tt.wantText)
		})
	}
	unreachable := Check(t.Context(), Config{URL: closed.URL, Env: env{}.get})
	has(t, unreachable, "coordinator", health.Fail, "no coordinator answers")
	// what can't be looked at from here is said
	has(t, unreachable, "files", health.Skip, "the environment names no")
	has(t, unreachable, "nats", health.Skip, "the environment names no")
	has(t, Check(t.Context(), Config{URL: reached, CA: "/none", Env: env{}.get}), "coordinator", health.Fail, "AO_CA")
}

// TestContainerWithoutTLS: a coordinator in a container needs no TLS if its port is published on this machine only.
func TestContainerWithoutTLS(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		doc := health.Report{At: time.Now(), Version: "unknown", Host: "a777c1e87cd5", Private: true}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(doc)
	})
	found := func(listen string) (tls []health.Result) {
		t.Helper()
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler}}
		s.Start()
		t.Cleanup(s.Close)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		for _, f := range Check(t.Context(), Config{URL: "http://127.0.0.1:" + port, Env: env{}.get}) {
			if f.Check == "tls" {
				tls = append(tls, f)
			}
		}
		return tls
	}
	if all := found("127.0.0.1:0"); len(all) > 0 {
		t.Errorf("on this machine alone: %+v", all)
	}
	if addrs, err := net.InterfaceAddrs(); err != nil || !slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast()
	}) {
		t.Skip("this machine has no address beyond loopback")
	}
	has(t, found("0.0.0.0:0"), "tls", health.Warn, "outside the private network")
}

func TestFilesAndProfilesHere(t *testing.T) {
	top := t.TempDir()
	if err := os.Chmod(filepath.Dir(top), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(top, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tokens, key := write("tokens", "", 0o644), write("tls.key", "", 0o600)
	write("broken.json", `{"type":`, 0o600)
	write("strange.json", `{"type":"magic"}`, 0o600)
	write("program", "", 0o600)
	write("lame.json", `{"type":"autonomous","command":"./program"}`, 0o600)
	write("empty.json", `{"type":"autonomous","command":"./none"}`, 0o600)
	write("folder.json", `{"type":"procedural","agents_dir":"none"}`, 0o600)
	write("good.json", "\ufeff"+`{"type":"autonomous","command":"ao-llm-exec"}`, 0o600)
	t.Chdir(t.TempDir()) // a path may also be one of the folder that the worker is started in
	if err := os.MkdirAll("here/agents", 0o700); err != nil {
		t.Fatal(err)
	}
	// but no bare name is
	if err := os.Mkdir("bare", 0o700); err != nil {
		t.Fatal(err)
	}
	write("bare.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"bare"}`, 0o600)
	write("here.json", `{"type":"procedural","command":"ao-procedural-exec","agents_dir":"here/agents"}`, 0o600)
	c := Config{Env: env{"AO_API_TOKENS": tokens, "AO_TLS_KEY": key, "AO_NATS_CREDS": filepath.Join(top, "none"),
		"AO_DATA_DIR": top, "AO_PROFILES_DIR": top}.get}
	files := c.files()
	has(t, files, "secrets", health.Fail, "AO_API_TOKENS "+tokens+" is open to every user")
	has(t, files, "secrets", health.OK, "AO_TLS_KEY")
	has(t, files, "secrets", health.Fail, "AO_NATS_CREDS "+filepath.Join(top, "none")+" cannot be read")
	has(t, files, "secrets", health.Fail, "AO_DATA_DIR "+top+"/")
	all := c.profiles()
	for name, wantText := range map[string]string{
		"broken": "it ends too early", "strange": `type "magic"`, "lame": "is not executable",
		"empty": "none does not exist", "folder": "agents_dir " + filepath.Join(top, "none"),
		"bare": "agents_dir " + filepath.Join(top, "bare"),
	} {
		has(t, all, "profiles", health.Fail, "profile "+name+" does not load: ")
		has(t, all, "profiles", health.Fail, wantText)
	}
	if len(all) != 6 {
		t.Errorf("%+v", all)
	}
	has(t, Config{Env: env{"AO_PROFILES_DIR": top, "AO_PROFILES": "good,here"}.get}.profiles(), "profiles", health.OK,
		"good, here")
	has(t, Config{Env: env{"AO_PROFILES_DIR": top, "AO_PROFILES": "good,gone"}.get}.profiles(), "profiles",
		health.Fail, "profile gone")
	has(t, Config{Env: env{"AO_PROFILES_DIR": top + "x"}.get}.profiles(), "profiles", health.Fail, "cannot be read")
}

// TestRightsOfCredentials: a worker's and a publisher's credential as they are made are refused what they do not need.
// One that may do more is found.
func TestRightsOfCredentials(t *testing.T) {
	dir := t.TempDir()
	var all []users.User
	files := map[users.Role]string{}
	for _, role := range []users.Role{users.Coordinator, users.Worker, users.Publisher} {
		u, err := users.New(string(role), role)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, u.User)
		files[role] = filepath.Join(dir, string(role)+".nk")
		if err := os.WriteFile(files[role], u.File(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf := filepath.Join(dir, "users.conf")
	if err := os.WriteFile(conf, []byte(users.Config(all, users.TLS{})), 0o600); err != nil {
		t.Fatal(err)
	}
	s := natstest.Server(t, natstest.Listen("127.0.0.1:0"), func(c *embed.Config) { c.Users = conf })
	at := func(creds string) []health.Result {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return Config{Env: env{"AO_NATS_URL": s.URL(), "AO_NATS_CREDS": creds}.get}.nats(ctx)
	}
	for _, role := range []users.Role{users.Worker, users.Publisher} {
		has(t, at(files[role]), "rights", health.OK, "has no permissions that a "+string(role)+" does not need")
	}
	found := at(files[users.Coordinator])
	has(t, found, "rights", health.OK, "has full access")
	has(t, found, "nats-version", health.OK, "nats-server 2.")
	has(t, found, "nats-users", health.OK, "refuses clients without a login")

	text, err := os.ReadFile(files[users.Coordinator])
	if err != nil {
		t.Fatal(err)
	}
	mighty := filepath.Join(dir, "mighty.nk") // says that it is a worker's
	if err := os.WriteFile(mighty, []byte(strings.Replace(string(text), "role: coordinator", "role: worker", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	found = at(mighty)
	for _, too := range []string{"subscribe to >", "subscribe to _INBOX.>", "request $JS.API.STREAM.INFO.KV_secrets"} {
		has(t, found, "rights", health.Fail, too)
	}
	has(t, at(filepath.Join(dir, "none")), "nats", health.Fail, "AO_NATS_CREDS")
	stranger, err := users.New("stranger", users.Worker)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mighty, stranger.File(), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, at(mighty), "nats", health.Fail, "NATS at "+s.URL())
}

// TestNATSWithoutLogin: on this machine's own address that is no fault.
func TestNATSWithoutLogin(t *testing.T) {
	s := natstest.Server(t, natstest.Listen("127.0.0.1:0"))
	has(t, Config{Env: env{"AO_NATS_URL": s.URL()}.get}.nats(t.Context()), "nats-users", health.OK,
		"requires no login")
	has(t, judged("nats://10.0.0.1:4222"), "nats-users", health.Fail, "without a login")
	has(t, judged("nats://127.0.0.1:4222,nats://10.0.0.1:4222"), "nats-users", health.Fail, "without a login")
}

func judged(address string) []health.Result { return []health.Result{anonymousAccess(address)} }

// TestTheMonitoringPort says when NATS writes to disk.
func TestTheMonitoringPort(t *testing.T) {
	for _, tt := range []struct {
		doc      string
		want     health.Verdict
		wantText string
	}{
		{`{"version":"2.15.2","jetstream":{"config":{"sync_always":true,"sync_interval":120000000000}}}`, health.OK,
			"before it is acknowledged"},
		{`{"version":"2.15.2","jetstream":{"config":{"sync_interval":120000000000}}}`, health.Warn, "every 2m0s"},
		{`{"version":"2.15.2","jetstream":{}}`, health.Fail, "has no JetStream"},
		{`no`, health.Fail, "/varz"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/varz" {
				fmt.Fprint(w, tt.doc)
			}
		}))
		has(t, Config{Monitor: s.URL, Env: env{}.get}.monitor(t.Context()), "nats-sync", tt.want, tt.wantText)
		s.Close()
	}
}
