package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// errObject is Scan's answer to bytes that are no JSON object.
var errObject = errors.New("not a JSON object")

// Scan calls f with every member of an object, in order: the key unescaped, the value as it stands, both as parts of
// raw where that can be. It checks no more than it needs to find its way, and so is for records of our own and for what
// Check has passed.
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

// unquote is the text of a JSON string: between its quotes where nothing is escaped.
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

// stringEnd is the place after the string that begins at i, -1 where it has no end.
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
		if i += n + 1; back%2 == 0 {
			return i
		}
	}
	return -1
}

// valueEnd is the place after the value that begins at i, -1 where it has no end.
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

// Text is the string of a JSON value, empty for anything else.
func Text(v []byte) string { return string(Inside(v)) }

// Inside is Text as bytes, a part of v where nothing is escaped.
func Inside(v []byte) []byte {
	if len(v) < 2 || v[0] != '"' {
		return nil
	}
	return unquote(v)
}

// Number is the unsigned integer of a JSON value, 0 for anything else.
func Number(v []byte) (n uint64) {
	for _, c := range v {
		if c < '0' || c > '9' || n > 1<<60 {
			return 0
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}
