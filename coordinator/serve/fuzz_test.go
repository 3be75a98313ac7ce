package serve_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"ao/coordinator/serve"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/runnerapi"
	"ao/shared/strictjson"

	"github.com/nats-io/nats.go"
)

// endpoints are ways in over HTTP; ID stands for what the fuzzer makes up.
var endpoints = []struct{ method, path string }{
	{"POST", "/runs"}, {"POST", "/runs/validate"}, {"POST", "/agents"}, {"PATCH", "/agents/tool"}, {"POST", "/schemas"},
	{"POST", "/runner/register"}, {"POST", "/mcp"},
	{"GET", "/runs/ID"}, {"GET", "/runs?cursor=ID"}, {"GET", "/sessions?status=ID"},
	{"GET", "/sessions/ID/events?after=ID"}, {"GET", "/sse/sessions?session_id=ID"}, {"POST", "/runs/ID/stop"},
	{"GET", "/runs/ID/wait?timeout_seconds=0"}, {"DELETE", "/sessions/ID"}, {"GET", "/agents/ID"},
	{"DELETE", "/runners/ID"}, {"GET", "/runs/ID/explain"}, {"GET", "/runs?limit=ID"}, {"GET", "/callbacks?cursor=ID"},
}

// FuzzHTTP: the coordinator answers whatever comes in over HTTP, and never with status 500. A refusal is JSON with a
// code and a message.
func FuzzHTTP(f *testing.F) {
	for i, body := range []string{
		`{"agent_name":"tool","parameters":{"a":1}}`, `{"agent_name":"tool","mode":"sync","wait_seconds":1}`,
		`{"name":"x","description":"d","type":"autonomous"}`, `{"description":"other"}`,
		`{"name":"s","schema":{"type":"object"}}`, `{"hostname":"h","project_dir":"/p","executor_profile":"p",` +
			`"executor_type":"procedural","agents":[{"name":"own","command":"x"}]}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"start_agent_session",` +
			`"arguments":{"agent_name":"tool"}}}`,
	} {
		f.Add(byte(i), "x", "5-6", []byte(body))
	}
	for i := 7; i < len(endpoints); i++ {
		f.Add(byte(i), "run_0195a8c0000070008000000000000001", "1-2.3", []byte(nil))
		f.Add(byte(i), "../..%2f\x00*", "x", []byte("{"))
	}
	s := start(f, quiet)
	s.post("/agents", `{"name":"tool","description":"d","type":"autonomous","parameters_schema":null}`).want(201)
	f.Fuzz(func(t *testing.T, endpoint byte, id, last string, body []byte) {
		if len(id) > 4000 || len(last) > 4000 || len(body) > 64<<10 {
			return
		}
		d := endpoints[int(endpoint)%len(endpoints)]
		path, query, _ := strings.Cut(d.path, "?")
		at := s.url + strings.ReplaceAll(path, "ID", url.PathEscape(id)) + "?" +
			strings.ReplaceAll(query, "ID", url.QueryEscape(id))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, d.method, at, strings.NewReader(string(body)))
		if err != nil {
			return
		}
		req.Header = http.Header{"Last-Event-Id": {header(last)}, "Idempotency-Key": {header(last)},
			"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}}
		if d.path == "/runs" { // an event stream would go on until the run's end
			req.Header.Set("Accept", "application/json")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			if waits := strings.Contains(string(body), "sync") || path == "/mcp"; waits &&
				errors.Is(err, context.DeadlineExceeded) {
				return
			}
			t.Fatalf("%s %s: %v", d.method, at, err)
		}
		defer res.Body.Close()
		if res.StatusCode == 500 {
			t.Errorf("%s %s answers 500", d.method, at)
		}
		if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
			return // the stream has started: its reader gets the rest
		}
		raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil {
			t.Fatalf("%s %s: %v", d.method, at, err)
		}
		if res.StatusCode >= 400 && path != "/mcp" {
			if members, err := strictjson.Members(raw); err != nil || len(members) < 2 || members[0].Key != "error" ||
				members[1].Key != "message" {
				t.Errorf("%s %s answers %d %.300s (%v)", d.method, at, res.StatusCode, raw, err)
			}
		}
	})
}

