package claudecode

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ao/shared/clock/clocktest"
	"ao/shared/run"
	"ao/worker/claudecode/standin"
)

// TestMain turns the test binary into an MCP server on stdin and stdout if MCP_SERVER is set.
func TestMain(m *testing.M) {
	if pid := os.Getenv("MCP_SERVER"); pid != "" {
		serveMCP(pid)
	}
	os.Exit(m.Run())
}

// serveMCP writes its process id to a file and serves the tools add, and wait, which never answers. It ignores the
// end of its stdin and all signals it can.
func serveMCP(pid string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	write := func(path string) {
		os.WriteFile(path+".new", []byte(strconv.Itoa(os.Getpid())), 0o600)
		os.Rename(path+".new", path)
	}
	write(pid)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"name":"wait"`) {
			write(pid + ".waits")
		} else if _, answer := answerMCP(lines.Bytes(), os.Getenv("MCP_KEY")); answer != "" {
			fmt.Println(answer)
		}
	}
	select {}
}

// answerMCP answers a request of an MCP client; a notification has no answer. The tool add returns its arguments and
// the key.
func answerMCP(raw []byte, key string) (method, answer string) {
	var q struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Version string          `json:"protocolVersion"`
			Args    json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if json.Unmarshal(raw, &q); len(q.ID) == 0 {
		return q.Method, ""
	}
	result := map[string]string{
		"initialize": fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"t",`+
			`"version":"1"}}`, q.Params.Version),
		"tools/list": `{"tools":[{"name":"add","description":"adds","inputSchema":{"type":"object"}},{"name":"wait",` +
			`"description":"waits","inputSchema":{"type":"object"}}]}`,
		"tools/call": fmt.Sprintf(`{"content":[{"type":"text","text":"%s for %s"}]}`,
			strings.ReplaceAll(string(q.Params.Args), `"`, "'"), key),
	}[q.Method]
	return q.Method, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}

