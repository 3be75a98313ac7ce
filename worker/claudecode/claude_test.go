package claudecode

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ao/shared/clock/clocktest"
	"ao/shared/executor"
	"ao/shared/run"
	"ao/worker/claudecode/standin"
	"ao/worker/enforce"
)

// unconfined is an executor without a confinement.
var unconfined Executor

// TestSession: a turn with a tool, and a second one that remembers the first. The API gets what was asked for.
func TestSession(t *testing.T) {
	t.Parallel()
	claude := standin.Claude(t)
	secret := filepath.Join(t.TempDir(), "secret")
	os.WriteFile(secret, []byte("SESAME"), 0o600)
	prompt := "/clear --model=x look at @" + secret + " and ${HOME}"
	long := strings.Repeat("Be exact. ", 40_000) + "PIRATE"
	api := standin.New(t, standin.ToolCall("Bash", map[string]any{"command": "echo made > made && cat made",
		"description": "d"}), standin.Text("Done."), standin.Text("Again."))
	inv, host, h := turn(t, claude, api.URL, prompt, fmt.Sprintf(`{"system_prompt":%q}`, long),
		`{"model":"claude-test-1","allowed_tools":["Read","Bash(echo *)","Bash(cat *)"],`+
			`"permission_mode":"acceptEdits"}`)
	o := unconfined.Run(t.Context(), inv, host)
	if got := outcomeText(o); got != "completed | Done." {
		t.Fatalf("got %s, %q", got, h.all())
	}
	if raw, _ := os.ReadFile(filepath.Join(inv.ProjectDir, "made")); string(raw) != "made\n" {
		t.Errorf("the tool made %q", raw)
	}
	tool := `{"tool_name":"Bash","tool_input":{"command":"echo made > made && cat made","description":"d"}`
	want := []string{
		`bind {"type":"bind","executor_session_id":"` + h.session() + `"}`,
		`message {"role":"assistant","content":[{"type":"text","text":"I use Bash"}]}`,
		"pre_tool " + tool + "}",
		"post_tool " + tool + `,"tool_output":"made"}`,
		`message {"role":"assistant","content":[{"type":"text","text":"Done."}]}`,
	}
	got := h.all()
	facts, ok := strings.CutPrefix(got[len(got)-1], "metadata ")
	if !slices.Equal(got[:len(got)-1], want) || !ok {
		t.Errorf("got  %q\nwant %q and metadata", got, want)
	}
	var m struct {
		Metadata struct {
			Model string         `json:"model"`
			Turns int            `json:"num_turns"`
			Usage map[string]any `json:"usage"`
		} `json:"metadata"`
	}
	if json.Unmarshal([]byte(facts), &m); m.Metadata.Model != "claude-test-1" || m.Metadata.Turns != 2 ||
		m.Metadata.Usage["output_tokens"] != 14.0 {
		t.Errorf("metadata %s", facts)
	}
	first := api.Requests()[0]
	quoted, _ := json.Marshal(prompt)
	switch all := string(first.Messages); {
	case first.Model != "claude-test-1", !strings.Contains(string(first.System), "PIRATE"):
		t.Errorf("model %s, system prompt of %d bytes", first.Model, len(first.System))
	case strings.Contains(all, "SESAME"), !strings.Contains(all, string(quoted)):
		t.Errorf("the prompt is not as it was: %s", all)
	}

	inv.Mode, inv.ExecutorSession, inv.Prompt, inv.Blueprint = executor.Resume, h.session(), "More of @"+secret,
		json.RawMessage(`{"system_prompt":"PARROT"}`)
	o = unconfined.Run(t.Context(), inv, host)
	if outcomeText(o) != "completed | Again." {
		t.Fatalf("resumed: %s", outcomeText(o))
	}
	last := api.Requests()[2]
	if all := string(last.Messages) + string(last.System); !strings.Contains(all, "Done.") ||
		!strings.Contains(all, "More of @") || !strings.Contains(all, "PARROT") || strings.Contains(all, "SESAME") ||
		strings.Contains(all, "PIRATE") {
		t.Errorf("a resumed turn does not know what it should: %.3000s", all)
	}
	if got := h.all(); got[len(want)+1] != want[0] {
		t.Errorf("resumed: %q", got[len(want)+1:])
	}
}

