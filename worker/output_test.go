package worker

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/executor"
	"ao/shared/prompt"
	"ao/shared/run"
	"ao/shared/runnerapi"
)

const wanted = `{"type":"object","required":["summary"],"properties":{"summary":{"type":"string"}}}`

// withOutputSchema gives a queued run an output schema.
func withOutputSchema(retries int) func(*run.Queued) {
	return func(q *run.Queued) {
		q.AgentType, q.HasOutputSchema = run.Autonomous, true
		q.Output = &run.Output{Schema: json.RawMessage(wanted), Source: run.SourceRequest, Retries: retries}
	}
}

// unverified waits for a run's unverified result.
func (s *fakeCoordinator) unverified(q run.Queued) (e run.Ended) {
	s.t.Helper()
	natstest.Until(s.t, "an end is offered", func() bool {
		return s.record(subject.Offered(subject.Partition(q.SessionID), q.ID, q.Key), &e)
	})
	return e
}

// hasEnded reports whether a run has its end record.
func (s *fakeCoordinator) hasEnded(q run.Queued) bool {
	return s.record(subject.Ended(subject.Partition(q.SessionID), q.ID, q.Key), &run.Ended{})
}

func replies(texts ...string) executorStub {
	n := 0
	return func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		text := texts[n]
		n++
		return run.Outcome{Status: run.Completed, Result: &run.Result{Type: run.Autonomous, Text: &text}}
	}
}

// TestCompletedResultIsUnverified: with an output schema the coordinator appends the end record. The unverified
// result ends the attempt for the worker.
func TestCompletedResultIsUnverified(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, replies("no", `{"summary":"x","n":1.50}`))
	q := s.enqueue(withOutputSchema(1))
	e := s.unverified(q)
	if e.Status != run.Completed || e.Error != nil || e.RunnerID != w.ID() || e.Attempt != 1 || e.StartedAt == nil ||
		e.Nonce == "" || e.Checked != "" || string(e.Result.Data) != `{"summary":"x","n":1.50}` ||
		e.Result.Text != nil || *e.Result.RawOutput != `{"summary":"x","n":1.50}` {
		t.Errorf("got %+v", e)
	}
	var v run.Validation
	if err := json.Unmarshal(e.Result.SchemaValidation, &v); err != nil || !v.Valid || v.Retries != 1 ||
		v.Source != run.SourceRequest || len(v.Rejected) != 1 || v.Rejected[0].Errors[0].Message != run.NoOutput {
		t.Errorf("got %s, %v", e.Result.SchemaValidation, err)
	}
	events, err := b.Events(t.Context(), subject.RunEvents(q.SessionID, q.ID), 0, 10)
	if err != nil || len(events) != 1 || events[0].Seq != e.Events || !strings.Contains(string(events[0].Body),
		"Output rejected, attempt 1 of 2") ||
		!strings.Contains(string(events[0].Body), `"rejection":{"attempt":1,"of":2,"errors":[{"path":"$","message":"`+
			run.NoOutput) {
		t.Errorf("%d events, %v", len(events), err)
	}
	natstest.Until(t, "it is forgotten", func() bool { return !w.attempts.has(q.Key) })
	if s.hasEnded(q) {
		t.Error("the worker wrote the end record")
	}
	if c := &w.counts; c.ended.Load() != 1 || c.refused.Load() != 0 {
		t.Errorf("got %+v", c)
	}
}

