// Package screen formats output for people: text that cannot control a terminal, tables, ages.
package screen

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text escapes everything in s that could control a terminal: control characters except line feed and tab, invalid
// UTF-8, and characters that reorder text.
func Text(s string) string { return escape(s, "\n\t", `\x%02x`) }

// Line is Text on one line: line feeds and tabs are escaped too.
func Line(s string) string { return escape(s, "", `\x%02x`) }

// JSON escapes a JSON text for a terminal; its meaning stays the same.
func JSON(raw []byte) string { return escape(string(raw), "\n\t", `\u%04x`) }

var shortEscapes = map[rune]string{'\n': `\n`, '\t': `\t`, '\r': `\r`}

// escape replaces every unsafe rune by an escape; small is the format for runes below 256.
func escape(s, keep, small string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return unsafe(r) || r == utf8.RuneError }) {
		return s
	}
	var b strings.Builder
	for i, w := 0, 0; i < len(s); i += w {
		var r rune
		r, w = utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && w == 1:
			fmt.Fprintf(&b, small, s[i])
		case strings.ContainsRune(keep, r) || !unsafe(r):
			b.WriteString(s[i : i+w])
		case shortEscapes[r] != "":
			b.WriteString(shortEscapes[r])
		case r < 0x100:
			fmt.Fprintf(&b, small, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// unsafe reports whether r could control a terminal, reorder text or break a line.
func unsafe(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// Truncate is Line cut to width characters, with an ellipsis if it was longer.
func Truncate(s string, width int) string {
	s = Line(strings.TrimSpace(s))
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}
