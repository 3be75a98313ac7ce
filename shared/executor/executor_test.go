package executor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"ao/shared/fault"
	"ao/shared/run"
)

// TestMain turns the test binary into an executor where EXECUTOR is set.
func TestMain(m *testing.M) {
	if os.Getenv("BUILT_IN") != "" {
		Program(built)
	}
	if os.Getenv("SERVE") != "" {
		Serve(turn)
	}
	if os.Getenv("EXECUTOR") != "" {
		Main(play)
	}
	os.Exit(m.Run())
}

// play does what its parameter "do" says.
func play(ctx context.Context, v Invocation, out *Out) error {
	var p struct{ Do string }
	if err := json.Unmarshal(v.Parameters, &p); err != nil {
		return err
	}
	switch p.Do {
	case "echo":
		return out.Result(run.Result{Type: "procedural", Data: v.Parameters}, nil)
	case "talk":
		out.Bind("abc")
		out.Message("assistant", "one <two>\nthree")
		out.Event(run.EventPreTool, map[string]any{"tool_name": "ls"})
		text := "done"
		return out.Result(run.Result{Type: "autonomous", Text: &text}, nil)
	case "fail":
		out.Result(run.Result{Type: "procedural", Data: json.RawMessage(`0`)},
			fault.New(fault.Internal, "command_failed", "no"))
		return Exit{Code: 7}
	case "error":
		return fmt.Errorf("it went wrong")
	case "wait":
		out.Message("system", "ready")
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return Exit{Code: 9, Message: "what?"}
}

// turn answers with its prompt, its number and its system prompt.
func turn(ctx context.Context, v Invocation, out *Out) (run.Result, error) {
	switch v.Prompt {
	case "fail":
		return run.Result{}, fault.New(fault.Internal, "quota", "no money")
	case "break":
		return run.Result{}, fmt.Errorf("it broke")
	case "wait":
		out.Message("system", "ready")
		<-ctx.Done()
		return run.Result{}, context.Cause(ctx)
	}
	text := fmt.Sprintf("%s %s %s %s %s", v.Mode, v.RunID, v.Prompt, v.Blueprint, v.APIURL)
	return run.Result{Text: &text}, nil
}

// built is an executor that workers could have built in.
func built(_ context.Context, _ Invocation, host Host) run.Outcome {
	host.Emit(run.EventMessage, run.TextMessage("assistant", "hello"))
	host.Emit(LineBind, json.RawMessage(`{"type":"bind","executor_session_id":"m<1>"}`))
	return run.Outcome{Status: run.Failed, Error: fault.New(fault.Internal, "broken", "It broke")}
}

const document = `{"schema_version":"2.2","mode":"start","session_id":"ses_1","run_id":"run_1","parameters":%s,` +
	`"project_dir":"/","agent_name":"a","agent_blueprint":{},"executor_config":null}`

func program(t *testing.T, in string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = []string{"EXECUTOR=1"}
	c.Stdin = strings.NewReader(in)
	return c
}

func TestMainAsProgram(t *testing.T) {
	for _, tt := range []struct {
		name, in       string
		stdout, stderr string
		code           int
	}{
		{"faithful", fmt.Sprintf(document, `{"do":"echo","z":1e400,"a":12345678901234567890,"h":"<&>"}`),
			`{"type":"result","result_type":"procedural","result_text":null,"result_data":{"do":"echo","z":1e400,` +
				`"a":12345678901234567890,"h":"<&>"}}` + "\n", "", 0},
		{"by hand, without a run", strings.Replace(fmt.Sprintf(document, `{"do":"echo"}`), `"run_id":"run_1",`, "", 1),
			`{"type":"result","result_type":"procedural","result_text":null,"result_data":{"do":"echo"}}` + "\n",
			"", 0},
		{"lines", fmt.Sprintf(document, `{"do":"talk"}`),
			`{"type":"bind","executor_session_id":"abc"}
{"type":"event","event_type":"message","role":"assistant","content":[{"type":"text","text":"one <two>\nthree"}]}
{"type":"event","event_type":"pre_tool","tool_name":"ls"}
{"type":"result","result_type":"autonomous","result_text":"done","result_data":null}
`, "", 0},
		{"exit code", fmt.Sprintf(document, `{"do":"fail"}`),
			`{"type":"result","result_type":"procedural","result_text":null,"result_data":0,` +
				`"error":{"error":"command_failed","message":"no"}}` + "\n", "", 7},
		{"exit code and message", fmt.Sprintf(document, `{}`), "", "what?\n", 9},
		{"error", fmt.Sprintf(document, `{"do":"error"}`), "", "it went wrong\n", 1},
		{"no JSON", "hello", "", "invocation on stdin: The body is not JSON: unexpected 'h' at byte 0\n", 2},
		{"nothing", "", "", "invocation on stdin: The body is not JSON: it ends too early\n", 2},
		{"unknown field", `{"schema_version":"2.2","colour":1}`, "", "colour", 2},
		{"version", `{"schema_version":"3.0"}`, "", "invocation on stdin: schema_version must be \"2.2\"\n", 2},
		{"parameters", fmt.Sprintf(document, `[1]`), "", "invocation on stdin: parameters must be an object\n", 2},
		{"something follows", fmt.Sprintf(document, `{}`) + "x", "", "something follows it", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := program(t, tt.in)
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			c.Run()
			if c.ProcessState.ExitCode() != tt.code || out.String() != tt.stdout ||
				!strings.Contains(errs.String(), tt.stderr) {
				t.Errorf("got  %d %s%q\nwant %d %s%q", c.ProcessState.ExitCode(), out.String(), errs.String(), tt.code,
					tt.stdout, tt.stderr)
			}
		})
	}
}

