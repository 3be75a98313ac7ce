package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ao/shared/executor"
	"ao/shared/run"
	"ao/worker/process"
)

// script writes a program and returns its job. Its events are added to said.
func script(t *testing.T, text string, events *[]string) Job {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Job{
		Invocation: executor.Invocation{SchemaVersion: executor.Version, Mode: executor.Resume,
			RunID: "run_1", SessionID: "ses_1", AgentName: "a",
			Parameters: json.RawMessage(`{"b":1e400,"a":"<&>"}`), ProjectDir: dir,
			Config: json.RawMessage(`{"model":"m"}`), ExecutorSession: "abc", Attempt: 2},
		Command: path,
		Env:     []string{"PATH=" + os.Getenv("PATH"), "OWN=1"},
		Grace:   10 * time.Second,
		OnEvent: func(kind string, body json.RawMessage) {
			*events = append(*events, kind+" "+string(body))
		},
	}
}

// outcomeText returns an outcome on one line, and then the program's events.
func outcomeText(o run.Outcome, events []string) string {
	s := string(o.Status)
	if o.Error != nil {
		raw, _ := json.Marshal(o.Error)
		s += " " + string(raw)
	}
	if o.Result != nil {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.Encode(o.Result)
		s += " | " + strings.TrimSpace(b.String())
	}
	for _, one := range events {
		s += "\n" + one
	}
	return s
}

func text(s string) string {
	return fmt.Sprintf(`{"result_type":"autonomous","result_text":%s,"result_data":null}`, strconv.Quote(s))
}

func data(s string) string {
	return fmt.Sprintf(`{"result_type":"autonomous","result_text":null,"result_data":%s}`, s)
}

func message(s string) string { return "\nmessage " + string(run.TextMessage("system", s)) }

const (
	event = `echo '{"type":"event","event_type":"message","role":"assistant","content":[{"type":"text",` +
		`"text":"<hi>"}]}'` + "\n"
	sentEvent = "\n" + `message {"role":"assistant","content":[{"type":"text","text":"<hi>"}]}`
	bind      = `echo '{"type":"bind","executor_session_id":"m-1"}'` + "\n"
	bound     = "\n" + `bind {"type":"bind","executor_session_id":"m-1"}`
	result    = `echo '{"type":"result","result_text":"fine"}'` + "\n"
)

