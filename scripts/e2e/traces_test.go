package e2e

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// The trace of the callers.
const (
	callersTrace  = "0af7651916cd43dd8448eb211c80319c"
	callersParent = "00-" + callersTrace + "-b7ad6b7169203331-01"
)

// span is a span received by a collector.
type span struct {
	id, above, trace, name, service string
	failed                          bool
	facts                           map[string]string
	links                           []string // traces and spans
	from, to                        uint64
}

// collector receives the spans of a stack's programs.
type collector struct {
	*httptest.Server
	mu  sync.Mutex
	all map[string]span
	raw strings.Builder // every span that was ever exported
}

func collect(t testing.TB) *collector {
	t.Helper()
	c := &collector{all: map[string]span{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &m)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw.Write(body)
		for _, rs := range m.ResourceSpans {
			service := ""
			for _, a := range rs.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					one := span{
						hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId), hex.EncodeToString(s.TraceId),
						s.Name, service,
						s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR, map[string]string{}, nil,
						s.StartTimeUnixNano, s.EndTimeUnixNano,
					}
					for _, a := range s.Attributes {
						one.facts[a.Key] = a.Value.GetStringValue()
						if n := a.Value.GetIntValue(); n != 0 {
							one.facts[a.Key] = fmt.Sprint(n)
						}
					}
					for _, l := range s.Links {
						one.links = append(one.links, hex.EncodeToString(l.TraceId)+" "+hex.EncodeToString(l.SpanId))
					}
					c.all[one.id] = one
				}
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// env enables tracing in a stack's programs.
func (c *collector) env() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_BSP_SCHEDULE_DELAY=20"}
}

// of returns the spans of a trace.
func (c *collector) of(trace string) (all []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.all {
		if s.trace == trace {
			all = append(all, s)
		}
	}
	return all
}

// find returns the only span of a trace with this name for a run's attempt.
func (c *collector) find(t testing.TB, trace, name, run, attempt string) (found span) {
	t.Helper()
	for _, s := range c.of(trace) {
		if s.name == name && s.facts["ao.run.id"] == run && s.facts["ao.run.attempt"] == attempt {
			found = s
		}
	}
	if found.id == "" {
		t.Errorf("no span %s of run %s, attempt %s", name, run, attempt)
	}
	return found
}

// paths returns the paths from a trace's root to its spans, by names and attempts, each once. A path with a missing
// parent shows that at its beginning.
func (c *collector) paths(trace, root string) []string {
	all := map[string]span{}
	for _, s := range c.of(trace) {
		all[s.id] = s
	}
	var path func(s span) string
	path = func(s span) string {
		name := s.name
		if n := s.facts["ao.run.attempt"]; n != "" {
			name += " " + n
		}
		if s.failed {
			name += " !" + s.facts["error.type"]
		}
		switch above, ok := all[s.above]; {
		case s.above == root:
			return name
		case ok:
			return path(above) + "/" + name
		}
		return "?/" + name
	}
	var received []string
	for _, s := range all {
		received = append(received, path(s))
	}
	slices.Sort(received)
	return slices.Compact(received)
}

// want waits until a trace has exactly these paths.
func (c *collector) want(s *stack, trace, root, paths string) {
	s.t.Helper()
	want := strings.Split(strings.TrimSpace(paths), "\n")
	slices.Sort(want)
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the trace is\n%s\nwant\n%s", strings.Join(c.paths(trace, root), "\n"), strings.Join(want, "\n"))
		}
	})
	s.until("the trace is whole", func() bool {
		got := c.paths(trace, root)
		return len(got) >= len(want) && slices.Equal(got, want)
	})
}