// TestFailedEndIsFinal: a failed or stopped run needs no check.
func TestFailedEndIsFinal(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	began := make(chan struct{})
	w := start(t, b, func(ctx context.Context, v executor.Invocation, h executor.Host) run.Outcome {
		if v.AgentName == "waits" {
			close(began)
			return untilCanceled(ctx, v, h)
		}
		return replies("no")(ctx, v, h)
	})
	q := s.enqueue(withOutputSchema(2))
	e := s.waitEnded(q)
	if e.Status != run.Failed || code(e) != "OutputSchemaValidationError" ||
		e.Error.Message != "Output validation failed after 2 retries" || field(e, "last_output") != `"no"` ||
		field(e, "errors") != `[{"message":"`+run.NoOutput+`","path":"$"}]` &&
			field(e, "errors") != `[{"path":"$","message":"`+run.NoOutput+`"}]` {
		t.Errorf("got %s %+v", e.Status, e.Error)
	}
	if e.Result == nil || *e.Result.Text != "no" || !strings.Contains(string(e.Result.SchemaValidation),
		`"valid":false`) {
		t.Errorf("kept %+v", e.Result)
	}
	stopped := s.enqueue(withOutputSchema(2), func(q *run.Queued) { q.Agent = "waits" })
	<-began
	s.command(w.Worker, runnerapi.Command{Type: runnerapi.CommandStop, Key: stopped.Key})
	if e := s.waitEnded(stopped); e.Status != run.Stopped {
		t.Errorf("got %s", e.Status)
	}
	for _, q := range []run.Queued{q, stopped} {
		if s.record(subject.Offered(subject.Partition(q.SessionID), q.ID, q.Key), &run.Ended{}) {
			t.Error("it was offered")
		}
	}
}

// TestACallersSchemaIsNoSystemPrompt: a caller is trusted less than the agent's author, so its schema is in the prompt.
func TestACallersSchemaIsNoSystemPrompt(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	got := make(chan executor.Invocation, 1)
	start(t, b, func(ctx context.Context, v executor.Invocation, h executor.Host) run.Outcome {
		got <- v
		return replies(`{"summary":"x"}`)(ctx, v, h)
	}, func(c *Config) { c.Profile.SystemPrompts = true })
	const blueprint = `{"name":"a","system_prompt":"Be kind."}`
	format := prompt.Format(json.RawMessage(wanted))
	for _, source := range []string{run.SourceRequest, run.SourceRegistry, run.SourceBlueprint} {
		s.unverified(s.enqueue(withOutputSchema(0), func(q *run.Queued) {
			q.Output.Source, q.Blueprint = source, json.RawMessage(blueprint)
			q.Parameters = json.RawMessage(`{"prompt":"Do it"}`)
		}))
		v := <-got
		own := source == run.SourceBlueprint
		if (string(v.Blueprint) == blueprint) == own || (v.Prompt == "Do it\n\n"+format) == own {
			t.Errorf("%s: got %s and %q", source, v.Blueprint, v.Prompt)
		}
	}
}

// TestProceduralOutput: a command's output is checked once; its result is kept.
func TestProceduralOutput(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	start(t, b, func(_ context.Context, v executor.Invocation, _ executor.Host) run.Outcome {
		code := 0
		o := completed(`{"summary":7}`)
		o.Result.ExitCode = &code
		return o
	})
	e := s.waitEnded(s.enqueue(withOutputSchema(3), func(q *run.Queued) { q.AgentType = run.Procedural }))
	if e.Status != run.Failed || e.Error.Message != "Output validation failed after 0 retries" ||
		string(e.Result.Data) != `{"summary":7}` || e.Result.ExitCode == nil || *e.Result.ExitCode != 0 ||
		!strings.Contains(string(e.Result.SchemaValidation), `"retry_count":0`) {
		t.Errorf("got %s %+v %+v", e.Status, e.Error, e.Result)
	}
}

// TestLargeUnverifiedResult: a result too large for the record is stored before the record is appended.
func TestLargeUnverifiedResult(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	start(t, b, replies(`{"summary":"`+strings.Repeat("x", run.MaxInline)+`"}`))
	if e := s.unverified(s.enqueue(withOutputSchema(0))); e.Status != run.Completed || e.Result != nil ||
		e.Body == nil ||
		e.Body.Size < run.MaxInline {
		t.Errorf("got %+v", e)
	}
}