func TestStop(t *testing.T) {
	c := program(t, fmt.Sprintf(document, `{"do":"wait"}`))
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() { // it is ready
		t.Fatal("it wrote nothing")
	}
	c.Process.Signal(syscall.SIGTERM)
	c.Wait()
	if c.ProcessState.ExitCode() != CodeStopped {
		t.Errorf("got %v, want exit code %d", c.ProcessState, CodeStopped)
	}
}

func TestInvocationRoundTrip(t *testing.T) {
	in := Invocation{SchemaVersion: Version, Mode: Resume, SessionID: "ses_1", RunID: "run_1",
		Parameters: json.RawMessage("{\n\"b\":0.10,\"a\":1e400}"), ProjectDir: "/p", AgentName: "a",
		Blueprint: json.RawMessage(`{"name":"a"}`), ExecutorSession: "abc", Attempt: 2}
	raw, err := in.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"schema_version":"2.2","mode":"resume","session_id":"ses_1","run_id":"run_1","parameters":{"b":0.10,` +
		`"a":1e400},"project_dir":"/p","agent_name":"a","agent_blueprint":{"name":"a"},"executor_config":{},` +
		`"executor_session_id":"abc","attempt":2}` + "\n"
	if string(raw) != want {
		t.Errorf("got  %s\nwant %s", raw, want)
	}
	if _, err := ReadInvocation(raw); err != nil {
		t.Error(err)
	}
}

func TestReadLine(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{`hello`, "own output"},
		{`[1]`, "own output"},
		{`{"a":1}`, "own output"},
		{`{"type":"other"}`, "own output"},
		{`{"type":7}`, "own output"},
		{`{"type":"event","event_type":"message","b":1.0,"a":{"x":[]}}`, `message {"b":1.0,"a":{"x":[]}}`},
		{`{"type":"event"}`, "error: event_type is required in an event line"},
		{`{"type":"event","event_type":"x","event_type":"y"}`,
			`error: $ has the key "event_type" twice; send each key once`},
		{`{"type":"bind","executor_session_id":"s"}`, "bind s"},
		{`{"type":"bind"}`, "error: executor_session_id is required in a bind line"},
		{`{"type":"result","result_data":0}`, "result 0 <nil>"},
		{`{"type":"result","result_type":"procedural","result_text":null,"result_data":{},"exit_code":0}`,
			"result {} <nil>"},
		{`{"type":"result","result_data":{},"error":{"error":"x","message":"m"}}`, "result {} m"},
		{`{"type":"result","result_text":"a","result_data":1}`,
			"error: result_text and result_data exclude each other; send one"},
		{`{"type":"result","result_text":"a","colour":1}`, `error: Unknown field "colour"; known are`},
		{`{"type":"result","result_txt":"a"}`, `error: Unknown field "result_txt"; known are`},
		{`{"type":"result"}`, "result  <nil>"},
		{`{"type":"result","subtype":"success","is_error":false,"result":"x"}`, "own output"}, // claude -p
		{`{"type":"result","status":"success","stats":{}}`, "own output"},                     // gemini
		{`{"type":"result","status":"error","error":{"type":"Error","message":"m"},"stats":{}}`, "own output"},
		{`{"type":"result","status":"error","error":{"error":7,"message":"m"}}`, "own output"},
		{`{"type":"result","subtype":"error","error":"m"}`, "own output"},
		{`{"type":"result","error":null,"x":1}`, "own output"},
		{`{"type":"result","error":"m"}`, `error: error must be an object, got "m"`},
		{`{"type":"result","error":{"error":"x","message":"m"}}`, "result  m"},
		{`{"type":"result","error":{"error":"x","message":"m"},"colour":1}`,
			`error: Unknown field "colour"; known are`},
		{"\ufeff" + `{"type":"result","result_data":0}`, "result 0 <nil>"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			l, ok, err := ReadLine([]byte(tt.line))
			got := "own output"
			switch {
			case err != nil:
				got = "error: " + err.Error()
			case !ok:
			case l.Type == LineEvent:
				got = l.EventType + " " + string(l.Body)
			case l.Type == LineBind:
				got = "bind " + l.Session
			case l.Error != nil:
				got = fmt.Sprintf("result %s %v", l.Result.Data, l.Error)
			default:
				got = fmt.Sprintf("result %s <nil>", l.Result.Data)
			}
			if got != tt.want && !(strings.HasPrefix(tt.want, "error") && strings.HasPrefix(got, tt.want)) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A result counts even if the program wrote a byte that is no UTF-8, which is replaced.
func TestReadLineReplacesInvalidUTF8(t *testing.T) {
	l, ok, err := ReadLine([]byte("{\"type\":\"result\",\"result_data\":{\"name\":\"caf\xe9\"}}"))
	if err != nil || !ok || string(l.Result.Data) != "{\"name\":\"caf\uFFFD\"}" {
		t.Errorf("got %+v %v %v", l.Result, ok, err)
	}
}

// TestATextThatIsCutInACharacter: a program that has cut its text in the middle of a character has answered.
func TestATextThatIsCutInACharacter(t *testing.T) {
	for _, line := range []string{`{"type":"result","result_text":"a\ud83d"}`,
		`{"type":"turn_complete","run_id":"r","result":"a\ud83d"}`,
		`{"type":"turn_complete","run_id":"r","result":{"result_text":"a\ud83d"}}`} {
		if l, _, err := ReadLine([]byte(line)); err != nil || *l.Result.Text != "a\uFFFD" {
			t.Errorf("%s: %+v %v", line, l.Result, err)
		}
	}
	l, _, err := ReadLine([]byte(`{"type":"result","error":{"error":"x","message":"a\ud83d"}}`))
	if err != nil || l.Error.Message != "a\uFFFD" {
		t.Errorf("an error: %+v %v", l.Error, err)
	}
}

func TestProgramReportsABuiltInExecutor(t *testing.T) {
	c := program(t, fmt.Sprintf(document, `{"do":"built in"}`))
	c.Env = append(c.Env, "BUILT_IN=1")
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	want := `{"type":"event","event_type":"message","role":"assistant","content":[{"type":"text","text":"hello"}]}
{"type":"bind","executor_session_id":"m<1>"}
{"type":"result","result_type":"autonomous","result_text":null,"result_data":null,"error":{"error":"broken",` +
		`"message":"It broke"}}
