package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/nats/natstest"
	"ao/shared/executor"
	"ao/shared/fault"
)

// recorder keeps the lines that runs sent.
type recorder struct {
	mu    sync.Mutex
	lines []string
	state []byte
}

func (h *recorder) onLine(_ context.Context, l executor.Line) error {
	raw, err := l.MarshalJSON()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, strings.TrimSpace(string(raw)))
	return err
}

func (h *recorder) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.lines, "\n")
}

// open opens a gateway that ends with the test, and a run's endpoint in it.
func open(t testing.TB, c Config, change ...func(*Run)) (*Gateway, *Endpoint, *recorder) {
	t.Helper()
	c.Log = natstest.Log(t)
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	d, h := openEndpoint(g, "1", change...)
	return g, d, h
}

func openEndpoint(g *Gateway, id string, change ...func(*Run)) (*Endpoint, *recorder) {
	h := &recorder{}
	r := Run{
		Invocation: executor.Invocation{SessionID: "ses_" + id, RunID: "run_" + id,
			AgentName: "a", ProjectDir: "/srv", ExecutorSession: "m-0"},
		OnLine: h.onLine,
		State:  func(context.Context) ([]byte, error) { return h.state, nil },
		Keep:   func(_ context.Context, s []byte) error { h.state = bytes.Clone(s); return nil },
		API:    func() string { return "" }, Token: func() string { return "aos_" + id },
	}
	for _, f := range change {
		f(&r)
	}
	return g.Open(r), h
}

// ask sends a request and returns the response's status, header and body.
func ask(t testing.TB, method, url, body string, change ...func(*http.Request)) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(r)
	}
	a, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	all, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header, string(all)
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}, Timeout: 30 * time.Second}

