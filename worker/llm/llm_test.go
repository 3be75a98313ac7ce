package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ao/shared/executor"
	"ao/shared/run"
)

func TestOneAnswer(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		s := newFakeAPI(t, provider, say("Hel", "lo <b>\n", "you"))
		m := &memoryHost{}
		o := runTurn(t, m, s.invocation(executor.Start, "run_1", "Hi",
			`"max_tokens":77,"temperature":0.5,"headers":{"X-Team":"red"}`, `,"system_prompt":"Be brief."`))
		if got := summary(o); got != "completed Hello <b>\nyou" {
			t.Errorf("got %s (%v)", got, o.Error)
		}
		if got := m.texts("assistant"); len(got) != 1 || got[0] != "Hello <b>\nyou" {
			t.Errorf("readers see %q", got)
		}
		request := s.bodies()[0]
		for _, want := range []string{`"model":"m"`, `"max_tokens":77`, `"temperature":0.5`, `"stream":true`,
			`Be brief.`, `"Hi"`} {
			if !strings.Contains(request, want) {
				t.Errorf("the request lacks %s: %s", want, request)
			}
		}
		h := s.headers[0]
		if credential := map[string]string{openAI: h.Get("Authorization"),
			claude: "Bearer " + h.Get("X-Api-Key")}[provider]; credential != "Bearer "+key || h.Get("X-Team") != "red" {
			t.Errorf("headers %v", h)
		}
		want := `{"metadata":{"executor":"ao-llm-exec","model":"m-1","provider":"` + provider +
			`","retries":0,"tool_calls":0,"turns":1,"usage":{"input_tokens":10,"output_tokens":5,` +
			`"cache_read_tokens":4}}}`
		if got := m.eventsOf(run.EventMetadata); len(got) != 1 || strings.TrimSpace(got[0]) != want {
			t.Errorf("metadata %s, want %s", got, want)
		}
	})
}

func TestNothingIsTakenFromTheEnvironment(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		for _, name := range []string{"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"} {
			t.Setenv(name, "http://127.0.0.1:1/elsewhere")
		}
		for _, name := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID"} {
			t.Setenv(name, "stray-value")
		}
		t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Stray: stray-value")
		s := newFakeAPI(t, provider, say("ok"))
		inv := s.invocation(executor.Start, "run_1", "Hi", "", "")
		inv.Config = json.RawMessage(strings.Replace(string(inv.Config), "LLM_TEST_KEY", "", 1)) // no key at all
		if got := summary(runTurn(t, &memoryHost{}, inv)); got != "completed ok" {
			t.Fatalf("got %s", got)
		}
		if h := fmt.Sprint(s.headers[0]); strings.Contains(h, "stray-value") ||
			s.headers[0].Get("Authorization") != "" {
			t.Errorf("headers %s", h)
		}
	})
}

func TestLongAnswersAreReportedInPieces(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		line := strings.Repeat("é", 500) + "\n"
		texts := []string{}
		for range 40 {
			texts = append(texts, line)
		}
		texts = append(texts, strings.Repeat("ü", 40_000)) // no end of a line for long
		s := newFakeAPI(t, provider, say(texts...))
		m := &memoryHost{}
		o := runTurn(t, m, s.invocation(executor.Start, "run_1", "Hi", "", ""))
		whole := strings.Join(texts, "")
		if o.Result == nil || *o.Result.Text != whole {
			t.Fatalf("got %.100s", summary(o))
		}
		got := m.texts("assistant")
		if strings.Join(got, "") != whole {
			t.Error("the pieces are not the text")
		}
		if len(got) < 4 || len(got) > 8 || !strings.HasSuffix(got[0], "\n") {
			t.Errorf("%d pieces, the first ends with %q", len(got), got[0][len(got[0])-3:])
		}
	})
}

func TestConversationContinuesOnAnotherWorker(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		s := newFakeAPI(t, provider, say("I am Bob"), say("Bob, as I said"))
		m := &memoryHost{}
		runTurn(t, m, s.invocation(executor.Start, "run_1", "Who are you?", "", ""))
		other := &memoryHost{state: m.state} // another worker: it has nothing but the state
		o := runTurn(t, other, s.invocation(executor.Resume, "run_2", "Again?", "", ""))
		if got := summary(o); got != "completed Bob, as I said" {
			t.Fatalf("got %s %v", got, o.Error)
		}
		if got, want := roles(s.bodies()[1]), "user:Who are you? assistant:I am Bob user:Again?"; got != want {
			t.Errorf("the model got %s, want %s", got, want)
		}
	})
}

