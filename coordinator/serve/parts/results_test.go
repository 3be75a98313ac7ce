package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ao/coordinator/projection/state"
	"ao/coordinator/runs"
	"ao/nats/bus"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/run"
)

// mustBe is the output schema of these tests.
const mustBe = `,"output_schema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`

// report appends the unverified result of a claimed attempt, as its runner does.
func (f fixture) report(a state.Active, o run.Outcome) {
	f.Helper()
	f.reportAs(a, run.Ended{Status: o.Status, Error: o.Error, Result: o.Result})
}

func (f fixture) reportAs(a state.Active, e run.Ended) {
	f.Helper()
	e.V, e.SessionID, e.RunnerID, e.Nonce, e.Attempt, e.At = run.Version, a.Spec.SessionID, f.r.ID(), "n", a.Attempt,
		time.Now()
	put(f.T, f.c.bus, subject.Offered(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key), e)
}

// isReported reports whether a coordinator has read an unverified result.
func isReported(a state.Active) bool { return a.UnverifiedSeq != 0 }

// blockChecks keeps a coordinator from checking results until it is released.
func blockChecks(t *testing.T, c *Coordinator) (release func()) {
	return occupyPool(t, c, c.Checking.Pool)
}

// ended waits for a run's end, and gives it with its result.
func ended(t *testing.T, c *Coordinator, id string) runs.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	o, over, err := c.Await(ctx, id)
	if err != nil || !over {
		t.Fatalf("%s has not ended: %v", id, err)
	}
	return o
}

// sound checks that the ledger has no violation.
func sound(t *testing.T, c *Coordinator, completed, failed, stopped int) {
	t.Helper()
	r, err := c.Auditor.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Runs; !r.OK || n.Completed != completed || n.Failed != failed || n.Stopped != stopped {
		t.Errorf("ledger: %+v %+v", r.Runs, r.Wrong)
	}
}

// TestUnverifiedResultsAreChecked: a run whose result matches completes with the worker's report; any other fails, and
// says why.
func TestUnverifiedResultsAreChecked(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	text, raw := "hello", `{"n":"one"}`
	valid := `{"valid":true,"schema_name":null,"schema_source":"request","retry_count":2}`
	deep := json.RawMessage(strings.Repeat("[", 100) + strings.Repeat("]", 100))
	completed, failed, n := 0, 0, 0
	for _, tt := range []struct {
		name           string
		res            *run.Result
		result, fault_ string
	}{
		{"valid", &run.Result{Type: run.Autonomous, Data: []byte(`{"z":1,"n":12345678901234567890}`),
			SchemaValidation: []byte(valid), RawOutput: &text},
			`{"result_type":"autonomous","result_text":null,"result_data":{"z":1,"n":12345678901234567890},` +
				`"schema_validation":` + valid + `,"raw_output":"hello"}`, ``},
		{"valid, and its worker does not say so", &run.Result{Type: run.Autonomous, Data: []byte(`{"n":1}`)},
			`{"result_type":"autonomous","result_text":null,"result_data":{"n":1},"schema_validation":{"valid":true,` +
				`"schema_name":null,"schema_source":"request","retry_count":0}}`, ``},
		{"no match", &run.Result{Type: run.Autonomous, Data: []byte(raw), SchemaValidation: []byte(valid),
			RawOutput: &raw},
			`{"result_type":"autonomous","result_text":null,"result_data":null,"schema_validation":{"valid":false,` +
				`"schema_name":null,"schema_source":"request","retry_count":2},"raw_output":"{\"n\":\"one\"}"}`,
			`{"error":"OutputSchemaValidationError","message":"Output validation failed after 2 retries",` +
				`"errors":[{"path":"$.n","message":"'one' is not of type 'integer'"}],` +
				`"last_output":"{\"n\":\"one\"}"}`},
		{"a program's, no match", &run.Result{Type: run.Procedural, Data: []byte(`{}`), ExitCode: new(int)},
			`{"result_type":"procedural","result_text":null,"result_data":{},"exit_code":0,` +
				`"schema_validation":{"valid":false,"schema_name":null,"schema_source":"request","retry_count":0}}`,
			`{"error":"OutputSchemaValidationError","message":"Output validation failed after 0 retries",` +
				`"errors":[{"path":"$.n","message":"'n' is a required property"}],"last_output":"{}"}`},
		{"text", &run.Result{Type: run.Autonomous, Text: &text},
			`{"result_type":"autonomous","result_text":null,"result_data":null,"schema_validation":{"valid":false,` +
				`"schema_name":null,"schema_source":"request","retry_count":0},"raw_output":"hello"}`,
			`{"error":"OutputSchemaValidationError","message":"Output validation failed after 0 retries",` +
				`"errors":[{"path":"$","message":"No JSON output found but output_schema requires structured ` +
				`output"}],"last_output":"hello"}`},
		{"null", &run.Result{Type: run.Autonomous, Data: []byte(`null`)}, ``,
			`"errors":[{"path":"$","message":"No JSON output found but output_schema requires structured output"}]`},
		{"both", &run.Result{Type: run.Autonomous, Data: []byte(`{"n":1}`), Text: &text}, ``,
			`result_text and result_data are both there`},
		{"too deep", &run.Result{Type: run.Autonomous, Data: deep}, ``, `"error":"OutputSchemaValidationError"`},
		{"nothing", nil, `null`,
			`{"error":"OutputSchemaValidationError","message":"Output validation failed after 0 retries",` +
				`"errors":[{"path":"$","message":"No JSON output found but output_schema requires structured ` +
				`output"}],"last_output":""}`},
	} {
		a := f.start(mustBe)
		f.report(f.claim(a.RunID), run.Outcome{Status: run.Completed, Result: tt.res})
		o := ended(t, f.c, a.RunID)
		want := run.Failed
		if n++; tt.fault_ == "" {
			want, completed = run.Completed, completed+1
		} else {
			failed++
		}
		res, _ := json.Marshal(o.Result)
		err, _ := json.Marshal(o.Error)
		if o.Status != want || !strings.Contains(string(res), tt.result) || !strings.Contains(string(err), tt.fault_) {
			t.Errorf("%s: %s\n%s\n%s\nwant\n%s\n%s", tt.name, o.Status, res, err, tt.result, tt.fault_)
		}
	}
	sound(t, f.c, completed, failed, 0)
}

