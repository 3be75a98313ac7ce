package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ao/coordinator/access"
	"ao/nats/natstest"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// lineByLine prints a line whenever a file of that number appears, three in all.
const lineByLine = `for n in 1 2 3; do while [ ! -e "$2-$n" ]; do sleep 0.1; done; echo "line $n" >&2; done; ` +
	`echo '{"n":3}'`

// TestClients: the libraries of shared/clients give each event once and each run's end, while coordinators are killed
// and change and answers are lost.
func TestClients(t *testing.T) {
	t.Parallel()
	for _, c := range clients {
		t.Run(c.language, func(t *testing.T) {
			t.Parallel()
			driver := "driver." + map[string]string{"go": "go", "python": "py", "typescript": "ts"}[c.language]
			text, err := os.ReadFile(filepath.Join("testdata", "clients", driver))
			if err != nil {
				t.Fatal(err)
			}
			k := newClientStack(t, c.install(t)(t, string(text)))
			k.story("errors have types", k.errors)
			k.story("what no coordinator sends is an outage", k.malformed)
			k.story("a lost answer starts no second run", k.oneRun)
			k.story("a stream and a wait outlive a killed coordinator", k.killed)
			k.story("a stream continues at another coordinator", k.changed)
			k.story("long lists and later positions", k.lists)
			k.story("webhooks", k.webhooks)
		})
	}
}

// clientStack is a deployment with tokens and the program of one client.
type clientStack struct {
	*stack
	driver []string
}

