package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/nats/natstest"
)

// story runs a subtest on the shared stack.
func (s *stack) story(name string, tell func(*stack)) {
	s.t.Helper()
	s.t.(*testing.T).Run(name, func(t *testing.T) {
		own := *s
		own.t = t
		tell(&own)
	})
}

// is requires an answer to have exactly this code and body.
func (s *stack) is(r reply, code int, body string) {
	s.t.Helper()
	if text := strings.TrimSuffix(r.text, "\n"); r.code != code || text != body {
		s.t.Errorf("got  %d %s\nwant %d %s", r.code, text, code, body)
	}
}

// has requires an answer to have a code and these parts.
func (s *stack) has(r reply, code int, parts ...string) {
	s.t.Helper()
	if r.code != code {
		s.t.Errorf("got %d %.2000s, want %d", r.code, r.text, code)
	}
	s.contains(r.text, parts...)
}

// contains requires a text to contain these parts.
func (s *stack) contains(text string, parts ...string) {
	s.t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			s.t.Errorf("got %.4000s\nwithout %s", text, p)
		}
	}
}

// same requires two texts to be equal.
func (s *stack) same(what, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s:\ngot  %.4000s\nwant %.4000s", what, got, want)
	}
}

var (
	times  = regexp.MustCompile(`"20\d\d-[^"]*Z"`)
	hashes = regexp.MustCompile(`"agent_hash":"[0-9a-f]{16}"`)
	ids    = regexp.MustCompile(`\b(run|ses|rnr)_[0-9a-f]{8,32}\b`)
)

// bare replaces times, hashes and ids in a text and trims the line end.
func bare(text string) string {
	text = hashes.ReplaceAllString(strings.TrimSuffix(text, "\n"), `"agent_hash":"HASH"`)
	return ids.ReplaceAllString(times.ReplaceAllString(text, `"T"`), `${1}_ID`)
}

// sync runs an agent in mode sync and returns the run with its result.
func (s *stack) sync(agent, parameters string) reply {
	s.t.Helper()
	r := s.post("/runs", fmt.Sprintf(`{"agent_name":%q,"parameters":%s,"mode":"sync"}`, agent, parameters))
	if r.code != 200 {
		s.t.Fatalf("sync run of %s: %d %s", agent, r.code, r.text)
	}
	return r
}

// result returns the result document of a run.
func (s *stack) result(run string) string {
	s.t.Helper()
	r := s.get("/runs/" + run + "/result")
	if r.code != 200 {
		s.t.Errorf("result of %s: %d %s", run, r.code, r.text)
	}
	return strings.TrimSuffix(r.text, "\n")
}

// runs returns the number of runs that match a filter.
func (s *stack) runs(filter string) int {
	s.t.Helper()
	var page struct{ Runs []json.RawMessage }
	if r := s.get("/runs?limit=1000&" + filter); r.code != 200 || json.Unmarshal([]byte(r.text), &page) != nil {
		s.t.Errorf("GET /runs: %d %s", r.code, r.text)
	}
	return len(page.Runs)
}

// runner starts a worker as this host and does not wait for it.
func (s *stack) runner(host string, more ...string) *program {
	s.t.Helper()
	env := append(append([]string{}, s.env...), "AO_HOSTNAME="+host, "AO_PROFILES=test")
	return launch(s.t, "worker", s.dir, append(env, more...))
}

// online waits until a host's runner is online and returns its id.
func (s *stack) online(host string) (id string) {
	s.t.Helper()
	s.until("runner "+host+" is online", func() bool {
		id = s.runnerOf(host, "runner_id")
		return id != "" && s.runnerOf(host, "status") == "online"
	})
	return id
}

// runnerOf returns a member of a host's runner; "" if there is none.
func (s *stack) runnerOf(host, member string) string {
	var list struct{ Runners []json.RawMessage }
	if json.Unmarshal([]byte(s.get("/runners").text), &list) != nil {
		return ""
	}
	for _, raw := range list.Runners {
		if r := (reply{text: string(raw)}); r.at("hostname") == host {
			return r.at(member)
		}
	}
	return ""
}

// says waits until a program's log contains a text.
func (p *program) says(s *stack, what string) {
	s.t.Helper()
	s.until(p.name+" says "+what, func() bool { return strings.Contains(p.log.String(), what) })
}

// ends waits until a program has exited by itself and returns its exit code.
func (p *program) ends(s *stack) int {
	s.t.Helper()
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		s.t.Fatalf("%s did not end: %s", p.name, tail(p.log.String(), 2000))
	}
	return p.cmd.ProcessState.ExitCode()
}