// TestUnverifiedResultThatIsNotCompleted: a worker that reports a failure as unverified fails, and one whose report
// cannot be read fails, too.
func TestUnverifiedResultThatIsNotCompleted(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	a := f.start(mustBe)
	f.report(f.claim(a.RunID), run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "exit", "no")})
	if o := ended(t, f.c, a.RunID); o.Status != run.Failed || o.Error.Code != "exit" {
		t.Errorf("got %s %v", o.Status, o.Error)
	}
	for _, body := range []string{
		`{"v":1,"runner_id":`,
		`{"v":1,"runner_id":"rnr_x","status":"failed","at":"2026-01-02T03:04:05Z",` +
			`"result":{"result_type":"procedural","result_text":null,"result_data":[}}}`,
		`{"v":1,"runner_id":"rnr_x","status":"completed","at":"2026-01-02T03:04:05Z",` +
			`"result":{"result_type":"procedural","result_text":null,"result_data":{"n":+1}}}`,
		`{"v":1,"runner_id":"rnr_x","status":"failed","at":"2026-01-02T03:04:05Z","result":{"result_text":"a",` +
			`"schema_validation":{]}}`,
	} {
		b := f.start(mustBe)
		act := f.claim(b.RunID)
		if _, err := f.c.bus.Append(t.Context(),
			bus.Entry{Subject: subject.Offered(subject.Partition(b.SessionID), b.RunID, act.Key),
				Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		if o := ended(t, f.c, b.RunID); o.Status != run.Failed || o.Error.Code != "result_unreadable" {
			t.Errorf("%s: got %s %v", body, o.Status, o.Error)
		}
	}
	c := f.start(mustBe)
	f.reportAs(f.claim(c.RunID),
		run.Ended{Status: run.Completed, Body: &run.Payload{Name: c.RunID + ".1.out", Parts: 0, Size: 3, SHA256: "x"}})
	if o := ended(t, f.c, c.RunID); o.Status != run.Failed || o.Error.Code != "result_unreadable" {
		t.Errorf("got %s %v", o.Status, o.Error)
	}
}

// TestLargeBodiesAreFetchedForTheCheck: input and result that went through the object store are checked as well, and
// the result stays there.
func TestLargeBodiesAreFetchedForTheCheck(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	long := strings.Repeat("x", run.MaxInline+1)
	for _, tt := range []struct {
		n      string
		status run.Status
	}{{`1`, run.Completed}, {`"1"`, run.Failed}} {
		a := submit(t, f.c, fmt.Sprintf(`{"agent_name":"thinker","prompt":%q%s}`, long, mustBe), "")
		act := f.claim(a.RunID)
		if act.Spec.Body == nil || !act.Spec.HasOutputSchema {
			t.Fatalf("%+v", act.Spec)
		}
		raw, _ := json.Marshal(run.Result{Type: run.Autonomous,
			Data: []byte(`{"n":` + tt.n + `,"long":"` + long + `"}`)})
		ref, err := f.c.records.PutPayload(t.Context(), a.RunID+".1.out", raw)
		if err != nil {
			t.Fatal(err)
		}
		f.reportAs(act, run.Ended{Status: run.Completed, Body: ref})
		o := ended(t, f.c, a.RunID)
		if o.Status != tt.status {
			t.Errorf("n %s: %s %v", tt.n, o.Status, o.Error)
		}
		if o.Status == run.Completed && len(o.Result.Data) < run.MaxInline {
			t.Errorf("the result has %d bytes", len(o.Result.Data))
		}
		if o.Status == run.Failed &&
			(len(*o.Result.RawOutput) > 40<<10 ||
				!strings.Contains(*o.Result.RawOutput, "[Cut here. Bytes missing: ")) {
			t.Errorf("the evidence has %d bytes", len(*o.Result.RawOutput))
		}
	}
	sound(t, f.c, 1, 1, 0)
}

// TestCompletionByTheWorkerFails: without a coordinator's signature a run with an output schema has failed, wherever
// one looks.
func TestCompletionByTheWorkerFails(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	parent := f.start("")
	f.ends(parent.RunID, results("ok"))
	a := f.start(mustBe + `,"mode":"async_callback","parent_session_id":"` + parent.SessionID + `"`)
	f.ends(a.RunID, data(`{"n":1}`))
	o := ended(t, f.c, a.RunID)
	if o.Status != run.Failed || o.Error == nil || o.Error.Code != "result_unchecked" || o.Result != nil {
		t.Errorf("got %s %v %v", o.Status, o.Error, o.Result)
	}
	_, prompt := f.turn(parent.SessionID)
	if !strings.Contains(prompt, `status="failed"`) || !strings.Contains(prompt, "The runner itself reported") ||
		strings.Contains(prompt, `"n"`) {
		t.Errorf("the parent gets %s", prompt)
	}
	events, _, err := f.c.Events(t.Context(), a.SessionID, "", 0)
	raw, _ := json.Marshal(events)
	if err != nil || !strings.Contains(string(raw), run.EventFailed) ||
		strings.Contains(string(raw), run.EventResult+`"`) {
		t.Errorf("events: %s %v", raw, err)
	}
	sound(t, f.c, 1, 1, 0)
}

// TestAnUnverifiedResultEndsTheLease: the worker may end; no lease that expires takes its result.
func TestAnUnverifiedResultEndsTheLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t, start(t, natstest.Bus(t), Config{Lease: 5 * time.Second}))
	release := blockChecks(t, f.c)
	a, witness := f.start(mustBe), f.start(mustBe)
	f.claim(witness.RunID)
	before := f.claim(a.RunID)
	f.report(before, data(`{"n":1}`))
	active(t, f.c, a.RunID, "is offered", isReported)
	if o := ended(t, f.c, witness.RunID); o.Status != run.Failed || o.Error.Code != "runner_disconnected" {
		t.Fatalf("the witness: %s %v", o.Status, o.Error)
	}
	f.c.ends.FailLost(t.Context(), before, "who had not seen the offer judges") // as another coordinator might
	for _, still := range f.c.History.ClaimedBy(f.r.ID()) {
		t.Errorf("%s counts as the runner's", still.Spec.ID)
	}
	if r, err := f.c.Show(t.Context(), a.RunID); err != nil || r.Status != run.Running {
		t.Errorf("it shows %s %v", r.Status, err)
	}
	release()
	if o := ended(t, f.c, a.RunID); o.Status != run.Completed {
		t.Errorf("got %s %v", o.Status, o.Error)
	}
	sound(t, f.c, 1, 1, 0)
}