func TestBodies(t *testing.T) {
	_, d, h := open(t, Config{})
	large := strings.Repeat("x", maxEvent)
	for _, tt := range []struct {
		request  string
		status   int
		answer   string // has
		reported string // is
	}{
		{`POST /bind {"session_id":"ses_1","executor_session_id":"m","project_dir":"/x","hostname":"h",` +
			`"executor_profile":"p"}`, 200, `"session":{"session_id":"ses_1","executor_session_id":"m"`,
			`{"type":"bind","executor_session_id":"m"}`},
		{"POST /bind \ufeff" + `{"executor_session_id":"m"}`, 200, ``, `{"type":"bind","executor_session_id":"m"}`},
		{`POST /bind {"executor_session_id":"m"}`, 200, `{"ok":true`, `{"type":"bind","executor_session_id":"m"}`},
		{`POST /sessions/ses_1/bind {"executor_session_id":"m"}`, 200, ``, `{"type":"bind","executor_session_id":"m"}`},
		{`POST /sessions/ses_2/bind {"executor_session_id":"m"}`, 403, `the path names another session`, ``},
		{`POST /bind {"session_id":"ses_2","executor_session_id":"m"}`, 403, `"field":"session_id"`, ``},
		{`POST /bind {"session_id":7,"executor_session_id":"m"}`, 400, `session_id must be a non-empty string`, ``},
		{`POST /bind {}`, 400, `executor_session_id is required`, ``},
		{`POST /bind {"executor_session_id":""}`, 400, `"field":"executor_session_id"`, ``},
		{`POST /bind {"executor_session_id":"m","colour":1}`, 400, `unknown field \"colour\"`, ``},
		{`POST /bind `, 400, `The body is not JSON: it ends too early`, ``},
		{`POST /bind []`, 400, `the body must be a JSON object`, ``},
		{`POST /bind {"executor_session_id":"m"} x`, 400, `something follows it`, ``},
		{"POST /bind {\"executor_session_id\":\"caf\xe9\"}", 400, `it is not UTF-8`, ``},
		{`POST /bind {"executor_session_id":"a","executor_session_id":"b"}`, 400,
			`has the key \"executor_session_id\" twice`, ``},

		{`POST /events {"event_type":"message","session_id":"ses_1","run_id":"run_1",` +
			`"timestamp":"2026-01-01T00:00:00Z","role":"assistant","content":[{"type":"text","text":"<a>"}]}`, 200,
			`{"ok":true}`,
			`{"type":"event","event_type":"message","role":"assistant","content":[{"type":"text","text":"<a>"}]}`},
		{`POST /sessions/ses_1/events {"event_type":"pre_tool","tool_name":"ls","tool_input":{"n":1.0}}`, 200, ``,
			`{"type":"event","event_type":"pre_tool","tool_name":"ls","tool_input":{"n":1.0}}`},
		{`POST /events {"event_type":"post_tool","tool_name":"ls","tool_output":"","error":null}`, 200, ``,
			`{"type":"event","event_type":"post_tool","tool_name":"ls","tool_output":"","error":null}`},
		{`POST /events {"event_type":"session_start"}`, 200, ``, ``},
		{`POST /events {"event_type":"message","session_id":"ses_2","role":"assistant","content":[]}`, 403,
			`names another session or run; this URL is for session ses_1 (run run_1) only`, ``},
		{`POST /events {"event_type":"message","run_id":"run_2","role":"assistant","content":[]}`, 403,
			`"field":"run_id"`, ``},
		{`POST /events {"role":"assistant"}`, 400, `event_type is required`, ``},
		{`POST /events {"event_type":"dance"}`, 400,
			`unknown event_type \"dance\"; known are message, pre_tool, post_tool, metadata and result`, ``},
		{`POST /events {"event_type":"run_completed"}`, 400, `unknown event_type`, ``},
		{`POST /events {"event_type":"message","role":"boss","content":[]}`, 400,
			`role of a message event must be assistant, user or system`, ``},
		{`POST /events {"event_type":"message","role":"user","content":"hello"}`, 400, `"field":"content"`, ``},
		{`POST /events {"event_type":"message","role":"user","content":[{"type":"text"}]}`, 400, `"field":"content"`,
			``},
		{`POST /events {"event_type":"message","role":"user","content":null}`, 400, `"field":"content"`, ``},
		{`POST /events {"event_type":"pre_tool"}`, 400, `tool_name of a pre_tool event must be`, ``},
		{`POST /events {"event_type":"message","role":"user","content":[{"type":"text","text":"` + large + `"}]}`, 413,
			`the event has more than 512000 bytes`, ``},
		{`POST /events {"event_type":"result","result_text":"` + large + large + large + `"}`, 200, ``,
			`{"type":"result","result_type":"","result_text":"` + large + large + large + `","result_data":null}`},
		{`PATCH /metadata {"x":"` + large + large + large + `"}`, 413, `the body may have at most 1048576 bytes`, ``},

		{`POST /events {"event_type":"result","session_id":"ses_1","timestamp":"x","result_text":null,` +
			`"result_data":{"b":1e400,"a":0}}`, 200, ``,
			`{"type":"result","result_type":"","result_text":null,"result_data":{"b":1e400,"a":0}}`},
		{`POST /events {"event_type":"result","result_text":"done","error":{"error":"quota","message":"no"}}`, 200, ``,
			`{"type":"result","result_type":"","result_text":"done","result_data":null,"error":{"error":"quota",` +
				`"message":"no"}}`},
		{`POST /events {"event_type":"result","result_text":"a","result_data":1}`, 400, `"field":"result_data"`, ``},
		{`POST /events {"event_type":"result","colour":1}`, 400, `nknown field \"colour\"`, ``},

		{`PATCH /metadata {"session_id":"ses_1","cost_usd":0.10,"usage":{"in":1}}`, 200, ``,
			`{"type":"event","event_type":"metadata","metadata":{"cost_usd":0.10,"usage":{"in":1}}}`},
		{`PATCH /metadata {"metadata":{"a":1}}`, 200, ``,
			`{"type":"event","event_type":"metadata","metadata":{"a":1}}`},
		{`PATCH /sessions/ses_1/metadata {"last_resumed_at":"2026-01-01","executor_session_id":"m"}`, 200, ``,
			`{"type":"bind","executor_session_id":"m"}`},
		{`PATCH /metadata {"session_id":"ses_2","a":1}`, 403, ``, ``},
		{`PATCH /metadata {"bad key":1}`, 400, `key \"bad key\" must be`, ``},
		{`PATCH /metadata {"a":"` + large[:maxValue] + `"}`, 413, `metadata.a may have at most 4096 bytes`, ``},
		{`PATCH /metadata {"metadata":{` + many(65) + `}}`, 400, `metadata may have at most 64 keys, got 65`, ``},
		{`POST /events {"event_type":"metadata","metadata":{"a":1}}`, 200, ``,
			`{"type":"event","event_type":"metadata","metadata":{"a":1}}`},
		{`POST /events {"event_type":"metadata","metadata":[1]}`, 400, `metadata must be an object`, ``},
		{`POST /events {"event_type":"metadata","a":1,"metadata":{}}`, 400, ``, ``},

		{`GET /sessions/ses_1 `,
			200,
			`{"session":{"session_id":"ses_1","executor_session_id":"m-0","project_dir":"/srv","agent_name":"a",` +
				`"status":"running"}}`, ``},
		{`GET /sessions/ses_2 `, 403, ``, ``},
		{`GET /state `, 204, ``, ``},
		{`PUT /state `, 400, `the body is empty`, ``},
		{"PUT /state \x00\xff", 200, `{"ok":true}`, ``},
		{"GET /state ", 200, "\x00\xff", ``},
		{`GET /bind `, 405, `/bind takes POST`, ``},
		{`DELETE /state `, 405, `/state takes GET, PUT`, ``},
		{`POST /runs {}`, 404, `unknown path; known paths: POST /bind, POST /events, PATCH /metadata, GET /state`, ``},
		{`GET / `, 404, ``, ``},
		{`GET /../state `, 401, ``, ``},
		{`POST /api/schemas {}`, 404, ``, ``},
		{`DELETE /api/sessions/ses_1 `, 405, ``, ``},
		{`GET /api/runners `, 404, ``, ``},
		{`GET /api/runs/%2e%2e `, 401, ``, ``},
		{`GET /api/runs/a%2Fb/result `, 401, ``, ``},
		{`POST /mcp {}`, 503, `set AO_API_URL for the worker`, ``},
		{`GET /api/agents `, 503, `"error":"api_not_known"`, ``},
	} {
		t.Run(fmt.Sprintf("%.90q", tt.request), func(t *testing.T) {
			f := strings.SplitN(tt.request, " ", 3)
			h.lines = nil
			status, head, body := ask(t, f[0], d.URL+f[1], f[2])
			if status != tt.status || !strings.Contains(body, tt.answer) {
				t.Errorf("got %d %.300s, want %d %s", status, body, tt.status, tt.answer)
			}
			if got := h.all(); got != tt.reported {
				t.Errorf("reported %.300s, want %s", got, tt.reported)
			}
			if status == 405 && head.Get("Allow") == "" || status > 399 && !json.Valid([]byte(body)) {
				t.Errorf("%v %s", head, body)
			}
		})
	}
}

