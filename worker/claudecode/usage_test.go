package claudecode

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"ao/shared/executor"
	"ao/worker/claudecode/standin"
)

// facts is the usage in a turn's metadata.
type facts struct {
	Cost    float64 `json:"total_cost_usd"`
	API     float64 `json:"duration_api_ms"`
	ByModel map[string]struct {
		Input  float64 `json:"inputTokens"`
		Output float64 `json:"outputTokens"`
		Cost   float64 `json:"costUSD"`
		Window float64 `json:"contextWindow"`
	} `json:"model_usage"`
	Denials []struct {
		Tool  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
}

// facts returns the metadata of each turn.
func (h *recorder) facts(t *testing.T) (all []facts) {
	t.Helper()
	for _, l := range h.all() {
		if raw, ok := strings.CutPrefix(l, "metadata "); ok {
			var m struct{ Metadata facts }
			if err := json.Unmarshal([]byte(raw), &m); err != nil {
				t.Fatalf("%v in %s", err, raw)
			}
			all = append(all, m.Metadata)
		}
	}
	return all
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// TestTheCostOfATurn: each turn reports its own cost, also with a version of claude that counts all turns of a
// session.
func TestTheCostOfATurn(t *testing.T) {
	t.Parallel()
	standin.Each(t, func(t *testing.T, claude string) {
		api := standin.New(t, standin.Text("One."), standin.Text("Two."),
			standin.ToolCall("Bash", map[string]any{"command": "touch /etc/x"}), standin.Text("Three."))
		inv, host, h := turn(t, claude, api.URL, "Hello", "", `{"model":"claude-sonnet-4-5"}`)
		for i, model := range []string{"claude-sonnet-4-5", "claude-sonnet-4-5", "claude-opus-4-8"} {
			inv.Config = json.RawMessage(fmt.Sprintf(`{"claude":%q,"model":%q}`, claude, model))
			if o := unconfined.Run(t.Context(), inv, host); o.Status != "completed" {
				t.Fatalf("turn %d: %s", i, outcomeText(o))
			}
			inv.Mode, inv.ExecutorSession = executor.Resume, h.session()
		}
		all := h.facts(t)
		if len(all) != 3 {
			t.Fatalf("%d turns reported: %q", len(all), h.all())
		}
		for i, requests := range []float64{1, 1, 2} {
			f, model := all[i], []string{"claude-sonnet-4-5", "claude-sonnet-4-5", "claude-opus-4-8"}[i]
			u := f.ByModel[model]
			if len(f.ByModel) != 1 || u.Input != 10*requests || u.Output != 7*requests || !near(u.Cost, f.Cost) ||
				f.Cost <= 0 || u.Window < 1000 {
				t.Errorf("turn %d, which asked %s %v times, tells %+v", i, model, requests, f)
			}
		}
		if !near(all[0].Cost, all[1].Cost) {
			t.Errorf("two turns alike cost %v and %v", all[0].Cost, all[1].Cost)
		}
		if d := all[2].Denials; len(all[0].Denials)+len(all[1].Denials) > 0 || len(d) != 1 || d[0].Tool != "Bash" ||
			!strings.Contains(string(d[0].Input), "touch /etc/x") {
			t.Errorf("denials: %+v", all)
		}
	})
}

// TestTheCostOfARecordedTurn replays a session's second turn, with another model than the first, from two versions.
func TestTheCostOfARecordedTurn(t *testing.T) {
	for version, api := range map[string]float64{"2.1.197": 275, "2.1.332": 3286 - 347} {
		file, err := filepath.Abs(filepath.Join("testdata", version, "resumed.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		inv, host, h := turn(t, fakeClaude(t, fmt.Sprintf("cat >stdin\ncat '%s'", file)), "", "More", "", "")
		inv.Mode, inv.ExecutorSession = executor.Resume, "00000000-0000-4000-8000-000000000001"
		if got := outcomeText(unconfined.Run(t.Context(), inv, host)); got != "completed | Fine." {
			t.Fatal(got)
		}
		f := h.facts(t)[0]
		if u := f.ByModel["claude-opus-4-8"]; !near(f.Cost, 0.015) || f.API != api || len(f.ByModel) != 1 ||
			u.Input != 2000 || u.Output != 200 || !near(u.Cost, 0.015) || len(f.Denials) != 1 {
			t.Errorf("%s: %+v", version, f)
		}
	}
}

// TestUsageNotCounted: usage is subtracted only if claude reported it as counted before, and never below zero.
func TestUsageNotCounted(t *testing.T) {
	const result = `{"type":"result","subtype":"success","is_error":false,"result":"ok","total_cost_usd":0.5,` +
		`"duration_api_ms":10,"modelUsage":{"m":{"inputTokens":5,"costUSD":0.5,"contextWindow":9000}},` +
		`"permission_denials":[]}`
	for _, tt := range []struct{ answer, want string }{
		{`{"type":"control_response","response":{"subtype":"error","request_id":"2","error":"Unknown request"}}`,
			`"duration_api_ms":10,"total_cost_usd":0.5,"model_usage":{"m":{"inputTokens":5,"costUSD":0.5,` +
				`"contextWindow":9000}},"permission_denials":[]}`},
		{`{"type":"control_response","response":{"subtype":"success","request_id":"2",` +
			`"response":{"session":{"total_cost_usd":0.7,"total_api_duration_ms":5,` +
			`"model_usage":{"m":{"inputTokens":3}}}}}}`,
			`"duration_api_ms":10,"total_cost_usd":0.5,"model_usage":{"m":{"inputTokens":5,"costUSD":0.5,` +
				`"contextWindow":9000}},"permission_denials":[]}`},
		{`{"type":"control_response","response":{"subtype":"success","request_id":"2",` +
			`"response":{"session":{"total_cost_usd":0.2,"total_api_duration_ms":4,` +
			`"model_usage":{"m":{"inputTokens":3,"costUSD":0.2,"contextWindow":9000}}}}}}`,
			`"duration_api_ms":6,"total_cost_usd":0.3,"model_usage":{"m":{"inputTokens":2,"costUSD":0.3,` +
				`"contextWindow":9000}},"permission_denials":[]}`},
	} {
		inv, host, h := turn(t, fakeClaude(t, "cat >stdin\necho '"+tt.answer+"'\necho '"+result+"'"), "", "More", "",
			"")
		inv.Mode, inv.ExecutorSession = executor.Resume, "00000000-0000-4000-8000-000000000001"
		unconfined.Run(t.Context(), inv, host)
		if got := strings.Join(h.all(), "\n"); !strings.Contains(got, tt.want) {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// TestManyDenials: too many and too large denials for an event.
func TestManyDenials(t *testing.T) {
	inv, host, h := turn(t, fakeClaude(t, `cat >/dev/null
{ printf '{"type":"result","subtype":"success","is_error":false,"result":"ok","permission_denials":['; for i in `+
		`$(seq 300); do
printf '{"tool_name":"Write","tool_use_id":"t","tool_input":{"content":"%08000d"}},' 7; done; echo `+
		`'{"tool_name":"Last","tool_input":{}}]}'; }`), "", "Hello", "", "")
	unconfined.Run(t.Context(), inv, host)
	raw := h.all()[len(h.all())-1]
	if f := h.facts(t)[0]; len(f.Denials) != maxDenials || f.Denials[0].Tool != "Write" || len(raw) > 128<<10 ||
		!strings.Contains(raw, `"permission_denials_left_out":251`) {
		t.Errorf("%d denials in %d bytes: %.300s", len(f.Denials), len(raw), raw)
	}
}
