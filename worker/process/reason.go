package process

import (
	"cmp"
	"fmt"
	"strings"
	"syscall"
	"unicode/utf8"

	"ao/shared/fault"

	"golang.org/x/sys/unix"
)

// MaxReason is the longest text that Reason returns, in bytes, without the ellipsis of a cut text.
const MaxReason = 2000

// Reason returns why a program failed: the limit that it hit, then the end of its output. That is stderr, else stdout,
// else the signal or the exit code. The carriage return of a script is named last.
func (e Exit) Reason() string {
	text := e.lastOutput()
	if e.Hit.Limit != "" {
		text = e.Hit.String() + ": " + text
	}
	if e.crlf {
		text += "\n(" + carriageReturn + ")"
	}
	return text
}

// StderrTail is the field of an error with the end of stderr.
const StderrTail = "stderr_tail"

// KeepStderr adds the end of stderr to the error of a program that was ended from outside. A nil error becomes one only
// if there is something to keep.
func (e Exit) KeepStderr(f *fault.Fault) *fault.Fault {
	end := lastText(e.Stderr)
	if end == "" {
		return f
	}
	if f == nil {
		f = fault.New(fault.Internal, "stopped", "Stopped")
	}
	return f.With(StderrTail, end)
}

func lastText(text []byte) string {
	return tail(strings.TrimSpace(strings.ReplaceAll(Plain(text), "\x00", "")), MaxReason)
}

func (e Exit) lastOutput() string {
	if s := cmp.Or(lastText(e.Stderr), lastText(e.Stdout)); s != "" {
		return s
	}
	switch name := e.signalName(); {
	case name == "":
		return fmt.Sprintf("Process exited with code %d", e.Code)
	case e.signal != 0:
		return fmt.Sprintf("Process was killed by signal %d (%s)", e.signal, name)
	default:
		return fmt.Sprintf("Process exited with code %d (128 + %d, %s)", e.Code, e.Code-128, name)
	}
}

// signalName returns the name of the signal that ended the program, or perhaps one that it started. Shells and
// bubblewrap exit with 128 + its number then. Empty: none.
func (e Exit) signalName() string { return unix.SignalName(syscall.Signal(e.Code - 128)) }

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