func many(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"k%d":1`, i))
	}
	return strings.Join(all, ",")
}

// TestTokens: only the token of a running run gives access, and only to that run.
func TestTokens(t *testing.T) {
	g, d, h := open(t, Config{})
	other, _ := openEndpoint(g, "2")
	base := strings.TrimSuffix(d.URL, d.token)
	event := `{"event_type":"message","session_id":"ses_1","role":"user","content":[]}`
	for _, tt := range []struct {
		name, url string
		change    func(*http.Request)
		status    int
	}{
		{"the run itself", d.URL, nil, 200},
		{"by the name localhost", d.URL, func(r *http.Request) {
			r.Host = "localhost" + g.addr[strings.LastIndexByte(g.addr, ':'):]
		}, 200},
		{"no token", base, nil, 401},
		{"a wrong token", base + rand.Text(), nil, 401},
		{"a part of the token", d.URL[:len(d.URL)-1], nil, 401},
		{"a token in other letters", base + strings.ToLower(d.token), nil, 401},
		{"another run's token", other.URL, nil, 403},
		{"a foreign host", d.URL, func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"a foreign port", d.URL, func(r *http.Request) { r.Host = "127.0.0.1:1" }, 403},
		{"a web page", d.URL, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.change == nil {
				tt.change = func(*http.Request) {}
			}
			if status, _, body := ask(t, "POST", tt.url+"/events", event, tt.change); status != tt.status ||
				strings.Contains(body, d.token) {
				t.Errorf("got %d %s, want %d", status, body, tt.status)
			}
		})
	}
	if got := h.all(); strings.Count(got, "\n") != 1 {
		t.Errorf("reported %s", got)
	}
	d.Close()
	for _, path := range []string{"/events", "/mcp", "/state", ""} {
		if status, _, _ := ask(t, "POST", d.URL+path, event); status != 401 {
			t.Errorf("after the end %s gets %d", path, status)
		}
	}
	if status, _, _ := ask(t, "GET", other.URL+"/state", ""); status != 204 {
		t.Errorf("the other run gets %d", status)
	}
}

// TestURLKey: a program that lives through several runs of a session has one URL for all, and gets 401 in between.
func TestURLKey(t *testing.T) {
	same := func(r *Run) { r.URLKey = r.Invocation.SessionID }
	g, first, _ := open(t, Config{}, same)
	second, h := openEndpoint(g, "1", same)
	foreign, _ := openEndpoint(g, "2", same)
	if first.URL != second.URL || foreign.URL == first.URL {
		t.Errorf("%s, %s, %s", first.URL, second.URL, foreign.URL)
	}
	first.Close() // late: the second has started
	if status, _, body := ask(t, "POST", first.URL+"/bind", `{"executor_session_id":"m"}`); status != 200 ||
		h.all() == "" {
		t.Errorf("got %d %s", status, body)
	}
	second.Close()
	if status, _, _ := ask(t, "POST", first.URL+"/bind", `{}`); status != 401 {
		t.Errorf("got %d", status)
	}
}

// TestRateLimit: a run over its rate limit gets Retry-After, and other runs are not affected.
func TestRateLimit(t *testing.T) {
	g, d, _ := open(t, Config{Rate: 0.01, Burst: 3})
	other, _ := openEndpoint(g, "2")
	within := func(text string, least, most int) bool {
		n, err := strconv.Atoi(text)
		return err == nil && least <= n && n <= most
	}
	var got []int
	for range 5 {
		status, head, body := ask(t, "GET", d.URL+"/state", "")
		got = append(got, status)
		if status == 429 && (!within(head.Get("Retry-After"), 90, 100) ||
			!strings.Contains(body, "too_many_requests")) {
			t.Errorf("%v %s", head, body)
		}
	}
	if fmt.Sprint(got) != "[204 204 204 429 429]" {
		t.Errorf("got %v", got)
	}
	if status, _, _ := ask(t, "GET", other.URL+"/state", ""); status != 204 {
		t.Errorf("the other run gets %d", status)
	}
}

// TestTooManyAtOnce: a run with too many concurrent requests gets no more, and its end ends them.
func TestTooManyAtOnce(t *testing.T) {
	stuck := make(chan struct{}, 2*maxConcurrent)
	g, d, _ := open(t, Config{}, func(r *Run) {
		r.OnLine = func(ctx context.Context, _ executor.Line) error {
			stuck <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
	})
	other, _ := openEndpoint(g, "2")
	var wg sync.WaitGroup
	answers := make(chan int, maxConcurrent)
	for range maxConcurrent {
		wg.Go(func() {
			r, _ := http.NewRequest("POST", d.URL+"/bind", strings.NewReader(`{"executor_session_id":"m"}`))
			if a, err := client.Do(r); err == nil {
				a.Body.Close()
				answers <- a.StatusCode
			}
		})
	}
	for range maxConcurrent {
		<-stuck
	}
	if status, _, body := ask(t, "GET", d.URL+"/state", ""); status != 429 {
		t.Errorf("got %d %s", status, body)
	}
	if status, _, _ := ask(t, "GET", other.URL+"/state", ""); status != 204 {
		t.Errorf("the other run gets %d", status)
	}
	d.Close()
	wg.Wait()
	close(answers)
	for status := range answers {
		if status != 503 {
			t.Errorf("what was under way at the end gets %d", status)
		}
	}
}

// TestManyEventsAtOnce: concurrent events over few connections; none is lost.
func TestManyEventsAtOnce(t *testing.T) {
	_, d, h := open(t, Config{Rate: 1e6, Burst: 1e6})
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 250 {
				if status, _, body := ask(t, "POST", d.URL+"/events",
					fmt.Sprintf(`{"event_type":"message","role":"assistant","content":[],"n":%d}`,
						n*250+i)); status != 200 {
					t.Errorf("%d %s", status, body)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, l := range h.lines {
		seen[l] = true
	}
	if len(seen) != 8*250 {
		t.Errorf("got %d events, want %d", len(seen), 8*250)
	}
}

// TestSlow: a slow or endless header or body is cut off, and does not delay the run's end.
func TestSlow(t *testing.T) {
	g, d, _ := open(t, Config{RequestTimeout: 2 * time.Second, MaxState: 1 << 20})
	path := d.URL[len("http://"+g.addr):]
	head := func(method, path, more string) string {
		return method + " " + path + " HTTP/1.1\r\nHost: " + g.addr + "\r\n" + more + "\r\n"
	}
	for _, tt := range []struct{ name, send, want string }{
		{"no head", "POST ", ""},
		{"half a body", head("POST", path+"/bind", "Content-Length: 100\r\n") + `{"exec`, "400"},
		{"no body, wrong token", head("POST", "/x/bind", "Content-Length: 100\r\n"), "401"},
		{"a body that never ends", head("PUT", path+"/state", "Transfer-Encoding: chunked\r\n") +
			strings.Repeat("10000\r\n"+strings.Repeat("x", 0x10000)+"\r\n", 40), "413"},
		{"a large head", "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 40<<10), "431"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", g.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(time.Minute))
			go io.WriteString(c, tt.send)
			all, err := io.ReadAll(c)
			if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
				t.Errorf("it is not cut off; got %.200s", all)
			}
			if line, _, _ := strings.Cut(string(all), "\r\n"); !strings.Contains(line, tt.want) {
				t.Errorf("got %.300s", all)
			}
		})
	}
}

