package enforce

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/prompt"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// summary requires an object with a summary.
const summary = `{"type":"object","required":["summary"],"properties":{"summary":{"type":"string"}}}`

// scriptedExecutor answers turn by turn and keeps its invocations.
type scriptedExecutor struct {
	turns       []func(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome
	invocations []executor.Invocation
}

func (s *scriptedExecutor) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	s.invocations = append(s.invocations, inv)
	return s.turns[len(s.invocations)-1](ctx, inv, host)
}

func answering(texts ...string) *scriptedExecutor {
	s := &scriptedExecutor{}
	for _, text := range texts {
		s.turns = append(s.turns, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
			return textOutcome(text)
		})
	}
	return s
}

func textOutcome(text string) run.Outcome {
	return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Text: &text}}
}

func dataOutcome(data string) run.Outcome {
	return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Data: json.RawMessage(data)}}
}

func start() executor.Invocation {
	return executor.Invocation{SchemaVersion: executor.Version, Mode: executor.Start,
		SessionID: "ses_1", RunID: "run_1", AgentName: "a", Prompt: "Do it",
		Parameters: json.RawMessage(`{"prompt":"Do it"}`),
		Blueprint:  json.RawMessage(`{"name":"a","system_prompt":"You are <kind>.","tags":["x"]}`)}
}

func enforcer(e Executor, retries int) Enforcer {
	return Enforcer{Executor: e, AgentType: run.Autonomous, SystemPrompts: true,
		Output: run.Output{Schema: json.RawMessage(summary), Source: run.SourceBlueprint, Retries: retries}}
}

// listener keeps the texts of messages.
type listener struct{ texts, binds []string }

func (l *listener) host() executor.Host {
	return executor.Host{Emit: func(kind string, body json.RawMessage) {
		var m run.Message
		if kind == executor.LineBind {
			l.binds = append(l.binds, string(body))
		} else if json.Unmarshal(body, &m) == nil && kind == run.EventMessage && m.Role == "system" {
			l.texts = append(l.texts, m.Content[0].Text)
		}
	}}
}