// header is text as it can stand in a header.
func header(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, text))
}

// quiet leaves out the log of a coordinator that refuses thousands, and lets few runs wait.
func quiet(c *serve.Config) {
	c.Log = slog.New(slog.DiscardHandler)
	c.NATS.Log = c.Log
	c.Coordinator.MaxPending = 50
	c.Coordinator.Lease = time.Minute
}

// FuzzNATS: requests of publishers and of workers, heartbeats, records, and runs left in the inbox, from any
// credential. Each request is answered, no answer is an internal error, and the coordinator continues.
func FuzzNATS(f *testing.F) {
	ops := []string{
		subject.APIRunsCreate, subject.APIRunsGet, subject.APIRunsStop, subject.APIAgentsList, subject.InboxRuns,
		subject.Heartbeats("rnr_1"), subject.RunnerAPI(runnerapi.OpRegister), subject.RunnerAPI(runnerapi.OpDeregister),
		subject.RunnerAPI(runnerapi.OpGetPart), subject.RunnerAPI(runnerapi.OpPutPart),
		subject.RunnerAPI(runnerapi.OpDropState),
		subject.RunnerAPI(subject.OpRecord), subject.RunnerAPI("nothing"),
		"ao.runs.07.claimed.run_1.key", "ao.runs.07.ended.run_1.key", "ao.runs.07.offered.run_1.key",
		"ao.runs.07.bound.run_1.key", "ao.events.07.ses_1.run_1.message",
	}
	for i := range ops {
		for _, body := range []string{
			`{"agent_name":"tool"}`, `{"run_id":"run_1","attempt":1,"key":"k"}`,
			`{"v":1,"runner_id":"rnr_1","instance":"i","alive":[{"run_id":"run_1","attempt":1,"key":"k"}]}`, `[`, ``,
			`{"v":1,"runner":{"hostname":"h","executor_type":"procedural","executor_profile":"p","instance":"i",` +
				`"agents":[{"name":"own","command":"x","type":"procedural"}]}}`,
		} {
			f.Add(byte(i), "x", []byte(body))
		}
	}
	s := start(f, quiet)
	s.post("/agents", `{"name":"tool","description":"d","type":"autonomous"}`).want(201)
	n := 0
	f.Fuzz(func(t *testing.T, op byte, key string, body []byte) {
		if len(body) > 64<<10 || len(key) > 200 {
			return
		}
		to := ops[int(op)%len(ops)]
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		switch {
		case strings.HasPrefix(to, "ao.fleet."):
			if _, err := s.bus.Request(ctx, to, body); err != nil && fault.KindOf(err) == fault.Internal {
				t.Errorf("%s %.300s: %v", to, body, err)
			}
		case strings.HasPrefix(to, "ao.api."):
			r, err := s.nc.RequestMsgWithContext(ctx,
				&nats.Msg{Subject: to, Data: body, Header: nats.Header{"Idempotency-Key": {header(key)}}})
			if err != nil {
				t.Fatalf("%s %.300s: %v", to, body, err)
			}
			if g := answered(t, r); g.status == 500 {
				t.Errorf("%s %.300s: %d %s", to, body, g.status, g.body)
			}
		default: // nobody answers; a subject takes one message, so the last token changes
			if strings.HasPrefix(to, "ao.runs.") && subject.Check(key) == nil {
				to = to[:strings.LastIndexByte(to, '.')+1] + key
			}
			s.nc.Publish(to, body)
		}
		if n++; n%100 == 0 {
			res, err := http.Get(s.url + "/health")
			if err != nil || res.StatusCode != 200 {
				t.Fatalf("after %d: %+v, %v", n, res, err)
			}
			res.Body.Close()
		}
	})
}
