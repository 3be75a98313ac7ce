package program

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
	"ao/shared/strictjson"
	"ao/worker/process"
)

// transcript collects what a program writes to stdout.
type transcript struct {
	emit    func(kind string, body json.RawMessage)
	maxLine int // bytes of a line; the rest is cut off

	mu           sync.Mutex   // stdout and the gateway write concurrently
	usesProtocol bool         // the program speaks the protocol
	plain        process.Text // text outside the protocol
	result       *run.Result  // from the last result line
	failure      *fault.Fault // error of that result line
	unreadable   bool         // the failure is an unreadable result line

	procedural bool // the agent is

	run      string // run id of the current turn
	answered bool   // a line ended the turn
}

// newTranscript starts the transcript of a job; most is the largest result, in bytes.
func newTranscript(j Job, most int) *transcript {
	t := &transcript{emit: j.OnEvent, maxLine: most + lineOverhead, plain: process.Text{Limit: most},
		run: j.Invocation.RunID, procedural: j.Procedural}
	if t.emit == nil {
		t.emit = func(string, json.RawMessage) {}
	}
	return t
}

// finalResult returns the program's result. own is its plain text, cut the number of bytes that were not kept. Text
// beside a result line is emitted as a message. Incomplete text is evidence and no result: the fault names the limit.
func (t *transcript) finalResult(own []byte, cut int64, most int) (*run.Result, *fault.Fault) {
	if t.result == nil && cut > 0 {
		return textResult(process.CutAgain(own, cut, min(maxExcerpt, most/8))), tooLarge(most)
	}
	if t.result == nil {
		return textResult(own), nil
	}
	if beside := bytes.TrimSpace(own); len(beside) > 0 {
		t.systemMessage(process.Plain(process.Cut(beside, maxExtraText)))
	}
	return t.result, nil
}

// ended returns the outcome of a run with this result, unless its result line or a limit makes it fail.
func (t *transcript) ended(res *run.Result, large *fault.Fault) run.Outcome {
	switch {
	case t.failure != nil:
		return run.Outcome{Status: run.Failed, Error: t.failure, Result: res}
	case large != nil:
		return run.Outcome{Status: run.Failed, Error: large, Result: res}
	}
	return run.Outcome{Status: run.Completed, Result: cmp.Or(res, &run.Result{Type: run.Autonomous})}
}

// tooLarge returns the failure of a program whose output exceeds the limit of a result.
func tooLarge(most int) *fault.Fault {
	return fault.New(fault.Internal, run.CodeTooLarge, fmt.Sprintf(
		"the executor wrote more than %d bytes, the limit of a result (AO_MAX_PAYLOAD): write less, or store it "+
			"elsewhere and write its location", most)).With("limit", most)
}

// protocolLine matches the start of a protocol line that was cut off and so is no JSON.
var protocolLine = regexp.MustCompile(`^\s*\{\s*"type"\s*:\s*"(event|bind|result|turn_complete|turn_failed)"`)

// onLine handles the next line of stdout.
func (t *transcript) onLine(raw []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	raw = strictjson.TrimBOM(raw)
	l, ok, err := t.parse(raw)
	switch {
	case !ok, err != nil && !t.usesProtocol && l.Type != executor.LineResult:
		t.plain.Add(raw)
		t.plain.Add([]byte{'\n'})
	case err == nil:
		t.usesProtocol = true
		t.apply(l)
	case l.Type == executor.LineResult || endsTurn(l.Type):
		t.answered, t.usesProtocol = t.answered || endsTurn(l.Type), true
		t.failUnreadable(l.Type, fault.Of(err), raw)
	default:
		t.systemMessage(fmt.Sprintf("the executor's %s line is unreadable, dropped: %s", l.Type, fault.Of(err).Message))
	}
}

// parse parses a line of the protocol; not ok: it is none. The error says why a line is unreadable or does not count.
func (t *transcript) parse(raw []byte) (l executor.Line, ok bool, err error) {
	l, ok, err = executor.ReadLine(raw)
	if m := protocolLine.FindSubmatch(raw[:min(len(raw), 200)]); !ok && m != nil {
		switch kind := string(m[1]); {
		case len(raw) > t.maxLine:
			l.Type, ok, t.usesProtocol = kind, true, true
			err = fault.New(fault.TooLarge, run.CodeTooLarge, fmt.Sprintf("it has more than %d bytes", t.maxLine))
		case strictjson.Valid(raw): // another program's
		case kind == executor.LineResult, t.usesProtocol && endsTurn(kind): // cut off: the result is unreadable
			l.Type, ok, err = kind, true, fault.New(fault.Invalid, "", "it is not JSON")
		}
	}
	if ok && err == nil && endsTurn(l.Type) && l.RunID != "" && l.RunID != t.run {
		err = fault.Newf(fault.Invalid, "it answers run %.80s, but the turn belongs to run %s", l.RunID, t.run)
	}
	return l, ok, err
}

// fromGateway handles a line sent over the gateway. A result after the turn's end is ignored.
func (t *transcript) fromGateway(l executor.Line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answered && l.Type == executor.LineResult {
		return
	}
	t.apply(l)
}

func (t *transcript) apply(l executor.Line) {
	switch l.Type {
	case executor.LineEvent:
		t.emit(l.EventType, slices.Clone(l.Body))
	case executor.LineBind:
		if t.procedural { // its session is not resumed
			return
		}
		if raw, err := l.MarshalJSON(); err == nil {
			t.emit(executor.LineBind, bytes.TrimSpace(raw))
		}
	case executor.LineResult, executor.LineTurnComplete, executor.LineTurnFailed:
		t.answered = t.answered || endsTurn(l.Type)
		if l.Result == nil && l.Error == nil { // an earlier result line counts
			return
		}
		t.unreadable = false
		if l.Result != nil {
			t.result = &run.Result{Type: run.Autonomous, Text: l.Result.Text, Data: slices.Clone(l.Result.Data),
				Note: process.Plain(process.Cut([]byte(l.Result.Note), run.MaxNote))}
			if t.procedural {
				t.result.ExitCode = l.Result.ExitCode
			}
		}
		t.failure = l.Error
		if t.failure != nil {
			t.failure.Kind = fault.Internal
			t.failure.Code = cmp.Or(t.failure.Code, codeFailed)
			t.failure.Message = cmp.Or(t.failure.Message, "the executor failed without a reason")
		}
	}
}

func endsTurn(kind string) bool {
	return kind == executor.LineTurnComplete || kind == executor.LineTurnFailed
}

// failUnreadable fails the run because of an unreadable result line, whose text becomes the result.
func (t *transcript) failUnreadable(kind string, why *fault.Fault, raw []byte) {
	code := codeUnreadable
	if why.Kind == fault.TooLarge {
		code = run.CodeTooLarge
	}
	t.unreadable, t.failure = true, fault.New(fault.Internal, code, "the executor's "+kind+" line is unreadable: "+
		why.Message)
	text := process.Plain(process.Cut(raw, maxExtraText))
	t.result = &run.Result{Type: run.Autonomous, Text: &text}
}

// systemMessage emits a message about the executor.
func (t *transcript) systemMessage(text string) {
	t.emit(run.EventMessage, run.TextMessage("system", text))
}
