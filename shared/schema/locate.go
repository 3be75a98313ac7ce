package schema

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Place is a place in a text, as editors count: lines from 1, columns from 1 in UTF-16 units.
type Place struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Locate finds where in a JSON text the values begin that paths of violations lead to. A value that is not there is
// found at the closest value around it. Of a text that cannot be read every path leads to where reading ended.
func Locate(text []byte, paths []string) []Place {
	offsets := make([]int, len(paths))
	if at, broken := syntaxError(text); broken {
		for i := range offsets {
			offsets[i] = at
		}
		return places(text, offsets)
	}
	r := reader{text: string(text), lim: limits{values: maxValues, depth: maxDepth}}
	r.seen = func() {
		here := r.path.String()
		for i, p := range paths {
			if rest, ok := strings.CutPrefix(p, here); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				offsets[i] = r.at
			}
		}
	}
	var v value
	if bad := r.value(&v, 0); bad != nil { // reading ended in the member that is given twice, or at a limit
		for i, p := range paths {
			if p == bad.at.String() {
				offsets[i] = r.at
			}
		}
	}
	return places(text, offsets)
}

// syntaxError returns the offset of the first byte because of which a text is no JSON.
func syntaxError(text []byte) (at int, broken bool) {
	if json.Valid(text) {
		return 0, false
	}
	if err, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, &json.RawMessage{})); ok {
		at = int(err.Offset)
		if at > 0 && !strings.Contains(err.Error(), "unexpected end") {
			at-- // the offset is behind the byte
		}
	}
	return at, true
}

func places(text []byte, offsets []int) []Place {
	order := make([]int, len(offsets))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return offsets[a] - offsets[b] })
	out := make([]Place, len(offsets))
	at, now := 0, Place{1, 1}
	for _, i := range order {
		for at < offsets[i] && at < len(text) {
			r, size := utf8.DecodeRune(text[at:])
			at += size
			if r == '\n' {
				now = Place{now.Line + 1, 1}
			} else {
				now.Column += max(1, utf16.RuneLen(r))
			}
		}
		out[i] = now
	}
	return out
}
