package llm

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"ao/shared/executor"
)

// chunks answers with chunks of a stream of Chat Completions, and how it ends.
func chunks(end string, all ...string) reply {
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "data: %s\n\n", c)
	}
	return raw("text/event-stream", b.String()+end)
}

const done = "data: [DONE]\n\n"

// delta returns a chunk with a delta and a finish reason.
func delta(members, finish string) string {
	return fmt.Sprintf(`{"model":"m-1","choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}`, members, finish)
}

// TestFinishReasons: those of the known endpoints, however they write them. An unknown one is reported.
func TestFinishReasons(t *testing.T) {
	for finish, want := range map[string]string{
		"stop": "completed Hi", "STOP": "completed Hi", "end_turn": "completed Hi", "eos": "completed Hi",
		"length": "failed llm_length Hi", "MAX_TOKENS": "failed llm_length Hi", "max_tokens": "failed llm_length Hi",
		"max_output_tokens": "failed llm_length Hi", "model_length": "failed llm_length Hi",
		"content_filter": "failed llm_refused Hi", "content-filter": "failed llm_refused Hi",
		"SAFETY": "failed llm_refused Hi", "Recitation": "failed llm_refused Hi", "refusal": "failed llm_refused Hi",
		"content_filter: PROHIBITED_CONTENT": "failed llm_refused Hi",
		"error":                              "failed llm_stream_broken Hi",
		"MALFORMED_FUNCTION_CALL":            "failed llm_stream_broken Hi",
		"cancelled":                          "failed llm_stream_broken Hi",
		"tired":                              "completed Hi",
	} {
		t.Run(finish, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, provider string) {
				s := newFakeAPI(t, provider, ends(map[string]string{provider: finish}, "Hi"))
				m := &memoryHost{}
				o := runTurn(t, m, s.invocation(executor.Start, "run_1", "Hello", `"max_retries":0`, ""))
				if got := summary(o); got != want {
					t.Errorf("got %s %v, want %s", got, o.Error, want)
				}
				var warnings []string
				if finish == "tired" {
					warnings = []string{`the endpoint ended its answer for an unknown reason, "tired": ` +
						`the answer may be incomplete`}
				}
				if got := m.texts("system"); !slices.Equal(got, warnings) {
					t.Errorf("readers got %q, want %q", got, warnings)
				}
				if want == "failed llm_stream_broken Hi" &&
					!strings.Contains(fmt.Sprint(o.Error), fmt.Sprintf("%q", finish)) {
					t.Errorf("the reason is not named: %v", o.Error)
				}
			})
		})
	}
}

