package process

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxReason is the longest text that Reason returns, in bytes, without the ellipsis of a cut text.
const MaxReason = 2000

// Reason returns why a program failed: the limit that it hit, then the end of stderr, else of stdout, else the exit
// code.
func (e Exit) Reason() string {
	if e.Hit.Limit != "" {
		return e.Hit.String() + ": " + e.lastOutput()
	}
	return e.lastOutput()
}

func (e Exit) lastOutput() string {
	for _, text := range [][]byte{e.Stderr, e.Stdout} {
		if s := strings.TrimSpace(strings.ReplaceAll(Plain(text), "\x00", "")); s != "" {
			return tail(s, MaxReason)
		}
	}
	return fmt.Sprintf("Process exited with code %d", e.Code)
}

// Plain returns valid UTF-8.
func Plain(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// tail returns the end of a text, from the start of a line if there is one.
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