// TestALostAttemptReportsNoResult: its end record is in the same batch, so that nobody sees a result that nobody
// checks.
func TestALostAttemptReportsNoResult(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	a := f.start(mustBe)
	act := f.claim(a.RunID)
	f.c.ends.FailLost(t.Context(), act, "test")
	if o := ended(t, f.c, a.RunID); o.Error.Code != "runner_disconnected" {
		t.Errorf("got %v", o.Error)
	}
	_, err := f.c.bus.Append(t.Context(),
		bus.Entry{Subject: subject.Offered(subject.Partition(a.SessionID), a.RunID, act.Key), Body: []byte(`{"v":1}`)})
	if !errors.Is(err, bus.ErrTaken) {
		t.Errorf("an offer after the end: %v", err)
	}
	// An unreadable record in the place of an unverified result does not keep a run open.
	b := f.start(mustBe)
	waiting := active(t, f.c, b.RunID, "is queued", isQueued)
	f.report(waiting, data(`{"n":1}`)) // before the claim
	act = f.claim(b.RunID)
	f.c.ends.FailLost(t.Context(), act, "test")
	if o := ended(t, f.c, b.RunID); o.Error.Code != "runner_disconnected" {
		t.Errorf("got %v", o.Error)
	}
}

// TestAStopThatCrossesAnUnverifiedResult: the reported result ends the attempt. A stop only keeps another attempt from
// following.
func TestAStopThatCrossesAnUnverifiedResult(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	release := blockChecks(t, f.c)
	for _, tt := range []struct {
		data  string
		first bool // the stop comes first
		want  run.Status
	}{{`{"n":1}`, false, run.Completed}, {`{"n":1}`, true, run.Completed}, {`{}`, false, run.Failed},
		{`{}`, true, run.Failed}} {
		a := f.start(mustBe + `,"max_attempts":3`)
		act := f.claim(a.RunID)
		stop := func() {
			if r, err := f.c.Stop(t.Context(), a.RunID); err != nil || r.Status != run.Stopping {
				t.Errorf("stop: %s %v", r.Status, err)
			}
		}
		if tt.first {
			stop()
		}
		f.report(act, data(tt.data))
		active(t, f.c, a.RunID, "is offered", isReported)
		if !tt.first {
			stop()
		}
		release()
		if o := ended(t, f.c, a.RunID); o.Status != tt.want || o.Attempt != 1 {
			t.Errorf("%s, stop first %t: %s attempt %d %v", tt.data, tt.first, o.Status, o.Attempt, o.Error)
		}
		release = blockChecks(t, f.c)
	}
	release()
	sound(t, f.c, 2, 2, 0)
}