// TestFewConnections: idle connections are closed; new ones wait and are served.
func TestFewConnections(t *testing.T) {
	g, d, _ := open(t, Config{RequestTimeout: time.Second, MaxConnections: 2})
	for range 5 {
		c, err := net.Dial("tcp", g.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if status, _, _ := ask(t, "GET", d.URL+"/state", ""); status != 204 {
		t.Errorf("got %d", status)
	}
}

// TestCloseIsBounded: a client that does not read its response delays neither its run's end nor the gateway's.
func TestCloseIsBounded(t *testing.T) {
	began := make(chan struct{})
	g, d, h := open(t, Config{MaxState: 64 << 20}, func(r *Run) {
		state := r.State
		r.State = func(ctx context.Context) ([]byte, error) { close(began); return state(ctx) }
	})
	h.state = bytes.Repeat([]byte{'x'}, 32<<20)
	c, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET %s/state HTTP/1.1\r\nHost: %s\r\n\r\n", d.URL[len("http://"+g.addr):], g.addr)
	if _, err := bufio.NewReader(c).Peek(1); err != nil { // it writes
		t.Fatal(err)
	}
	<-began
	over := make(chan struct{})
	go func() { d.Close(); g.Close(); close(over) }()
	select {
	case <-over:
	case <-time.After(10 * time.Second):
		t.Error("it waits for a client that does not read")
	}
}

// TestRefusals: the worker's refusals are passed on with code and fields, internal errors are not.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		body   string
	}{
		{fault.New(fault.Conflict, "", "bound before").With("field", "x"), 409,
			`{"error":"conflict","message":"bound before","field":"x"}`},
		{fault.New(fault.Unavailable, "", "away").After(2 * time.Second), 503,
			`{"error":"unavailable","message":"away"}`},
		{errors.New("secret"),
			500,
			`{"error":"internal","message":"Internal error; see the log for this request's id"}`},
	} {
		_, d, _ := open(t, Config{}, func(r *Run) {
			r.OnLine = func(context.Context, executor.Line) error { return tt.err }
		})
		if status, _, body := ask(t, "POST", d.URL+"/bind", `{"executor_session_id":"m"}`); status != tt.status ||
			body != tt.body {
			t.Errorf("got %d %s", status, body)
		}
	}
}

