package process

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxWhy is the longest text that Why gives, in bytes; one that is cut begins with an ellipsis beside.
const MaxWhy = 2000

// Why says why a program failed: the end of stderr, else of stdout, else the code; before that the limit
// that it hit.
func (e Exit) Why() string {
	if e.Hit.Limit != "" {
		return e.Hit.String() + ": " + e.said()
	}
	return e.said()
}

func (e Exit) said() string {
	for _, text := range [][]byte{e.Stderr, e.Stdout} {
		if s := strings.TrimSpace(strings.ReplaceAll(Plain(text), "\x00", "")); s != "" {
			return tail(s, MaxWhy)
		}
	}
	return fmt.Sprintf("Process exited with code %d", e.Code)
}

// Plain is text that any JSON reader takes.
func Plain(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// tail is the end of a text, from the beginning of a line where there is one.
func tail(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	s = s[len(s)-limit:]
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < len(s)-1 {
		return "…" + s[i:]
	}
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return "…" + s
}