// TestAnAnswerWithoutAnEnd: [DONE] or the usage ends it, and an error after the end takes nothing away. An empty one
// is no answer and requested again.
func TestAnAnswerWithoutAnEnd(t *testing.T) {
	const usage = `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	hi, call := delta(`"content":"Hi"`, "null"), delta(`"tool_calls":[{"index":0,"id":"c","type":"function",`+
		`"function":{"name":"none","arguments":"{}"}}]`, "null")
	cut := func(all ...string) reply {
		return func(s *fakeAPI, w http.ResponseWriter, r *http.Request) {
			chunks("", all...)(s, w, r)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	for _, tt := range []struct {
		name  string
		first reply
		want  string
	}{
		{"[DONE]", chunks(done, hi), "completed Hi after 1"},
		{"usage", chunks("", hi, usage), "completed Hi after 1"},
		{"usage, and the connection is lost", cut(hi, usage), "completed Hi after 1"},
		{"text after the usage, and the connection is lost", cut(hi, usage, hi), "completed again after 2"},
		{"a call after the usage, and the connection is lost", cut(hi, usage, call),
			"failed llm_stream_broken Hi after 1"},
		{"nothing more after the usage, and the connection is lost", cut(hi, usage, delta(``, "null")),
			"completed Hi after 1"},
		{"the connection is lost after the end", cut(delta(`"content":"Hi"`, `"stop"`)), "completed Hi after 1"},
		{"a call", chunks(done, call), "completed again after 2 with a call"},
		{"neither", chunks("", delta(`"role":"assistant"`, "null")), "completed again after 2"},
		{"only [DONE]", chunks(done), "completed again after 2"},
		{"only usage", chunks(done, usage), "completed again after 2"},
		{"for calls, of which there are none", chunks(done, delta(``, `"tool_calls"`)), "completed again after 2"},
		{"unknown and empty", chunks(done, delta(``, `"tired"`)), "completed again after 2"},
		{"an error of the endpoint", chunks(done, delta(``, `"error"`)), "completed again after 2"},
		{"usage first", chunks("", `{"choices":[],"usage":{"prompt_tokens":3}}`, delta(`"role":"assistant"`, "null")),
			"completed again after 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newFakeAPI(t, openAI, tt.first, say("again"))
			o := runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Hello", "", ""))
			got := fmt.Sprintf("%s after %d", summary(o), len(s.bodies()))
			if strings.Contains(s.bodies()[len(s.bodies())-1], "unknown tool") {
				got += " with a call"
			}
			if got != tt.want {
				t.Errorf("got %s %v, want %s", got, o.Error, tt.want)
			}
		})
	}
}

// TestContentInParts: text is the answer, thinking is not.
func TestContentInParts(t *testing.T) {
	const parts = `[{"type":"thinking","thinking":[{"type":"text","text":"hmm"}]},{"type":"reasoning","text":"so"},` +
		`{"type":"text","text":"Hel"},{"type":"text","text":"lo"}]`
	for name, tt := range map[string]struct {
		reply reply
		want  string
	}{
		"streamed": {chunks(done, delta(`"content":`+parts, "null"),
			delta(`"content":"!","function_call":{"name":""}`, "null"), delta(``, `"stop"`)), "completed Hello!"},
		"complete": {raw("application/json", `{"choices":[{"message":{"content":`+parts+`},`+
			`"finish_reason":"stop"}]}`), "completed Hello"},
		"texts":                     {chunks(done, delta(`"content":["Hel","lo"]`, `"stop"`)), "completed Hello"},
		"a reason that is a number": {chunks(done, delta(`"content":"Hello"`, "7")), "completed Hello"},
		"unreadable":                {chunks(done, delta(`"content":[7]`, `"stop"`)), "failed llm_stream_broken"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeAPI(t, openAI, tt.reply)
			o := runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Hello", `"max_retries":0`, ""))
			if got := summary(o); got != tt.want {
				t.Errorf("got %s %v, want %s", got, o.Error, tt.want)
			}
		})
	}
}

// TestNoArguments: of a tool without parameters, models write null or nothing.
func TestNoArguments(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		s := newFakeAPI(t, provider, callTools(call{"c1", "calc__fail", "null"}, call{"c2", "calc__fail", " "}),
			say("done"))
		runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Go", "", serversOf(t, "http")))
		want := `user:Go assistant:<c1 calc__fail {}><c2 calc__fail {}> user:<c1=Error: no luck><c2=Error: no luck>`
		if got := roles(s.bodies()[1]); got != want {
			t.Errorf("the model got\n%s, want\n%s", got, want)
		}
	})
}

// TestTheOldFunctionCall is a call like any other. Of an endpoint that sends it beside tool_calls, those count.
func TestTheOldFunctionCall(t *testing.T) {
	const (
		old  = `"function_call":{"name":"calc__add","arguments":"{\"a\":1,\"b\":2}"}`
		both = `"tool_calls":[{"index":0,"id":"c1","type":"function",` +
			`"function":{"name":"calc__add","arguments":"{\"a\":1,\"b\":2}"}}],` + old
		end = `"function_call"`
	)
	for name, tt := range map[string]struct {
		answer reply
		id     string
	}{
		"streamed": {chunks(done, delta(`"function_call":{"name":"calc__add","arguments":""}`, "null"),
			delta(`"function_call":{"arguments":"{\"a\":1,"}`, "null"),
			delta(`"function_call":{"arguments":"\"b\":2}"}`, "null"), delta(``, end)), "function_call"},
		"complete": {raw("application/json", `{"choices":[{"message":{`+old+`},"finish_reason":`+end+`}]}`),
			"function_call"},
		"both": {chunks(done, delta(both, "null"), delta(``, end)), "c1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeAPI(t, openAI, tt.answer, say("done"))
			o := runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Go", "", serversOf(t, "http")))
			if got := summary(o); got != "completed done" {
				t.Fatalf("got %s %v after %d", got, o.Error, len(s.bodies()))
			}
			want := `user:Go assistant:<` + tt.id + ` calc__add {"a":1,"b":2}> user:<` + tt.id + `=3>`
			if got := roles(s.bodies()[1]); got != want {
				t.Errorf("the model got\n%s, want\n%s", got, want)
			}
		})
	}
}