// One tree in the caller's trace, over three processes, has the caller's request and its orchestrator. Below that are a
// child with an output schema and a callback, and a child that fails at its first attempt.
func TestOneTrace(t *testing.T) {
	if rolling {
		t.Skip("what is asked again while NATS has no leader is more than one tree")
	}
	t.Parallel()
	c := collect(t)
	s := up(t, c.env()...)
	s.agent("leaf", `[ "$AGENT_ORCHESTRATOR_ATTEMPT" = 2 ] || exit 3
printf '{"traceparent":"%s","tracestate":"%s"}' "$TRACEPARENT" "$TRACESTATE"`, `"max_attempts":2`)
	s.worker()
	s.startSimulated("minds")
	scanner := promptParams("@json {\"wrong\":\"sesame\"}\n@next\n@json {\"issues\":[],\"summary\":\"sesame\"}")
	top := s.ended(s.post("/runs", `{"agent_name":"orchestrator","parameters":`+
		promptParams("@child scanner async_callback "+scanner+
			"\n@child leaf sync {\"secret\":\"sesame\"}\n@data {\"said\":$CHILD}")+`}`,
		"Traceparent", callersParent, "Tracestate", "vendor=1").at("run_id"))
	c.want(s, callersTrace, "b7ad6b7169203331", `
POST /runs
POST /runs/submit
POST /runs/submit/queue 1
POST /runs/submit/attempt 1
POST /runs/submit/attempt 1/claim
POST /runs/submit/attempt 1/execute 1
POST /runs/submit/attempt 1/ended
POST /runs/submit/attempt 1/execute 1/POST /runs
POST /runs/submit/attempt 1/execute 1/POST /runs/submit
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/queue 1
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 1
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 1/claim
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 1/execute 1
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 1/execute 1/schema retry
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 1/ended
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/check offer 1
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 1 !command_failed
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 1 !command_failed/claim
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 1 !command_failed/execute 1 !command_failed
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 1 !command_failed/execute 1 !command_failed/process
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 1 !command_failed/ended
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/queue 2
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 2
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 2/claim
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 2/execute 2
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 2/execute 2/process
POST /runs/submit/attempt 1/execute 1/POST /runs/submit/attempt 2/ended
POST /runs/submit/callback
POST /runs/submit/callback/queue 1
POST /runs/submit/callback/attempt 1
POST /runs/submit/callback/attempt 1/claim
POST /runs/submit/callback/attempt 1/execute 1
POST /runs/submit/callback/attempt 1/ended`)

	// The executor's environment has the span of its second attempt.
	executed := c.find(t, callersTrace, "execute", s.get("/runs?agent_name=leaf").at("runs.0.run_id"), "2")
	r := s.get("/runs/" + top.at("run_id") + "/result")
	s.same("the executor's environment", r.at("result_data.said"),
		fmt.Sprintf(`{"traceparent":"00-%s-%s-01","tracestate":"vendor=1"}`, callersTrace, executed.id))

	id := top.at("run_id")
	for _, one := range c.of(callersTrace) {
		if one.facts["ao.run.id"] != id || one.name != "attempt" && one.name != "execute" {
			continue
		}
		for key, want := range map[string]string{
			"ao.session.id": top.at("session_id"), "ao.agent.name": "orchestrator", "ao.executor.profile": "mind",
			"ao.runner.id": top.at("runner_id"), "ao.run.attempt": "1", "ao.run.status": "completed",
		} {
			if one.facts[key] != want {
				t.Errorf("%s has %s %q, want %q", one.name, key, one.facts[key], want)
			}
		}
		if one.service != "ao-worker" {
			t.Errorf("span %s: got service %s, want ao-worker", one.name, one.service)
		}
	}
	if web := c.find(t, callersTrace, "POST /runs", "", ""); web.service != "ao-coordinator" ||
		web.facts["http.response.status_code"] == "" || web.facts["http.route"] != "/runs" {
		t.Errorf("the request: %+v", web)
	}
	queue := c.find(t, callersTrace, "queue", id, "1")
	if attempt := c.find(t, callersTrace, "attempt", id, "1"); queue.to <= queue.from || queue.to < attempt.from ||
		queue.from > attempt.from {
		t.Errorf("it waited from %d to %d, and was taken up at %d", queue.from, queue.to, attempt.from)
	}
	scan := s.get("/runs?agent_name=scanner").at("runs.0.run_id")
	for _, one := range c.of(callersTrace) {
		if one.name != "callback" {
			continue
		}
		for _, l := range one.links {
			if !slices.ContainsFunc(c.of(callersTrace), func(o span) bool {
				return l == o.trace+" "+
					o.id && o.name == "submit" && o.facts["ao.run.id"] == scan
			}) {
				t.Errorf("the callback is linked to %s", l)
			}
		}
		if len(one.links) != 1 {
			t.Errorf("the callback has the links %v", one.links)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, hidden := range []string{"sesame", "prompt", "issues"} {
		if strings.Contains(c.raw.String(), hidden) {
			t.Errorf("spans show %q", hidden)
		}
	}
}

// Traces over NATS, the inbox, MCP and webhooks, and with a lost worker.
func TestTracesOfOtherEntryPoints(t *testing.T) {
	if rolling {
		t.Skip("what is asked again while NATS has no leader is more than one tree")
	}
	t.Parallel()
	c := collect(t)
	var mu sync.Mutex
	received := map[string]string{} // by webhook-id: the traceparent
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		received[r.Header.Get("webhook-id")] = r.Header.Get("Traceparent")
	}))
	t.Cleanup(receiver.Close)
	s := up(t, append(c.env(), "AO_CALLBACK_HOSTS=127.0.0.1", "AO_CALLBACK_NETWORKS=127.0.0.0/8",
		"AO_CALLBACK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")...)
	s.agent("quick", `echo '{"ok":true}'`, "")
	s.agent("dies", `[ "$AGENT_ORCHESTRATOR_ATTEMPT" = 2 ] || exec sleep 60; echo '{"ok":true}'`, `"max_attempts":2`)
	w := s.worker()
	const mine = "7777777777777777"
	trace := func(n int) (trace, parent string) {
		trace = fmt.Sprintf("%032x", 0xabc0+n)
		return trace, "00-" + trace + "-" + mine + "-01"
	}
	const run = `
%[1]s
%[1]s/submit
%[1]s/submit/queue 1
%[1]s/submit/attempt 1
%[1]s/submit/attempt 1/claim
%[1]s/submit/attempt 1/execute 1
%[1]s/submit/attempt 1/execute 1/process
%[1]s/submit/attempt 1/ended`

	s.story("a request over NATS, and a webhook", func(s *stack) {
		id, parent := trace(1)
		p := publisher{s, s.nats.Conn(s.t)}
		r := p.ask("ao.api.runs.create", `{"agent_name":"quick","callback_url":"`+receiver.URL+`/x"}`, "traceparent",
			parent)
		c.want(s, id, mine, fmt.Sprintf(run, "ao.api.runs.create")+"\nao.api.runs.create/submit/webhook")
		mu.Lock()
		defer mu.Unlock()
		if got, want := received["msg_"+strings.TrimPrefix(r.at("run_id"), "run_")], "00-"+id+"-"+
			c.find(s.t, id, "webhook", r.at("run_id"), "").id+"-01"; got != want {
			s.t.Errorf("the webhook has the traceparent %q, want %q", got, want)
		}
	})

	s.story("the inbox", func(s *stack) {
		id, parent := trace(2)
		publisher{s, s.nats.Conn(s.t)}.leave(`{"agent_name":"quick"}`, "traceparent", parent)
		c.want(s, id, mine, fmt.Sprintf(run, "ao.inbox.runs"))
	})

	s.story("MCP", func(s *stack) {
		id, parent := trace(3)
		r := s.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"start_agent_session",`+
			`"arguments":{"agent_name":"quick"}}}`,
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Traceparent", parent)
		s.has(r, 200, `ok`)
		c.want(s, id, mine, fmt.Sprintf(run, "POST /mcp"))
	})

	s.story("a caller who does not trace begins one, and one who wants no spans gets none", func(s *stack) {
		id := s.ended(s.run(`{"agent_name":"quick"}`)).at("run_id")
		var whole string
		s.until("its attempt is exported", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			for _, one := range c.all {
				if one.facts["ao.run.id"] == id && one.name == "attempt" {
					whole = one.trace
				}
			}
			return whole != ""
		})
		c.want(s, whole, "", fmt.Sprintf(run, "POST /runs"))
		quiet, parent := trace(4)
		s.ended(s.post("/runs", `{"agent_name":"quick"}`, "Traceparent", strings.TrimSuffix(parent, "1")+
			"0").at("run_id"))
		if got := c.of(quiet); len(got) > 0 {
			s.t.Errorf("spans that nobody wanted: %v", got)
		}
	})

	s.story("who polls begins no trace", func(s *stack) {
		id, p := s.ended(s.run(`{"agent_name":"quick"}`)).at("run_id"), publisher{s, s.nats.Conn(s.t)}
		for _, path := range []string{"", "/result", "/wait", "/explain"} {
			s.has(s.get("/runs/"+id+path), 200)
		}
		p.ask("ao.api.runs.get", id)
		s.has(s.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Content-Type", "application/json",
			"Accept", "application/json, text/event-stream"), 200)
		its, parent := trace(7)
		s.has(s.do("GET", "/runs/"+id, "", "Traceparent", parent), 200)
		c.want(s, its, mine, "GET /runs/:id") // all that came before it has been sent, too
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, one := range c.all {
			if one.above == "" && (strings.HasPrefix(one.name, "GET ") || one.name == "POST /mcp" ||
				one.name == "ao.api.runs.get") {
				s.t.Errorf("%s begins a trace", one.name)
			}
		}
	})

	s.story("a run that nobody begins, and one whose worker is lost", func(s *stack) {
		id, parent := trace(5)
		run := s.post("/runs", `{"agent_name":"dies"}`, "Traceparent", parent).at("run_id")
		s.status(run, "running")
		waits, its := trace(6)
		s.post("/runs/"+s.post("/runs", `{"agent_name":"quick","additional_demands":{"tags":["nowhere"]}}`,
			"Traceparent", its).at("run_id")+"/stop", "")
		c.want(s, waits, mine, "\nPOST /runs\nPOST /runs/submit\nPOST /runs/submit/queue 1")
		s.until("the claim is exported", func() bool { return slices.Contains(c.paths(id, mine), "?/claim") })
		w.kill()
		s.worker()
		s.ended(run)
		c.want(s, id, mine, `
