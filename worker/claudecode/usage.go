package claudecode

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"ao/shared/strictjson"
)

// usageRequest asks claude for the session's usage so far. Newer versions continue counting where the session's last
// process ended, older ones start at zero. So the cost of a turn is the result's usage minus the usage before it.
// Claude answers before it takes the prompt.
const usageRequestID = "2"

var usageRequest = map[string]any{"type": "control_request", "request_id": usageRequestID,
	"request": map[string]any{"subtype": "get_usage", "skip_behaviors": true}}

// sessionUsage is a session's usage before the turn. Zero: none, or unknown.
type sessionUsage struct {
	Cost    float64                               `json:"total_cost_usd"`
	API     float64                               `json:"total_api_duration_ms"`
	ByModel map[string]map[string]json.RawMessage `json:"model_usage"`
}

// subtract returns the result with the turn's own numbers. A result with less than the usage before does not include
// that.
func (l resultLine) subtract(before sessionUsage) resultLine {
	if cost, ok := number(l.Cost); !ok || cost < before.Cost {
		return l
	}
	l.Cost, l.API = subtract(l.Cost, before.Cost), subtract(l.API, before.API)
	models, err := strictjson.Members(l.ByModel)
	if err != nil {
		return l
	}
	var used []strictjson.Member
	for _, m := range models {
		if rest, any := before.subtractFrom(m); any {
			used = append(used, strictjson.Member{Key: m.Key, Value: rest})
		}
	}
	l.ByModel = strictjson.Object(used)
	return l
}

// limitFields are the members of a model's usage that are no counters.
var limitFields = []string{"contextWindow", "maxOutputTokens"}

// subtractFrom returns a model's usage minus the usage before; used: there is any.
func (c sessionUsage) subtractFrom(model strictjson.Member) (rest json.RawMessage, used bool) {
	before, again := c.ByModel[model.Key]
	members, err := strictjson.Members(model.Value)
	if err != nil || !again {
		return model.Value, true
	}
	for i, m := range members {
		if slices.Contains(limitFields, m.Key) {
			continue
		}
		if then, ok := number(before[m.Key]); ok {
			members[i].Value = subtract(m.Value, then)
		}
		n, _ := number(members[i].Value)
		used = used || n > 0
	}
	return strictjson.Object(members), used
}

func number(raw json.RawMessage) (n float64, ok bool) {
	return n, len(raw) > 0 && json.Unmarshal(raw, &n) == nil
}

// subtract returns a counter minus its value before.
func subtract(raw json.RawMessage, before float64) json.RawMessage {
	n, ok := number(raw)
	if !ok || before <= 0 || n < before {
		return raw
	}
	const most = 1e9 // ignore billionths of a dollar
	return json.RawMessage(strconv.FormatFloat(math.Round((n-before)*most)/most, 'f', -1, 64))
}

// Limits of permission denials in metadata: how many, and the bytes of each input.
const (
	maxDenials     = 50
	maxDenialInput = 1 << 10
)

// denials returns the denied tool calls, cut to fit an event, and how many more there were.
func denials(raw json.RawMessage) (list json.RawMessage, more int) {
	var all []struct {
		Tool  string          `json:"tool_name"`
		ID    string          `json:"tool_use_id,omitempty"`
		Input json.RawMessage `json:"tool_input"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &all) != nil || all == nil {
		return nil, 0
	}
	if len(all) > maxDenials {
		all, more = all[:maxDenials], len(all)-maxDenials
	}
	for i := range all {
		all[i].Tool, all[i].ID, all[i].Input = cutText(all[i].Tool, 200), cutText(all[i].ID, 200),
			cutInput(all[i].Input, maxDenialInput)
	}
	list, _ = strictjson.Encode(all)
	return list, more
}