func TestOutputs(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"nothing", `cat >/dev/null`, `completed | ` + data("null")},
		{"input not read, a code",
			`exit 3`, `failed {"error":"executor_failed","message":"Process exited with code 3","exit_code":3}`},
		{"text", `echo hello; echo; echo world; echo`, `completed | ` + text("hello\n\nworld")},
		{"JSON, kept as it is", `echo ' {"z":1e400, "a":12345678901234567890} '`,
			`completed | ` + data(`{"z":1e400,"a":12345678901234567890}`)},
		{"falsy JSON", `echo 0`, `completed | ` + data(`0`)},
		{"JSON of several lines", `printf '{\n"a": [\n1]}\n'`, `completed | ` + data(`{"a":[1]}`)},
		{"two JSON values are text", `echo 1; echo 2`, `completed | ` + text("1\n2")},
		{"JSON with a type of its own", `echo '{"type":"answer","result":"x"}'`,
			`completed | ` + data(`{"type":"answer","result":"x"}`)},
		{"the JSON of claude -p --output-format json", `echo '{"type":"result","is_error":false,"result":"x"}'`,
			`completed | ` + data(`{"type":"result","is_error":false,"result":"x"}`)},
		{"the lines of gemini --output-format stream-json",
			`echo '{"type":"message","content":"x"}'; echo '{"type":"result","status":"success"}'`,
			`completed | ` + text(`{"type":"message","content":"x"}`+"\n"+`{"type":"result","status":"success"}`)},
		{"a byte order mark before JSON", `printf '\357\273\277{"a":1}'`, `completed | ` + data(`{"a":1}`)},
		{"a byte order mark before text", `printf '\357\273\277hello'`, `completed | ` + text("hello")},
		{"a byte order mark before a line", `printf '\357\273\277'` + "\n" + result, `completed | ` + text("fine")},
		{"a byte order mark before half a line", `printf '\357\273\277{"type":"result","result_data":{"a":'`,
			`failed {"error":"executor_result_unreadable","message":"the executor's result line is unreadable: it is ` +
				`not JSON"} | ` + text(`{"type":"result","result_data":{"a":`)},
		{"a result line that cannot be read, and nothing before it", `echo '{"type":"result","result_text":1}'`,
			`failed {"error":"executor_result_unreadable","message":"the executor's result line is unreadable: ` +
				`result_text must be a string, got 1"} | ` + text(`{"type":"result","result_text":1}`)},
		{"half a result line, and nothing before it", `printf '{"type":"result","result_data":{"a":'`,
			`failed {"error":"executor_result_unreadable","message":"the executor's result line is unreadable: it is ` +
				`not JSON"} | ` + text(`{"type":"result","result_data":{"a":`)},
		{"an event line that cannot be read, and nothing before it", `echo '{"type":"event"}'`,
			`completed | ` + data(`{"type":"event"}`)},
		{"no UTF-8", `printf 'caf\351'`, `completed | ` + text("caf\uFFFD")},
		{"the document",
			`cat`,
			`completed | ` +
				data(`{"schema_version":"2.2","mode":"resume","session_id":"ses_1","run_id":"run_1",`+
					`"parameters":{"b":1e400,"a":"<&>"},"project_dir":"DIR","agent_name":"a","agent_blueprint":{},`+
					`"executor_config":{"model":"m"},"executor_session_id":"abc","attempt":2}`)},
		{"folder and environment", `echo "$PWD $OWN $HOME"`, `completed | ` + text("DIR 1 ")},
		{"the protocol", event + bind + result, `completed | ` + text("fine") + sentEvent + bound},
		{"events of tools",
			`echo '{"type":"event","event_type":"pre_tool","tool_name":"ls"}'; echo '{"type":"event",` +
				`"event_type":"post_tool","tool_name":"ls","tool_output":1.0}'` + "\n" + result,
			`completed | ` + text("fine") + "\n" + `pre_tool {"tool_name":"ls"}` + "\n" +
				`post_tool {"tool_name":"ls","tool_output":1.0}`},
		{"data, type and exit code are ours",
			`echo '{"type":"result","result_type":"procedural","result_data":{"a":1.0},"exit_code":7}'`,
			`completed | ` + data(`{"a":1.0}`)},
		{"a note", `echo '{"type":"result","result_text":"fine","note":"made up"}'`,
			`completed | ` + strings.TrimSuffix(text("fine"), "}") + `,"note":"made up"}`},
		{"a long note is cut", `printf '{"type":"result","result_data":null,"note":"%02000d"}' 7`,
			`completed | ` + strings.TrimSuffix(data("null"), "}") + `,"note":"` +
				strings.ReplaceAll(process.Plain(process.Cut(fmt.Appendf(nil, "%02000d", 7), run.MaxNote)), "\n",
					`\n`) + `"}`},
		{"the last result counts", result + `echo '{"type":"result","result_data":2}'`, `completed | ` + data(`2`)},
		{"protocol without a result: its own text is it", bind + "echo warm; echo up",
			`completed | ` + text("warm\nup") + bound},
		{"protocol without a result: its own JSON is it", bind + "echo '[1]'", `completed | ` + data("[1]") + bound},
		{"protocol without anything else", bind, `completed | ` + data("null") + bound},
		{"text beside a result is reported", "echo loading\n" + result + "echo bye",
			`completed | ` + text("fine") + message("loading\nbye")},
		{"a result with an error",
			`echo '{"type":"result","result_data":{"half":1},"error":{"error":"quota","message":"no ` +
				`money","limit":5}}'`,
			`failed {"error":"quota","message":"no money","limit":5} | ` + data(`{"half":1}`)},
		{"the same, and an exit code",
			`echo '{"type":"result","error":{"message":"no money"}}'; echo noise >&2; exit 9`,
			`failed {"error":"executor_failed","message":"no money"} | ` + data("null")},
		{"exit code, stderr", event + result + `echo first >&2; echo last >&2; exit 7`,
			`failed {"error":"executor_failed","message":"first\nlast","exit_code":7} | ` + text("fine") + sentEvent},
		{"exit code, stdout", event + "echo no; exit 1",
			`failed {"error":"executor_failed","message":"no","exit_code":1} | ` + text("no") + sentEvent},
		{"exit code, protocol only", event + "exit 1",
			`failed {"error":"executor_failed","message":"Process exited with code 1","exit_code":1}` + sentEvent},
		{"signal",
			`kill -9 $$`,
			`failed {"error":"executor_failed","message":"Process was killed by signal 9 (SIGKILL)",` +
				`"exit_code":137,"signal":"SIGKILL"}`},
		{"a bad event among good lines", event + `echo '{"type":"event"}'` + "\n" + result,
			`completed | ` + text("fine") + sentEvent +
				message("the executor's event line is unreadable, dropped: event_type is required in an event line")},
		{"a bad bind among good lines", event + `echo '{"type":"bind"}'`,
			`completed | ` + data("null") + sentEvent +
				message("the executor's bind line is unreadable, dropped: executor_session_id is required in a bind "+
					"line")},
		{"a bad result among good lines", bind + `echo '{"type":"result","result_text":"a","result_data":1}'`,
			`failed {"error":"executor_result_unreadable","message":"the executor's result line is unreadable: ` +
				`result_text and result_data exclude each other; send one"} | ` +
				text(`{"type":"result","result_text":"a","result_data":1}`) + bound},
		{"half a result after good lines", bind + `printf '{"type":"result","result_data":{"a":'`,
			`failed {"error":"executor_result_unreadable","message":"the executor's result line is unreadable: it is ` +
				`not JSON"} | ` + text(`{"type":"result","result_data":{"a":`) + bound},
		{"a turn's answer", bind + `echo '{"type":"turn_complete","result":{"a":1}}'`,
			`completed | ` + data(`{"a":1}`) + bound},
		{"a turn's failure", `echo '{"type":"turn_failed","error":{"error":"quota","message":"no money"}}'`,
			`failed {"error":"quota","message":"no money"}`},
		{"a good result after the bad one", bind + `echo '{"type":"result","result_text":1}'` + "\n" + result,
			`completed | ` + text("fine") + bound},
		{"a bad result and an exit code", bind + `echo '{"type":"result","result_text":1}'; echo why >&2; exit 4`,
			`failed {"error":"executor_failed","message":"why","exit_code":4} | ` +
				text(`{"type":"result","result_text":1}`) + bound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var events []string
			j := script(t, tt.script, &events)
			got := strings.ReplaceAll(outcomeText(Run(t.Context(), j), events), j.Invocation.ProjectDir, "DIR")
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		begin, has   string
		most         int // bytes of the result as JSON
	}{
		{"much text", `yes "$(head -c 5000 /dev/zero | tr "\\0" x)" | head -c 20000000; echo end`,
			`failed {"error":"result_too_large"`, "[… 19475716 bytes cut …]", 2 << 20},
		{"text that fits", `yes "$(head -c 5000 /dev/zero | tr "\\0" x)" | head -c 4000000; echo end`, "completed",
			"end", 5 << 20},
		{"a large result in time",
			`printf '{"type":"result","result_data":"'; head -c 3000000 /dev/zero | tr '\0' x; echo '"}'`, "completed",
			"xxx", 4 << 20},
		{"a result line too long",
			`printf '{"type": "result","result_data":"'; head -c 9000000 /dev/zero | tr '\0' x; echo '"}'`,
			`failed {"error":"result_too_large"`, "bytes cut", 20 << 10},
		{"an event line too long",
			`printf '{"type":"event","a":"'; head -c 9000000 /dev/zero | tr '\0' x; echo '"}'; ` + result,
			`completed | ` + text("fine"), "the executor's event line is unreadable, dropped: it has more than",
			20 << 10},
		{"much text beside a result", result + `yes "$(head -c 5000 /dev/zero | tr "\\0" x)" | head -c 20000000`,
			`completed | ` + text("fine"), "bytes cut", 20 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var events []string
			j := script(t, tt.script, &events)
			j.MaxResult = 4 << 20
			got := outcomeText(Run(t.Context(), j), events)
			if !strings.HasPrefix(got, tt.begin) || !strings.Contains(got, tt.has) || len(got) > tt.most {
				t.Errorf("got %d bytes, %.300s", len(got), got)
			}
		})
	}
}

