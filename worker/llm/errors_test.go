package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"ao/shared/executor"
	"ao/shared/run"
)

func TestErrorsOfTheEndpoint(t *testing.T) {
	apiError := func(code, message string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"code":%q,"message":%q}}`, code, code, message)
	}
	endless := func(s *fakeAPI, w http.ResponseWriter, _ *http.Request) {
		s.startStream(w, "begin")
		filler := strings.Repeat("x", 1<<20)
		for range 5 {
			s.startStream(w, filler)
		}
	}
	for _, tt := range []struct {
		name  string
		reply reply
		want  string // status and code
		says  string
	}{
		{"401", status(401, nil, apiError("authentication_error", "invalid key "+key)), "failed llm_unauthorized",
			"[key]; the key is from LLM_TEST_KEY in the worker's environment"},
		{"403", status(403, nil, apiError("permission_error", "no access to m")), "failed llm_forbidden",
			"does not allow this: no access to m; name another model"},
		{"402", status(402, nil, apiError("billing_error", "pay")), "failed llm_no_credit",
			"no credit left: pay; add credit"},
		{"quota", status(429, nil, apiError("insufficient_quota", "you are out")), "failed llm_no_credit",
			"no credit left: you are out"},
		{"404 of the model", status(404, nil, apiError("not_found_error", `model "m" not found`)),
			"failed llm_model_not_found", `has no model "m"`},
		{"404 in few words", status(404, nil, `{"error":"model 'm' not found, try pulling it first"}`),
			"failed llm_model_not_found", "try pulling it first"},
		{"404 of the address", status(404, map[string]string{"Content-Type": "text/plain"}, "404 page not found"),
			"failed llm_unreachable", "check base_url"},
		{"400", status(400, nil, apiError("invalid_request_error", "temperature: too hot")), "failed llm_bad_request",
			"temperature: too hot; check model"},
		{"too long", status(400, nil, apiError("context_length_exceeded", "8000 tokens")), "failed llm_bad_request",
			"the conversation is too long for the model"},
		{"413", status(413, nil, `<html>too large</html>`), "failed llm_bad_request", "the conversation is too long"},
		{"429", status(429, nil, apiError("rate_limit_error", "slow down")), "failed llm_rate_limited",
			"limits the rate: slow down"},
		{"500", status(500, nil, `<html>oops</html>`), "failed llm_overloaded", "HTTP 500); retry later"},
		{"529", status(529, nil, apiError("overloaded_error", "busy")), "failed llm_overloaded", "busy"},
		{"200 with an error", raw("application/json", apiError("x", "no such thing")), "failed llm_bad_request",
			"no such thing"},
		{"a web page", raw("text/html", "<html>Log in</html>"), "failed llm_unreachable",
			"it sent text/html instead of an event stream; check base_url"},
		{"JSON", raw("application/json", `{"hello":1}`), "failed llm_unreachable", "it sent application/json instead"},
		{"a redirect", func(_ *fakeAPI, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/x", http.StatusTemporaryRedirect)
		}, "failed llm_unreachable", "it redirects to http://127.0.0.1:1/x"},
		{"rubbish", raw("text/event-stream", "event: message_start\ndata: {{{\n\n"), "failed llm_stream_broken",
			"is unreadable"},
		{"no stream", raw("text/event-stream", "hello\nthis is no event stream\n"), "failed llm_stream_broken",
			"ended before the answer was finished"},
		{"nothing", raw("text/event-stream", ""), "failed llm_stream_broken", "ended before the answer was finished"},
		{"cut off", cutOff(), "failed llm_stream_broken", "is incomplete"},
		{"stalls", stalls(), "failed llm_stream_broken", "sent nothing for 200ms"},
		{"stalls before the answer", func(_ *fakeAPI, _ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, "failed llm_stream_broken", "sent nothing for 200ms"},
		{"endless", endless, "failed llm_stream_broken", "has more than 2 MiB"},
		{"declined", ends(declined, ""), "failed llm_refused", "declined to answer"},
		{"too short", ends(forWant, "Once upon"), "failed llm_length Once upon", "raise max_tokens"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, provider string) {
				s := newFakeAPI(t, provider, tt.reply, say("ok"))
				m := &memoryHost{}
				idle := "5"
				if strings.HasPrefix(tt.name, "stalls") {
					idle = "0.2"
				}
				o := runTurn(t, m, s.invocation(executor.Start, "run_1", "Hi",
					`"max_retries":0,"idle_timeout_seconds":`+idle, ""))
				got := summary(o)
				if tt.name == "endless" && o.Result != nil { // its text is kept
					got = strings.TrimSuffix(got, " "+*o.Result.Text)
				}
				if got != tt.want || !strings.Contains(o.Error.Message, tt.says) {
					t.Fatalf("got %.200s: %v\nwant %s: %s", got, o.Error, tt.want, tt.says)
				}
				if o := runTurn(t, m, s.invocation(executor.Resume, "run_2", "And now?", "",
					"")); o.Status != run.Completed {
					t.Errorf("after it: %s %v", summary(o), o.Error)
				}
			})
		})
	}
}

func TestErrorsWithinTheStream(t *testing.T) {
	for _, tt := range []struct{ provider, event, want string }{
		{claude,
			"event: error\ndata: " +
				"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
			codeOverloaded},
		{claude,
			"event: error\ndata: " +
				"{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"Slow\"}}\n\n",
			codeRateLimited},
		{claude,
			"event: error\ndata: " +
				"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"No\"}}\n\n",
			codeBadRequest},
		{openAI, "data: {\"error\":{\"message\":\"engine died\",\"type\":\"server_error\",\"code\":500}}\n\n",
			codeOverloaded},
		{openAI, "data: {\"error\":{\"message\":\"Slow\",\"type\":\"rate_limit_exceeded\"}}\n\n", codeRateLimited},
	} {
		t.Run(tt.provider+" "+tt.want, func(t *testing.T) {
			s := newFakeAPI(t, tt.provider, raw("text/event-stream", tt.event))
			if got := summary(runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Hi", `"max_retries":0`,
				""))); got != "failed "+tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestUnreachableEndpoint(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		s := newFakeAPI(t, provider)
		closed := httptest.NewServer(http.NotFoundHandler())
		closed.Close()
		s.url = closed.URL
		o := runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Hi", `"max_retries":0`, ""))
		if got := summary(o); got != "failed "+codeUnreachable || !strings.Contains(o.Error.Message,
			"cannot be reached: nothing listens there; check base_url, and whether it runs") {
			t.Errorf("got %s %v", got, o.Error)
		}
	})
}

func TestRetries(t *testing.T) {
	soon := map[string]string{"Retry-After-Ms": "20"}
	eachProvider(t, func(t *testing.T, provider string) {
		s := newFakeAPI(t, provider, status(429, soon, `{}`), status(503, soon, `{}`),
			status(529, map[string]string{"Retry-After": "0.02"}, `{}`), say("at last"))
		m := &memoryHost{}
		if got := summary(runTurn(t, m, s.invocation(executor.Start, "run_1", "Hi", "",
			""))); got != "completed at last" || len(s.bodies()) != 4 {
			t.Errorf("got %s after %d questions", got, len(s.bodies()))
		}
		if got := m.eventsOf(run.EventMetadata); !strings.Contains(got[0], `"retries":3`) {
			t.Errorf("metadata %s", got)
		}
	})
}

func TestBrokenAnswerIsRetriedOnlyBeforeOutput(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		s := newFakeAPI(t, provider, cutOff("a little"), say("whole"))
		m := &memoryHost{}
		if got := summary(runTurn(t, m, s.invocation(executor.Start, "run_1", "Hi", "",
			""))); got != "completed whole" {
			t.Errorf("got %s", got)
		}
		if got := m.texts("assistant"); len(got) != 1 || got[0] != "whole" {
			t.Errorf("readers see %q", got)
		}
		long := strings.Repeat("line\n", 5000)
		s = newFakeAPI(t, provider, cutOff(long), say("never asked"))
		m = &memoryHost{}
		o := runTurn(t, m, s.invocation(executor.Start, "run_1", "Hi", "", ""))
		if o.Error == nil || o.Error.Code != codeBroken || len(s.bodies()) != 1 || o.Result == nil ||
			*o.Result.Text != long || strings.Join(m.texts("assistant"), "") != long {
			t.Errorf("got %.100s after %d questions", summary(o), len(s.bodies()))
		}
	})
}

func TestRetryAfterBeyondTheRunsLimit(t *testing.T) {
	says := regexp.MustCompile(`it asks for a retry in .*and the run has (20|1?\d)s left`) // it had 20 s
	eachProvider(t, func(t *testing.T, provider string) {
		for _, after := range []string{"3600", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), "1e300"} {
			s := newFakeAPI(t, provider, status(429, map[string]string{"Retry-After": after}, `{}`))
			began := time.Now()
			o := runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Hi", "", ""))
			if got := summary(o); got != "failed "+codeRateLimited || time.Since(began) > 15*time.Second ||
				!says.MatchString(o.Error.Message) {
				t.Errorf("%s: got %s %v after %s", after, got, o.Error, time.Since(began))
			}
		}
	})
}

func TestWaitReadsBothForms(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		header http.Header
		want   time.Duration
	}{
		{nil, 0},
		{http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		{http.Header{"Retry-After": {" 1.5 "}}, 1500 * time.Millisecond},
		{http.Header{"Retry-After": {"Fri, 02 Jan 2026 03:05:05 GMT"}}, time.Minute},
		{http.Header{"Retry-After": {"Fri, 02 Jan 2026 03:00:00 GMT"}}, 0},
		{http.Header{"Retry-After": {"-3"}}, 0},
		{http.Header{"Retry-After": {"soon"}}, 0},
		{http.Header{"Retry-After": {"7"}, "Retry-After-Ms": {"250"}}, 250 * time.Millisecond},
		{http.Header{"Retry-After": {"1e30"}}, 1<<63 - 1},
	} {
		if got := retryAfter(tt.header, now); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.header, got, tt.want)
		}
	}
}

func TestAStopWhileItWaits(t *testing.T) {
	s := newFakeAPI(t, openAI, status(429, map[string]string{"Retry-After": "10"}, `{}`))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := &memoryHost{on: func(kind, body string) {
		if strings.Contains(body, "retrying in 10s") {
			cancel()
		}
	}}
	began := time.Now()
	if got := summary(runTurnIn(ctx, t, m, s.invocation(executor.Start, "run_1", "Hi", "", ""))); got != "stopped" ||
		time.Since(began) > 8*time.Second {
		t.Errorf("got %s after %s", got, time.Since(began))
	}
}

func TestSettingsAreStrict(t *testing.T) {
	for _, tt := range []struct{ config, want string }{
		{`{}`, "provider is required"},
		{`{"provider":"openai"}`, "model is required"},
		{`{"provider":"bard","model":"m"}`, `not "bard"`},
		{`{"provider":"openai","model":"m","colour":1}`, `Unknown field "colour"`},
		{`{"provider":"openai","model":"m","max_turns":"many"}`, "max_turns"},
		{`{"provider":"openai","model":"m","max_turns":-1}`, "max_turns must be"},
		{`{"provider":"openai","model":"m","temperature":3}`, "temperature must be"},
		{`{"provider":"openai","model":"m","api_key_env":"sk-123"}`, "api_key_env must be the name"},
		{`{"provider":"openai","model":"m","base_url":"ftp://x"}`, "base_url must be an http"},
		{`{"provider":"openai","model":"m","base_url":"http://u:p@x"}`, "must not contain a user"},
		{`{"provider":"openai","model":"m","base_url":"http://x?key=1"}`, "must not contain a user"},
		{`{"provider":"openai","model":"m","headers":{"authorization":"x"}}`, "must not contain authorization"},
		{`{"provider":"openai","model":"m","headers":{"x y":"1"}}`, "cannot be sent"},
		{`{"provider":"openai","model":"m","max_history_bytes":99999999999}`, "max_history_bytes must be"},
	} {
		o := Executor{}.Run(t.Context(), executor.Invocation{Mode: executor.Start, Config: json.RawMessage(tt.config)},
			(&memoryHost{}).host())
		if o.Error == nil || o.Error.Code != codeConfig || !strings.Contains(o.Error.Message, tt.want) {
			t.Errorf("%s: got %s %v, want %s", tt.config, summary(o), o.Error, tt.want)
		}
	}
}

func TestTheBlueprintsModelComesFirst(t *testing.T) {
	s := newFakeAPI(t, openAI, say("ok"))
	runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Hi", "", `,"model":"theirs"`))
	if got := s.bodies()[0]; !strings.Contains(got, `"model":"theirs"`) {
		t.Error(got)
	}
}

func TestServersWithAccents(t *testing.T) {
	for name, chunks := range map[string][]string{
		"every call has index 0, the reason is stop": {
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x",` +
				`"arguments":"{\"n\":1}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"x",` +
				`"arguments":"{\"n\":2}"}}]},"finish_reason":"stop"}]}`,
		},
		"no ids": {
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"x",` +
				`"arguments":"{\"n\":1}"}},{"index":1,"function":{"name":"x","arguments":"{\"n\":2}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeAPI(t, openAI, func(_ *fakeAPI, w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, c := range chunks {
					io.WriteString(w, "data: "+c+"\n\n")
				}
				io.WriteString(w, "data: [DONE]\n\n")
			}, say("ok"))
			runTurn(t, &memoryHost{}, s.invocation(executor.Start, "run_1", "Hi", "", ""))
			asked := s.bodies()
			if len(asked) != 2 || !strings.Contains(asked[1], `{\"n\":1}`) && !strings.Contains(asked[1], `n\":2`) ||
				strings.Count(asked[1], "unknown tool") != 2 {
				t.Errorf("the model got %s", asked)
			}
		})
	}
}