POST /runs
POST /runs/submit
POST /runs/submit/queue 1
?/claim
POST /runs/submit/attempt 1 !runner_disconnected
POST /runs/submit/queue 2
POST /runs/submit/attempt 2
POST /runs/submit/attempt 2/claim
POST /runs/submit/attempt 2/execute 2
POST /runs/submit/attempt 2/execute 2/process
POST /runs/submit/attempt 2/ended`)
	})
}

// Without our own spans a caller's trace is still passed on. The executor gets it, also after restarts and lost
// workers. So do further attempts, children and turns of persistent processes. Without a caller's trace there is none.
func TestTraceIsPropagated(t *testing.T) {
	t.Parallel()
	s := up(t)
	const printTrace = `printf '{"traceparent":"%s","tracestate":"%s"}' "${TRACEPARENT-none}" "${TRACESTATE-none}"`
	s.agent("leaf", printTrace, "")
	s.agent("dies", `[ "$AGENT_ORCHESTRATOR_ATTEMPT" = 2 ] || exec sleep 60; `+printTrace, `"max_attempts":2`)
	w := s.worker()
	s.startSimulated("minds")
	result := func(id string) string {
		s.t.Helper()
		s.ended(id)
		return s.get("/runs/" + id + "/result").at("result_data")
	}
	const want = `{"traceparent":"` + callersParent + `","tracestate":"vendor=1"}`
	lost := s.post("/runs", `{"agent_name":"dies"}`, "Traceparent", callersParent, "Tracestate", "vendor=1").at(
		"run_id")
	s.status(lost, "running")
	w.kill()
	waits := s.post("/runs", `{"agent_name":"leaf"}`, "Traceparent", callersParent, "Tracestate", "vendor=1").at(
		"run_id")
	s.coordinator.kill()
	s.coordinator.start()
	s.ready()
	s.worker()
	s.same("after a wait", result(waits), want)
	s.same("the next attempt", result(lost), want)
	child := s.post("/runs", `{"agent_name":"orchestrator","parameters":`+
		promptParams("@child leaf sync {}\n@data $CHILD")+`}`, "Traceparent", callersParent, "Tracestate",
		"vendor=1").at("run_id")
	s.same("a child", result(child), want)

	// A persistent process gets the first turn's trace in its environment, and those of further turns in their
	// messages.
	s.write("profiles/stay.json", `{"type":"autonomous","command":"./stay-exec","lifecycle":"persistent"}`)
	s.write("profiles/stay-exec", `#!/bin/sh