func TestNoProgram(t *testing.T) {
	var events []string
	j := script(t, "", &events)
	os.Remove(j.Command)
	got := strings.ReplaceAll(outcomeText(Run(t.Context(), j), events), j.Command, "PROGRAM")
	want := `failed {"error":"executor_not_found","message":"command \"PROGRAM\": PROGRAM does not exist"}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	j = script(t, "", &events)
	j.Invocation.ProjectDir = "/no/such/folder"
	got = strings.ReplaceAll(outcomeText(Run(t.Context(), j), events), j.Command, "PROGRAM")
	if want := `failed {"error":"executor_not_runnable","message":"command \"PROGRAM\": the working directory ` +
		`/no/such/folder does not exist"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

const stoppedAtWork = `stopped {"error":"stopped","message":"Stopped","stderr_tail":"at work"}`

// TestStopped: nothing of the tree is left, and the result so far is kept. A deadline is the same for the program;
// the worker reports it differently.
func TestStopped(t *testing.T) {
	// Each is stopped at its event, so that comes when it is ready for that.
	for _, tt := range []struct {
		name, script string
		grace        time.Duration
		want         string
	}{
		{"at once", event + `sleep 100`, 10 * time.Second, "stopped"},
		{"with a diagnosis", `echo at work >&2; ` + event + `exec sleep 100`, 10 * time.Second,
			stoppedAtWork},
		{"with a word", `exec 2>/dev/null; ` +
			`trap 'echo "half done"; exit 0' TERM; ` + event + `while :; do sleep 0.01; done`,
			10 * time.Second, "stopped | " + text("half done")},
		{"with a result", result + event + `sleep 100`, 10 * time.Second, "stopped | " + text("fine")},
		{"everything ignores SIGTERM",
			`trap "" TERM; setsid sh -c 'echo $$ >>pids; sleep 100' & while [ $(wc -l <pids) -lt 3 ]; do sleep 0.01; ` +
				`done; ` + event + `while :; do sleep 1; done`,
			100 * time.Millisecond, "stopped"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			var events []string
			j := script(t, `sleep 100 & echo $! >>pids; echo $$ >>pids; `+tt.script, &events)
			j.Grace, j.OnEvent = tt.grace, func(string, json.RawMessage) { cancel(errors.New("stop")) }
			if got := outcomeText(Run(ctx, j), nil); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			raw, _ := os.ReadFile(filepath.Join(j.Invocation.ProjectDir, "pids"))
			all := strings.Fields(string(raw))
			if len(all) < 2 {
				t.Errorf("processes %v", all)
			}
			for _, one := range all {
				if pid, _ := strconv.Atoi(one); syscall.Kill(pid, 0) == nil {
					t.Errorf("%d is left", pid)
				}
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var events []string
	if got := outcomeText(Run(ctx, script(t, "touch ran", &events)), nil); got != "stopped" {
		t.Errorf("before the start: got %s", got)
	}
}
