package outputschema

import "strings"

// maxOpen is how many containers may be open at once; what nests deeper is read from within.
const maxOpen = 10_000

// reader finds where JSON values end in a text that may be anything. It looks at the structure, and leaves to others
// whether the characters are UTF-8 and the keys of an object differ. What it looks at, again and again, is limited by
// its budget in bytes.
type reader struct {
	text   string
	budget int

	open   []int  // where the containers begin that are open
	closed []span // complete containers within the open ones, none in another
	last   int    // where the string begins that was the last thing read; -1: it was another thing
}

// span is a part of a text.
type span struct{ begin, end int }

// what may come next in a value.
type want uint8

const (
	aValue want = iota
	aValueOrEnd
	aKey
	aKeyOrEnd
	aCommaOrEnd
)

// value reads the JSON value that begins at i and gives the place after it. Where there is none, it gives the place of
// the first sign that cannot be part of one, or the text's end; closed has what is complete of it.
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

// innermost is the bracket of the innermost container that is open.
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

// stringEnd is the place after the string that begins at i, else that of the sign that spoils it.
func stringEnd(text string, i int) (int, bool) {
	for i++; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i + 1, true
		case c < ' ':
			return i, false
		case c == '\\':
			if i++; i >= len(text) || strings.IndexByte(`"\/bfnrtu`, text[i]) < 0 {
				return min(i, len(text)), false
			}
			if text[i] != 'u' {
				continue
			}
			for range 4 {
				if i++; i >= len(text) || strings.IndexByte("0123456789abcdefABCDEF", text[i]) < 0 {
					return min(i, len(text)), false
				}
			}
		}
	}
	return len(text), false
}

// scalarEnd is the place after the string, number, true, false or null that begins at i.
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
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
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
