package external

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/worker/process"
)

// transcript is what a program has said on stdout.
type transcript struct {
	tell    func(kind string, body json.RawMessage)
	longest int // bytes of a line; the rest is cut

	mu      sync.Mutex   // its stdout, and what it tells over the gateway
	spoke   bool         // it speaks the protocol
	own     process.Text // what is not of the protocol
	result  *run.Result  // of the last result line
	failure *fault.Fault // with that result the run failed
	unread  bool         // the failure is that the result line cannot be read

	run      string // whose turn it is
	answered bool   // a line has ended the turn
}

// newTranscript begins what the program of a job says. most is the bytes of a result.
func newTranscript(j Job, most int) *transcript {
	t := &transcript{tell: j.Tell, longest: most + slack, own: process.Text{Limit: most}, run: j.Invocation.RunID}
	if t.tell == nil {
		t.tell = func(string, json.RawMessage) {}
	}
	return t
}

// came is the result that the program came to: own is its own text, and cut is how many bytes of that were not kept. Where there is a
// result beside, the text is told as a message. Text that is not whole is evidence and no result: the fault names the limit.
func (t *transcript) came(own []byte, cut int64, most int) (*run.Result, *fault.Fault) {
	if t.result == nil && cut > 0 {
		return printed(process.CutAgain(own, cut, min(maxEvidence, most/8))), tooMuch(most)
	}
	if t.result == nil {
		return printed(own), nil
	}
	if beside := bytes.TrimSpace(own); len(beside) > 0 {
		t.say(process.Plain(process.Cut(beside, maxBeside)))
	}
	return t.result, nil
}

// tooMuch is the failure of a program that wrote more than a result may have.
func tooMuch(most int) *fault.Fault {
	return fault.New(fault.Internal, codeTooLarge, fmt.Sprintf(
		"The executor wrote more than %d bytes, the limit of a result (AO_MAX_PAYLOAD): write less, or store it elsewhere and write where", most)).
		With("limit", most)
}

// spoken is how a line of the protocol begins that cannot be read as JSON, being cut.
var spoken = regexp.MustCompile(`^\s*\{\s*"type"\s*:\s*"(event|bind|result|turn_complete|turn_failed)"`)

// line takes the next line.
func (t *transcript) line(raw []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok, err := t.read(raw)
	switch {
	case !ok, err != nil && !t.spoke && l.Type != executor.LineResult:
		t.own.Add(raw)
		t.own.Add([]byte{'\n'})
	case err == nil:
		t.spoke = true
		t.take(l)
	case l.Type == executor.LineResult || answers(l.Type):
		t.answered, t.spoke = t.answered || answers(l.Type), true
		t.misread(l.Type, fault.Of(err), raw)
	default:
		t.say(fmt.Sprintf("The executor's %s line cannot be read and is left out: %s", l.Type, fault.Of(err).Message))
	}
}

// read reads a line of the protocol; not ok: it is none. The error says why one that is cannot be read, or counts for nothing.
func (t *transcript) read(raw []byte) (l executor.Line, ok bool, err error) {
	l, ok, err = executor.ReadLine(raw)
	if m := spoken.FindSubmatch(raw[:min(len(raw), 200)]); !ok && m != nil {
		switch kind := string(m[1]); {
		case len(raw) > t.longest:
			l.Type, ok, t.spoke = kind, true, true
			err = fault.New(fault.TooLarge, codeTooLarge, fmt.Sprintf("it has more than %d bytes", t.longest))
		case kind == executor.LineResult, t.spoke && answers(kind): // cut off: the work cannot be read
			l.Type, ok, err = kind, true, fault.New(fault.Invalid, "", "it is not JSON")
		}
	}
	if ok && err == nil && answers(l.Type) && l.RunID != "" && l.RunID != t.run {
		err = fault.Newf(fault.Invalid, "it answers run %.80s, and the turn is that of run %s", l.RunID, t.run)
	}
	return l, ok, err
}

// hear takes what the program tells over the gateway. A result that comes after the turn's answer is too late.
func (t *transcript) hear(l executor.Line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answered && l.Type == executor.LineResult {
		return
	}
	t.take(l)
}

// take does what a line says.
func (t *transcript) take(l executor.Line) {
	switch l.Type {
	case executor.LineEvent:
		t.tell(l.EventType, slices.Clone(l.Body))
	case executor.LineBind:
		if raw, err := l.MarshalJSON(); err == nil {
			t.tell(executor.LineBind, bytes.TrimSpace(raw))
		}
	case executor.LineResult, executor.LineTurnComplete, executor.LineTurnFailed:
		t.answered = t.answered || answers(l.Type)
		if l.Result == nil && l.Error == nil { // what the turn told before counts
			return
		}
		t.unread = false
		if l.Result != nil {
			t.result = &run.Result{Type: run.Autonomous, Text: l.Result.Text, Data: slices.Clone(l.Result.Data)}
		}
		if t.failure = l.Error; t.failure != nil {
			t.failure.Kind = fault.Internal
			t.failure.Code = cmp.Or(t.failure.Code, codeFailed)
			t.failure.Message = cmp.Or(t.failure.Message, "The executor failed and did not say why")
		}
	}
}

// answers tells whether a line of this type ends a turn.
func answers(kind string) bool {
	return kind == executor.LineTurnComplete || kind == executor.LineTurnFailed
}

// misread takes a result line that cannot be read: the run fails by it, and keeps its text.
func (t *transcript) misread(kind string, why *fault.Fault, raw []byte) {
	code := codeUnreadable
	if why.Kind == fault.TooLarge {
		code = codeTooLarge
	}
	t.unread, t.failure = true, fault.New(fault.Internal, code, "The executor's "+kind+" line cannot be read: "+why.Message)
	text := process.Plain(process.Cut(raw, maxBeside))
	t.result = &run.Result{Type: run.Autonomous, Text: &text}
}

// say tells the session's readers something about the executor.
func (t *transcript) say(text string) { t.tell(run.EventMessage, run.TextMessage("system", text)) }
