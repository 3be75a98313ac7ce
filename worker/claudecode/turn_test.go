package claudecode

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ao/shared/executor"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// fakeClaude is a claude program in sh.
func fakeClaude(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "claude")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// recorder keeps an executor's events as text, one line each.
type recorder struct {
	mu    sync.Mutex
	lines []string
	tell  func(kind string, body json.RawMessage) // called, too; may be nil
}

func (h *recorder) record(kind string, body json.RawMessage) {
	h.mu.Lock()
	h.lines = append(h.lines, kind+" "+string(body))
	h.mu.Unlock()
	if h.tell != nil {
		h.tell(kind, body)
	}
}

func (h *recorder) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.lines...)
}

// session returns the bound session id of claude.
func (h *recorder) session() string {
	for _, l := range h.all() {
		if raw, ok := strings.CutPrefix(l, executor.LineBind+" "); ok {
			b, _, _ := executor.ReadLine([]byte(raw))
			return b.Session
		}
	}
	return ""
}

// turn returns the invocation and host of a run, with an empty home.
func turn(t *testing.T, claude, api, prompt, blueprint, config string) (executor.Invocation, executor.Host, *recorder) {
	t.Helper()
	var members []strictjson.Member
	if config != "" {
		var err error
		members, err = strictjson.Members(json.RawMessage(config))
		if err != nil {
			t.Fatal(err)
		}
	}
	if claude != "" {
		raw, _ := json.Marshal(claude)
		members = append(members, strictjson.Member{Key: "claude", Value: raw})
	}
	if blueprint == "" {
		blueprint = "{}"
	}
	h := &recorder{}
	home, dir := t.TempDir(), t.TempDir()
	return executor.Invocation{
			SchemaVersion: executor.Version, Mode: executor.Start, SessionID: "ses_1", RunID: "run_1", AgentName: "any",
			Prompt: prompt, ProjectDir: dir,
			Parameters: json.RawMessage(`{"prompt":"x"}`), Blueprint: json.RawMessage(blueprint),
			Config: strictjson.Object(members),
		}, executor.Host{Emit: h.record, Env: []string{
			"HOME=" + home, "PATH=" + os.Getenv("PATH"), "ANTHROPIC_API_KEY=sk-test", "ANTHROPIC_BASE_URL=" + api,
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		}}, h
}

// outcomeText returns an outcome as text.
func outcomeText(o run.Outcome) string {
	text := string(o.Status)
	if o.Error != nil {
		raw, _ := strictjson.Encode(o.Error)
		text += " " + string(raw)
	}
	if o.Result != nil && o.Result.Text != nil {
		text += " | " + *o.Result.Text
	}
	return text
}