// sums returns the URL of an MCP server over HTTP; begin is called before it answers the initialization.
func sums(t *testing.T, begin func()) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		method, answer := answerMCP(raw, r.Header.Get("X-Key"))
		if r.Method != http.MethodPost || answer == "" {
			w.WriteHeader(map[bool]int{true: http.StatusAccepted,
				false: http.StatusMethodNotAllowed}[r.Method == http.MethodPost])
			return
		}
		if method == "initialize" {
			begin()
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// ownServer returns the definition of this test binary as an MCP server, and the file of its process id. A launcher
// starts it, like npx: claude ends only the launcher.
func ownServer(t *testing.T) (definition, pid string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pid = filepath.Join(t.TempDir(), "pid")
	return fmt.Sprintf(`{"command":"/bin/sh","args":["-c","exec 3<&0; \"$0\" <&3 & wait",%q],"env":{"MCP_SERVER":%q,`+
		`"MCP_KEY":"${SUMS_KEY}"}}`, self, pid), pid
}

// pidIn returns the process id in a file, which may not exist yet.
func pidIn(t *testing.T, file string) int {
	t.Helper()
	pid := 0
	clocktest.Until(t, "there is "+file, func() bool {
		raw, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(string(raw))
		return pid > 0
	})
	return pid
}

// TestMCP: claude calls a tool of a blueprint's server, with its header.
func TestMCP(t *testing.T) {
	t.Parallel()
	claude := standin.Claude(t)
	server := sums(t, func() {})
	api := standin.New(t, standin.ToolCall("mcp__sums__add", map[string]any{"a": 1}), standin.Text("One."))
	inv, host, h := turn(t, claude, api.URL, "Add",
		fmt.Sprintf(`{"mcp_servers":{"sums":{"url":%q,"headers":{"X-Key":"${SUMS_KEY}"}},`+
			`"broken":{"command":"/no/such/program"}}}`, server), "")
	host.Env = append(host.Env, "SUMS_KEY=open", "TMPDIR="+t.TempDir())
	o := unconfined.Run(t.Context(), inv, host)
	if got := outcomeText(o); got != "completed | One." || !slices.Contains(h.all(),
		`post_tool {"tool_name":"mcp__sums__add","tool_input":{"a":1},"tool_output":"{'a':1} for open"}`) {
		t.Errorf("got %s, %q", got, h.all())
	}
	if all := strings.Join(h.all(), "\n"); !strings.Contains(all, `the MCP server \"broken\" cannot be used: `+
		`Claude Code could not connect to it; the run continues without it`) ||
		!strings.Contains(all, `"mcp_servers_unreachable":["broken"]`) {
		t.Errorf("nothing is reported of the broken server: %q", h.all())
	}
}

// TestMCPServersAreWaitedFor: the model is not called before a slow server has answered. Newer versions of claude
// offer such tools immediately if asked to, otherwise through a search.
func TestMCPServersAreWaitedFor(t *testing.T) {
	t.Parallel()
	standin.Each(t, func(t *testing.T, claude string) {
		asked := make(chan struct{}) // the model was
		var once sync.Once
		server := sums(t, func() {
			select {
			case <-asked:
			case <-time.After(3 * time.Second):
			}
		})
		api := standin.NewFunc(t, func(standin.Request) standin.Answer {
			once.Do(func() { close(asked) })
			return standin.Text("Fine.")
		})
		inv, host, h := turn(t, claude, api.URL, "Add", fmt.Sprintf(`{"mcp_servers":{"sums":{"url":%q}}}`, server), "")
		host.Env = append(host.Env, "ENABLE_TOOL_SEARCH=false")
		if got := outcomeText(unconfined.Run(t.Context(), inv, host)); got != "completed | Fine." {
			t.Fatalf("got %s, %q", got, h.all())
		}
		if r := api.Requests()[0]; !r.Has("mcp__sums__add") {
			t.Errorf("the model was asked without the server's tools: %v", r.Tools)
		}
	})
}

// TestMCPOnStdio: claude starts a blueprint's server with its environment and calls its tool. No process of it is
// left, although it would stay.
func TestMCPOnStdio(t *testing.T) {
	t.Parallel()
	claude := standin.Claude(t)
	server, file := ownServer(t)
	api := standin.New(t, standin.ToolCall("mcp__sums__add", map[string]any{"a": 1}), standin.Text("One."))
	inv, host, h := turn(t, claude, api.URL, "Add", `{"mcp_servers":{"sums":`+server+`}}`, "")
	host.Env = append(host.Env, "SUMS_KEY=open")
	if got := outcomeText(unconfined.Run(t.Context(), inv, host)); got != "completed | One." {
		t.Errorf("got %s, %q", got, h.all())
	}
	tool := `{"tool_name":"mcp__sums__add","tool_input":{"a":1}`
	got := slices.DeleteFunc(h.all(), func(l string) bool { return !strings.Contains(l, "_tool ") })
	if want := []string{"pre_tool " + tool + "}", "post_tool " + tool +
		`,"tool_output":"{'a':1} for open"}`}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if pid := pidIn(t, file); syscall.Kill(pid, 0) == nil {
		t.Errorf("%d is left", pid)
	}
}

// TestAStopEndsAnMCPServer: in the middle of a call.
func TestAStopEndsAnMCPServer(t *testing.T) {
	t.Parallel()
	claude := standin.Claude(t)
	server, file := ownServer(t)
	api := standin.New(t, standin.ToolCall("mcp__sums__wait", map[string]any{}))
	inv, host, h := turn(t, claude, api.URL, "Wait", `{"mcp_servers":{"sums":`+server+`}}`, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan run.Outcome, 1)
	go func() { done <- unconfined.Run(ctx, inv, host) }()
	pid := pidIn(t, file+".waits")
	cancel()
	if got := outcomeText(<-done); got != "stopped | I use mcp__sums__wait" ||
		!slices.Contains(h.all(), `pre_tool {"tool_name":"mcp__sums__wait","tool_input":{}}`) {
		t.Errorf("got %s, %q", got, h.all())
	}
	if syscall.Kill(pid, 0) == nil {
		t.Errorf("%d is left", pid)
	}
}

// TestTheServersFileIsGoneEarly: the file of the MCP servers may contain keys. It is removed as soon as claude has read
// it, in case the worker is killed. All kinds of servers still work.
func TestTheServersFileIsGoneEarly(t *testing.T) {
	claude := standin.Claude(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp) // this process's, where the file is written
	files := func() []string {
		all, _ := filepath.Glob(filepath.Join(temp, "ao-claude-mcp-*"))
		return all
	}
	web := sums(t, func() {
		if all := files(); len(all) != 1 {
			t.Errorf("claude reads %q", all)
		}
	})
	server, _ := ownServer(t)
	answers := []standin.Answer{
		standin.ToolCall("mcp__web__add", map[string]any{"a": 1}), standin.ToolCall("mcp__sums__add",
			map[string]any{"a": 2}), standin.Text("Two."),
	}
	api := standin.NewFunc(t, func(r standin.Request) standin.Answer {
		if !clocktest.Poll(time.Minute, func() bool { return len(files()) == 0 }) {
			t.Errorf("claude runs, and there is %q", files())
		}
		return answers[min(r.N, len(answers))-1]
	})
	inv, host, h := turn(t, claude, api.URL, "Add",
		fmt.Sprintf(`{"mcp_servers":{"web":{"url":%q,"headers":{"X-Key":"${SUMS_KEY}"}},"sums":%s}}`, web, server), "")
	host.Env = append(host.Env, "SUMS_KEY=open")
	if got := outcomeText(unconfined.Run(t.Context(), inv, host)); got != "completed | Two." {
		t.Errorf("got %s, %q", got, h.all())
	}
	for _, want := range []string{
		`post_tool {"tool_name":"mcp__web__add","tool_input":{"a":1},"tool_output":"{'a':1} for open"}`,
		`post_tool {"tool_name":"mcp__sums__add","tool_input":{"a":2},"tool_output":"{'a':2} for open"}`,
	} {
		if !slices.Contains(h.all(), want) {
			t.Errorf("got %q, want %s", h.all(), want)
		}
	}
}

// TestTheServersFileOfAnyClaude is the same without the real program. The file exists until claude reports its start.
// It is removed while claude runs, or when claude ends before that.
func TestTheServersFileOfAnyClaude(t *testing.T) {
	for script, want := range map[string]string{
		`[ -s "$file" ] || exit 7
echo '{"type":"system","subtype":"init","session_id":"s"}'
for i in $(seq 1000); do
	[ -e "$file" ] || { echo '{"type":"result","subtype":"success","is_error":false,"result":"gone"}'; exit; }
	sleep 0.01
done`: "completed | gone",
		`[ -s "$file" ] && echo no luck >&2; exit 7`: `failed {"error":"claude_failed","message":"Claude Code ended ` +
			`without a result: no luck","exit_code":7}`,
	} {
		temp := t.TempDir()
		t.Setenv("TMPDIR", temp)
		inv, host, _ := turn(t,
			fakeClaude(t, `cat >/dev/null; for a in "$@"; do case "$a" in --mcp-config=*) file="${a#*=}";; esac; done
`+script), "", "Hello", `{"mcp_servers":{"a":{"url":"http://h"}}}`, "")
		if got := outcomeText(unconfined.Run(t.Context(), inv, host)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if left, _ := os.ReadDir(temp); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}
