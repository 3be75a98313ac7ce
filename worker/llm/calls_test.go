package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"ao/shared/clock/clocktest"
	"ao/shared/executor"
	"ao/shared/run"
)

type sum struct {
	A int `json:"a"`
	B int `json:"b"`
}

// running counts the slow calls in progress.
var running, together atomic.Int32

// mcpServer returns an MCP server made with the official SDK.
func mcpServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	text := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "Adds two numbers"},
		func(_ context.Context, _ *mcp.CallToolRequest, in sum) (*mcp.CallToolResult, any, error) {
			return text(strconv.Itoa(in.A + in.B)), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult,
		any, error) {
		return nil, nil, errors.New("no luck")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "big"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult,
		any, error) {
		return text("BEGIN" + strings.Repeat("x", 100_000) + "END"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest,
		_ struct{}) (*mcp.CallToolResult, any, error) {
		together.Store(max(together.Load(), running.Add(1)))
		defer running.Add(-1)
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Second): // an SDK's server that loses its client does not always notice
		}
		return text("never"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "meet"}, func(ctx context.Context, _ *mcp.CallToolRequest,
		in sum) (*mcp.CallToolResult, any, error) {
		running.Add(1) // it answers when two are here, the first one last
		if !clocktest.Poll(5*time.Second, func() bool { return running.Load() >= int32(2+in.A) }) {
			return nil, nil, errors.New("alone")
		}
		running.Add(1)
		return text("met " + strconv.Itoa(in.B)), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "environment"}, func(context.Context, *mcp.CallToolRequest,
		struct{}) (*mcp.CallToolResult, any, error) {
		return text(strings.Join(os.Environ(), "\n")), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "crash"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult,
		any, error) {
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(3)
		return nil, nil, nil
	})
	return s
}

// serversOf returns the mcp_servers of a transport's server, named calc.
func serversOf(t *testing.T, transport string) string {
	var h http.Handler
	switch transport {
	case "stdio":
		dir := t.TempDir()
		return fmt.Sprintf(`,"mcp_servers":{"calc":{"command":%q,"args":[],"env":{"MCP_SERVER":"1","PID_FILE":%q}}}`,
			os.Args[0], filepath.Join(dir, "pid"))
	case "sse":
		h = mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return mcpServer() }, nil)
	default:
		h = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return mcpServer() }, nil)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer tool-secret" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return fmt.Sprintf(`,"mcp_servers":{"calc":{"type":%q,"url":%q,"headers":{"Authorization":"Bearer tool-secret"}}}`,
		transport, server.URL)
}

func TestTools(t *testing.T) {
	for _, transport := range []string{"http", "sse", "stdio"} {
		t.Run(transport, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, provider string) {
				s := newFakeAPI(t, provider, callTools(call{"c1", "calc__add", `{"a":2,"b":3}`}),
					callTools(call{"c2", "calc__fail", `{}`}), say("It is 5"))
				m := &memoryHost{}
				o := runTurn(t, m, s.invocation(executor.Start, "run_1", "2+3?", "", serversOf(t, transport)))
				if got := summary(o); got != "completed It is 5" {
					t.Fatalf("got %s %v", got, o.Error)
				}
				if !strings.Contains(s.bodies()[0], "Adds two numbers") ||
					!strings.Contains(s.bodies()[0], `"calc__add"`) {
					t.Errorf("the model did not get the tool: %s", s.bodies()[0])
				}
				want := `user:2+3? assistant:<c1 calc__add {"a":2,"b":3}> user:<c1=5> assistant:<c2 calc__fail {}> ` +
					`user:<c2=Error: no luck>`
				if got := roles(s.bodies()[2]); got != want {
					t.Errorf("the model got\n%s, want\n%s", got, want)
				}
				if got := strings.TrimSpace(m.eventsOf(run.EventPreTool)[0]); got != `{"tool_name":"calc__add",`+
					`"tool_input":{"a":2,"b":3}}` {
					t.Errorf("pre_tool %s", got)
				}
				if got := strings.TrimSpace(m.eventsOf(run.EventPostTool)[0]); got != `{"tool_name":"calc__add",`+
					`"tool_input":{"a":2,"b":3},"tool_output":"5"}` {
					t.Errorf("post_tool %s", got)
				}
				if got := strings.TrimSpace(m.eventsOf(run.EventPostTool)[1]); got != `{"tool_name":"calc__fail",`+
					`"tool_input":{},"error":"no luck"}` {
					t.Errorf("post_tool %s", got)
				}
				if len(m.kept) != 6 { // before each of three questions and two calls, and at the end
					t.Errorf("it was kept %d times", len(m.kept))
				}
			})
		})
	}
}