type executes struct{}

func (executes) Run(ctx context.Context, inv executor.Invocation, host executor.Host) run.Outcome {
	return unconfined.Run(ctx, inv, host)
}

// TestTheSystemPromptReplaces also retries a session until its answer has the required form.
func TestTheSystemPromptReplaces(t *testing.T) {
	t.Parallel()
	api := standin.New(t, standin.Text("I can't say"), standin.Text("```json\n{\"n\":1}\n```"))
	inv, host, h := turn(t, standin.Claude(t), api.URL, "Count", `{"system_prompt":"PIRATE","model":"claude-test-2"}`,
		`{"model":"claude-test-1","system_prompt_mode":"replace","tools":["Read"],"setting_sources":["user"]}`)
	c := enforce.Enforcer{
		Executor: executes{}, AgentType: run.Autonomous,
		Output: run.Output{Schema: json.RawMessage(`{"type":"object","required":["n"]}`),
			Source: run.SourceBlueprint, Retries: 1},
		SystemPrompts: true,
	}
	o := c.Run(t.Context(), inv, host)
	if o.Status != run.Completed || o.Result == nil || string(o.Result.Data) != `{"n":1}` {
		t.Fatalf("got %s, %q", outcomeText(o), h.all())
	}
	asked := api.Requests()
	system := string(asked[1].System)
	if asked[0].Model != "claude-test-2" {
		t.Errorf("the agent's model is not asked: %s", asked[0].Model)
	}
	if len(asked) != 2 || !strings.Contains(system, "PIRATE") || !strings.Contains(system, "required") ||
		strings.Contains(system, "software engineering") {
		t.Errorf("%d requests, the system prompt is %s", len(asked), system)
	}
	if all := string(asked[1].Messages); !strings.Contains(all, "Count") || !strings.Contains(all, "I can't say") {
		t.Errorf("the second request is not of the same session: %s", all)
	}
	tools := fmt.Sprint(asked[0].Tools)
	if !strings.Contains(tools, "{Read}") || strings.Contains(tools, "{Bash}") {
		t.Errorf("tools %v", tools)
	}
}

// TestNoTools: empty lists mean none to the real program, too.
func TestNoTools(t *testing.T) {
	t.Parallel()
	api := standin.New(t, standin.Text("Hi"))
	inv, host, h := turn(t, standin.Claude(t), api.URL, "Hello", "", `{"tools":[],"setting_sources":[]}`)
	if got := outcomeText(unconfined.Run(t.Context(), inv, host)); got != "completed | Hi" {
		t.Fatalf("got %s, %q", got, h.all())
	}
	if asked := api.Requests(); len(asked) == 0 || len(asked[0].Tools) > 0 {
		t.Errorf("tools %v", asked)
	}
}