while read -r line; do
  case "$line" in *'"type":"shutdown"'*) exit 0 ;; esac
  said=$(printf '%s' "$line" | sed -n 's/.*"traceparent":"\([^"]*\)".*/\1/p')
  printf '{"type":"turn_complete","result":"%s %s"}\n' "$said" "$TRACEPARENT"
done
`)
	s.runner("stays", "AO_PROFILES=stay")
	s.online("stays")
	s.has(s.post("/agents", `{"name":"stayer","executor_profile":"stay"}`), 201)
	text := func(body, parent string) (session, text string) {
		s.t.Helper()
		r := s.ended(s.post("/runs", body, "Traceparent", parent).at("run_id"))
		return r.at("session_id"), s.get("/runs/" + r.at("run_id") + "/result").at("result_text")
	}
	next := strings.Replace(callersParent, "0af", "1af", 1)
	session, first := text(`{"agent_name":"stayer","prompt":"x"}`, callersParent)
	_, second := text(`{"session_id":"`+session+`","prompt":"x"}`, next)
	s.same("the first turn", first, " "+callersParent)
	s.same("the second turn", second, next+" "+callersParent)

	const none = `{"traceparent":"none","tracestate":"none"}`
	s.same("without", result(s.run(`{"agent_name":"leaf"}`)), none)
	for _, bad := range []string{"x", strings.ToUpper(callersParent), "00-" + callersTrace + "-0000000000000000-01"} {
		r := s.post("/runs", `{"agent_name":"leaf"}`, "Traceparent", bad, "Tracestate", "vendor=1")
		s.has(r, 201)
		s.same(bad, result(r.at("run_id")), none)
	}
}
