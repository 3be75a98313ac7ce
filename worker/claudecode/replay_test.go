package claudecode

import (
	"context"
	"encoding/json"
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
)

// TestTranscripts replays the output of two versions of claude, recorded from the real program with other paths and
// ids.
func TestTranscripts(t *testing.T) {
	const session = "00000000-0000-4000-8000-000000000001"
	bash := `{"tool_name":"Bash","tool_input":{"command":"echo one; echo two"}`
	for name, tt := range map[string]struct {
		code int
		want []string // the outcome, and what was reported, but metadata
	}{
		"tools": {0, []string{
			"completed | Two lines.",
			`bind {"type":"bind","executor_session_id":"` + session + `"}`,
			`message {"role":"assistant","content":[{"type":"text","text":"I look."}]}`,
			"pre_tool " + bash + "}",
			`pre_tool {"tool_name":"Read","tool_input":{"file_path":"/srv/none"}}`,
			`post_tool {"tool_name":"Read","tool_input":{"file_path":"/srv/none"},"error":"…"}`,
			"post_tool " + bash + `,"tool_output":"one\ntwo"}`,
			`message {"role":"assistant","content":[{"type":"text","text":"Two lines."}]}`,
			"metadata",
		}},
		"busy": {1, []string{
			`failed {"error":"claude_overloaded","message":"API Error: 529 Overloaded. This is a server-side issue, ` +
				`usually temporary — try again in a moment. If it persists, check your inference gateway ` +
				`(127.0.0.1:9000). ` +
				`Try again later, or name a fallback_model in the profile's config","api_status":529}`,
			`bind {"type":"bind","executor_session_id":"` + session + `"}`,
			`message {"role":"system","content":[{"type":"text","text":"the API answered 529; Claude Code ` +
				`retries in …s (1 of 1)"}]}`,
			"metadata",
		}},
		"crowded": {1, []string{ // it gives up by itself; only the newer one reports the status
			`failed {"error":"claude_overloaded","message":"API Error: Repeated 529 Overloaded errors. The API is at ` +
				`capacity — this is usually temporary. Try again in a moment. If it persists, ` +
				`check your inference gateway (127.0.0.1:9000). Try again later, or name a fallback_model in the ` +
				`profile's config","api_status":529}`,
			`bind {"type":"bind","executor_session_id":"` + session + `"}`,
			`message {"role":"system","content":[{"type":"text","text":"the API answered 529; Claude Code ` +
				`retries in …s (1 of 4)"}]}`,
			`message {"role":"system","content":[{"type":"text","text":"the API answered 529; Claude Code ` +
				`retries in …s (2 of 4)"}]}`,
			"metadata",
		}},
		"turns": {1, []string{
			`failed {"error":"claude_max_turns","message":"Reached maximum number of turns (1). Resume the session ` +
				`to continue, or raise max_turns in the agent or the profile's config","max_turns":1}`,
			`bind {"type":"bind","executor_session_id":"` + session + `"}`,
			`pre_tool {"tool_name":"Bash","tool_input":{"command":"echo hi"}}`,
			`post_tool {"tool_name":"Bash","tool_input":{"command":"echo hi"},"tool_output":"hi"}`,
			"metadata",
		}},
		"gone": {1, []string{
			`failed {"error":"claude_session_gone","message":"Claude Code does not have this session's ` +
				`conversation on this host: it knows no session 11111111-2222-4333-8444-555555555555. Resume the ` +
				`session on the host, ` +
				`in the working directory and with the Claude folder (HOME, CLAUDE_CONFIG_DIR) it ` +
				`started in, or start ` +
				`a new session",` +
				`"executor_session_id":"11111111-2222-4333-8444-555555555555"}`,
			"metadata",
		}},
	} {
		for _, version := range []string{"2.1.197", "2.1.332"} {
			t.Run(name+" of "+version, func(t *testing.T) {
				t.Parallel()
				file, err := filepath.Abs(filepath.Join("testdata", version, name+".jsonl"))
				if err != nil {
					t.Fatal(err)
				}
				inv, host, h := turn(t, fakeClaude(t, fmt.Sprintf("cat >/dev/null\ncat '%s'\nexit %d", file, tt.code)),
					"",
					"Hello", "", `{"max_turns":1}`)
				if name == "gone" {
					inv.Mode, inv.ExecutorSession = executor.Resume, "11111111-2222-4333-8444-555555555555"
				}
				got := append([]string{outcomeText(unconfined.Run(t.Context(), inv, host))}, h.all()...)
				if len(got) != len(tt.want) {
					t.Fatalf("got  %q\nwant %q", got, tt.want)
				}
				for i, want := range tt.want {
					before, after, cut := strings.Cut(want, "…")
					if got[i] != want && !(want == "metadata" && strings.HasPrefix(got[i], `metadata {"metadata":{`)) &&
						!(cut && strings.HasPrefix(got[i], before) && strings.HasSuffix(got[i], after)) {
						t.Errorf("got  %s\nwant %s", got[i], want)
					}
				}
			})
		}
	}
}