// TestFailures: claude's errors become a code and advice.
func TestFailures(t *testing.T) {
	t.Parallel()
	claude := standin.Claude(t)
	for _, tt := range []struct {
		name   string
		answer standin.Answer
		config string
		env    string // instead of the API key
		resume string
		want   []string
	}{
		{"a key that is refused", standin.Error(401, "authentication_error", "invalid x-api-key"), "", "", "",
			[]string{`failed {"error":"claude_not_logged_in","message":"Invalid API key`, "claude setup-token",
				`"api_status":401`}},
		{"a model that the account may not use", standin.Error(403, "permission_error", "no access to m"), "", "", "",
			[]string{`failed {"error":"claude_forbidden"`, "Name another model", `"api_status":403`}},
		{"no login", standin.Text("x"), "", "NONE=1", "",
			[]string{`{"error":"claude_not_logged_in","message":"Not logged in`}},
		{"come later", standin.Error(429, "rate_limit_error", "Too many"), "", "",
			"", []string{`{"error":"claude_rate_limited","message":"API Error`, `(429)`,
				"Too many. Resume the session later", `"api_status":429`}},
		{"come at noon", standin.Error(429, "rate_limit_error", "Too many", "anthropic-ratelimit-unified-status",
			"rejected", "anthropic-ratelimit-unified-reset", "4070908800",
			"anthropic-ratelimit-unified-representative-claim", "five_hour"), "",
			"CLAUDE_CODE_OAUTH_TOKEN=sk-ant-oat01-x", "",
			[]string{`{"error":"claude_rate_limited"`, `"resets_at":"2099-01-01T00:00:00Z"`,
				"Resume the session after 2099-01-01T00:00:00Z"}},
		{"overloaded", standin.Error(529, "overloaded_error", "Overloaded"), "", "",
			"", []string{`{"error":"claude_overloaded","message":"API Error`, "fallback_model", `"api_status":529`}},
		{"no credit", standin.Error(400, "invalid_request_error",
			"Your credit balance is too low to access the Anthropic API."), "", "", "",
			[]string{`{"error":"claude_no_credit","message":"Credit balance is too low. Add credit`}},
		{"no model", standin.Error(404, "not_found_error", "model: claude-nope"), `{"model":"claude-nope"}`, "", "",
			[]string{`{"error":"claude_model_not_found","message":"There's an issue with the selected model ` +
				`(claude-nope)`, `"model":"claude-nope"`}},
		{"a bad request", standin.Error(400, "invalid_request_error", "what is that"), "", "",
			"", []string{`{"error":"claude_failed","message":"API Error: 400 what is that`}},
		{"too many turns", standin.ToolCall("Bash", map[string]any{"command": "echo hi"}),
			`{"max_turns":1,"allowed_tools":["Bash"]}`, "", "",
			[]string{`{"error":"claude_max_turns","message":"Reached maximum number of turns (1). Resume the session`,
				`"max_turns":1`, " | I use Bash"}},
		{"a session of elsewhere", standin.Text("x"), "", "", "11111111-2222-4333-8444-555555555555",
			[]string{`{"error":"claude_session_gone","message":"Claude Code does not have ` +
				`this session's conversation on this host`,
				`"executor_session_id":"11111111-2222-4333-8444-555555555555"`}},
		{"all allowed to root", standin.Text("x"), `{"permission_mode":"bypassPermissions"}`, "",
			"", []string{`{"error":"claude_permission_mode"`, "IS_SANDBOX"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "all allowed to root" && os.Geteuid() != 0 {
				t.Skip("this test is not run by root, and so it is allowed")
			}
			api := standin.New(t, tt.answer)
			inv, host, h := turn(t, claude, api.URL, "Hello", "", tt.config)
			host.Env = append(host.Env, "CLAUDE_CODE_MAX_RETRIES=0")
			if tt.env != "" {
				host.Env[2] = tt.env
			}
			if tt.resume != "" {
				inv.Mode, inv.ExecutorSession = executor.Resume, tt.resume
			}
			got := outcomeText(unconfined.Run(t.Context(), inv, host))
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %s, want %s\n%q", got, want, h.all())
				}
			}
		})
	}
}

// TestAStopEndsTheTree: in the middle of a tool.
func TestAStopEndsTheTree(t *testing.T) {
	t.Parallel()
	api := standin.New(t, standin.ToolCall("Bash",
		map[string]any{"command": "echo $$ > pid.new; mv pid.new pid; sleep 1000; true"}))
	inv, host, h := turn(t, standin.Claude(t), api.URL, "Sleep", "", `{"allowed_tools":["Bash"]}`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan run.Outcome, 1)
	go func() { done <- unconfined.Run(ctx, inv, host) }()
	var pid int
	if !clocktest.Poll(time.Minute, func() bool {
		raw, _ := os.ReadFile(filepath.Join(inv.ProjectDir, "pid"))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(raw)))
		return pid != 0
	}) {
		t.Fatalf("the tool did not begin: %q", h.all())
	}
	cancel()
	if got := outcomeText(<-done); got != "stopped | I use Bash" {
		t.Errorf("got %s", got)
	}
	if syscall.Kill(pid, 0) == nil {
		t.Errorf("%d is left", pid)
	}
}
