package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"ao/shared/executor"
	"ao/shared/run"
)

// whole returns an answer without a stream.
func whole(text string, calls ...call) map[string]string {
	blocks, list := []any{}, []any{}
	if text != "" {
		blocks = append(blocks, object{"type": "text", "text": text})
	}
	for _, c := range calls {
		blocks = append(blocks, object{"type": "tool_use", "id": c.id, "name": c.name,
			"input": json.RawMessage(c.input)})
		list = append(list, object{"id": c.id, "type": "function", "function": object{"name": c.name,
			"arguments": c.input}})
	}
	why := stops
	if len(calls) > 0 {
		why = forCalls
	}
	message, _ := json.MarshalIndent(object{"id": "m", "type": "message", "role": "assistant", "model": "m-1",
		"content": blocks, "stop_reason": why[claude],
		"usage": object{"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 4}}, "", "  ")
	completion, _ := json.MarshalIndent(object{"id": "c", "object": "chat.completion", "model": "m-1",
		"choices": []any{object{"index": 0, "finish_reason": why[openAI],
			"message": object{"role": "assistant", "content": text, "tool_calls": list}}},
		"usage": object{"prompt_tokens": 14, "completion_tokens": 5,
			"prompt_tokens_details": object{"cached_tokens": 4}}}, "", "  ")
	return map[string]string{claude: string(message), openAI: string(completion)}
}

// TestStreamsOfAnotherType: some endpoints stream under the content type of a complete answer.
func TestStreamsOfAnotherType(t *testing.T) {
	for _, kind := range []string{"application/json", "text/html", "text/plain", "", "text/event-stream"} {
		eachProvider(t, func(t *testing.T, provider string) {
			as := func(next reply) reply {
				return func(s *fakeAPI, w http.ResponseWriter, r *http.Request) {
					next(s, &typed{ResponseWriter: w, kind: kind}, r)
				}
			}
			s := newFakeAPI(t, provider, as(say("Hel", "lo")))
			o := runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Hi", `"max_retries":0`, ""))
			if got := summary(o); got != "completed Hello" {
				t.Errorf("%q: got %s %v", kind, got, o.Error)
			}
		})
	}
	for _, body := range []string{"", ": a comment\n\n"} {
		s := newFakeAPI(t, openAI, raw("application/json", body))
		o := runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Hi", `"max_retries":0`, ""))
		if got := summary(o); !strings.HasPrefix(got, "failed llm_") {
			t.Errorf("%q: got %s", body, got)
		}
	}
}

// typed is a response with another content type than its handler sets.
type typed struct {
	http.ResponseWriter
	kind  string
	began bool
}

func (w *typed) Write(p []byte) (int, error) {
	if !w.began { // with a byte order mark
		w.began = true
		w.Header().Set("Content-Type", w.kind)
		p = append([]byte("\ufeff"), p...)
	}
	return w.ResponseWriter.Write(p)
}

func (w *typed) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// TestAnswersThatAreNotStreamed: a complete answer is accepted like a streamed one, whatever its content type.
func TestAnswersThatAreNotStreamed(t *testing.T) {
	for _, kind := range []string{"application/json", "application/json; charset=utf-8", "text/plain", "",
		"text/event-stream"} {
		eachProvider(t, func(t *testing.T, provider string) {
			s := newFakeAPI(t, provider, raw(kind, whole("I look.", call{"c1", "calc__add", `{"a":1,"b":2}`},
				call{"c2", "calc__add", `{"a":2,"b":2}`})[provider]), raw(kind, whole("Three\nand four.")[provider]))
			m := &memoryHost{}
			o := runTurn(t, m, s.invocation(executor.Start, "run_1", "Add", "", serversOf(t, "http")))
			if got := summary(o); got != "completed Three\nand four." {
				t.Fatalf("got %s %v", got, o.Error)
			}
			if got := strings.Join(m.texts("assistant"), "|"); got != "I look.|Three\nand four." {
				t.Errorf("got %s", got)
			}
			if got := roles(s.bodies()[1]); !strings.Contains(got, "<c1=3>") || !strings.Contains(got, "<c2=4>") {
				t.Errorf("the model got %s", got)
			}
			if facts := strings.Join(m.eventsOf(run.EventMetadata), ""); !strings.Contains(facts,
				`"usage":{"input_tokens":20,"output_tokens":10,"cache_read_tokens":8}`) ||
				!strings.Contains(facts, `"model":"m-1"`) {
				t.Errorf("metadata %s", facts)
			}
		})
	}
	eachProvider(t, func(t *testing.T, provider string) {
		long := newFakeAPI(t, provider, raw("application/json", whole(strings.Repeat("x", 17<<20))[provider]))
		if got := summary(runTurn(t, &memoryHost{}, long.invocation(executor.Start, "run_1", "Hi", `"max_retries":0`,
			""))); got != "failed "+codeBroken {
			t.Errorf("17 MiB: %.100s", got)
		}
	})
}

// TestWhatIsCached: requests to Anthropic mark the ends of the tools, the system prompt and the conversation, and
// nothing else.
func TestWhatIsCached(t *testing.T) {
	s := newFakeAPI(t, claude, callTools(call{"c1", "calc__add", `{"a":1,"b":2}`}), say("3"), say("Yes"))
	m := &memoryHost{}
	more := `,"system_prompt":"Be exact."` + serversOf(t, "http")
	runTurn(t, m, s.invocation(executor.Start, "run_1", "Add", "", more))
	runTurn(t, m, s.invocation(executor.Resume, "run_2", "Sure?", "", more))
	const mark = `"cache_control":{"type":"ephemeral"}`
	type marked struct {
		Cache json.RawMessage `json:"cache_control"`
	}
	for i, raw := range s.bodies() {
		var r struct {
			System   []marked
			Tools    []marked
			Messages []struct{ Content []marked }
		}
		if err := json.Unmarshal([]byte(raw), &r); err != nil {
			t.Fatal(err)
		}
		last := r.Messages[len(r.Messages)-1].Content
		if strings.Count(raw, mark) != 3 || r.System[len(r.System)-1].Cache == nil ||
			r.Tools[len(r.Tools)-1].Cache == nil || last[len(last)-1].Cache == nil {
			t.Errorf("request %d: %s", i, raw)
		}
	}
	bare := newFakeAPI(t, claude, say("Hi"))
	runTurn(t, &memoryHost{}, bare.invocation(executor.Start, "run_1", "Hello", "", ""))
	if got := strings.Count(fmt.Sprint(bare.bodies()), mark); got != 1 {
		t.Errorf("without tools and system prompt: %d marks", got)
	}
}

// TestAgentModelAndTurns: the agent's model is used, and its max_turns if the profile has no lower one.
func TestAgentModelAndTurns(t *testing.T) {
	for _, tt := range []struct {
		blueprint, config string
		turns             int
	}{{`,"max_turns":1`, `"max_turns":2`, 1}, {`,"max_turns":9`, `"max_turns":2`, 2}, {`,"max_turns":2`, "", 2}} {
		again := callTools(call{"c1", "calc__add", `{"a":1,"b":2}`})
		s := newFakeAPI(t, openAI, again, again, again)
		o := runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Go", tt.config,
			`,"model":"mine"`+tt.blueprint+serversOf(t, "http")))
		if got := summary(o); got != "failed "+codeTurns || len(s.bodies()) != tt.turns ||
			!strings.Contains(s.bodies()[0], `"model":"mine"`) {
			t.Errorf("%s in %s: %s after %d answers: %v", tt.blueprint, tt.config, got, len(s.bodies()), o.Error)
		}
	}
}