// TestAResultThatFailsTheCheckIsAnAttempt like any other that failed.
func TestAResultThatFailsTheCheckIsAnAttempt(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	a := f.start(mustBe + `,"max_attempts":2`)
	f.report(f.claim(a.RunID), data(`{}`))
	second := active(t, f.c, a.RunID, "has another attempt", func(a state.Active) bool {
		return a.Attempt == 2 &&
			a.QueuedSeq != 0
	})
	put(t, f.c.bus, subject.Claimed(subject.Partition(a.SessionID), a.RunID, second.Key),
		run.Claim{V: run.Version, SessionID: a.SessionID, RunnerID: f.r.ID(), Instance: f.r.Instance, Nonce: "m",
			Attempt: 2, At: time.Now()})
	second = active(t, f.c, a.RunID, "is claimed again", func(a state.Active) bool { return a.Claim != nil })
	f.report(second, data(`{"n":2}`))
	if o := ended(t, f.c, a.RunID); o.Status != run.Completed || o.Attempt != 2 || string(o.Result.Data) != `{"n":2}` {
		t.Errorf("got %s attempt %d %v", o.Status, o.Attempt, o.Error)
	}
	sound(t, f.c, 1, 0, 0)
}

// TestARestartBetweenResultAndCheck: the unverified result is as durable as anything; with a checkpoint, and without.
func TestARestartBetweenResultAndCheck(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		b := natstest.Bus(t)
		ctx, cancel := context.WithCancel(t.Context())
		first := New(Config{Bus: b, Log: natstest.Log(t), DataDir: dir})
		lives.Store(first, ctx)
		done := make(chan error, 1)
		go func() { done <- first.Run(ctx) }()
		natstest.Until(t, "the first is ready", func() bool { return first.Ready() == nil })
		f := newFixture(t, first)
		blockChecks(t, first)
		a := f.start(mustBe)
		f.report(f.claim(a.RunID), data(`{"n":7}`))
		active(t, first, a.RunID, "is offered", isReported)
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		second := start(t, b, Config{DataDir: dir})
		if o := ended(t, second, a.RunID); o.Status != run.Completed || string(o.Result.Data) != `{"n":7}` {
			t.Errorf("got %s %v", o.Status, o.Error)
		}
		sound(t, second, 1, 0, 0)
	}
}