func newClientStack(t *testing.T, driver []string) *clientStack {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens")
	token, err := access.Create(tokens, "admin", []string{"admin"}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	s := prepare(t, natstest.Proc(t).URL(), "AO_API_TOKENS="+tokens, "AO_CALLBACK_HOSTS=127.0.0.1",
		"AO_CALLBACK_NETWORKS=127.0.0.0/8", "AO_CALLBACK_SECRET="+webhookSecret, "RUN_LEASE=15s")
	s.token = token
	s.coordinator = launch(t, "coordinator", s.dir, s.env)
	s.ready()
	s.agent("echo", `echo '{"words":42}'`, "")
	s.agent("failing", `echo "it went wrong" >&2; exit 3`, "")
	s.agent("lines", lineByLine, "")
	s.agent("many", `seq 90 >&2; echo '{}'`, "")
	s.worker()
	return &clientStack{stack: s, driver: driver}
}

// says runs the client's program and returns the lines that it printed.
func (k *clientStack) says(s *stack, stdin string, env []string, args ...string) []string {
	s.t.Helper()
	c := clientCommand(s.t.(*testing.T), s, k.driver, args...)
	var errs bytes.Buffer
	c.Stdin, c.Stderr, c.Env = strings.NewReader(stdin), &errs, append(c.Env, env...)
	out, err := c.Output()
	if err != nil {
		s.t.Fatalf("%s: %v %s", args, err, errs.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func (k *clientStack) errors(s *stack) {
	for _, tt := range []struct{ command, want string }{
		{"run nobody {}", "api 404 not_found agent_name"},
		{"bad", "api 400 invalid_request timeout_seconds"},
		{"run failing {}", "run  command_failed "},
	} {
		r := reply{text: k.says(s, "", nil, strings.Fields(tt.command)...)[0]}
		got := []string{r.at("error"), r.at("status"), r.at("code"), r.at("field")}
		s.same(tt.command, strings.Join(got, " "), tt.want)
		if r.at("message") == "" {
			s.t.Errorf("%s: no message in %s", tt.command, r.text)
		}
	}
	own := *s
	own.token = "aot_wrong"
	s.same("a wrong token", reply{text: k.says(&own, "", nil, "run", "echo", "{}")[0]}.at("code"), "unauthorized")
	own.url = "http://" + natstest.FreeAddr(s.t)
	s.same("nobody", reply{text: k.says(&own, "", []string{"RETRY_FOR=1"}, "run", "echo", "{}")[0]}.at("error"),
		"unreachable")
	for _, answer := range []string{"{}", "null", "[1]", `{"run_id":7}`, "<html>"} {
		s.same("another server's "+answer, k.otherServer(s, http.StatusOK, answer, ""), "unreachable")
	}
	for _, after := range []string{"999999999", "9223372036", "\u00b2", strings.Repeat("9", 400)} {
		s.same("Retry-After: "+after, k.otherServer(s, http.StatusServiceUnavailable, "{}", after), "api")
	}
	s.same("null", k.otherServer(s, http.StatusInternalServerError, "null", ""), "api")
}

// otherServer returns the error of a run at a server that gives everybody the same answer.
func (k *clientStack) otherServer(s *stack, status int, answer, retryAfter string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	own := *s
	own.url = server.URL
	return reply{text: k.says(&own, "", []string{"RETRY_FOR=1"}, "run", "echo", "{}")[0]}.at("error")
}

func (k *clientStack) oneRun(s *stack) {
	own, d := *s, newFaultyProxy(s.t.(*testing.T), s.url, "text-stats") // it breaks requests that name text-stats
	own.url = d.url
	r := reply{text: k.says(&own, "", nil, "start", "echo", "{}", "one-key")[0]}
	again := reply{text: k.says(s, "", nil, "start", "echo", "{}", "one-key")[0]}
	if r.at("run") == "" || r.at("run") != again.at("run") || len(d.seen) != 1 || d.seen["POST /runs one-key"] != 4 {
		s.t.Errorf("got %s and %s after %v; want one run after four requests", r.text, again.text, d.seen)
	}
}

// follow runs the client's program and returns what it has printed.
func (k *clientStack) follow(s *stack, args ...string) func() []string {
	s.t.Helper()
	c := clientCommand(s.t.(*testing.T), s, k.driver, args...)
	var out, errs lockedBuffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Wait(); err != nil && s.t.Context().Err() == nil {
			s.t.Errorf("%s: %v %s", args, err, errs.String())
		}
	})
	s.t.Cleanup(wg.Wait)
	return func() []string { return strings.Fields(strings.ReplaceAll(out.String(), " ", "")) }
}

// open lets the run of a gate print its next line.
func (k *clientStack) open(name string, n int) { k.write(fmt.Sprintf("%s-%d", name, n), "") }

// texts returns what events say.
func texts(lines []string) string {
	var all []string
	for _, l := range lines {
		r := reply{text: l}
		if r.at("text") != "" {
			all = append(all, r.at("text"))
		} else {
			all = append(all, r.at("type"))
		}
	}
	return strings.Join(all, " ")
}

const allLines = "run_start line1 line2 line3 result run_completed end"

func (k *clientStack) killed(s *stack) {
	run := s.run(`{"agent_name":"lines","parameters":{"name":"killed"}}`)
	events, wait := k.follow(s, "events", run), k.follow(s, "wait", run)
	k.open("killed", 1)
	s.until("the first line", func() bool { return strings.Contains(texts(events()), "line1") })
	s.coordinator.kill()
	k.open("killed", 2)
	s.coordinator.start()
	s.until("the second line", func() bool { return strings.Contains(texts(events()), "line2") })
	s.coordinator.stop()
	k.open("killed", 3)
	s.coordinator.start()
	s.until("the end", func() bool { return strings.HasSuffix(texts(events()), "end") && len(wait()) == 1 })
	s.same("its events", texts(events()), allLines)
	end := reply{text: wait()[0]}
	s.same("its end", end.at("status")+end.at("data"), `completed{"n":3}`)
}

// balancer is a reverse proxy to one coordinator at a time, or to none. Its pages of events are short.
type balancer struct {
	to      atomic.Pointer[url.URL]
	resumed atomic.Int64 // streams with a position
	server  *httptest.Server
}

func newBalancer(t *testing.T, to string) *balancer {
	b := &balancer{}
	b.turn(t, to)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(b.to.Load())
		r.Out.URL.RawQuery = strings.Replace(r.Out.URL.RawQuery, "limit=500", "limit=40", 1)
	}}
	b.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.to.Load().Host == "" {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.Header.Get("Last-Event-ID") != "" {
			b.resumed.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(b.server.Close)
	t.Cleanup(b.server.CloseClientConnections)
	return b
}

// turn sends later requests to another coordinator; "": they are 503. Open connections break.
func (b *balancer) turn(t *testing.T, to string) {
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	b.to.Store(u)
	if b.server != nil {
		b.server.CloseClientConnections()
	}
}

func (k *clientStack) changed(s *stack) {
	t := s.t.(*testing.T)
	b := newBalancer(t, s.url)
	own, other := *s, s.another()
	own.url = b.server.URL
	run := s.run(`{"agent_name":"lines","parameters":{"name":"changed"}}`)
	events := k.follow(&own, "events", run)
	k.open("changed", 1)
	s.until("the first line", func() bool { return strings.Contains(texts(events()), "line1") })
	b.turn(t, "")
	k.open("changed", 2)
	s.until("the second line is stored", func() bool {
		return strings.Contains(s.get("/sessions/"+s.get("/runs/"+run).at("session_id")+"/events").text, "line 2")
	})
	before := b.resumed.Load()
	b.turn(t, other.url)
	s.until("the second line", func() bool { return strings.Contains(texts(events()), "line2") })
	k.open("changed", 3)
	s.until("the end", func() bool { return strings.HasSuffix(texts(events()), "end") })
	s.same("its events", texts(events()), allLines)
	if b.resumed.Load() == before {
		t.Error("the stream has not continued with Last-Event-ID")
	}
}

func (k *clientStack) lists(s *stack) {
	own := *s
	own.url = newBalancer(s.t.(*testing.T), s.url).server.URL
	run := s.run(`{"agent_name":"many"}`)
	s.ended(run)
	all := k.says(&own, "", nil, "events", run)
	var want strings.Builder
	for n := range 90 {
		fmt.Fprintf(&want, "%d ", n+1)
	}
	s.same("all events", texts(all), "run_start "+want.String()+"result run_completed end")
	last := ""
	for n, line := range all {
		at := reply{text: line}.at("position")
		if at == last || at == "" {
			continue // in the middle of a page
		}
		last = at
		if n == len(all)-2 {
			break
		}
		rest := k.says(&own, "", nil, "events", run, at)
		s.same(fmt.Sprintf("what follows event %d", n), texts(rest), texts(all[n+1:]))
	}
	if last == "" {
		s.t.Error("no event has a position")
	}
}

func (k *clientStack) webhooks(s *stack) {
	type sent struct {
		Body    string            `json:"body"`
		Headers map[string]string `json:"headers"`
	}
	got := make(chan sent, 8)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m := sent{string(body), map[string]string{}}
		for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
			m.Headers[name] = r.Header.Get(name)
		}
		got <- m
	}))
	s.t.Cleanup(receiver.Close)
	run := s.run(`{"agent_name":"echo","callback_url":"` + receiver.URL + `"}`)
	var good sent
	select {
	case good = <-got:
	case <-time.After(time.Minute):
		s.t.Fatal("no webhook came")
	}
	verify := func(m sent, secrets ...string) reply {
		raw, err := json.Marshal(m)
		if err != nil {
			s.t.Fatal(err)
		}
		return reply{text: k.says(s, string(raw), nil, append([]string{"verify"}, secrets...)...)[0]}
	}
	const other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for _, secrets := range [][]string{{webhookSecret}, {other, webhookSecret}} {
		r := verify(good, secrets...)
		s.same("a webhook", r.at("type")+" "+r.at("run"), "run.completed "+run)
	}
	with := func(name, value string) sent {
		m := sent{good.Body, map[string]string{}}
		for n, v := range good.Headers {
			m.Headers[n] = v
		}
		m.Headers[name] = value
		return m
	}
	old := fmt.Sprint(time.Now().Add(-10 * time.Minute).Unix())
	for what, r := range map[string]reply{
		"another secret":    verify(good, other),
		"another body":      verify(sent{good.Body + " ", good.Headers}, webhookSecret),
		"another id":        verify(with("Webhook-Id", "msg_other"), webhookSecret),
		"an old time":       verify(with("Webhook-Timestamp", old), webhookSecret),
		"no time":           verify(with("Webhook-Timestamp", "\u00b2"), webhookSecret),
		"a long time":       verify(with("Webhook-Timestamp", strings.Repeat("9", 400)), webhookSecret),
		"no signature":      verify(with("Webhook-Signature", ""), webhookSecret),
		"a secret in error": verify(good, "whsec_*"),
	} {
		s.same(what, r.at("error"), "signature")
	}
}

// TestClientTypes: a type checker agrees with the Python client's annotations. The TypeScript client is checked when it
// is compiled.
func TestClientTypes(t *testing.T) {
	t.Parallel()
	program, err := pyright()
	if err != nil {
		t.Skipf("SKIPPED: there is no pyright: %v", err)
	}
	runCommand(t, clientFolder("python"), program, "-p", ".")
}
