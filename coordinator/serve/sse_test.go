package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/query"
	"ao/coordinator/runs"
	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/shared/run"
)

// sseEvent is one piece of a live stream.
type sseEvent struct{ id, name, data string }

// listen opens a live stream; next gives its pieces, heartbeats left out.
func (s *stack) listen(method, path, body string, headers ...string) (next func() (sseEvent, bool), hangUp func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	if ct := res.Header.Get("Content-Type"); res.StatusCode != 200 || ct != "text/event-stream" ||
		res.Header.Get("X-Accel-Buffering") != "no" {
		s.t.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, ct, res.Header)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 32<<20)
	return func() (sseEvent, bool) {
			var e sseEvent
			for lines.Scan() {
				field, value, _ := strings.Cut(lines.Text(), ": ")
				switch field {
				case "id":
					e.id = value
				case "event":
					e.name = value
				case "data":
					e.data = value
				case "":
					if e.name != "" {
						return e, true
					}
				}
			}
			return e, false
		}, func() {
			cancel()
			res.Body.Close()
		}
}

// TestSyncAsAStream: the run's own events, then its result.
func TestSyncAsAStream(t *testing.T) {
	t.Parallel()
	s := start(t)
	var w *worker
	ready := make(chan struct{})
	w = s.work(func(q run.Queued) run.Outcome {
		<-ready
		w.message(q, "half way")
		return done(`{"ok":true}`)
	}, echo("tool"))
	close(ready)
	next, _ := s.listen("POST", "/runs", `{"agent_name":"tool","mode":"sync"}`, "Accept: text/event-stream")
	var story []string
	var last sseEvent
	for {
		e, ok := next()
		if !ok {
			break
		}
		last = e
		var body struct {
			Type string `json:"event_type"`
		}
		_ = json.Unmarshal([]byte(e.data), &body)
		story = append(story, strings.TrimSpace(e.name+" "+body.Type))
	}
	if got, want := strings.Join(story, ", "), "accepted, event run_start, event message, event result, event "+
		"run_completed, result"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	var out runs.Outcome
	if err := json.Unmarshal([]byte(last.data), &out); err != nil || out.Status != run.Completed ||
		string(out.Result.Data) != `{"ok":true}` {
		t.Errorf("%v %s", err, last.data)
	}
	events := into[struct {
		Events []run.Event
		Next   string
	}](s.get("/sessions/"+out.SessionID+"/events?limit=3"), 200)
	if len(events.Events) != 3 || events.Events[1].Type != run.EventMessage {
		t.Errorf("%+v", events)
	}
	if rest := s.get("/sessions/" + out.SessionID + "/events?after=" + events.Next); !strings.Contains(rest.body,
		`{"events":[{"event_type":"run_completed"`) {
		t.Errorf("the rest: %s", rest.body)
	}
}

// TestAStreamShowsItsOwnRun, not of the turn before it in the session.
func TestAStreamShowsItsOwnRun(t *testing.T) {
	t.Parallel()
	s := start(t)
	do, free := blocking()
	defer free()
	s.workAs(thinker("brain"), do)
	s.post("/agents", `{"name":"plain"}`).want(201)
	before := s.submit(`{"agent_name":"plain","prompt":"x"}`)
	s.until(before.RunID, run.Running)
	next, _ := s.listen("POST", "/runs", `{"session_id":"`+before.SessionID+`","prompt":"y","mode":"sync"}`,
		"Accept: text/event-stream")
	first, _ := next()
	var acc runs.Accepted
	if err := json.Unmarshal([]byte(first.data), &acc); err != nil {
		t.Fatal(err)
	}
	free()
	for {
		e, ok := next()
		if !ok || strings.Contains(e.data, before.RunID) {
			t.Fatalf("more: %v, piece %v", ok, e)
		}
		if e.name == "result" {
			break
		}
	}
	if r := s.until(acc.RunID, run.Completed); r.Type != run.Resume {
		t.Errorf("%+v", r)
	}
}

// TestAnswersAreNotHTMLEscaped: nothing here is HTML, and what was sent is shown as it was.
func TestAnswersAreNotHTMLEscaped(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/agents", `{"name":"plain"}`).want(201)
	acc := s.submit(`{"agent_name":"plain","parameters":{"prompt":"<a href='x'> & more"}}`)
	if r := s.until(acc.RunID, run.Pending); string(r.Parameters) != `{"prompt":"<a href='x'> & more"}` {
		t.Errorf("%s", r.Parameters)
	}
}

// TestStreamTimeout: the stream says so, and the run continues.
func TestStreamTimeout(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/agents", `{"name":"plain"}`).want(201)
	next, _ := s.listen("POST", "/runs", `{"agent_name":"plain","prompt":"x","mode":"sync","wait_seconds":0}`,
		"Accept: text/event-stream")
	first, _ := next()
	second, _ := next()
	if late := strings.TrimSuffix(first.data, "}") + `,"limit":"wait_seconds","timeout_seconds":0,` +
		`"timeout_by":"request"}`; first.name != "accepted" || second.name != "timeout" || second.data != late {
		t.Errorf("%v, %v", first, second)
	}
	if _, more := next(); more {
		t.Error("the stream goes on")
	}
}