// roles returns a request's conversation on one line, without the system prompt.
func roles(request string) string {
	var r struct {
		Messages []struct {
			Role       string          `json:"role"`
			Content    json.RawMessage `json:"content"`
			ToolCallID string          `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		return err.Error()
	}
	var all []string
	for _, m := range r.Messages {
		if m.Role == "system" {
			continue
		}
		var text string
		if json.Unmarshal(m.Content, &text) != nil {
			var blocks []struct {
				Type, Text, ID, Name string
				Input                json.RawMessage
				ToolUseID            string `json:"tool_use_id"`
				IsError              bool   `json:"is_error"`
				Content              []struct{ Text string }
			}
			json.Unmarshal(m.Content, &blocks)
			for _, b := range blocks {
				switch b.Type {
				case "tool_use":
					text += fmt.Sprintf("<%s %s %s>", b.ID, b.Name, b.Input)
				case "tool_result":
					failed := ""
					if b.IsError {
						failed = "Error: "
					}
					text += fmt.Sprintf("<%s=%s%s>", b.ToolUseID, failed, b.Content[0].Text)
				case "text":
					text += b.Text
				default:
					text += "<" + b.Type + ">"
				}
			}
		}
		for _, c := range m.ToolCalls {
			text += fmt.Sprintf("<%s %s %s>", c.ID, c.Function.Name, c.Function.Arguments)
		}
		if m.ToolCallID != "" { // as Anthropic's API has it, for one expectation
			m.Role, text = "user", fmt.Sprintf("<%s=%s>", m.ToolCallID, text)
			if n := len(all) - 1; n >= 0 && strings.HasPrefix(all[n], "user:<") {
				all[n] += text
				continue
			}
		}
		all = append(all, m.Role+":"+text)
	}
	return strings.Join(all, " ")
}

func TestResumeWithoutHistory(t *testing.T) {
	s := newFakeAPI(t, openAI)
	for _, tt := range []struct {
		name  string
		m     *memoryHost
		host  func(executor.Host) executor.Host
		want  string
		hints string
	}{
		{"no gateway", &memoryHost{}, func(h executor.Host) executor.Host {
			h.LoadState, h.SaveState = nil, nil
			return h
		}, codeHistory, "start a new session"},
		{"gone", &memoryHost{}, nil, codeHistory, "start a new session"},
		{"unavailable", &memoryHost{fail: errors.New("away")}, nil, codeHistory, "resume it later"},
		{"newer", &memoryHost{state: []byte(`{"v":2}`)}, nil, codeHistory, "version 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := tt.m.host()
			if tt.host != nil {
				host = tt.host(host)
			}
			o := Executor{}.Run(t.Context(), s.invocation(executor.Resume, "run_2", "Hi", "", ""), host)
			if o.Status != run.Failed || o.Error.Code != tt.want || !strings.Contains(o.Error.Message, tt.hints) {
				t.Errorf("got %s %v", summary(o), o.Error)
			}
		})
	}
	if n := len(s.bodies()); n > 0 {
		t.Errorf("the model was asked %d times", n)
	}
}

func TestMissingGatewayIsReported(t *testing.T) {
	s := newFakeAPI(t, openAI, say("hello"))
	m := &memoryHost{}
	host := m.host()
	host.LoadState, host.SaveState = nil, nil
	o := Executor{}.Run(t.Context(), s.invocation(executor.Start, "run_1", "Hi", "", ""), host)
	if got := summary(o); got != "completed hello" {
		t.Errorf("got %s", got)
	}
	if got := m.texts("system"); len(got) != 1 || !strings.Contains(got[0], "cannot be resumed") {
		t.Errorf("got %q", got)
	}
}

func TestUnstorableHistoryFailsTheRun(t *testing.T) {
	s := newFakeAPI(t, openAI, say("hello"))
	o := runTurn(t, &memoryHost{fail: errors.New("away")}, s.invocation(executor.Start, "run_1", "Hi", "", ""))
	if got := summary(o); got != "failed "+codeHistory || len(s.bodies()) != 0 {
		t.Errorf("got %s after %d questions", got, len(s.bodies()))
	}
}

func TestAStoppedRun(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		const line = "one of many lines\n"
		lines := strings.Repeat(line, pieceSize/len(line)+1) // so many that they are reported while the answer comes
		s := newFakeAPI(t, provider, stalls(lines+"Half an ans"), say("whole"))
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		m := &memoryHost{on: func(kind, _ string) {
			if kind == run.EventMessage {
				cancel(errors.New("stopped"))
			}
		}}
		began := time.Now()
		o := runTurnIn(ctx, t, m, s.invocation(executor.Start, "run_1", "Hi", "", ""))
		if got := strings.ReplaceAll(summary(o), lines, ""); got != "stopped Half an ans" ||
			time.Since(began) > 15*time.Second {
			t.Errorf("got %s after %s", got, time.Since(began))
		}
		o = runTurn(t, &memoryHost{state: m.state}, s.invocation(executor.Resume, "run_2", "Go on", "", ""))
		if got, want := strings.ReplaceAll(roles(s.bodies()[1]), lines, ""),
			"user:Hi assistant:Half an ans\n\n[Cut off: the run was stopped] user:Go on"; got != want {
			t.Errorf("the model got %q, want %q (%s)", got, want, summary(o))
		}
	})
}

func TestAFailedRunCanBeResumed(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		s := newFakeAPI(t, provider, status(http.StatusUnauthorized, nil,
			`{"error":{"message":"bad key","type":"authentication_error"}}`), say("ok"))
		m := &memoryHost{}
		runTurn(t, m, s.invocation(executor.Start, "run_1", "Hi", "", ""))
		if got := summary(runTurn(t, m, s.invocation(executor.Resume, "run_2", "Now?", "",
			""))); got != "completed ok" {
			t.Fatalf("got %s", got)
		}
		if got := roles(s.bodies()[1]); !strings.HasPrefix(got, "user:Hi assistant:[No answer: the endpoint ") ||
			!strings.HasSuffix(got, "] user:Now?") {
			t.Errorf("the model got %s", got)
		}
	})
}

func TestAnotherAttemptStartsOver(t *testing.T) {
	s := newFakeAPI(t, openAI, say("one"), cutOff(), say("three"))
	m := &memoryHost{}
	runTurn(t, m, s.invocation(executor.Start, "run_1", "First", "", ""))
	inv := s.invocation(executor.Resume, "run_2", "Second", `"max_retries":0`, "")
	runTurn(t, m, inv)
	inv.Attempt = 2
	runTurn(t, m, inv)
	if got, want := roles(s.bodies()[2]), "user:First assistant:one user:Second"; got != want {
		t.Errorf("the second attempt got %s, want %s", got, want)
	}
}

func TestALongConversationLosesItsOldestTurns(t *testing.T) {
	eachProvider(t, func(t *testing.T, provider string) {
		long := strings.Repeat("x", 900)
		s := newFakeAPI(t, provider, say(long), say(long), say(long), say("end"))
		m := &memoryHost{}
		runTurn(t, m, s.invocation(executor.Start, "run_1", "one", `"max_history_bytes":2500`, ""))
		for i, prompt := range []string{"two", "three", "four"} {
			if o := runTurn(t, m, s.invocation(executor.Resume, fmt.Sprint("run_", i+2), prompt,
				`"max_history_bytes":2500`, "")); o.Status != run.Completed {
				t.Fatalf("got %s %v", summary(o), o.Error)
			}
		}
		if got := roles(s.bodies()[3]); !strings.HasPrefix(got,
			"user:[The first turn of this conversation was dropped: it was too long.]\n\ntwo ") {
			t.Errorf("the model got %.200s", got)
		}
		if got := m.texts("system"); len(got) != 1 || !strings.Contains(got[0], "turns are dropped") {
			t.Errorf("readers got %q", got)
		}
		if len(m.state) > 2500 {
			t.Errorf("%d bytes are kept", len(m.state))
		}
		o := runTurn(t, m, s.invocation(executor.Resume, "run_9", strings.Repeat("y", 5000), `"max_history_bytes":2500`,
			""))
		if got := summary(o); got != "failed "+codeTooLong {
			t.Errorf("a prompt that is too long: %s", got)
		}
	})
}