// TestTwoCoordinatorsCheckAndOneAppends.
func TestTwoCoordinatorsCheckAndOneAppends(t *testing.T) {
	b := natstest.Bus(t)
	f := newFixture(t, start(t, b, Config{}))
	other := start(t, b, Config{})
	var all []runs.Accepted
	for n := range 20 {
		a := f.start(mustBe)
		f.report(f.claim(a.RunID), data(fmt.Sprintf(`{"n":%d}`, n)))
		all = append(all, a)
	}
	for n, a := range all {
		for _, c := range []*Coordinator{f.c, other} {
			if o := ended(t, c, a.RunID); o.Status != run.Completed || string(o.Result.Data) != fmt.Sprintf(`{"n":%d}`,
				n) {
				t.Errorf("got %s %v", o.Status, o.Error)
			}
		}
	}
	sound(t, other, 20, 0, 0)
}

// TestACallbackTurnKeepsItsSessionsOutputSchema, whatever the agent's is.
func TestACallbackTurnKeepsItsSessionsOutputSchema(t *testing.T) {
	f := newFixture(t, start(t, natstest.Bus(t), Config{}))
	if _, err := f.c.Agents.CreateAgent(t.Context(),
		[]byte(`{"name":"strict","output_schema":{"type":"object"}}`)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		agent, more, source, schema string
		retries                     int
	}{
		{"thinker", mustBe + `,"output_schema_options":{"max_retries":5,"strict_json_only":true}`, run.SourceRequest,
			strings.TrimPrefix(mustBe, `,"output_schema":`), 5},
		{"strict", "", run.SourceBlueprint, `{"type":"object"}`, 1},
		{"thinker", "", "", "", 0},
	} {
		parent := submit(t, f.c, `{"agent_name":"`+tt.agent+`","prompt":"think"`+tt.more+`}`, "")
		act := f.claim(parent.RunID)
		child := f.child(parent.SessionID)
		if tt.source == "" {
			f.end(act, results("wait"))
		} else {
			f.report(act, data(`{"n":1}`))
			ended(t, f.c, parent.RunID)
		}
		f.ends(child.RunID, results("done"))
		for range 2 { // the turn, and the turn after that
			turn, _ := f.turn(parent.SessionID)
			if turn.Spec.HasOutputSchema != (tt.source != "") {
				t.Fatalf("%s: contract %t", tt.agent, turn.Spec.HasOutputSchema)
			}
			if o := turn.Spec.Output; tt.source == "" && o != nil || tt.source != "" &&
				(o == nil || o.Source != tt.source || string(o.Schema) != tt.schema || o.Retries != tt.retries ||
					o.Strict != (tt.retries == 5)) {
				t.Errorf("%s: %+v", tt.agent, o)
			}
			act := f.claim(turn.Spec.ID)
			next := f.child(parent.SessionID)
			f.c.ends.FailLost(t.Context(), act, "test")
			f.ends(next.RunID, results("done"))
		}
	}
}

// TestAResultOfTheLargestSizeEnds: a worker's unverified result is as large as a record in NATS may be. The
// coordinator's end record would be longer, and does not fit. The run still ends, for otherwise nobody could ever stop
// it.
func TestAResultOfTheLargestSizeEnds(t *testing.T) {
	t.Parallel()
	c := start(t, natstest.Bus(t), Config{})
	f := newFixture(t, c)
	for _, tt := range []struct{ name, head, tail string }{
		{"fits the schema", `"status":"completed","result":{"result_type":"procedural","result_text":null,` +
			`"result_data":{"n":1,"x":"`, `"}}}`},
		{"with a long account of its check", `"status":"completed","result":{"result_type":"procedural",` +
			`"result_text":null,"result_data":{"n":1},"schema_validation":{"valid":true,"retry_count":1,"x":"`, `"}}}`},
		{"a failure", `"status":"failed","error":{"error":"no","message":"`, `"}}`},
		{"a stop", `"status":"stopped","error":{"error":"no","message":"`, `"}}`},
	} {
		a := f.claim(f.start(mustBe).RunID)
		head := fmt.Sprintf(`{"v":1,"session_id":%q,"runner_id":%q,"attempt":1,"at":"2026-01-01T00:00:00Z",`,
			a.Spec.SessionID, f.r.ID()) + tt.head
		body := head + strings.Repeat("x", 1<<20-len(head)-len(tt.tail)) + tt.tail
		if _, err := c.bus.Append(t.Context(),
			bus.Entry{Subject: subject.Offered(subject.Partition(a.Spec.SessionID), a.Spec.ID, a.Key),
				Body: []byte(body)}); err != nil {
			t.Fatal(tt.name, err)
		}
		if o := ended(t, c, a.Spec.ID); o.Status == run.Completed || o.Error == nil ||
			o.Error.Code != "result_too_large" {
			t.Errorf("%s: %s %v", tt.name, o.Status, o.Error)
		}
	}
}
