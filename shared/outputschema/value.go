package outputschema

import "strings"

// maxOpen is how many containers may be open at once; what nests deeper is read from within.
const maxOpen = 10_000

// reader finds the ends of JSON values in any text. It checks the structure only, not UTF-8 or duplicate keys.
// The bytes it reads in all are limited by its budget.
type reader struct {
	text   string
	budget int

	open   []int  // where the open containers start
	closed []span // complete containers within the open ones, outermost only
	last   int    // start of the string that was read last; -1: it was no string
}

// span is a part of a text.
type span struct{ begin, end int }

// want is what may come next in a value.
type want uint8

const (
	aValue want = iota
	aValueOrEnd
	aKey
	aKeyOrEnd
	aCommaOrEnd
)

// value reads the JSON value at i and returns the offset after it. If there is none, it returns the offset of
// the first character that cannot be part of one; closed has the complete parts.
func (r *reader) value(i int) (end int, ok bool) {
	r.open, r.closed, r.last = r.open[:0], r.closed[:0], -1
	begin, next := i, aValue
	defer func() { r.budget -= end - begin + 1 }()
	if r.budget < 0 {
		return i, false
	}
	for {
		i = space(r.text, i)
		if i >= len(r.text) {
			return len(r.text), false
		}
		c := r.text[i]
		switch {
		case c == '}' && (next == aKeyOrEnd || next == aCommaOrEnd && r.innermost() == '{'),
			c == ']' && (next == aValueOrEnd || next == aCommaOrEnd && r.innermost() == '['):
			i++
			r.last, next = -1, aCommaOrEnd
			if r.closeContainer(i) {
				return i, true
			}
		case next == aCommaOrEnd:
			if c != ',' {
				return i, false
			}
			i++
			r.last, next = -1, aValue
			if r.innermost() == '{' {
				next = aKey
			}
		case next == aKey, next == aKeyOrEnd:
			if c != '"' {
				return i, false
			}
			r.last = i
			i, ok = stringEnd(r.text, i)
			if !ok {
				return i, false
			}
			i = space(r.text, i)
			if i >= len(r.text) || r.text[i] != ':' {
				return i, false
			}
			i++
			r.last, next = -1, aValue
		case c == '{', c == '[':
			if len(r.open) == maxOpen {
				return i, false
			}
			r.open = append(r.open, i)
			i++
			r.last, next = -1, aKeyOrEnd
			if c == '[' {
				next = aValueOrEnd
			}
		default:
			r.last = -1
			if c == '"' {
				r.last = i
			}
			i, ok = scalarEnd(r.text, i)
			if !ok {
				return i, false
			}
			if len(r.open) == 0 {
				return i, true
			}
			next = aCommaOrEnd
		}
	}
}

// innermost is the bracket of the innermost open container.
func (r *reader) innermost() byte {
	if len(r.open) == 0 {
		return 0
	}
	return r.text[r.open[len(r.open)-1]]
}

// closeContainer closes the innermost container; true: it was the outermost.
func (r *reader) closeContainer(end int) bool {
	begin := r.open[len(r.open)-1]
	r.open = r.open[:len(r.open)-1]
	for n := len(r.closed); n > 0 && r.closed[n-1].begin > begin; n-- {
		r.closed = r.closed[:n-1]
	}
	r.closed = append(r.closed, span{begin, end})
	return len(r.open) == 0
}

func space(text string, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r') {
		i++
	}
	return i
}

// stringEnd is the offset after the string at i, else that of the character that breaks it.
func stringEnd(text string, i int) (int, bool) {
	for i++; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i + 1, true
		case c < ' ':
			return i, false
		case c == '\\':
			i++
			if i >= len(text) || strings.IndexByte(`"\/bfnrtu`, text[i]) < 0 {
				return min(i, len(text)), false
			}
			if text[i] != 'u' {
				continue
			}
			for range 4 {
				i++
				if i >= len(text) || strings.IndexByte("0123456789abcdefABCDEF", text[i]) < 0 {
					return min(i, len(text)), false
				}
			}
		}
	}
	return len(text), false
}

// scalarEnd is the offset after the string, number, true, false or null at i.
func scalarEnd(text string, i int) (int, bool) {
	if text[i] == '"' {
		return stringEnd(text, i)
	}
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(text[i:], word) {
			return i + len(word), true
		}
	}
	return numberEnd(text, i)
}

func numberEnd(text string, i int) (int, bool) {
	if text[i] == '-' {
		i++
	}
	if from := i; strings.HasPrefix(text[i:], "0") {
		i++
	} else {
		i = digits(text, i)
		if i == from {
			return i, false
		}
	}
	if strings.HasPrefix(text[i:], ".") {
		from := i + 1
		i = digits(text, from)
		if i == from {
			return i, false
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		i++
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		from := i
		i = digits(text, from)
		if i == from {
			return i, false
		}
	}
	return i, true
}

func digits(text string, i int) int {
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	return i
}