func TestSeveralCallsRunTogetherAndAreAnsweredInOrder(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		running.Store(0)
		s := newFakeAPI(t, provider, callTools(call{"c1", "calc__meet", `{"a":1,"b":1}`},
			call{"c2", "calc__meet", `{"a":0,"b":2}`}), say("done"))
		o := runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Meet", "", serversOf(t, "http")))
		if got := summary(o); got != "completed done" {
			t.Fatalf("got %s %v", got, o.Error)
		}
		want := `user:Meet assistant:<c1 calc__meet {"a":1,"b":1}><c2 calc__meet {"a":0,"b":2}> user:<c1=met ` +
			`1><c2=met 2>`
		if got := roles(s.bodies()[1]); got != want {
			t.Errorf("the model got\n%s, want\n%s", got, want)
		}
	})
}

func TestInvalidToolCalls(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		s := newFakeAPI(t, provider,
			callTools(call{"", "calc__add", `{"a":1`}, call{"c.1", "no such", `{}`}, call{"same", "calc__big", ``},
				call{"same", "calc__add", `{"a":"x"}`}), say("done"))
		m := &memoryHost{}
		o := runTurn(t, m, s.invocation(executor.Start, "run_1", "Go", `"max_tool_output_bytes":300`,
			serversOf(t, "http")))
		if got := summary(o); got != "completed done" {
			t.Fatalf("got %s %v", got, o.Error)
		}
		got := roles(s.bodies()[1])
		for _, want := range []string{
			`assistant:<call_0 calc__add {}><call_1 no_such {}><same calc__big {}><call_3 calc__add {"a":"x"}>`,
			`<call_0=Error: the arguments are not a JSON object; call the tool again with one>`,
			`<call_1=Error: unknown tool "no_such"; known tools: calc__add, `,
			"<same=BEGIN" + strings.Repeat("x", 145) + "\n[… 99708 bytes cut …]\n", "<call_3=Error: ",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("the model got\n%s, lacking\n%s", got, want)
			}
		}
	})
}

func TestTheToolLoopIsBounded(t *testing.T) {
	again := callTools(call{"c", "calc__add", `{"a":1,"b":1}`})
	s := newFakeAPI(t, openAI, again, again, again)
	m := &memoryHost{}
	o := runTurn(t, m, s.invocation(executor.Start, "run_1", "Go", `"max_turns":2`, serversOf(t, "http")))
	if got := summary(o); got != "failed "+codeTurns || len(s.bodies()) != 2 {
		t.Errorf("got %s after %d questions", got, len(s.bodies()))
	}
	if !strings.Contains(string(m.state), "[No answer: ") || strings.Count(string(m.state), `"type":"result"`) != 2 {
		t.Errorf("kept %s", m.state)
	}
}

func TestAToolThatTakesTooLong(t *testing.T) {
	for _, transport := range []string{"http", "stdio"} {
		t.Run(transport, func(t *testing.T) {
			s := newFakeAPI(t, openAI, callTools(call{"c1", "calc__wait", `{}`}), say("too slow"))
			o := runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Go",
				`"tool_timeout_seconds":0.2`, serversOf(t, transport)))
			if got := summary(o); got != "completed too slow" || !strings.Contains(s.bodies()[1],
				"did not answer within 200ms") {
				t.Errorf("got %s %v %s", got, o.Error, s.bodies())
			}
		})
	}
}