// another starts another coordinator on the same NATS and returns the stack seen from it.
func (s *stack) another(env ...string) *stack {
	s.t.Helper()
	own := *s
	addr := natstest.FreeAddr(s.t)
	own.url = "http://" + addr
	own.env = append(append(append([]string{}, s.env...), "AO_HTTP_ADDR="+addr, "AO_URL="+own.url), env...)
	own.coordinator = launch(s.t, own.version+"coordinator", s.dir, own.env)
	own.ready()
	return &own
}

// exec runs one of our programs until it exits.
func (s *stack) exec(name, stdin string, env []string, args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	cmd.Env, cmd.Dir = append(append(os.Environ(), s.env...), env...), s.dir
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// lines returns the lines of a file written by agents; none if it does not exist.
func (s *stack) lines(name string) []string {
	raw, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return strings.Fields(string(raw))
}

// gone waits until none of these processes exists.
func (s *stack) exited(pids []string) {
	s.t.Helper()
	for _, pid := range pids {
		s.until("process "+pid+" has exited", func() bool { return exited(pid) })
	}
}

// gone reports whether a process has ended. Workers in the tests' own process make that a subreaper, so orphans of
// killed workers stay zombies.
func exited(pid string) bool {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	return err != nil || strings.Contains(string(status), "State:\tZ")
}

// sseEvent is one event of a live stream.
type sseEvent struct{ id, name, data string }

func (p sseEvent) at(path string) string { return reply{text: p.data}.at(path) }

// stream is an open live stream.
type stream struct {
	s      *stack
	header http.Header
	code   int
	stop   context.CancelFunc

	mu    sync.Mutex
	all   []sseEvent
	ended bool
}

// openStream opens a live stream, which ends with the story. On a rolling cluster it reconnects with its position,
// like an EventSource.
func (s *stack) openStream(method, path, body string, header ...string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	if s.isRolling() && method == "POST" {
		header = append(slices.Clone(header), "Idempotency-Key", rand.Text())
	}
	open := func(header ...string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "text/event-stream")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		return http.DefaultClient.Do(req)
	}
	var res *http.Response
	var err error
	natstest.Poll(2*maxStall(), func() bool {
		if res != nil {
			res.Body.Close()
		}
		res, err = open(header...)
		return err != nil || res.StatusCode != 503 || !s.isRolling()
	})
	if err != nil {
		s.t.Fatal(err)
	}
	st := &stream{s: s, header: res.Header, code: res.StatusCode, stop: cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		st.read(res.Body)
		for s.isRolling() && method == "GET" && ctx.Err() == nil {
			from := header
			if all := st.pieces(); len(all) > 0 {
				from = []string{"Last-Event-ID", all[len(all)-1].id}
			}
			natstest.Poll(2*maxStall(), func() bool {
				again, err := open(from...)
				if err == nil {
					st.read(again.Body)
				}
				return err == nil || ctx.Err() != nil
			})
		}
	}()
	s.t.Cleanup(func() { cancel(); <-done })
	return st
}

// sessions opens GET /sse/sessions. Without a position it waits for the initial state, "init", because earlier
// changes have no event.
func (s *stack) sessions(query, after string) *stream {
	s.t.Helper()
	if after != "" {
		return s.openStream("GET", "/sse/sessions"+query, "", "Last-Event-ID", after)
	}
	st := s.openStream("GET", "/sse/sessions"+query, "")
	st.find("what there is", func(p sseEvent) bool { return p.name == "init" })
	return st
}

func (st *stream) read(body io.ReadCloser) {
	defer body.Close()
	var p sseEvent
	for in := bufio.NewReader(body); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			st.mu.Lock()
			st.ended = true
			st.mu.Unlock()
			return
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case line == "\n" && p.name == "error" && st.s.isRolling():
			p = sseEvent{}
		case line == "\n" && p.name != "":
			st.mu.Lock()
			st.all = append(st.all, p)
			st.mu.Unlock()
			p = sseEvent{}
		case name == "id":
			p.id = value
		case name == "event":
			p.name = value
		case name == "data":
			p.data = value
		}
	}
}

func (st *stream) pieces() []sseEvent {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.all[:len(st.all):len(st.all)]
}

func (st *stream) over() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ended
}

// find waits for an event.
func (st *stream) find(what string, is func(sseEvent) bool) (found sseEvent) {
	st.s.t.Helper()
	st.s.until("the stream has "+what, func() bool {
		for _, p := range st.pieces() {
			if is(p) {
				found = p
				return true
			}
		}
		return false
	})
	return found
}

// event waits for a session event of a run.
func (st *stream) event(run, kind string) sseEvent {
	st.s.t.Helper()
	return st.find(kind+" of "+run, func(p sseEvent) bool {
		return p.name == "event" && p.at("run_id") == run && p.at("event_type") == kind
	})
}

// finished returns the session events of a stream in order.
func (st *stream) finished() (kinds []string) {
	for _, p := range st.pieces() {
		if p.name == "event" {
			kinds = append(kinds, p.at("event_type"))
		}
	}
	return kinds
}
