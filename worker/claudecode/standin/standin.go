// Package standin is a local stand-in for the Messages API, for tests that run the real claude program. It sends the
// API's event stream; the test decides the answers. No product code uses it.
package standin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"ao/shared/strictjson"
)

// Answer answers one request.
type Answer func(http.ResponseWriter, Request)

// Request is a request of claude.
type Request struct {
	N        int             `json:"-"` // number of the request, from 1
	Model    string          `json:"model"`
	System   json.RawMessage `json:"system"`
	Messages json.RawMessage `json:"messages"`
	Tools    []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

// Has reports whether the model may use a tool.
func (r Request) Has(tool string) bool {
	return slices.ContainsFunc(r.Tools, func(t struct {
		Name string `json:"name"`
	}) bool {
		return t.Name == tool
	})
}

// Last returns the texts and tool results of the user's last message. Claude's own messages of the role system may
// follow it.
func (r Request) Last() string {
	var all []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	json.Unmarshal(r.Messages, &all)
	for _, m := range slices.Backward(all) {
		if m.Role == "user" {
			return contentText(m.Content)
		}
	}
	return ""
}

// contentText returns the text of a message's or a tool result's content: a string or blocks.
func contentText(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var blocks []struct {
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"` // of a tool_result
	}
	json.Unmarshal(content, &blocks)
	var all []string
	for _, b := range blocks {
		all = append(all, b.Text+contentText(b.Content))
	}
	return strings.Join(all, "\n")
}

// API is a running stand-in; it ends with its test.
type API struct {
	URL string

	decide   func(Request) Answer
	mu       sync.Mutex
	requests []Request
}

// New returns an API that gives the answers in order and repeats the last one.
func New(t testing.TB, answers ...Answer) *API {
	return NewFunc(t, func(r Request) Answer { return answers[min(r.N, len(answers))-1] })
}

// NewFunc returns an API that calls decide for each request, concurrently.
func NewFunc(t testing.TB, decide func(Request) Answer) *API {
	a := &API{decide: decide}
	server := httptest.NewServer(a)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	a.URL = server.URL
	return a
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	raw, _ := io.ReadAll(r.Body)
	var req Request
	if err := json.Unmarshal(raw, &req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	req.N = len(a.requests) + 1
	a.requests = append(a.requests, req)
	a.mu.Unlock()
	a.decide(req)(w, req)
}

// Requests returns all requests so far.
func (a *API) Requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// Text ends the turn with a text.
func Text(text string) Answer {
	return reply("end_turn", map[string]any{"type": "text", "text": text})
}

// ToolCall calls a tool, after a thought and a text.
func ToolCall(tool string, input any) Answer {
	return reply("tool_use", map[string]any{"type": "thinking", "thinking": "which tool?"},
		map[string]any{"type": "text", "text": "I use " + tool},
		map[string]any{"type": "tool_use", "name": tool, "input": input})
}

// Error answers with an error.
func Error(status int, kind, message string, header ...string) Answer {
	return func(w http.ResponseWriter, _ Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)
	}
}

// reply answers with content blocks, as the API's event stream.
func reply(stop string, blocks ...map[string]any) Answer {
	return func(w http.ResponseWriter, r Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(kind string, body map[string]any) {
			body["type"] = kind
			raw, _ := strictjson.Encode(body)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, raw)
			w.(http.Flusher).Flush()
		}
		send("message_start", map[string]any{"message": map[string]any{
			"id": fmt.Sprintf("msg_%d", r.N), "type": "message", "role": "assistant", "model": r.Model,
			"content":     []any{},
			"stop_reason": nil, "stop_sequence": nil, "usage": map[string]any{"input_tokens": 10, "output_tokens": 1},
		}})
		for i, b := range blocks {
			begin, delta := map[string]any{"type": b["type"]}, map[string]any{}
			switch b["type"] {
			case "text":
				begin["text"], delta = "", map[string]any{"type": "text_delta", "text": b["text"]}
			case "thinking":
				begin["thinking"], begin["signature"], delta = "", "",
					map[string]any{"type": "thinking_delta", "thinking": b["thinking"]}
			case "tool_use":
				raw, _ := strictjson.Encode(b["input"])
				begin["id"], begin["name"], begin["input"] = fmt.Sprintf("toolu_%d_%d", r.N, i), b["name"],
					map[string]any{}
				delta = map[string]any{"type": "input_json_delta", "partial_json": string(raw)}
			}
			send("content_block_start", map[string]any{"index": i, "content_block": begin})
			send("content_block_delta", map[string]any{"index": i, "delta": delta})
			send("content_block_stop", map[string]any{"index": i})
		}
		send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil},
			"usage": map[string]any{"output_tokens": 7}})
		send("message_stop", map[string]any{})
	}
}