func TestAStopWhileToolsRun(t *testing.T) {
	for _, transport := range []string{"http", "sse", "stdio"} {
		t.Run(transport, func(t *testing.T) {
			s := newFakeAPI(t, openAI, callTools(call{"c1", "calc__add", `{"a":1,"b":2}`},
				call{"c2", "calc__wait", `{}`}),
				say("ok"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := &memoryHost{on: func(kind, body string) {
				if kind == run.EventPostTool && strings.Contains(body, `"3"`) {
					cancel()
				}
			}}
			began := time.Now()
			if got := summary(runTurnIn(ctx, t, m, s.invocation(executor.Start, "run_1", "Go",
				"", serversOf(t, transport)))); got != "stopped" || time.Since(began) > 10*time.Second {
				t.Fatalf("got %s after %s", got, time.Since(began))
			}
			runTurn(t, m, s.invocation(executor.Resume, "run_2", "And?", "", serversOf(t, transport)))
			want := `user:Go assistant:<c1 calc__add {"a":1,"b":2}><c2 calc__wait {}> user:<c1=3>` +
				`<c2=Error: The run ended before this tool returned; the call may or may not have ` +
				`had effects> assistant:[No answer: the run was stopped] user:And?`
			if got := roles(s.bodies()[1]); got != want {
				t.Errorf("the model got\n%s, want\n%s", got, want)
			}
		})
	}
}

// TestAWorkerThatDiesWhileToolsRun resumes from the state before the tools were called.
func TestAWorkerThatDiesWhileToolsRun(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		s := newFakeAPI(t, provider, callTools(call{"c1", "calc__add", `{"a":1,"b":2}`}), say("3"), say("ok"))
		m := &memoryHost{}
		servers := serversOf(t, "http")
		runTurn(t, m, s.invocation(executor.Start, "run_1", "Go", "", servers))
		for i, kept := range m.kept { // wherever it died
			other := &memoryHost{state: []byte(kept)}
			s.replies = []reply{say("ok")}
			if o := runTurn(t, other, s.invocation(executor.Resume, "run_2", "And?",
				"", servers)); o.Status != run.Completed {
				t.Fatalf("after %d: %s %v", i, summary(o), o.Error)
			}
			asked := s.bodies()
			got := roles(asked[len(asked)-1])
			if calls, results := strings.Count(got, "<c1 "), strings.Count(got, "<c1="); calls != results ||
				!strings.HasSuffix(got, " user:And?") || strings.Contains(got, "user:Go user:") {
				t.Errorf("after %d the model got %s", i, got)
			}
		}
	})
}

func TestEarlierToolCallsWithoutTools(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		s := newFakeAPI(t, provider, callTools(call{"c1", "calc__add", `{"a":1,"b":2}`}), say("3"), say("ok"))
		m := &memoryHost{}
		runTurn(t, m, s.invocation(executor.Start, "run_1", "Go", "", serversOf(t, "http")))
		runTurn(t, m, s.invocation(executor.Resume, "run_2", "And?", "", "")) // the agent has no servers any more
		want := `user:Go assistant:[Called the tool calc__add with {"a":1,"b":2}] user:[The tool's result: 3] ` +
			`assistant:3 user:And?`
		if got := roles(s.bodies()[2]); got != want {
			t.Errorf("the model got\n%s, want\n%s", got, want)
		}
	})
}

func TestServersThatCannotBeUsed(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // else the server does not see that the client has gone
		<-r.Context().Done()
	}))
	t.Cleanup(hanging.Close)
	t.Cleanup(hanging.CloseClientConnections)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<html>hello</html>")
	}))
	t.Cleanup(page.Close)
	good := strings.TrimSuffix(strings.TrimPrefix(serversOf(t, "http"), `,"mcp_servers":{"calc":`), "}")
	for _, tt := range []struct{ name, servers, want string }{
		{"nobody listens", fmt.Sprintf(`{"url":%q}`, closed.URL+"/token-in-the-path/mcp"),
			"nothing listens there; check its url"},
		{"silent", fmt.Sprintf(`{"type":"http","url":%q}`, hanging.URL), "did not answer within 1s"},
		{"silent, sse", fmt.Sprintf(`{"type":"sse","url":%q}`, hanging.URL), "did not answer within 1s"},
		{"a web page", fmt.Sprintf(`{"url":%q}`, page.URL), "check its url"},
		{"a web page, sse", fmt.Sprintf(`{"type":"sse","url":%q}`, page.URL), "check its url"},
		{"no credential", strings.TrimSuffix(strings.TrimPrefix(strings.Replace(serversOf(t, "http"), "tool-secret",
			"tool-wrong", 1), `,"mcp_servers":{"calc":`), "}"), "Unauthorized"},
		{"no such program", `{"command":"no-such-program"}`, "no such program on PATH"},
		{"a program that ends", `{"command":"sh","args":["-c","echo it is broken >&2; exit 4"]}`,
			"its program ended: it is broken"},
		{"a program that is silent", `{"command":"sleep","args":["100"]}`, "did not answer within 1s"},
		{"a program that talks of something else", `{"command":"sh","args":["-c","while :; do echo hello; done"]}`,
			"check its command"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newFakeAPI(t, openAI, say("done"))
			seconds := 20
			if strings.HasSuffix(tt.want, "within 1s") {
				seconds = 1
			}
			m := &memoryHost{}
			o := runTurn(t, m, s.invocation(executor.Start, "run_1", "Go",
				fmt.Sprintf(`"mcp_connect_timeout_seconds":%d`, seconds),
				`,"mcp_servers":{"calc":`+tt.servers+`,"good":`+good+`}`))
			logged := strings.Join(m.texts("system"), "\n")
			if got := summary(o); got != "completed done" || !strings.Contains(logged,
				`the MCP server "calc" cannot be used: `) || !strings.Contains(logged, tt.want) ||
				!strings.HasSuffix(logged, "; the run continues without it") {
				t.Fatalf("got %s %v, logged %q; want %q", got, o.Error, logged, tt.want)
			}
			if facts := strings.Join(m.eventsOf(run.EventMetadata), ""); !strings.Contains(facts,
				`"mcp_servers_unreachable":["calc"]`) {
				t.Errorf("metadata %s", facts)
			}
			if asked := s.bodies()[0]; !strings.Contains(asked, "good__add") || strings.Contains(asked, "calc__") {
				t.Errorf("the model was asked %s", asked)
			}
			for _, secret := range []string{"token-in-the-path", "tool-wrong"} {
				if strings.Contains(logged, secret) {
					t.Errorf("%s is shown: %s", secret, logged)
				}
			}
		})
	}
}

