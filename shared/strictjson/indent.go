package strictjson

import (
	"bytes"
	"encoding/json"
)

// Indent returns JSON indented by two spaces, or as it is if it could have more than so many bytes then. A few MiB that
// nest deeply would be gigabytes. What is no JSON is returned as it is.
func Indent(raw []byte, most int) string {
	var b bytes.Buffer
	if indentedSize(raw) > most || json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// indentedSize returns how many bytes JSON has at most when it is indented.
func indentedSize(raw []byte) int {
	size, depth, quoted := len(raw), 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
			size += 1 + 2*depth
		case c == ']' || c == '}':
			depth = max(0, depth-1)
			size += 1 + 2*depth
		case c == ',':
			size += 1 + 2*depth
		case c == ':':
			size++
		}
	}
	return size
}