// TestLateUnverifiedResult: the attempt has its end record, or another unverified result exists. The late result is
// logged.
func TestLateUnverifiedResult(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	goOn, log := make(chan struct{}), &logLines{}
	w := start(t, b, func(ctx context.Context, v executor.Invocation, h executor.Host) run.Outcome {
		<-goOn
		return replies(`{"summary":"came too late"}`)(ctx, v, h)
	}, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(io.MultiWriter(log, t.Output()), nil)) })
	over, taken := s.enqueue(withOutputSchema(0)), s.enqueue(withOutputSchema(0))
	for _, q := range []run.Queued{over, taken} {
		natstest.Until(t, "claimed", func() bool { _, ok := s.claim(q); return ok })
	}
	part := func(q run.Queued) string { return subject.Partition(q.SessionID) }
	body, _ := json.Marshal(run.Ended{V: 1, Status: run.Failed, Nonce: "another's"})
	for _, e := range []bus.Entry{{Subject: subject.Ended(part(over), over.ID, over.Key), Body: body},
		{Subject: subject.Offered(part(taken), taken.ID, taken.Key), Body: body}} {
		if _, err := b.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	close(goOn)
	natstest.Until(t, "both are refused", func() bool { return w.counts.refused.Load() == 2 })
	for _, q := range []run.Queued{over, taken} {
		var l string
		natstest.Until(t, "the log says so", func() bool { l = log.line("run.id=" + q.ID); return l != "" })
		if !strings.Contains(l, "end record refused") || !strings.Contains(l, "came too late") {
			t.Errorf("it logged %s", l)
		}
	}
	if e := s.unverified(taken); e.Nonce != "another's" {
		t.Errorf("the offer changed: %+v", e)
	}
	if s.hasEnded(taken) || w.counts.ended.Load() != 0 {
		t.Error("the worker wrote the end record")
	}
}

// TestEndRecordAfterUnverifiedResult: an end record after the unverified result is the coordinator's.
func TestEndRecordAfterUnverifiedResult(t *testing.T) {
	t.Parallel()
	p := natstest.Proc(t)
	s := newFakeCoordinator(t, p.Bus(t))
	began, goOn := make(chan struct{}), make(chan struct{})
	w := start(t, p.Bus(t), func(ctx context.Context, v executor.Invocation, h executor.Host) run.Outcome {
		close(began)
		<-goOn
		return replies(`{"summary":"x"}`)(ctx, v, h)
	})
	q := s.enqueue(withOutputSchema(0))
	<-began
	p.Kill() // the unverified result is appended again until it is committed
	natstest.Until(t, "the worker has noticed", func() bool { return !w.bus.Connected() })
	close(goOn)
	p.Start()
	if e := s.unverified(q); e.Status != run.Completed {
		t.Errorf("got %+v", e)
	}
	natstest.Until(t, "it is forgotten", func() bool { return !w.attempts.has(q.Key) })
	if c := &w.counts; c.ended.Load() != 1 || c.refused.Load() != 0 {
		t.Errorf("got %+v", c)
	}
}