func TestServersThatAreDefinedWrongly(t *testing.T) {
	for _, tt := range []struct{ name, servers, want string }{
		{"a placeholder", `{"url":"${AGENT_ORCHESTRATOR_MCP_URL}"}`,
			"url has the unknown variable ${AGENT_ORCHESTRATOR_MCP_URL}"},
		{"unknown field", `{"url":"http://x","colour":1}`, `Unknown field "colour"`},
		{"unknown type", `{"type":"pigeon","url":"http://x"}`, `not "pigeon"`},
		{"both", `{"command":"x","url":"http://x"}`, "url and headers do not belong"},
		{"neither", `{}`, "url is required"},
		{"no object", `7`, "calc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := runTurn(t, &memoryHost{}, newFakeAPI(t, openAI).invocation(executor.Start, "run_1", "Go", "",
				`,"mcp_servers":{"calc":`+tt.servers+`}`))
			if o.Error == nil || o.Error.Code != "mcp_servers_invalid" || !strings.Contains(o.Error.Message, tt.want) ||
				!strings.Contains(o.Error.Message, `"calc"`) {
				t.Fatalf("got %s %v, want %q", summary(o), o.Error, tt.want)
			}
		})
	}
}

func TestAServersProgram(t *testing.T) {
	t.Setenv("MCP_STRAY", "1")
	s := newFakeAPI(t, openAI, callTools(call{"c1", "calc__environment", `{}`}),
		callTools(call{"c2", "calc__crash", `{}`}),
		callTools(call{"c3", "calc__add", `{"a":1,"b":1}`}), say("done"))
	// a profile that allows the key
	m := &memoryHost{env: []string{"PATH=" + os.Getenv("PATH"), "AGENT_SESSION_ID=ses_1", "LLM_TEST_KEY=" + key}}
	o := runTurn(t, m, s.invocation(executor.Start, "run_1", "Go", "", serversOf(t, "stdio")))
	if got := summary(o); got != "completed done" {
		t.Fatalf("got %s %v", got, o.Error)
	}
	got := roles(s.bodies()[3])
	if strings.Contains(got, "LLM_TEST_KEY") || strings.Contains(got, "MCP_STRAY") ||
		!strings.Contains(got, "AGENT_SESSION_ID=ses_1") {
		t.Errorf("its environment: %s", got)
	}
	if !strings.Contains(got, "<c2=Error: the tool failed: its program ended: out of luck>") ||
		!strings.Contains(got, "<c3=Error: the tool failed: ") {
		t.Errorf("the model got %s", got)
	}
}

func TestNothingOfAProgramIsLeft(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "server")
	os.WriteFile(script,
		[]byte("#!/bin/sh\ntrap '' TERM\nsleep 100 &\necho $! >\"$0.pid.new\"\nmv \"$0.pid.new\" \"$0.pid\"\n"+
			os.Args[0]+"\nwait\n"), 0o700)
	s := newFakeAPI(t, openAI, say("done"))
	m := &memoryHost{env: []string{"PATH=" + os.Getenv("PATH")}}
	o := runTurn(t, m, s.invocation(executor.Start, "run_1", "Go", "",
		fmt.Sprintf(`,"mcp_servers":{"calc":{"command":%q,"env":{"MCP_SERVER":"1"}}}`, script)))
	if got := summary(o); got != "completed done" {
		t.Fatalf("got %s %v", got, o.Error)
	}
	var pid int
	text, err := os.ReadFile(script + ".pid")
	if _, scan := fmt.Sscan(string(text), &pid); err != nil || scan != nil {
		t.Fatal(err, scan)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if !strings.Contains(string(state), ") Z ") {
			t.Errorf("process %d is left: %s", pid, state)
		}
	}
}