// outcomeText returns an outcome as readers see it, without the messages' tails.
func outcomeText(t *testing.T, o run.Outcome) string {
	t.Helper()
	raw, err := strictjson.Encode(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

const missing = `{"path":"$.summary","message":"'summary' is a required property"}`

func TestOutcomes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		e       *scriptedExecutor
		retries int
		turns   int
		want    string
	}{
		{"at once", answering(`Here: {"summary":"x","n":1.50,"big":12345678901234567890,"a":0} ok`), 1, 1,
			`{"status":"completed","result":{"result_type":"autonomous","result_text":null,` +
				`"result_data":{"summary":"x","n":1.50,"big":12345678901234567890,"a":0},` +
				`"schema_validation":{"valid":true,"schema_name":null,"schema_source":"blueprint","retry_count":0,` +
				`"candidates":1},"raw_output":"Here: {\"summary\":\"x\",\"n\":1.50,\"big\":12345678901234567890,` +
				`\"a\":0} ok"}}`},
		{"asked again", answering(`{"a":1}`, `{"summary":"x"}`), 1, 2,
			`{"status":"completed","result":{"result_type":"autonomous","result_text":null,` +
				`"result_data":{"summary":"x"},` +
				`"schema_validation":{"valid":true,"schema_name":null,"schema_source":"blueprint","retry_count":1,` +
				`"candidates":1,"rejected":[{"attempt":1,"errors":[` + missing +
				`]}]},"raw_output":"{\"summary\":\"x\"}"}}`},
		{"never", answering(`{"a":1}`, "no\nJSON"), 1, 2,
			`{"status":"failed","error":{"error":"OutputSchemaValidationError","message":"Output validation failed ` +
				`after 1 retry","errors":[{"path":"$","message":"No JSON output found but output_schema requires ` +
				`structured output"}],"last_output":"no\nJSON"},` +
				`"result":{"result_type":"autonomous","result_text":"no\nJSON","result_data":null,` +
				`"schema_validation":{"valid":false,"schema_name":null,"schema_source":"blueprint","retry_count":1,` +
				`"candidates":0,"rejected":[{"attempt":1,"errors":[` + missing +
				`]},{"attempt":2,"errors":[{"path":"$","message":"No JSON output found but output_schema requires ` +
				`structured output"}]}]},"raw_output":"no\nJSON"}}`},
		{"no retry", answering(`{"a":1}`), 0, 1,
			`{"status":"failed","error":{"error":"OutputSchemaValidationError","message":"Output validation failed ` +
				`after 0 retries","errors":[` + missing + `],"last_output":"{\"a\":1}"},` +
				`"result":{"result_type":"autonomous","result_text":"{\"a\":1}","result_data":null,` +
				`"schema_validation":{"valid":false,"schema_name":null,"schema_source":"blueprint","retry_count":0,` +
				`"candidates":1,"rejected":[{"attempt":1,"errors":[` + missing + `]}]},"raw_output":"{\"a\":1}"}}`},
		{"two retries", answering(`1`, `2`, `3`), 2, 3,
			`"message":"Output validation failed after 2 retries","errors":[{"path":"$","message":"3 is not of type ` +
				`'object'"}],"last_output":"3"`},
		{"data of the executor's own", &scriptedExecutor{turns: []func(context.Context, executor.Invocation,
			executor.Host) run.Outcome{
			func(context.Context, executor.Invocation, executor.Host) run.Outcome {
				return dataOutcome(`"{\"summary\":\"a string is not looked into\"}"`)
			},
			func(context.Context, executor.Invocation, executor.Host) run.Outcome {
				return dataOutcome(`{"summary":"y","z":1.0}`)
			},
		}},
			1,
			2,
			`"result_text":null,"result_data":{"summary":"y","z":1.0},"schema_validation":{"valid":true,` +
				`"schema_name":null,"schema_source":"blueprint","retry_count":1,"rejected":[{"attempt":1,` +
				`"errors":[{"path":"$","message":"'{\"summary\":\"a string is not looked into\"}' is not of type ` +
				`'object'"}]}]},"raw_output":"{\"summary\":\"y\",\"z\":1.0}"`},
		{"data that never fit are no result_data",
			&scriptedExecutor{turns: []func(context.Context, executor.Invocation, executor.Host) run.Outcome{
				func(context.Context, executor.Invocation, executor.Host) run.Outcome { return dataOutcome(`{"a":1}`) },
			}},
			0,
			1,
			`"result":{"result_type":"autonomous","result_text":null,"result_data":null,` +
				`"schema_validation":{"valid":false`},
		{"no result", &scriptedExecutor{turns: []func(context.Context, executor.Invocation, executor.Host) run.Outcome{
			func(context.Context, executor.Invocation, executor.Host) run.Outcome {
				return run.Outcome{Status: run.Completed}
			},
		}},
			0,
			1,
			`"errors":[{"path":"$","message":"No JSON output found but output_schema requires structured output"}],` +
				`"last_output":""},"result":{"result_type":"autonomous"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := enforcer(tt.e, tt.retries).Run(t.Context(), start(), (&listener{}).host())
			if got := outcomeText(t, o); !strings.Contains(got, tt.want) || len(tt.e.invocations) != tt.turns {
				t.Errorf("%d turns\ngot  %s\nwant %s", len(tt.e.invocations), got, tt.want)
			}
		})
	}
}

func TestSourceAndNameAreShown(t *testing.T) {
	c := enforcer(answering(`{"summary":"x"}`), 0)
	c.Output.Name, c.Output.Source = "short", run.SourceRegistry
	if got := outcomeText(t, c.Run(t.Context(), start(), (&listener{}).host())); !strings.Contains(got,
		`{"valid":true,"schema_name":"short","schema_source":"registry","retry_count":0,"candidates":1}`) {
		t.Errorf("got %s", got)
	}
}

// TestNullIsAnAnswerWhereItIsWanted: null is an answer if the schema allows it, otherwise none.
func TestNullIsAnAnswerWhereItIsWanted(t *testing.T) {
	for _, schema := range []string{`{"type":"null"}`, `{"type":"string"}`} {
		for _, end := range []run.Outcome{dataOutcome(`null`), textOutcome(`null`)} {
			e := &scriptedExecutor{turns: []func(context.Context, executor.Invocation,
				executor.Host) run.Outcome{func(context.Context, executor.Invocation, executor.Host) run.Outcome {
				return end
			}}}
			c := enforcer(e, 0)
			c.Output.Schema = json.RawMessage(schema)
			o := c.Run(t.Context(), start(), (&listener{}).host())
			if good := schema == `{"type":"null"}`; good != (o.Status == run.Completed) || good &&
				string(o.Result.Data) != "null" {
				t.Errorf("%s: got %s", schema, outcomeText(t, o))
			}
		}
	}
}

func TestStrict(t *testing.T) {
	e := answering("```json\n{\"summary\":\"x\"}\n```", ` {"summary":"y"} `)
	c := enforcer(e, 1)
	c.Output.Strict = true
	if got := outcomeText(t, c.Run(t.Context(), start(), (&listener{}).host())); !strings.Contains(got,
		`"result_data":{"summary":"y"}`) || !strings.Contains(got, run.NoOutput) {
		t.Errorf("got %s", got)
	}
}

// TestPrompts: the schema is in the system prompt, and in every retry.
func TestPrompts(t *testing.T) {
	format := prompt.Format(json.RawMessage(summary))
	e := answering(`{"a":1}`, `{"b":1}`, `{"summary":"x"}`)
	inv := start()
	enforcer(e, 2).Run(t.Context(), inv, (&listener{}).host())
	system, _ := strictjson.Encode("You are <kind>.\n\n" + format)
	if got, want := string(e.invocations[0].Blueprint), `{"name":"a","system_prompt":`+string(system)+
		`,"tags":["x"]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if v := e.invocations[0]; v.Mode != executor.Start || v.Prompt != "Do it" ||
		string(v.Parameters) != string(inv.Parameters) {
		t.Errorf("got %+v", v)
	}
	for i, answer := range []string{`{"a":1}`, `{"b":1}`} {
		v := e.invocations[i+1]
		text := prompt.Retry([]run.OutputError{{Path: "$.summary", Message: "'summary' is a required property"}},
			answer, json.RawMessage(summary), 0)
		var p map[string]string
		if v.Mode != executor.Resume || v.Prompt != text || json.Unmarshal(v.Parameters, &p) != nil || len(p) != 1 ||
			p["prompt"] != text || v.SessionID != "ses_1" || v.RunID != "run_1" ||
			string(v.Blueprint) != string(e.invocations[0].Blueprint) {
			t.Errorf("got %+v, want %q", v, text)
		}
	}
}

func TestWhereTheFormatGoes(t *testing.T) {
	format := prompt.Format(json.RawMessage(summary))
	text, _ := strictjson.Encode(format)
	for _, tt := range []struct {
		name, blueprint   string
		systems           bool
		wantBlue, wantAsk string
		source            string // default the agent's own
	}{
		{"no system prompt yet", `{"name":"a"}`, true, `{"name":"a","system_prompt":` + string(text) + `}`,
			"Do it", ""},
		{"an empty one", `{"system_prompt":" ","name":"a"}`, true, `{"system_prompt":` + string(text) + `,"name":"a"}`,
			"Do it", ""},
		{"null", `{"system_prompt":null}`, true, `{"system_prompt":` + string(text) + `}`, "Do it", ""},
		{"no blueprint", `null`, true, `{"system_prompt":` + string(text) + `}`, "Do it", ""},
		{"an executor without system prompts", `{"system_prompt":"x"}`, false, `{"system_prompt":"x"}`,
			"Do it\n\n" + format, ""},
		{"a caller's schema", `{"system_prompt":"x"}`, true, `{"system_prompt":"x"}`, "Do it\n\n" + format,
			run.SourceRequest},
		{"a registered schema that the caller names", `{"name":"a"}`, true, `{"name":"a"}`, "Do it\n\n" + format,
			run.SourceRegistry},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, inv := answering(`{"summary":"x"}`), start()
			inv.Blueprint = json.RawMessage(tt.blueprint)
			c := enforcer(e, 0)
			c.SystemPrompts, c.Output.Source = tt.systems, cmp.Or(tt.source, run.SourceBlueprint)
			if o := c.Run(t.Context(), inv, (&listener{}).host()); o.Status != run.Completed {
				t.Fatal(o.Error)
			}
			if v := e.invocations[0]; string(v.Blueprint) != tt.wantBlue || v.Prompt != tt.wantAsk ||
				string(v.Parameters) != string(inv.Parameters) {
				t.Errorf("got %s and %q", v.Blueprint, v.Prompt)
			}
		})
	}
	inv := start()
	inv.Blueprint = json.RawMessage(`[]`)
	if o := enforcer(answering(), 0).Run(t.Context(), inv, (&listener{}).host()); o.Status != run.Failed ||
		!strings.Contains(o.Error.Message, "blueprint must be a JSON object") {
		t.Errorf("got %+v", o)
	}
	c := enforcer(answering(), 0)
	c.Output.Schema = json.RawMessage(`{"type":"magic"}`)
	if o := c.Run(t.Context(), start(), (&listener{}).host()); o.Status != run.Failed ||
		o.Error.Code != "InvalidSchema" {
		t.Errorf("got %+v", o)
	}
}

// TestRetryContinuesSession: a retry gets the session that the executor bound first, and the state that it kept.
func TestRetryContinuesSession(t *testing.T) {
	for _, tt := range []struct {
		name, before string
		binds        []string
		want         string
	}{
		{"bound in this run", "", []string{"m1"}, "m1"},
		{"bound in an earlier run", "m0", nil, "m0"},
		{"bound anew", "m0", []string{"m1", "m2"}, "m1"},
		{"never", "", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var found []string
			turn := func(answer string) func(context.Context, executor.Invocation, executor.Host) run.Outcome {
				return func(ctx context.Context, _ executor.Invocation, host executor.Host) run.Outcome {
					for _, id := range tt.binds {
						host.Emit(executor.LineBind,
							json.RawMessage(fmt.Sprintf(`{"type":"bind","executor_session_id":%q}`, id)))
					}
					host.Emit(executor.LineBind, json.RawMessage(`{"type":"bind"}`))
					state, err := host.LoadState(ctx)
					if err != nil {
						t.Error(err)
					}
					found = append(found, string(state))
					if err := host.SaveState(ctx, []byte(string(state)+"+"+answer)); err != nil && answer != "3" {
						t.Error(err)
					}
					return textOutcome(answer)
				}
			}
			e := &scriptedExecutor{turns: []func(context.Context, executor.Invocation,
				executor.Host) run.Outcome{turn("1"),
				turn("2"), turn("3"), turn(`{"summary":"x"}`)}}
			l := &listener{}
			host := l.host()
			host.LoadState = func(context.Context) ([]byte, error) { return []byte("0"), nil }
			host.SaveState = func(_ context.Context, state []byte) error {
				if strings.HasSuffix(string(state), "3") {
					return errors.New("no room")
				}
				return nil
			}
			inv := start()
			inv.ExecutorSession = tt.before
			if o := enforcer(e, 3).Run(t.Context(), inv, host); o.Status != run.Completed {
				t.Fatal(o.Error)
			}
			for _, v := range e.invocations[1:] {
				if v.ExecutorSession != tt.want || v.Mode != executor.Resume {
					t.Errorf("%s of %q, want %q", v.Mode, v.ExecutorSession, tt.want)
				}
			}
			if want := []string{"0", "0+1", "0+1+2", "0+1+2"}; !slices.Equal(found, want) {
				t.Errorf("found %q, want %q", found, want)
			}
			if len(l.binds) != 4*(len(tt.binds)+1) {
				t.Errorf("the worker heard of %q", l.binds)
			}
		})
	}
}

func TestRejectedAnswersAreEvents(t *testing.T) {
	l := &listener{}
	long := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	enforcer(answering(`{"a":1}`, long, `{"summary":"x"}`), 2).Run(t.Context(), start(), l.host())
	if len(l.texts) != 2 {
		t.Fatalf("got %d", len(l.texts))
	}
	if want := "Output rejected, attempt 1 of 3: it does not match the output schema\n- $.summary: 'summary' is a " +
		"required property\n\nThe rejected output:\n{\"a\":1}"; l.texts[0] != want {
		t.Errorf("got %q, want %q", l.texts[0], want)
	}
	if s := l.texts[1]; !strings.HasPrefix(s, "Output rejected, attempt 2 of 3: ") ||
		!strings.Contains(s, "bytes cut") || len(s) > maxRejected+1000 {
		t.Errorf("got %d bytes, %.300q", len(s), s)
	}
}

// TestReportsAreBounded: whatever a model returns, what is reported of it fits into a record.
func TestReportsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{`)
	for i := range 500 {
		fmt.Fprintf(&b, `"%s%d":"%s",`, strings.Repeat("k", 3000), i, strings.Repeat("v", 100))
	}
	b.WriteString(`"z":1}`)
	e := answering(b.String(), strings.Repeat("a", 3<<20), b.String())
	c := enforcer(e, 2)
	c.Output.Schema = json.RawMessage(`{"type":"object","additionalProperties":{"type":"integer"}}`)
	o := c.Run(t.Context(), start(), (&listener{}).host())
	raw, err := strictjson.Encode(o.Error)
	if o.Status != run.Failed || err != nil || len(raw) > 200<<10 || !strings.Contains(string(raw), "bytes cut") {
		t.Errorf("%s: the error has %d bytes, %v", o.Status, len(raw), err)
	}
	for _, v := range e.invocations[1:] {
		if len(v.Prompt) > maxPrevious+150<<10 || !strings.Contains(v.Prompt, "Cut here") {
			t.Errorf("a prompt of %d bytes", len(v.Prompt))
		}
	}
	if n := len(*o.Result.RawOutput) + len(o.Result.SchemaValidation); n > maxRaw+512<<10 {
		t.Errorf("the result has %d bytes beside its own", n)
	}
}

func TestFailedRetry(t *testing.T) {
	kept := "half of it"
	for _, tt := range []struct {
		name string
		end  run.Outcome
		want string
	}{
		{"fails", run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "executor_failed", "It broke").
			With("exit_code", 3)},
			`{"status":"failed","error":{"error":"executor_failed","message":"It broke","exit_code":3,` +
				`"output_retry":1,"output_errors":[` + missing +
				`]},"result":{"result_type":"autonomous","result_text":"{\"a\":1}","result_data":null,` +
				`"schema_validation":{"valid":false,`},
		{"fails and says something", run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "executor_failed",
			"It broke"), Result: &run.Result{Type: run.Autonomous, Text: &kept}},
			`"result":{"result_type":"autonomous","result_text":"half of it","result_data":null,` +
				`"schema_validation":{"valid":false,`},
		{"stops", run.Outcome{Status: run.Stopped},
			`{"status":"stopped","result":{"result_type":"autonomous","result_text":"{\"a\":1}"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := answering(`{"a":1}`)
			e.turns = append(e.turns, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
				return tt.end
			})
			l := &listener{}
			if got := outcomeText(t, enforcer(e, 2).Run(t.Context(), start(), l.host())); !strings.Contains(got,
				tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if len(l.texts) != 2 ||
				l.texts[1] != fmt.Sprintf("the run ended %s during a retry for output that matches its output schema "+
					"(retry 1 of 2)", tt.end.Status) {
				t.Errorf("got %q", l.texts)
			}
		})
	}
}

func TestFailedFirstTurnIsUnchanged(t *testing.T) {
	end := run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "executor_failed", "It broke"),
		Result: textOutcome("x").Result}
	e := &scriptedExecutor{turns: []func(context.Context, executor.Invocation,
		executor.Host) run.Outcome{func(context.Context,
		executor.Invocation, executor.Host) run.Outcome {
		return end
	}}}
	if got, want := outcomeText(t, enforcer(e, 2).Run(t.Context(), start(), (&listener{}).host())),
		outcomeText(t, end); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNoRetryAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := &scriptedExecutor{turns: []func(context.Context, executor.Invocation,
		executor.Host) run.Outcome{func(context.Context,
		executor.Invocation, executor.Host) run.Outcome {
		cancel()
		return textOutcome("no JSON")
	}}}
	o := enforcer(e, 5).Run(ctx, start(), (&listener{}).host())
	if o.Status != run.Stopped || len(e.invocations) != 1 || o.Result == nil || *o.Result.Text != "no JSON" {
		t.Errorf("got %+v after %d turns", o, len(e.invocations))
	}
}

func TestProceduralAgentsAreCheckedOnce(t *testing.T) {
	code := 0
	for _, tt := range []struct{ data, want string }{
		{`{"summary":"x","n":1.0}`,
			`{"status":"completed","result":{"result_type":"procedural","result_text":null,` +
				`"result_data":{"summary":"x","n":1.0},"exit_code":0,"schema_validation":{"valid":true,` +
				`"schema_name":null,"schema_source":"blueprint","retry_count":0}}}`},
		{`null`, run.NoOutput},
		{`{"return_code":0,"stdout":"x","stderr":""}`,
			`{"status":"failed","error":{"error":"OutputSchemaValidationError","message":"Output validation failed ` +
				`after 0 retries","errors":[` + missing +
				`],"last_output":"{\"return_code\":0,\"stdout\":\"x\",\"stderr\":\"\"}"},` +
				`"result":{"result_type":"procedural","result_text":null,"result_data":{"return_code":0,"stdout":"x",` +
				`"stderr":""},"exit_code":0,"schema_validation":{"valid":false,"schema_name":null,` +
				`"schema_source":"blueprint","retry_count":0,"rejected":[{"attempt":1,"errors":[` + missing + `]}]}}}`},
	} {
		e := &scriptedExecutor{turns: []func(context.Context, executor.Invocation,
			executor.Host) run.Outcome{func(context.Context, executor.Invocation, executor.Host) run.Outcome {
			return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Procedural,
				Data: json.RawMessage(tt.data), ExitCode: &code}}
		}}}
		c := enforcer(e, 3)
		c.AgentType = run.Procedural
		inv := start()
		if got := outcomeText(t, c.Run(t.Context(), inv, (&listener{}).host())); !strings.Contains(got, tt.want) ||
			len(e.invocations) != 1 || string(e.invocations[0].Blueprint) != string(inv.Blueprint) ||
			e.invocations[0].Prompt != inv.Prompt {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}