`
	if string(out) != want || c.ProcessState.ExitCode() != CodeFailed || errs.String() != "It broke\n" {
		t.Errorf("got %v, %q and\n%s", err, errs.String(), out)
	}
}

const persistent = `{"schema_version":"2.2","mode":"start","session_id":"ses_1","run_id":"run_1","parameters":{},` +
	`"project_dir":"/","agent_name":"a","agent_blueprint":{},"executor_config":null,"prompt":"one",` +
	`"lifecycle":"persistent"}` + "\n"

func answerOf(run, text string) string {
	return fmt.Sprintf(`{"type":"turn_complete","run_id":"%s","result":{"result_type":"autonomous","result_text":"%s",`+
		`"result_data":null}}`, run, text) + "\n"
}

// TestServe: each turn has one answer, and what a turn does not change is as it was.
func TestServe(t *testing.T) {
	first := answerOf("run_1", "start run_1 one {} env")
	for _, tt := range []struct {
		name, in, stdout, stderr string
		code                     int
	}{
		{"turns and shutdown", persistent + `{"type":"turn","mode":"resume","run_id":"run_2","parameters":{},` +
			`"prompt":"two","api_url":"new","agent_blueprint":{"name":"b"}}` + "\n\n" +
			`{"type":"turn","mode":"resume","run_id":"run_3","parameters":{},"prompt":"three",` +
			`"api_url":"new","later":1}` + "\n" + `{"type":"shutdown"}` + "\n",
			first + answerOf("run_2", `resume run_2 two {\"name\":\"b\"} new`) +
				answerOf("run_3", `resume run_3 three {\"name\":\"b\"} new`), "", 0},
		{"the end of stdin, without a line's end", persistent +
			`{"type":"turn","mode":"resume","run_id":"run_2","parameters":{},"prompt":"fail"}`,
			first + `{"type":"turn_failed","run_id":"run_2","error":{"error":"quota","message":"no money"}}` + "\n", "",
			0},
		{"an error has a code, too", strings.Replace(persistent, `"one"`, `"break"`, 1),
			`{"type":"turn_failed","run_id":"run_1","error":{"error":"executor_failed","message":"it broke"}}` + "\n",
			"", 0},
		{"oneshot", strings.Replace(persistent, `,"lifecycle":"persistent"`, "", 1),
			`{"type":"result","result_type":"autonomous","result_text":"start run_1 one {} env","result_data":null}` +
				"\n", "", 0},
		{"oneshot that fails", strings.Replace(strings.Replace(persistent, `,"lifecycle":"persistent"`, "", 1), `"one"`,
			`"fail"`, 1),
			`{"type":"result","result_type":"autonomous","result_text":null,"result_data":null,` +
				`"error":{"error":"quota","message":"no money"}}` + "\n", "no money", 1},
		{"no turn", persistent + "hello\n", first, "turn on stdin: the line is not a turn", 2},
		{"another type", persistent + `{"type":"toast"}` + "\n", first,
			`type must be "turn" or "shutdown", got "toast"`, 2},
		{"no run", persistent + `{"type":"turn","parameters":{}}` + "\n", first, "run_id is required", 2},
		{"no document", "", "", "invocation on stdin", 2},
		{"a lifecycle of its own", strings.Replace(persistent, `"persistent"`, `"eternal"`, 1), "",
			`lifecycle must be "oneshot" or "persistent"`, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := program(t, tt.in)
			c.Env = []string{"SERVE=1", EnvAPIURL + "=env"}
			var out, errs bytes.Buffer
			c.Stdout, c.Stderr = &out, &errs
			c.Run()
			if c.ProcessState.ExitCode() != tt.code || out.String() != tt.stdout ||
				!strings.Contains(errs.String(), tt.stderr) {
				t.Errorf("got  %d %s%q\nwant %d %s%q", c.ProcessState.ExitCode(), out.String(), errs.String(), tt.code,
					tt.stdout, tt.stderr)
			}
		})
	}
}

