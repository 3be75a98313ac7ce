package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// errObject is Scan's error for anything but an object.
var errObject = errors.New("not a JSON object")

// Scan calls f with every member of an object, in order: the unescaped key and the raw value, slices of raw if
// possible. It validates only what it needs, and so is for our own records and checked JSON.
func Scan(raw []byte, f func(key, value []byte)) error {
	i := space(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return errObject
	}
	i = space(raw, i+1)
	if i < len(raw) && raw[i] == '}' {
		return nil
	}
	for i < len(raw) && raw[i] == '"' {
		end := stringEnd(raw, i)
		if end < 0 {
			return errObject
		}
		key := unquote(raw[i:end])
		i = space(raw, end)
		if i >= len(raw) || raw[i] != ':' {
			return errObject
		}
		i = space(raw, i+1)
		end = valueEnd(raw, i)
		if end <= i {
			return errObject
		}
		f(key, raw[i:end:end])
		i = space(raw, end)
		if i >= len(raw) {
			return errObject
		}
		switch raw[i] {
		case '}':
			return nil
		case ',':
			i = space(raw, i+1)
		default:
			return errObject
		}
	}
	return errObject
}

// unquote returns the text of a JSON string: between its quotes where nothing is escaped.
func unquote(quoted []byte) []byte {
	inside := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil { // half a surrogate pair, or no string: what cannot be read is empty
		var s string
		json.Unmarshal(quoted, &s)
		return []byte(s)
	}
	return text
}

func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns the offset after the string that starts at i, -1 if it does not end.
func stringEnd(raw []byte, i int) int {
	for i++; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return -1
		}
		back := 0
		for j := i + n - 1; j >= i && raw[j] == '\\'; j-- {
			back++
		}
		i += n + 1
		if back%2 == 0 {
			return i
		}
	}
	return -1
}

// valueEnd returns the offset after the value that starts at i, -1 if it does not end.
func valueEnd(raw []byte, i int) int {
	depth := 0
	for i < len(raw) {
		switch raw[i] {
		case '"':
			i = stringEnd(raw, i)
			if i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ' ', '\n', '\t', '\r', ':':
			i++
			continue
		default:
			for i < len(raw) && !ends(raw[i]) {
				i++
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return -1
}

func ends(c byte) bool {
	return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\t' || c == '\r'
}

// String returns the string of a JSON value, empty for anything else.
func String(v []byte) string { return string(StringBytes(v)) }

// StringBytes is String as bytes, a slice of v if nothing is escaped.
func StringBytes(v []byte) []byte {
	if len(v) < 2 || v[0] != '"' {
		return nil
	}
	return unquote(v)
}

// Uint returns the unsigned integer of a JSON value, 0 for anything else. It has at most 18 digits, so an int holds it.
func Uint(v []byte) (n uint64) {
	if len(v) > 18 {
		return 0
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}