// TestArguments: every value is part of its option's argument, and nothing from a caller is an argument.
func TestArguments(t *testing.T) {
	script := `for a in "$@"; do echo "$a"; done >args; for a in "$@"; do case "$a" in --mcp-config=*) cat "${a#*=}" ` +
		`>servers; stat -c %a "${a#*=}" >mode;; esac; done; cat >stdin
env >env; echo '{"type":"result","subtype":"success","is_error":false,"result":"ok"}'`
	inv, host, _ := turn(t, fakeClaude(t, script), "", "--resume @/etc/passwd",
		`{"system_prompt":"--be \"so\"","mcp_servers":{"a":{"command":"--x","args":["-y"]},"b":{"type":"sse",`+
			`"url":"http://h"}}}`,
		`{"model":"m","fallback_model":"f,g","permission_mode":"dontAsk","max_turns":3,"max_retries":2,`+
			`"tools":["Bash","Read"],"allowed_tools":["Bash(git log *)","Read"],"disallowed_tools":["Write"],
		 "setting_sources":["user","local"],"add_dirs":["/a b"],"system_prompt_mode":"replace"}`)
	inv.Mode, inv.ExecutorSession = executor.Resume, "11111111-2222-4333-8444-555555555555"
	host.Env = append(host.Env, "AGENT_ORCHESTRATOR_PROCESS=other", "DISABLE_AUTOUPDATER=0")
	if got := outcomeText(unconfined.Run(t.Context(), inv, host)); got != "completed | ok" {
		t.Fatal(got)
	}
	read := func(name string) string {
		raw, _ := os.ReadFile(filepath.Join(inv.ProjectDir, name))
		return string(raw)
	}
	args, file, _ := strings.Cut(read("args"), "--mcp-config=")
	want := `--print --input-format=stream-json --output-format=stream-json --verbose --strict-mcp-config ` +
		`--resume=11111111-2222-4333-8444-555555555555 --model=m --fallback-model=f,g
--permission-mode=dontAsk --max-turns=3 --tools=Bash,Read --allowed-tools=Bash(git log *) --allowed-tools=Read ` +
		`--allowed-tools=mcp__a --allowed-tools=mcp__b --disallowed-tools=Write
--setting-sources=user,local --add-dir=/a b`
	if got := strings.TrimSpace(strings.ReplaceAll(args, "\n", " ")); got != strings.ReplaceAll(want, "\n", " ") {
		t.Errorf("arguments\ngot  %s\nwant %s", got, want)
	}
	if _, err := os.Stat(strings.TrimSpace(file)); err == nil || read("mode") != "600\n" {
		t.Errorf("the servers' file %s is left, or had the mode %s", file, read("mode"))
	}
	want = `{"mcpServers":{"a":{"type":"stdio","command":"--x","args":["-y"]},"b":{"type":"sse","url":"http://h"}}}`
	if got := read("servers"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, want := range []string{`"systemPrompt":"--be \"so\""`, `"systemPromptSnapshot":false`,
		`{"type":"text","text":"--resume @/etc/passwd"},{"type":"text"`} {
		if !strings.Contains(read("stdin"), want) {
			t.Errorf("stdin %s, want %s", read("stdin"), want)
		}
	}
	for _, want := range []string{"CLAUDE_CODE_MAX_RETRIES=2\n", "DISABLE_AUTOUPDATER=0\n"} {
		if env := read("env"); !strings.Contains(env, want) || strings.Contains(env, "=other\n") {
			t.Errorf("environment %s, want %s", env, want)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, tt := range []struct{ config, blueprint, want string }{
		{`{"colour":1}`, ``, `executor_config: Unknown field \"colour\"; known are claude, model, fallback_model`},
		{`{"model":"--resume"}`, ``, `executor_config.model \"--resume\" must not begin with '-'`},
		{`{"model":"a\nb"}`, ``, `executor_config.model \"a\\nb\" must not contain control characters`},
		{`{"allowed_tools":["Read"," -x"]}`, ``, `executor_config.allowed_tools[1] \" -x\" must not begin with '-'`},
		{`{"add_dirs":[""]}`, ``, `executor_config.add_dirs[0] must not be empty`},
		{`{"permission_mode":"all"}`,
			``, `executor_config.permission_mode \"all\" must be one of default, acceptEdits`},
		{`{"system_prompt_mode":"x"}`, ``, `executor_config.system_prompt_mode \"x\" must be one of append, replace`},
		{`{"setting_sources":["all"]}`,
			``, `executor_config.setting_sources[0] \"all\" must be one of user, project, local`},
		{`{"max_turns":-1}`, ``, `executor_config.max_turns must be at least 1`},
		{`{"max_retries":99}`, ``, `executor_config.max_retries must be from 0 to 15`},
		{`{"claude":"./claude"}`,
			``, `executor_config.claude \"./claude\" must be the name of a program on PATH or an absolute path`},
		{`{"claude":"no-such-claude"}`,
			``,
			`"error":"claude_not_found","message":"Claude Code is not installed on this host: no program ` +
				`\"no-such-claude\". Install it (npm install -g @anthropic-ai/claude-code)`},
		{`{"claude":"/no/such/claude"}`, ``, `"error":"claude_not_found"`},
		{``, `{"mcp_servers":{"a b":{"url":"http://h"}}}`, `mcp_servers.a b must have a name of`},
		{``, `{"mcp_servers":{"a":{}}}`, `mcp_servers.a needs a command (stdio) or a url`},
		{``, `{"mcp_servers":{"a":{"url":1}}}`, `mcp_servers.a must be an object like`},
		{``, `{"mcp_servers":{"a":{"type":"ws","url":"x"}}}`,
			`mcp_servers.a has the type \"ws\"; it must be http, sse or stdio`},
		{``, `{"mcp_servers":[]}`, `mcp_servers must be an object`},
	} {
		inv, host, _ := turn(t, "", "", "Hello", tt.blueprint, tt.config)
		if got := outcomeText(unconfined.Run(t.Context(), inv, host)); !strings.HasPrefix(got, "failed {") ||
			!strings.Contains(got, tt.want) {
			t.Errorf("%s %s: got %s, want %s", tt.config, tt.blueprint, got, tt.want)
		}
	}
	inv, host, _ := turn(t, fakeClaude(t, ""), "", "Hello", "", "")
	inv.Mode = executor.Resume
	for session, want := range map[string]string{"": `"error":"claude_session_gone"`,
		"--model": `executor_session_id \"--model\" is not the id of a Claude Code session`} {
		inv.ExecutorSession = session
		if got := outcomeText(unconfined.Run(t.Context(), inv, host)); !strings.Contains(got, want) {
			t.Errorf("session %q: got %s, want %s", session, got, want)
		}
	}
}

// TestBadOutput: a claude that prints too much, nothing, or half a line, and one that would retry after the time
// limit.
func TestBadOutput(t *testing.T) {
	init := `echo '{"type":"system","subtype":"init","session_id":"s"}'` + "\n"
	for _, tt := range []struct{ name, script, want, heard string }{
		{"nothing",
			"",
			`failed {"error":"claude_failed","message":"Claude Code ended without a result: Process exited with code ` +
				`0","exit_code":0}`, ""},
		{"why on stderr", init + "echo 'out of memory' >&2; exit 9",
			`failed {"error":"claude_failed","message":"Claude Code ended without a result: out of memory",` +
				`"exit_code":9}`, `bind {"type":"bind","executor_session_id":"s"}`},
		{"half a line", init + `printf '{"type":"result","subtype":"succ'; kill -9 $$`,
			`failed {"error":"claude_failed","message":"Claude Code ended without a result: {\"type\":\"result\",` +
				`\"subtype\":\"succ","exit_code":137}`, "bind"},
		{"lines that are none",
			"echo hello; echo '[]'; echo '{\"type\":7}'; echo '{\"type\":\"assistant\",\"message\":3}'; echo " +
				"'{\"type\":\"user\"}'\n" +
				`echo '{"type":"result","subtype":"success","is_error":false,"result":"fine"}'`, "completed | fine",
			"metadata"},
		{"a server that is late",
			`echo '{"type":"system","subtype":"init","session_id":"s","mcp_servers":[{"name":"late",` +
				`"status":"pending"}]}'` + "\n" +
				`echo '{"type":"result","subtype":"success","is_error":false,"result":"fine"}'`, "completed | fine",
			`the MCP server \"late\" cannot be used: it has not answered yet`},
		{"too old", `echo "error: unknown option '--strict-mcp-config'" >&2; exit 1`,
			"too old for the profile's config", ""},
		{"a wait beyond the end",
			init +
				`echo '{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":90000,` +
				`"error_status":429,"error":"rate_limit"}'; sleep 100`,
			`failed {"error":"claude_rate_limited","message":"the API answered 429 Too Many Requests, and Claude ` +
				`Code would retry only after the run's time limit. Resume the session in 1m30s",` +
				`"retry_after_seconds":90,"api_status":429}`, ""},
		{"much", init + `printf '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"1",` +
			`"name":"Write","input":{"file":"a","text":"'; head -c 3000000 /dev/zero | tr '\0' x; echo '"}}]}}'
printf '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text",` +
			`"text":"'; yes "\u0001" | head -n 300000 | tr -d "\n"; echo '"},{"type":"image"}]}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"fine"}'`, "completed | fine",
			`{"tool_name":"Write","tool_input":{"file":"a","text":"xxx`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inv, host, h := turn(t, fakeClaude(t, "cat >/dev/null\n"+tt.script), "", "Hello", "", "")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if got := outcomeText(unconfined.Run(ctx, inv, host)); !strings.Contains(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if all := strings.Join(h.all(), "\n"); !strings.Contains(all, tt.heard) {
				t.Errorf("reported %.2000s, want %s", all, tt.heard)
			}
			cut := 0
			for _, l := range h.all() {
				if len(l) > 512<<10-1<<10 {
					t.Errorf("an event of %d bytes", len(l))
				}
				cut += strings.Count(l, " bytes cut …]")
			}
			if tt.name == "much" && cut != 3 { // twice the input, once the output
				t.Errorf("cut is said %d times", cut)
			}
		})
	}
}

// TestLimitsInWords: Claude Code tells some limits only in words.
func TestLimitsInWords(t *testing.T) {
	for said, want := range map[string]string{
		"You've hit your session limit · resets 6:50pm (UTC)":  `"claude_rate_limited"`,
		"You've hit your limit · resets 3:30am (Asia/Kolkata)": `"claude_rate_limited"`,
		"You've hit your Opus 4 limit":                         `"claude_rate_limited"`,
		"Claude AI usage limit reached|1790000000":             `"claude_rate_limited"`,
		"5-hour limit reached ∙ resets 3pm":                    `"claude_rate_limited"`,
		`API Error: 529 {"type":"error"}`:                      `"claude_overloaded"`,
		"API Error: 401 Invalid bearer token":                  `"claude_not_logged_in"`,
		"API Error: 5290":                                      `"claude_failed"`,
		"Context limit reached · /compact or /clear to go on":  `"claude_failed"`,
		"I wrote that you hit the limit":                       `"claude_failed"`,
		"Your page says: You've hit your session limit":        `"claude_failed"`,
		"The text 'usage limit reached' is now translated":     `"claude_failed"`,
	} {
		for failed, want := range map[bool]string{true: "failed {\"error\":" + want, false: "completed | "} {
			line := fmt.Sprintf(`{"type":"result","subtype":"success","is_error":%t,"result":%q}`, failed, said)
			script := "cat >/dev/null\ncat <<'END'\n" + line + "\nEND\n"
			inv, host, _ := turn(t, fakeClaude(t, script), "", "Hello", "", "")
			if got := outcomeText(unconfined.Run(t.Context(), inv, host)); !strings.HasPrefix(got, want) {
				t.Errorf("%s: got %s, want %s", said, got, want)
			}
		}
	}
}

// TestStopDuringAnswer stops a claude that ignores it and has a child.
func TestStopDuringAnswer(t *testing.T) {
	inv, host, h := turn(t, fakeClaude(t, `trap "" TERM
cat >/dev/null; sleep 1000 & echo $! >pid
echo '{"type":"system","subtype":"init","session_id":"s"}'
while :; do sleep 1; done`), "", "Hello", "", "")
	ctx, cancel := context.WithCancel(t.Context())
	h.tell = func(string, json.RawMessage) { cancel() }
	if got := outcomeText(unconfined.Run(ctx, inv, host)); got != string(run.Stopped) {
		t.Errorf("got %s", got)
	}
	raw, _ := os.ReadFile(filepath.Join(inv.ProjectDir, "pid"))
	if pid, _ := strconv.Atoi(strings.TrimSpace(string(raw))); pid == 0 || syscall.Kill(pid, 0) == nil {
		t.Errorf("%q is left", raw)
	}
}

// TestStopReportedByClaude: claude's own report of a stop is not the run's end; its text before it is kept.
func TestStopReportedByClaude(t *testing.T) {
	for _, tt := range []struct{ first, late, want string }{
		{"", `{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["Interrupted"]}`,
			"stopped | Half"},
		{"", `{"type":"result","subtype":"success","is_error":false,"result":"Done"}`, "completed | Done"},
		{`{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Too many"]}`, "",
			`failed {"error":"claude_max_turns"`},
	} {
		inv, host, h := turn(t, fakeClaude(t, `late() { echo '`+tt.late+`'; exit 1; }
trap late TERM
exec 2>/dev/null # where the shell reports its sleep
cat >/dev/null
echo '`+tt.first+`'
echo '{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"Half"}]}}'
while :; do sleep 0.05; done`), "", "Hello", "", "")
		ctx, cancel := context.WithCancel(t.Context())
		h.tell = func(kind string, _ json.RawMessage) {
			if kind == run.EventMessage {
				cancel()
			}
		}
		if got := outcomeText(unconfined.Run(ctx, inv, host)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		cancel()
	}
}

// TestAnEmptyListIsNotAll: an empty list of tools means none, and an empty list of settings reads none.
func TestAnEmptyListIsNotAll(t *testing.T) {
	inv, host, _ := turn(t,
		fakeClaude(t,
			`cat >/dev/null; for a in "$@"; do echo "$a"; done >args; echo '{"type":"result","subtype":"success",`+
				`"is_error":false,"result":"ok"}'`),
		"", "Hello", "", `{"tools":[],"setting_sources":[],"allowed_tools":[],"add_dirs":[]}`)
	if got := outcomeText(unconfined.Run(t.Context(), inv, host)); got != "completed | ok" {
		t.Fatal(got)
	}
	raw, _ := os.ReadFile(filepath.Join(inv.ProjectDir, "args"))
	if got := string(raw); !strings.Contains(got, "\n--tools=\n--setting-sources=\n") ||
		strings.Contains(got, "--allowed-tools") || strings.Contains(got, "--add-dir") {
		t.Errorf("arguments %s", got)
	}
}

// TestAgentModelAndTurns: the agent's model is used, and its max_turns if the profile has no lower one.
func TestAgentModelAndTurns(t *testing.T) {
	for _, tt := range []struct{ blueprint, config, want string }{
		{`{"model":"b","max_turns":3}`, `{"model":"p","max_turns":5}`, "--model=b --max-turns=3"},
		{`{"model":"b","max_turns":7}`, `{"max_turns":5}`, "--model=b --max-turns=5"},
		{`{"max_turns":7}`, `{"model":"p"}`, "--model=p --max-turns=7"},
		{`{"model":"--x"}`,
			`{}`,
			`failed {"error":"invalid_request","message":"agent_blueprint.model \"--x\" is not the name of a model"`},
	} {
		inv, host, _ := turn(t,
			fakeClaude(t,
				`cat >/dev/null; for a in "$@"; do case "$a" in --m[ao]*) printf '%s ' "$a" >>args;; esac; done; `+
					`echo '{"type":"result","subtype":"success","is_error":false,"result":"ok"}'`),
			"", "Hello", tt.blueprint, tt.config)
		got := outcomeText(unconfined.Run(t.Context(), inv, host))
		if raw, err := os.ReadFile(filepath.Join(inv.ProjectDir, "args")); err == nil {
			got = string(raw)
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s in %s: got %s, want %s", tt.blueprint, tt.config, got, tt.want)
		}
	}
}
