package schema

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// step is one step into a document: a member's name or an item's index.
type step struct {
	name  string
	index int
	named bool
}

// path leads from the root of a document to a place in it.
type path []step

const (
	maxName = 200   // characters of one name in a path or message
	maxPath = 2_000 // characters of a path
)

// String writes a path as callers read it: $, $.a, $.items[0].b, $['odd key'].
func (p path) String() string {
	var b strings.Builder
	b.WriteByte('$')
	for _, s := range p {
		switch {
		case !s.named:
			b.WriteByte('[')
			b.WriteString(strconv.Itoa(s.index))
			b.WriteByte(']')
		case plain(s.name):
			b.WriteByte('.')
			b.WriteString(s.name)
		default:
			bracketed(&b, s.name)
		}
	}
	return cut(b.String(), maxPath)
}

// dotted writes a schema path: properties.url.format, allOf.0.type, properties['odd key'].type.
func (p path) dotted() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.named && !plain(s.name) && !keywordName(s.name):
			bracketed(&b, s.name)
			continue
		case i > 0:
			b.WriteByte('.')
		}
		if s.named {
			b.WriteString(s.name)
		} else {
			b.WriteString(strconv.Itoa(s.index))
		}
	}
	return cut(b.String(), maxPath)
}

// keywordName reports whether a name is a keyword's that keeps its own form in a schema path, as $ref does.
func keywordName(s string) bool { return s == "$ref" }

// compare orders paths by name and, in arrays, by position; a value comes before what is in it.
func (p path) compare(q path) int {
	for i := range min(len(p), len(q)) {
		if c := cmp.Or(cmp.Compare(p[i].index, q[i].index), cmp.Compare(p[i].name, q[i].name)); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(p), len(q))
}

// plain reports whether a name can stand behind a dot, as RFC 9535 has it: letters, digits and _, not beginning with a
// digit.
func plain(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	for i, r := range name {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) || r == utf8.RuneError {
			return false
		}
	}
	return true
}

// bracketed writes ['name'], escaped as RFC 9535 escapes it, so that no name can pretend to be a longer path.
func bracketed(b *strings.Builder, name string) {
	b.WriteString("['")
	for _, r := range cut(name, maxName) {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case strings.ContainsRune("\b\f\n\r\t", r):
			b.WriteByte('\\')
			b.WriteByte("btn-fr"[r-'\b'])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(b, `\u%04x`, r)
		}
	}
	b.WriteString("']")
}
