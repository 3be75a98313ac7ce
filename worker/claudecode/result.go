package claudecode

import "encoding/json"

type resultLine struct {
	Subtype  string          `json:"subtype"`
	Failed   bool            `json:"is_error"`
	Text     *string         `json:"result"`
	Errors   []string        `json:"errors"`
	Status   int             `json:"api_error_status"`
	Turns    json.RawMessage `json:"num_turns"`
	Duration json.RawMessage `json:"duration_ms"`
	API      json.RawMessage `json:"duration_api_ms"`
	Cost     json.RawMessage `json:"total_cost_usd"`
	Usage    json.RawMessage `json:"usage"`
	ByModel  json.RawMessage `json:"modelUsage"`
	Denials  json.RawMessage `json:"permission_denials"`
}