// FuzzBodies: every body gets a response, and an accepted one becomes a valid line.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{"executor_session_id":"m"}`, `{"event_type":"message","role":"user","content":[{"type":"text","text":"a"}]}`,
		`{"event_type":"result","result_data":[1]}`,
		`{"metadata":{"a":1}}`, `{"event_type":"result","type":"result","error":{}}`, `[`, `{"a":{"a":{"a":[[[]]]}}}`,
		`{"event_type":"metadata","metadata":null}`, `null`, `""`,
	} {
		f.Add(seed)
	}
	_, d, h := open(f, Config{Rate: 1e9, Burst: 1e9})
	f.Fuzz(func(t *testing.T, body string) {
		for _, to := range []string{"POST /bind", "POST /events", "PATCH /metadata"} {
			h.lines = nil
			method, path, _ := strings.Cut(to, " ")
			status, _, answer := ask(t, method, d.URL+path, body)
			if status != 200 && status != 400 && status != 403 && status != 413 || !json.Valid([]byte(answer)) {
				t.Fatalf("%s: %d %s", to, status, answer)
			}
			for _, line := range h.lines {
				if _, ok, err := executor.ReadLine([]byte(line)); !ok || err != nil {
					t.Fatalf("%s: reported %s: %v", to, line, err)
				}
			}
		}
	})
}
