package claudecode

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"ao/shared/strictjson"
)

// usageID is the id of the question that asks claude what it has counted of its session, and askUsage the question. Newer versions go on
// counting where a session's last process ended, older ones from zero; so a turn's own cost is what the result says without what claude had
// counted before the turn. Claude answers before it takes the prompt.
const usageID = "2"

var askUsage = map[string]any{"type": "control_request", "request_id": usageID, "request": map[string]any{"subtype": "get_usage", "skip_behaviors": true}}

// counted is what claude had counted of its session before the turn. Zero: nothing, or it does not say.
type counted struct {
	Cost    float64                               `json:"total_cost_usd"`
	API     float64                               `json:"total_api_duration_ms"`
	ByModel map[string]map[string]json.RawMessage `json:"model_usage"`
}

// without gives the result with the turn's own numbers. One that tells less than claude had counted before does not contain that.
func (l resultLine) without(before counted) resultLine {
	if cost, ok := number(l.Cost); !ok || cost < before.Cost {
		return l
	}
	l.Cost, l.API = less(l.Cost, before.Cost), less(l.API, before.API)
	models, err := strictjson.Members(l.ByModel)
	if err != nil {
		return l
	}
	var used []strictjson.Member
	for _, m := range models {
		if rest, any := before.rest(m); any {
			used = append(used, strictjson.Member{Key: m.Key, Value: rest})
		}
	}
	l.ByModel = strictjson.Object(used)
	return l
}

// limits are the members of a model's usage that count nothing.
var limits = []string{"contextWindow", "maxOutputTokens"}

// rest is a model's usage without what was counted before; used: there is any.
func (c counted) rest(model strictjson.Member) (rest json.RawMessage, used bool) {
	before, again := c.ByModel[model.Key]
	members, err := strictjson.Members(model.Value)
	if err != nil || !again {
		return model.Value, true
	}
	for i, m := range members {
		if slices.Contains(limits, m.Key) {
			continue
		}
		if then, ok := number(before[m.Key]); ok {
			members[i].Value = less(m.Value, then)
		}
		n, _ := number(members[i].Value)
		used = used || n > 0
	}
	return strictjson.Object(members), used
}

func number(raw json.RawMessage) (n float64, ok bool) {
	return n, len(raw) > 0 && json.Unmarshal(raw, &n) == nil
}

// less is a number that was counted, without what was counted before.
func less(raw json.RawMessage, before float64) json.RawMessage {
	n, ok := number(raw)
	if !ok || before <= 0 || n < before {
		return raw
	}
	const most = 1e9 // billionths of a dollar are noise
	return json.RawMessage(strconv.FormatFloat(math.Round((n-before)*most)/most, 'f', -1, 64))
}

// A refusal may name so many calls, and show so many bytes of an input.
const (
	maxDenials     = 50
	maxDenialInput = 1 << 10
)

// denials are the calls that claude had no permission for, as an event can hold them, and how many more there were.
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
		all[i].Tool, all[i].ID, all[i].Input = cutText(all[i].Tool, 200), cutText(all[i].ID, 200), cutInput(all[i].Input, maxDenialInput)
	}
	list, _ = strictjson.Encode(all)
	return list, more
}