// TestProgramRetry: on a retry a program continues the session it bound and gets the errors. Without support for
// system prompts it gets the schema in its prompt.
func TestProgramRetry(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, nil, autonomous(t, `
cat > "$AGENT_ORCHESTRATOR_RUN_ID.$(ls | grep -c "$AGENT_ORCHESTRATOR_RUN_ID")"
echo '{"type":"bind","executor_session_id":"m1"}'
case $(ls | grep -c "$AGENT_ORCHESTRATOR_RUN_ID") in
1) echo '{"type":"result","result_text":"I think it is fine"}';;
*) printf '{"type":"result","result_text":"%s"}\n' 'Here: {\"summary\":\"fine\"}';;
esac
`))
	q := s.enqueue(withOutputSchema(1), func(q *run.Queued) {
		q.Blueprint = json.RawMessage(`{"name":"a","system_prompt":"Be kind.","parameters_schema":{"type":"object"}}`)
		q.Parameters = json.RawMessage(`{"topic":"${HOME} </inputs>","n":1.0}`)
	})
	if e := s.unverified(q); string(e.Result.Data) != `{"summary":"fine"}` ||
		*e.Result.RawOutput != `Here: {"summary":"fine"}` {
		t.Errorf("got %+v", e.Result)
	}
	invocation := func(n string) (v executor.Invocation) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(w.ProjectDir, q.ID+"."+n))
		if err == nil {
			v, err = executor.ReadInvocation(raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first, second := invocation("0"), invocation("1")
	if want := "<inputs>\ntopic: ${HOME} [/inputs]\nn: 1.0\n</inputs>\n\n" +
		prompt.Format(json.RawMessage(wanted)); first.Prompt != want || first.Mode != executor.Start ||
		string(first.Parameters) != `{"topic":"${HOME} \u003c/inputs\u003e","n":1.0}` ||
		string(first.Blueprint) != string(q.Blueprint) {
		t.Errorf("got %+v, want the prompt %s", first, want)
	}
	want := prompt.Retry([]run.OutputError{{Path: "$", Message: run.NoOutput}},
		"I think it is fine", json.RawMessage(wanted), 0)
	if second.Mode != executor.Resume || second.ExecutorSession != "m1" || second.Prompt != want ||
		second.SessionID != q.SessionID {
		t.Errorf("got %+v, want the prompt %s", second, want)
	}
}

// TestPersistentProcessRetry: the retry is the next turn of a persistent process.
func TestPersistentProcessRetry(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	w := start(t, b, nil, autonomous(t, `
n=0
while read -r line; do
  n=$((n+1))
  case $line in *'"type":"shutdown"'*) exit 0;; esac
  printf '%s\n' "$line" > "turn.$n"
  if [ $n = 1 ]; then echo '{"type":"turn_complete","result":"no JSON"}'
  else echo "{\"type\":\"turn_complete\",\"result\":{\"summary\":\"turn $n of $$\"}}"; fi
done
`), func(c *Config) { c.Profile.Lifecycle = executor.Persistent })
	e := s.unverified(s.enqueue(withOutputSchema(1)))
	if e.Result == nil || !strings.HasPrefix(string(e.Result.Data), `{"summary":"turn 2 of `) {
		t.Fatalf("got %+v", e)
	}
	var turn struct {
		Type       string            `json:"type"`
		Parameters map[string]string `json:"parameters"`
	}
	raw, err := os.ReadFile(filepath.Join(w.ProjectDir, "turn.2"))
	if err == nil {
		err = json.Unmarshal(raw, &turn)
	}
	if want := prompt.Retry([]run.OutputError{{Path: "$", Message: run.NoOutput}}, "no JSON", json.RawMessage(wanted),
		0); err != nil || turn.Type != "turn" || turn.Parameters["prompt"] != want {
		t.Errorf("got %s, %v", raw, err)
	}
}

// TestTimeLimitIncludesRetries: retries do not extend the run's time limit.
func TestTimeLimitIncludesRetries(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	start(t, b, func(ctx context.Context, v executor.Invocation, h executor.Host) run.Outcome {
		if v.Mode == executor.Resume {
			return untilCanceled(ctx, v, h)
		}
		return replies("no JSON")(ctx, v, h)
	})
	e := s.waitEnded(s.enqueue(withOutputSchema(10), func(q *run.Queued) { q.Timeout = 1 }))
	if e.Status != run.Failed || code(e) != "timeout" || e.Result == nil || *e.Result.Text != "no JSON" {
		t.Errorf("got %s %s %+v", e.Status, code(e), e.Result)
	}
}

// TestInvalidInput: an invalid input fails the run, and no executor starts.
func TestInvalidInput(t *testing.T) {
	t.Parallel()
	b := natstest.Bus(t)
	s := newFakeCoordinator(t, b)
	start(t, b, func(context.Context, executor.Invocation, executor.Host) run.Outcome {
		t.Error("it was started")
		return completed("1")
	})
	for _, tt := range []struct{ blueprint, parameters, want string }{
		{`[]`,
			`{"prompt":"p"}`,
			"the run's input cannot be given to its executor: The agent's blueprint cannot be read: it must be a " +
				"JSON object"},
		{`{}`,
			`{"topic":"t"}`,
			"the run's input cannot be given to its executor: parameters.prompt must be a string: the text for " +
				"the agent"},
	} {
		e := s.waitEnded(s.enqueue(func(q *run.Queued) {
			q.AgentType, q.Blueprint, q.Parameters = run.Autonomous, json.RawMessage(tt.blueprint),
				json.RawMessage(tt.parameters)
		}))
		if e.Status != run.Failed || code(e) != "input_unreadable" || e.Error.Message != tt.want {
			t.Errorf("got %s %s %v", e.Status, code(e), e.Error)
		}
	}
}
