package claudecode

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ao/shared/executor"
	"ao/shared/run"
	"ao/shared/wire"
)

// answer is what the stand-in of the Messages API says to one request.
type answer func(http.ResponseWriter, request)

// request is what claude asked the stand-in.
type request struct {
	Model    string          `json:"model"`
	System   json.RawMessage `json:"system"`
	Messages json.RawMessage `json:"messages"`
	Tools    []struct {
		Name string `json:"name"`
	} `json:"tools"`
	n int
}

// standIn is a local Messages API that gives its answers one after the other, and the last one for ever.
type standIn struct {
	URL string

	mu      sync.Mutex
	answers []answer
	asked   []request
}

func newStandIn(t *testing.T, answers ...answer) *standIn {
	s := &standIn{answers: answers}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.URL = server.URL
	return s
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	raw, _ := io.ReadAll(r.Body)
	var req request
	if err := json.Unmarshal(raw, &req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	req.n = len(s.asked) + 1
	s.asked = append(s.asked, req)
	a := s.answers[min(req.n, len(s.answers))-1]
	s.mu.Unlock()
	a(w, req)
}

func (s *standIn) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.asked...)
}

// reply answers with content blocks, as the event stream that the API sends.
func reply(stop string, blocks ...map[string]any) answer {
	return func(w http.ResponseWriter, r request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(kind string, body map[string]any) {
			body["type"] = kind
			raw, _ := wire.Encode(body)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, raw)
			w.(http.Flusher).Flush()
		}
		send("message_start", map[string]any{"message": map[string]any{
			"id": fmt.Sprintf("msg_%d", r.n), "type": "message", "role": "assistant", "model": r.Model, "content": []any{},
			"stop_reason": nil, "stop_sequence": nil, "usage": map[string]any{"input_tokens": 10, "output_tokens": 1},
		}})
		for i, b := range blocks {
			begin, delta := map[string]any{"type": b["type"]}, map[string]any{}
			switch b["type"] {
			case "text":
				begin["text"], delta = "", map[string]any{"type": "text_delta", "text": b["text"]}
			case "thinking":
				begin["thinking"], begin["signature"], delta = "", "", map[string]any{"type": "thinking_delta", "thinking": b["thinking"]}
			case "tool_use":
				raw, _ := json.Marshal(b["input"])
				begin["id"], begin["name"], begin["input"] = fmt.Sprintf("toolu_%d_%d", r.n, i), b["name"], map[string]any{}
				delta = map[string]any{"type": "input_json_delta", "partial_json": string(raw)}
			}
			send("content_block_start", map[string]any{"index": i, "content_block": begin})
			send("content_block_delta", map[string]any{"index": i, "delta": delta})
			send("content_block_stop", map[string]any{"index": i})
		}
		send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": 7}})
		send("message_stop", map[string]any{})
	}
}

func says(text string) answer { return reply("end_turn", map[string]any{"type": "text", "text": text}) }

func uses(tool string, input any) answer {
	return reply("tool_use", map[string]any{"type": "thinking", "thinking": "which tool?"}, map[string]any{"type": "text", "text": "I use " + tool},
		map[string]any{"type": "tool_use", "name": tool, "input": input})
}

func refuses(status int, kind, message string, header ...string) answer {
	return func(w http.ResponseWriter, _ request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)
	}
}

// installed gives the claude program, or skips the test where there is none. The transcripts that were recorded of it are replayed
// everywhere (TestTranscripts).
func installed(t *testing.T) string {
	t.Helper()
	fetched, _ := filepath.Abs("../../bin/claude-code/claude")
	for _, path := range []string{os.Getenv("AO_TEST_CLAUDE"), "claude", fetched} {
		if found, err := exec.LookPath(path); path != "" && err == nil {
			return found
		}
		if path != "" && path == os.Getenv("AO_TEST_CLAUDE") {
			t.Fatalf("AO_TEST_CLAUDE=%s is no program", path)
		}
	}
	t.Skip("there is no claude program here: scripts/get-claude installs it, and AO_TEST_CLAUDE says where another one is; recorded transcripts are replayed instead (TestTranscripts)")
	return ""
}

// fake is a claude program in sh.
func fake(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "claude")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// heard is what an executor told, as text: one line for each event, in order.
type heard struct {
	mu    sync.Mutex
	lines []string
	tell  func(kind string, body json.RawMessage) // called, too; may be nil
}

func (h *heard) take(kind string, body json.RawMessage) {
	h.mu.Lock()
	h.lines = append(h.lines, kind+" "+string(body))
	h.mu.Unlock()
	if h.tell != nil {
		h.tell(kind, body)
	}
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.lines...)
}

// session is claude's, as it was bound.
func (h *heard) session() string {
	for _, l := range h.all() {
		if raw, ok := strings.CutPrefix(l, executor.LineBind+" "); ok {
			b, _, _ := executor.ReadLine([]byte(raw))
			return b.Session
		}
	}
	return ""
}

// turn is one run of an agent: everything it needs, with an empty home.
func turn(t *testing.T, claude, api, prompt, blueprint, config string) (executor.Invocation, executor.Host, *heard) {
	t.Helper()
	var members []wire.Member
	if config != "" {
		var err error
		if members, err = wire.Members(json.RawMessage(config)); err != nil {
			t.Fatal(err)
		}
	}
	if claude != "" {
		raw, _ := json.Marshal(claude)
		members = append(members, wire.Member{Key: "claude", Value: raw})
	}
	if blueprint == "" {
		blueprint = "{}"
	}
	h := &heard{}
	home, dir := t.TempDir(), t.TempDir()
	return executor.Invocation{
			SchemaVersion: executor.Version, Mode: executor.Start, SessionID: "ses_1", RunID: "run_1", AgentName: "any", Prompt: prompt, ProjectDir: dir,
			Parameters: json.RawMessage(`{"prompt":"x"}`), Blueprint: json.RawMessage(blueprint), Config: wire.Object(members),
		}, executor.Host{Tell: h.take, Env: []string{
			"HOME=" + home, "PATH=" + os.Getenv("PATH"), "ANTHROPIC_API_KEY=sk-test", "ANTHROPIC_BASE_URL=" + api,
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		}}, h
}

// told is an outcome as text.
func told(o run.Outcome) string {
	text := string(o.Status)
	if o.Error != nil {
		raw, _ := wire.Encode(o.Error)
		text += " " + string(raw)
	}
	if o.Result != nil && o.Result.Text != nil {
		text += " | " + *o.Result.Text
	}
	return text
}
