package procedural

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ao/shared/agent"
	"ao/shared/executor"
	"ao/shared/run"
	"ao/worker/process"
)

// script writes a program and returns its job.
func script(t *testing.T, text, params string) Job {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "command")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Job{
		Invocation: executor.Invocation{RunID: "run_1", SessionID: "ses_1",
			AgentName: "a", Parameters: json.RawMessage(params), ProjectDir: dir},
		Command: path,
		Env:     []string{"PATH=" + os.Getenv("PATH")},
		Grace:   10 * time.Second,
	}
}

// outcomeText returns an outcome on one line.
func outcomeText(o run.Outcome) string {
	s := string(o.Status)
	if o.Error != nil {
		raw, _ := json.Marshal(o.Error)
		s += " " + string(raw)
	}
	if o.Result != nil {
		s += fmt.Sprintf(" | %s %d %s", o.Result.Type, *o.Result.ExitCode, o.Result.Data)
		if o.Result.Text != nil {
			s += " with text"
		}
	}
	return s
}

func TestRun(t *testing.T) {
	for _, tt := range []struct{ name, script, params, want string }{
		{"JSON, kept as it is", `echo ' {"z":1e400, "a":12345678901234567890} '`, `{}`,
			`completed | procedural 0 {"z":1e400, "a":12345678901234567890}`},
		{"a byte order mark before JSON", `printf '\357\273\277{"a":1}'`, `{}`, `completed | procedural 0 {"a":1}`},
		{"a byte order mark before text", `printf '\357\273\277hello'`, `{}`,
			`completed | procedural 0 {"return_code":0,"stdout":"hello","stderr":""}`},
		{"falsy JSON", `echo 0`, `{}`, `completed | procedural 0 0`},
		{"null", `echo null`, `{}`, `completed | procedural 0 null`},
		{"text", `echo hello; echo "<progress>" >&2`, `{}`,
			`completed | procedural 0 {"return_code":0,"stdout":"hello\n","stderr":"<progress>\n"}`},
		{"two JSON values are text", `echo 1; echo 2`, `{}`,
			`completed | procedural 0 {"return_code":0,"stdout":"1\n2\n","stderr":""}`},
		{"nothing", ``, `{}`, `completed | procedural 0 {"return_code":0,"stdout":"","stderr":""}`},
		{"no UTF-8", `printf '"\377"'`, `{}`, `completed | procedural 0 {"return_code":0,"stdout":"\"` + "\uFFFD" +
			`\"","stderr":""}`},
		{"arguments", `printf '["%s","%s","%s"]' "$@"`, `{"b":0.10,"a":-5}`,
			`completed | procedural 0 ["--b","0.10","--a=-5"]`},
		{"working directory", `[ "$PWD" = "$(dirname "$0")" ] && echo true`, `{}`, `completed | procedural 0 true`},
		{"exit code, stderr", `echo '{"a":1}'; echo first >&2; echo last >&2; exit 7`, `{}`,
			`failed {"error":"command_failed","message":"first\nlast","exit_code":7} | procedural 7 {"a":1}`},
		{"exit code, stdout", `echo no; exit 1`, `{}`,
			`failed {"error":"command_failed","message":"no","exit_code":1} | procedural 1 {"return_code":1,` +
				`"stdout":"no\n","stderr":""}`},
		{"exit code alone",
			`exit 3`,
			`{}`,
			`failed {"error":"command_failed","message":"Process exited with code 3","exit_code":3} | procedural 3 ` +
				`{"return_code":3,"stdout":"","stderr":""}`},
		{"signal",
			`kill -9 $$`,
			`{}`,
			`failed {"error":"command_failed","message":"Process was killed by signal 9 (SIGKILL)",` +
				`"exit_code":137,"signal":"SIGKILL"} | procedural 137 {"return_code":137,"stdout":"","stderr":""}`},
		{"parameters that cannot be passed", `echo ran`, `{"a b":1}`,
			`failed {"error":"invalid_request","message":"parameter \"a b\" cannot be passed to a command: the key ` +
				`contains white space or a control character: use another key","field":"parameters.a b"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := outcomeText(Run(t.Context(), script(t, tt.script, tt.params))); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestTheLongestCommandLine: whatever agent.Takes accepts can be started, at each limit, with room for an
// environment. One byte more in one argument could not.
func TestTheLongestCommandLine(t *testing.T) {
	t.Parallel()
	const one, all = 128<<10 - 1, 3 << 19
	of := agent.Blueprint{Type: run.Procedural}
	many := func(n int, value func(i int) int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"k%04d":"%s"`, i, strings.Repeat("x", value(i)))
		}
		return "{" + b.String()[1:] + "}"
	}
	last := all - 11*(8+one+1) - 9 // "--k0000", its NUL and value in eleven full pairs; what the twelfth may have
	for _, tt := range []struct {
		name, params string
		taken        bool
		want         string
	}{
		{"one argument", `{"k":"` + strings.Repeat("x", one) + `"}`, true, `completed | procedural 0 2`},
		{"all together", many(12, func(i int) int {
			return map[bool]int{true: last, false: one}[i == 11]
		}), true, `completed | procedural 0 24`},
		{"how many", many(4096, func(int) int { return 1 }), true, `completed | procedural 0 8192`},
		{"one byte more", `{"k":"` + strings.Repeat("x", one+1) + `"}`, false,
			`failed {"error":"command_not_runnable"`},
		{"one byte more together", many(12, func(i int) int {
			return map[bool]int{true: last + 1, false: one}[i == 11]
		}), false, `completed`},
		{"one more", strings.Replace(many(4096, func(int) int {
			return 1
		}), "{", `{"one-more":true,`, 1), false, `completed`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := script(t, `echo $#`, tt.params)
			for i := range 3 {
				j.Env = append(j.Env, fmt.Sprintf("LARGE_%d=%s", i, strings.Repeat("e", 100<<10)))
			}
			if err := of.CheckParameters(j.Invocation.Parameters); (err == nil) != tt.taken {
				t.Errorf("taken: %v", err)
			}
			if got := outcomeText(Run(t.Context(), j)); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got  %.300s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	j := script(t, `echo begun; echo why >&2; sleep 100`, `{}`)
	j.Timeout = 5 * time.Second // also a slow machine has started it by then
	want := `failed {"error":"timeout","message":"Command timed out after 5 seconds","timeout_seconds":5,` +
		`"stderr_tail":"why"} | procedural 124 {"return_code":124,"stdout":"begun\n","stderr":"why\n"}`
	if got := outcomeText(Run(t.Context(), j)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, fmt.Errorf("the worker's reason"))
	defer cancel()
	want := `failed {"error":"timeout","message":"Command timed out after 5 seconds","timeout_seconds":5} | ` +
		`procedural 124 {"return_code":124,"stdout":"begun\n","stderr":""}`
	if got := outcomeText(Run(ctx, script(t, `echo begun; sleep 100`, `{}`))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFormatLimit(t *testing.T) {
	for d, want := range map[time.Duration]string{run.DefaultTimeout(run.Procedural): "5 minutes",
		30 * time.Second: "30 seconds", 90 * time.Second: "90 seconds", time.Hour: "1 hour", time.Minute: "1 minute",
		1500 * time.Millisecond: "1.5s"} {
		if got := FormatLimit(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	j := script(t, `trap 'echo cleaned; exit 5' TERM; echo ready >&2; exec 2>/dev/null; while :; do sleep 0.01; done`,
		`{}`)
	j.OnEvent = func(string, json.RawMessage) { cancel() }
	want := `stopped {"error":"stopped","message":"Stopped","stderr_tail":"ready"} | procedural 5 {"return_code":5,` +
		`"stdout":"cleaned\n","stderr":"ready\n"}`
	if got := outcomeText(Run(ctx, j)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := outcomeText(Run(ctx, j)); got != "stopped" {
		t.Errorf("before the start: got %s", got)
	}
}

func TestNoCommand(t *testing.T) {
	j := script(t, "", `{}`)
	os.Remove(j.Command)
	got := strings.ReplaceAll(outcomeText(Run(t.Context(), j)), j.Command, "COMMAND")
	want := `failed {"error":"command_not_found","message":"command \"COMMAND\": COMMAND does not exist"}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	j = script(t, "", `{}`)
	j.Invocation.ProjectDir = "/no/such/folder"
	got = strings.ReplaceAll(outcomeText(Run(t.Context(), j)), j.Command, "COMMAND")
	if want := `failed {"error":"command_not_runnable","message":"command \"COMMAND\": the working directory ` +
		`/no/such/folder does not exist"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLongOutput(t *testing.T) {
	o := Run(t.Context(), script(t, `head -c 30000000 /dev/zero; head -c 30000000 /dev/zero >&2; exit 1`, `{}`))
	if n := len(o.Result.Data); n > 13<<20 || strings.Count(string(o.Result.Data), "[… 28951424 bytes cut …]") != 2 ||
		!json.Valid(o.Result.Data) {
		t.Errorf("got %d bytes", n)
	}
	o = Run(t.Context(), script(t, `i=0; while [ $i -lt 500 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1`, `{}`))
	if m := o.Error.Message; len(m) > process.MaxReason+10 || !strings.HasPrefix(m, "…\nline ") ||
		!strings.HasSuffix(m, "line 499") {
		t.Errorf("got %d bytes, %.30q", len(m), m)
	}
}

func TestJSONThatIsTooLarge(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"an object", `printf '{"a":"'; head -c 3000000 /dev/zero | tr '\0' x; echo '"}'`, `failed result_too_large`},
		{"an object behind a byte order mark", `printf '\357\273\277{"a":"'; head -c 3000000 /dev/zero | tr '\0' x; ` +
			`echo '"}'`, `failed result_too_large`},
		{"a list that fits", `printf '["'; head -c 1000000 /dev/zero | tr '\0' x; echo '"]'`, `completed `},
		{"text that looks like a list at first", `printf '[info] '; head -c 3000000 /dev/zero | tr '\0' x`,
			`completed `},
		{"lines of JSON", `yes '{"a":1}' | head -c 3000000`, `completed `},
		{"an object, and an exit code", `printf '{"a":"'; head -c 3000000 /dev/zero | tr '\0' x; echo '"}'; exit 3`,
			`failed command_failed`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			j := script(t, tt.script, `{}`)
			j.MaxResult = 2 << 20
			o := Run(t.Context(), j)
			got := string(o.Status) + " "
			if o.Error != nil {
				got += o.Error.Code
			}
			if got != tt.want || o.Result.ExitCode == nil {
				t.Errorf("got %q, %.200s, want %q", got, o.Result.Data, tt.want)
			}
		})
	}
}

func TestProgressIsReported(t *testing.T) {
	var mu sync.Mutex
	var got []string
	j := script(t, `echo one >&2; echo >&2; printf 'two \377' >&2`, `{}`)
	j.OnEvent = func(kind string, body json.RawMessage) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, kind+" "+string(body))
	}
	Run(t.Context(), j)
	want := []string{"message " + string(run.TextMessage("system", "one")),
		"message " + string(run.TextMessage("system", "two \uFFFD"))}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProgressIsBounded(t *testing.T) {
	now := time.Unix(0, 0)
	var got []string
	p := progress{now: func() time.Time { return now }, emit: func(_ string, body json.RawMessage) {
		var m run.Message
		json.Unmarshal(body, &m)
		got = append(got, m.Content[0].Text)
	}}
	for i := range 1000 {
		p.onLine([]byte(fmt.Sprint(i)))
	}
	if len(got) != maxEventBurst {
		t.Fatalf("got %d, want %d", len(got), maxEventBurst)
	}
	now = now.Add(time.Second)
	for i := range 1000 {
		p.onLine([]byte(fmt.Sprint("later ", i)))
	}
	p.flushSkipped()
	got = got[maxEventBurst:]
	if len(got) != maxEventRate+2 || got[0] != "[… 900 lines dropped …]" || got[1] != "later 0" ||
		got[len(got)-1] != "[… 980 lines dropped …]" {
		t.Errorf("got %d: %q", len(got), got)
	}
}
