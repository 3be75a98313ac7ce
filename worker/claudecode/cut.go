package claudecode

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"ao/shared/strictjson"
	"ao/worker/process"
)

// An event may have 512 KiB. So much of it may be text, and so much a tool's input, in bytes as JSON.
const (
	maxText  = 256 << 10
	maxInput = 192 << 10
)

// cutText is text of which no more than limit bytes are needed as JSON; where it was longer, it says in its middle how much is cut.
func cutText(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for most := limit; ; most /= 2 {
		short := process.Plain(process.Cut([]byte(text), most))
		if raw, err := strictjson.Encode(short); err == nil && len(raw) <= limit+200 || most < 64 {
			return short
		}
	}
}

// cutInput is a tool's input, the longest of its texts cut where it is larger than limit bytes.
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

// plain is the text of a tool's result; of what is no text it says that it was there.
func plain(content json.RawMessage) string {
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
		if parts[i] = b.Text; b.Type != "text" {
			parts[i] = fmt.Sprintf("[%s]", b.Type)
		}
	}
	return strings.Join(parts, "\n")
}