// TestLastEventID: a reader that comes back misses nothing and gets nothing twice.
func TestLastEventID(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.work(parrot, echo("tool"))
	next, hangUp := s.listen("GET", "/sse/sessions", "")
	first, _ := next()
	if first.name != query.ItemInit || first.id == "" {
		t.Fatalf("%v", first)
	}
	for range 3 {
		into[runs.Outcome](s.post("/runs", `{"agent_name":"tool","mode":"sync"}`), 200)
	}
	enough := func(all []sseEvent) bool {
		n := 0
		for _, e := range all {
			if e.name == query.ItemRunUpdated && strings.Contains(e.data, `"status":"completed"`) {
				n++
			}
		}
		return n == 3
	}
	var whole []sseEvent
	for at := first.id; !enough(whole); {
		e, ok := next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if e.id != at { // else it reports what no record has, that a run is running, to live readers
			whole, at = append(whole, e), e.id
		}
	}
	hangUp()
	for cut := 0; cut < len(whole); cut += 2 { // as if the connection had broken here
		next, hangUp := s.listen("GET", "/sse/sessions", "", "Last-Event-ID: "+whole[cut].id)
		for i := cut + 1; i < len(whole); i++ {
			e, ok := next()
			if !ok || e.name != whole[i].name || e.id != whole[i].id {
				t.Fatalf("behind %d: piece %d is %v, want %v", cut, i, e, whole[i])
			}
		}
		hangUp()
	}
	next, hangUp = s.listen("GET", "/sse/sessions", "", "Last-Event-ID: 999999-0")
	gap, _ := next()
	init, _ := next()
	if gap.name != query.ItemGap || init.name != query.ItemInit {
		t.Errorf("a position that is not kept: %v, %v", gap, init)
	}
	hangUp()
	for _, path := range []string{"/sse/sessions", "/sse/runs"} {
		if g := s.get(path, "Last-Event-ID: abc"); g.status != 400 || !strings.Contains(g.body, "Last-Event-ID") {
			t.Errorf("%s after abc: %d %s, want 400 that names Last-Event-ID", path, g.status, g.body)
		}
	}
}

// TestStreamSlots: the number of live streams is limited, and an ended one frees its slot.
func TestStreamSlots(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *serve.Config) { c.HTTP.Streams = 4 })
	var hangUps []func()
	for range 4 {
		_, hangUp := s.listen("GET", "/sse/sessions", "")
		hangUps = append(hangUps, hangUp)
	}
	g := s.get("/sse/sessions")
	if m := g.want(503); m["error"] != "unavailable" || g.header.Get("Retry-After") == "" {
		t.Errorf("%s", g.body)
	}
	s.post("/agents", `{"name":"plain"}`).want(201)
	s.post("/runs", `{"agent_name":"plain","prompt":"x","mode":"sync"}`, "Accept: text/event-stream").want(503)
	literal(t, s.get("/runs"), 200, `{"runs":[]}`) // refused before anything was stored
	for _, hangUp := range hangUps {
		hangUp()
	}
	natstest.Until(t, "a seat is free", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", s.url+"/sse/sessions", nil)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == 200
	})
}

// opens gives the status of a GET, and hangs up.
func (s *stack) opens(path string, headers ...string) int {
	s.t.Helper()
	status, hangUp := s.hangOn(path, headers...)
	hangUp()
	return status
}

// hangOn makes a GET and reads no more than its status until hangUp.
func (s *stack) hangOn(path string, headers ...string) (status int, hangUp func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, func() {
		cancel()
		res.Body.Close()
	}
}

// TestTokenLeavesStreamSlots: one token alone cannot take the last live streams, and another always finds twenty.
func TestTokenLeavesStreamSlots(t *testing.T) {
	t.Parallel()
	s := secure(t, func(c *serve.Config) { c.HTTP.Streams = 88 }) // each is two consumers of NATS
	taken := 0
	for taken < 1000 {
		if status, _ := s.hangOn("/sse/sessions", s.read); status != 200 {
			if status != 503 {
				t.Fatalf("stream %d: %d", taken, status)
			}
			break
		}
		taken++
	}
	if taken < 20 || taken == 1000 { // a stream may end while others start, so more than 66 may have started
		t.Errorf("one token opened %d live streams, want 20, and a refusal before 1000", taken)
	}
	for i := range 20 {
		if status, _ := s.hangOn("/sse/sessions", s.run); status != 200 {
			t.Fatalf("another token's stream %d: %d", i, status)
		}
	}
	if g := s.get("/sse/sessions", s.read); g.want(503)["error"] != "unavailable" || g.header.Get("Retry-After") == "" {
		t.Errorf("%s", g.body)
	}
}