func TestReadAnswers(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{`{"type":"turn_complete"}`, "none"},
		{`{"type":"turn_complete","result":null}`, "none"},
		{`{"type":"turn_complete","run_id":"run_1","result":"a\nb"}`, `run_1 text "a\nb"`},
		{`{"type":"turn_complete","result":""}`, `text ""`},
		{`{"type":"turn_complete","result":{"a":1.0}}`, `data {"a":1.0}`},
		{`{"type":"turn_complete","result":[]}`, `data []`},
		{`{"type":"turn_complete","result":false}`, `data false`},
		{`{"type":"turn_complete","result":{"result_text":"x"}}`, `text "x"`},
		{`{"type":"turn_complete","result":{"result_type":"autonomous","result_text":null,"result_data":{}}}`,
			`data {}`},
		{`{"type":"turn_complete","result":{"result_data":1,"colour":2}}`, `error: Unknown field "colour"`},
		{`{"type":"turn_complete","result":{"result_data":1,"result_text":"x"}}`,
			`error: result_text and result_data exclude`},
		{`{"type":"turn_complete","error":{"error":"x"}}`,
			`error: a turn_complete line has no error; send turn_failed`},
		{`{"type":"turn_complete","colour":1}`, `error: Unknown field "colour"`},
		{`{"type":"turn_failed"}`, `error: error is required in a turn_failed line`},
		{`{"type":"turn_failed","error":{"error":"x","message":"m"}}`, `none x m`},
	} {
		l, ok, err := ReadLine([]byte(tt.line))
		var got string
		switch {
		case !ok:
			got = "own output"
		case err != nil:
			got = "error: " + err.Error()
		case l.Result == nil:
			got = "none"
		case l.Result.Text != nil:
			got = fmt.Sprintf("text %q", *l.Result.Text)
		default:
			got = fmt.Sprintf("data %s", l.Result.Data)
		}
		if l.RunID != "" {
			got = l.RunID + " " + got
		}
		if err == nil && l.Error != nil {
			got += " " + l.Error.Code + " " + l.Error.Message
		}
		if got != tt.want && !(strings.HasPrefix(tt.want, "error") && strings.HasPrefix(got, tt.want)) {
			t.Errorf("%s: got %s, want %s", tt.line, got, tt.want)
		}
	}
}

// TestServeStops: a turn under way ends at SIGTERM, and so does the wait for the next one.
func TestServeStops(t *testing.T) {
	for _, prompt := range []string{"wait", "one"} {
		c := program(t, "")
		c.Env, c.Stdin = []string{"SERVE=1"}, nil
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(in, strings.Replace(persistent, `"one"`, `"`+prompt+`"`, 1))
		if !bufio.NewScanner(out).Scan() {
			t.Fatal("it wrote nothing")
		}
		c.Process.Signal(syscall.SIGTERM)
		c.Wait()
		if c.ProcessState.ExitCode() != CodeStopped {
			t.Errorf("%s: got %v, want exit code %d", prompt, c.ProcessState, CodeStopped)
		}
	}
}
