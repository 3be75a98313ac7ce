package schema

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxShown = 200      // characters of a value in a message
	maxOffer = 1_000    // characters of what the schema offers instead (enum, const)
	cutMark  = "…[cut]" // follows what was cut
)

// cut shortens s to n characters and says so.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i] + cutMark
		}
		n--
	}
	return s
}

// repr writes a string as messages quote it: in single quotes, in double ones if it has single quotes itself, on one
// line.
func repr(s string) string {
	p := printer{room: maxShown}
	p.quote(s)
	return p.done()
}

// String returns a value as messages show it: strings as by Python's repr, the rest as JSON with a space after , and :.
// It is cut to 200 characters.
func (v *value) String() string { return v.show(maxShown) }

func (v *value) show(room int) string {
	p := printer{room: room}
	p.value(v)
	return p.done()
}

// printer writes until its room is used up, so that a message about a value of megabytes costs no more than its own
// length.
type printer struct {
	strings.Builder
	room int
	full bool
}

func (p *printer) done() string {
	if p.full {
		p.Builder.WriteString(cutMark)
	}
	return p.String()
}

func (p *printer) put(s string) {
	if p.full {
		return
	}
	n := utf8.RuneCountInString(s)
	if n > p.room {
		p.full = true
		s = strings.TrimSuffix(cut(s, p.room), cutMark)
	}
	p.room -= n
	p.WriteString(s)
}

func (p *printer) value(v *value) {
	switch v.kind {
	case null:
		p.put("null")
	case text:
		p.quote(v.raw)
	case array:
		p.put("[")
		for i := 0; i < len(v.kids) && !p.full; i++ {
			if i > 0 {
				p.put(", ")
			}
			p.value(&v.kids[i])
		}
		p.put("]")
	case object:
		p.put("{")
		for i := 0; i < len(v.kids) && !p.full; i++ {
			if i > 0 {
				p.put(", ")
			}
			p.quote(v.names[i])
			p.put(": ")
			p.value(&v.kids[i])
		}
		p.put("}")
	default:
		p.put(v.raw)
	}
}

func (p *printer) quote(s string) {
	mark := "'"
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = `"`
	}
	p.put(mark)
	for _, r := range s {
		if p.full {
			return
		}
		switch {
		case r == '\\' || string(r) == mark:
			p.put(`\` + string(r))
		case r == '\n':
			p.put(`\n`)
		case r == '\r':
			p.put(`\r`)
		case r == '\t':
			p.put(`\t`)
		case unicode.IsPrint(r):
			p.put(string(r))
		case r < 0x100:
			p.put(fmt.Sprintf(`\x%02x`, r))
		case r < 0x10000:
			p.put(fmt.Sprintf(`\u%04x`, r))
		default:
			p.put(fmt.Sprintf(`\U%08x`, r))
		}
	}
	p.put(mark)
}
