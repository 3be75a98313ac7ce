package claudecode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"ao/shared/strictjson"
	"ao/worker/process"
)

// Limits of text and of a tool's input in an event, in bytes of JSON. An event may have 512 KiB.
const (
	maxText      = 256 << 10
	maxToolInput = 192 << 10
)

// cutText returns text of at most about limit bytes of JSON; its middle says how much was cut.
func cutText(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for most := limit; ; most /= 2 {
		short := process.Plain(process.Cut([]byte(text), most))
		if raw, err := strictjson.Encode(short); err == nil && len(raw) <= limit+200 || most < 64 {
			return short
		}
	}
}

// cutInput returns a tool's input with its longest texts cut if it has more than limit bytes.
func cutInput(raw json.RawMessage, limit int) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage(`{}`)
	}
	if len(raw) <= limit {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) == nil {
		for most := limit / 2; most >= min(1<<10, limit/8); most /= 4 {
			if short, err := strictjson.Encode(cutAll(v, most)); err == nil && len(short) <= limit {
				return short
			}
		}
	}
	short, _ := strictjson.Encode(map[string]string{"cut": cutText(string(raw), limit/2)})
	return short
}

func cutAll(v any, most int) any {
	switch v := v.(type) {
	case string:
		return cutText(v, most)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = cutAll(v[i], most)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for k := range v {
			all[k] = cutAll(v[k], most)
		}
		return all
	}
	return v
}

// toolResultText returns the text of a tool's result, with placeholders for other content.
func toolResultText(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var blocks []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return string(content)
	}
	parts := make([]string, len(blocks))
	for i, b := range blocks {
		parts[i] = b.Text
		if b.Type != "text" {
			parts[i] = fmt.Sprintf("[%s]", b.Type)
		}
	}
	return strings.Join(parts, "\n")
}
