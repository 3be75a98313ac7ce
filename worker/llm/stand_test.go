package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"ao/shared/executor"
	"ao/shared/run"
)

// TestMain turns the test binary into an MCP server if MCP_SERVER is set.
func TestMain(m *testing.M) {
	if os.Getenv("MCP_SERVER") != "" {
		if err := mcpServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// key is the credential of the tests; nothing may show it.
const key = "sk-secret-0123456789"

// fakeAPI is a local stand-in for a model's API: it answers each request as the test says.
type fakeAPI struct {
	provider string
	url      string

	mu       sync.Mutex
	replies  []reply
	requests []string // the bodies
	headers  []http.Header
}

// reply writes one response.
type reply func(s *fakeAPI, w http.ResponseWriter, r *http.Request)

func newFakeAPI(t *testing.T, provider string, replies ...reply) *fakeAPI {
	s := &fakeAPI{provider: provider, replies: replies}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.requests, s.headers = append(s.requests, string(body)), append(s.headers, r.Header)
		next := status(418, nil, `{"error":{"message":"the test has no more answers"}}`)
		if len(s.replies) > 0 {
			next, s.replies = s.replies[0], s.replies[1:]
		}
		s.mu.Unlock()
		if want := map[string]string{openAI: "/v1/chat/completions",
			claude: "/v1/messages"}[provider]; r.URL.Path != want {
			http.Error(w, "404 page not found", 404)
			return
		}
		next(s, w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *fakeAPI) bodies() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

func send(w http.ResponseWriter, event string, data any) {
	raw, _ := json.Marshal(data)
	if event != "" {
		fmt.Fprintf(w, "event: %s\n", event)
	}
	fmt.Fprintf(w, "data: %s\n\n", raw)
	w.(http.Flusher).Flush()
}

type object = map[string]any

// startStream starts a stream with text and leaves it open.
func (s *fakeAPI) startStream(w http.ResponseWriter, texts ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	if s.provider == openAI {
		for _, text := range texts {
			send(w, "", object{"id": "c", "object": "chat.completion.chunk", "model": "m-1",
				"choices": []any{object{"index": 0, "delta": object{"role": "assistant", "content": text},
					"finish_reason": nil}}})
		}
		w.(http.Flusher).Flush()
		return
	}
	send(w, "message_start", object{"type": "message_start", "message": object{"id": "m", "type": "message",
		"role": "assistant", "model": "m-1", "content": []any{}, "usage": object{"input_tokens": 10,
			"output_tokens": 1}}})
	send(w, "ping", object{"type": "ping"})
	if len(texts) == 0 {
		return
	}
	send(w, "content_block_start", object{"type": "content_block_start", "index": 0,
		"content_block": object{"type": "text", "text": ""}})
	for _, text := range texts {
		send(w, "content_block_delta", object{"type": "content_block_delta", "index": 0,
			"delta": object{"type": "text_delta", "text": text}})
	}
}

type call struct{ id, name, input string }

// endStream ends a stream that startStream started with as many texts.
func (s *fakeAPI) endStream(w http.ResponseWriter, texts int, stop string, calls ...call) {
	if s.provider == openAI {
		for i, c := range calls {
			half := len(c.input) / 2
			send(w, "", object{"choices": []any{object{"index": 0,
				"delta": object{"tool_calls": []any{object{"index": i, "id": c.id, "type": "function",
					"function": object{"name": c.name, "arguments": c.input[:half]}}}}}}})
			send(w, "", object{"choices": []any{object{"index": 0,
				"delta": object{"tool_calls": []any{object{"index": i,
					"function": object{"arguments": c.input[half:]}}}}}}})
		}
		send(w, "", object{"choices": []any{object{"index": 0, "delta": object{}, "finish_reason": stop}}})
		send(w, "", object{"choices": []any{}, "model": "m-1", "usage": object{"prompt_tokens": 14,
			"completion_tokens": 5, "total_tokens": 19, "prompt_tokens_details": object{"cached_tokens": 4}}})
		fmt.Fprint(w, "data: [DONE]\n\n")
		return
	}
	index := 0
	if texts > 0 {
		send(w, "content_block_stop", object{"type": "content_block_stop", "index": 0})
		index++
	}
	for _, c := range calls {
		half := len(c.input) / 2
		send(w, "content_block_start", object{"type": "content_block_start", "index": index,
			"content_block": object{"type": "tool_use", "id": c.id, "name": c.name, "input": object{}}})
		send(w, "content_block_delta", object{"type": "content_block_delta", "index": index,
			"delta": object{"type": "input_json_delta", "partial_json": c.input[:half]}})
		send(w, "content_block_delta", object{"type": "content_block_delta", "index": index,
			"delta": object{"type": "input_json_delta", "partial_json": c.input[half:]}})
		send(w, "content_block_stop", object{"type": "content_block_stop", "index": index})
		index++
	}
	send(w, "message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop},
		"usage": object{"output_tokens": 5, "cache_read_input_tokens": 4}})
	send(w, "message_stop", object{"type": "message_stop"})
}

var (
	stops    = map[string]string{openAI: "stop", claude: "end_turn"}
	forCalls = map[string]string{openAI: "tool_calls", claude: "tool_use"}
	forWant  = map[string]string{openAI: "length", claude: "max_tokens"}
	declined = map[string]string{openAI: "content_filter", claude: "refusal"}
)

// say answers with a text in pieces.
func say(texts ...string) reply {
	return func(s *fakeAPI, w http.ResponseWriter, _ *http.Request) {
		s.startStream(w, texts...)
		s.endStream(w, len(texts), stops[s.provider])
	}
}

// ends answers with a text and a stop reason.
func ends(why map[string]string, text string) reply {
	return func(s *fakeAPI, w http.ResponseWriter, _ *http.Request) {
		s.startStream(w, text)
		s.endStream(w, 1, why[s.provider])
	}
}

// callTools asks for tools.
func callTools(calls ...call) reply {
	return func(s *fakeAPI, w http.ResponseWriter, _ *http.Request) {
		s.startStream(w)
		s.endStream(w, 0, forCalls[s.provider], calls...)
	}
}

// status answers with an error.
func status(code int, header map[string]string, body string) reply {
	return func(_ *fakeAPI, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// cutOff starts an answer and closes the connection.
func cutOff(texts ...string) reply {
	return func(s *fakeAPI, w http.ResponseWriter, _ *http.Request) {
		s.startStream(w, texts...)
		panic(http.ErrAbortHandler)
	}
}

// stalls starts an answer and sends nothing more until the client disconnects.
func stalls(texts ...string) reply {
	return func(s *fakeAPI, w http.ResponseWriter, r *http.Request) {
		s.startStream(w, texts...)
		<-r.Context().Done()
	}
}

// raw answers with any text.
func raw(kind, body string) reply {
	return func(_ *fakeAPI, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, body)
	}
}

// memoryHost is a host that keeps a state in memory.
type memoryHost struct {
	mu     sync.Mutex
	events []string // kind and body
	state  []byte
	kept   []string
	fail   error
	env    []string
	on     func(kind, body string)
}

func (m *memoryHost) host() executor.Host {
	return executor.Host{
		Env: m.env,
		Emit: func(kind string, body json.RawMessage) {
			m.mu.Lock()
			m.events = append(m.events, kind+" "+string(body))
			m.mu.Unlock()
			if m.on != nil {
				m.on(kind, string(body))
			}
		},
		LoadState: func(context.Context) ([]byte, error) { return m.state, m.fail },
		SaveState: func(_ context.Context, state []byte) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.fail == nil {
				m.state = append([]byte(nil), state...)
				m.kept = append(m.kept, string(state))
			}
			return m.fail
		},
	}
}

// events returns the events of a kind.
func (m *memoryHost) eventsOf(kind string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for _, e := range m.events {
		if body, ok := strings.CutPrefix(e, kind+" "); ok {
			all = append(all, body)
		}
	}
	return all
}

// texts returns the texts of the messages of a role.
func (m *memoryHost) texts(role string) []string {
	var all []string
	for _, e := range m.eventsOf(run.EventMessage) {
		var msg run.Message
		if json.Unmarshal([]byte(e), &msg) == nil && msg.Role == role {
			all = append(all, msg.Content[0].Text)
		}
	}
	return all
}

// invocation returns a run against the fake API; config and blueprint are more members.
func (s *fakeAPI) invocation(mode, runID, prompt, config, blueprint string) executor.Invocation {
	base := s.url
	if s.provider == openAI {
		base += "/v1"
	}
	if config != "" {
		config = "," + config
	}
	return executor.Invocation{
		SchemaVersion: executor.Version, Mode: mode, SessionID: "ses_1", RunID: runID, AgentName: "a", Attempt: 1,
		Prompt: prompt, Parameters: json.RawMessage(`{}`),
		Config: json.RawMessage(fmt.Sprintf(`{"provider":%q,"base_url":%q,"model":"m",`+
			`"api_key_env":"LLM_TEST_KEY"%s}`, s.provider, base, config)),
		Blueprint: json.RawMessage(`{"name":"a"` + blueprint + `}`),
	}
}

// runTurn runs a turn and looks for the key in everything it emitted.
func runTurn(t *testing.T, m *memoryHost, inv executor.Invocation) run.Outcome {
	t.Helper()
	t.Setenv("LLM_TEST_KEY", key)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return runTurnIn(ctx, t, m, inv)
}

func runTurnIn(ctx context.Context, t *testing.T, m *memoryHost, inv executor.Invocation) run.Outcome {
	t.Helper()
	o := Executor{}.Run(ctx, inv, m.host())
	shown, _ := json.Marshal(o)
	all := string(shown) + strings.Join(m.events, "\n") + string(m.state)
	if o.Error != nil {
		all += o.Error.Error()
	}
	if strings.Contains(all, key) {
		t.Errorf("the key is shown: %s", all)
	}
	return o
}

// summary returns an outcome on one line.
func summary(o run.Outcome) string {
	s := string(o.Status)
	if o.Error != nil {
		s += " " + o.Error.Code
	}
	if o.Result != nil && o.Result.Text != nil {
		s += " " + *o.Result.Text
	}
	return s
}

// eachProvider runs a test for both APIs.
func eachProvider(t *testing.T, f func(t *testing.T, provider string)) {
	for _, provider := range []string{openAI, claude} {
		t.Run(provider, func(t *testing.T) { f(t, provider) })
	}
}
