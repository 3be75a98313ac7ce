package outputschema

import (
	"iter"
	"regexp"
	"strings"
	"unicode"
)

// state is what an object or array in a text is.
type state int

const (
	complete state = iota
	piece          // complete, and within a broken one
	broken         // began as JSON, and is not, or was cut
)

// containers finds the outermost objects and arrays of a text. The complete ones come in order, the broken ones each
// before its pieces.
func containers(text string) iter.Seq2[span, state] {
	return func(yield func(span, state) bool) {
		r, last := reader{text: []byte(text)}, span{}
		for i := 0; ; {
			n := strings.IndexAny(text[i:], "{[")
			if n < 0 {
				return
			}
			begin := i + n
			end, ok := r.value(begin)
			if !ok && begin >= last.end && begun(text[begin:]) {
				last = span{begin, begin + extent(text[begin:])}
				if !yield(last, broken) {
					return
				}
			}
			for _, s := range r.closed {
				is := complete
				if s.begin < last.end {
					is = piece
				}
				if !yield(s, is) {
					return
				}
			}
			i = end
		}
	}
}

// beginning is how much of a container is looked at to see whether it began as JSON, in bytes.
const beginning = 256

// jsonBegan matches an object with a key and a colon. It also matches an array with a first element and a comma, or
// with such an object as its first element. Keys may be as in JavaScript, or in typographic marks. Comments and a
// spread may precede them. Braces of prose do not match.
var jsonBegan = regexp.MustCompile(`^(?:\[\s*)*(?:\{(?:\s|//[^\n]*\n|(?s:/\*.*?\*/))*` +
	`(?:(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[“”„‘’][^“”‘’\n]*[“”‘’])\s*:|[\pL_$][\pL\pN_$-]*\s*:[ \t]*[^\s/:])|` +
	`[{\[]\s*\.\.\.[\pL_$]|\[\s*(?:"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|\{\s*\}|\[\s*\])\s*,)`)

// begun reports whether a container that is no JSON began as JSON.
func begun(text string) bool { return jsonBegan.MatchString(text[:min(len(text), beginning)]) }

// extent returns the length of a broken container. It goes to where its brackets match, or to a line that begins with a
// fence. One that was cut goes to the end of the text.
func extent(text string) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case c == '\n' && len(fenceAt(text, space(text, i))) >= 3:
			return i
		}
	}
	return len(text)
}

// mark matches what prose has in brackets: the number of a source, the box of a task, an empty list.
var mark = regexp.MustCompile(`^(?:\[\s*\d*\s*\]|\{\s*\})$`)

// isMark reports whether a value is a mark in running prose: its line has words outside of brackets.
func isMark(text string, s span) bool {
	if s.end-s.begin > 40 || !mark.MatchString(text[s.begin:s.end]) {
		return false
	}
	const most = 400 // of a line, before and after the mark, in bytes
	before, after := text[max(0, s.begin-most):s.begin], text[s.end:min(len(text), s.end+most)]
	before = before[strings.LastIndexByte(before, '\n')+1:]
	after, _, _ = strings.Cut(after, "\n")
	return strings.ContainsFunc(before+after, unicode.IsLetter)
}
