package external

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/worker/process"
)

// transcript is what a program has said on stdout.
type transcript struct {
	tell    func(kind string, body json.RawMessage)
	longest int // bytes of a line; the rest is cut

	spoke   bool         // it speaks the protocol
	own     process.Text // what is not of the protocol
	result  *run.Result  // of the last result line
	failure *fault.Fault // with that result the run failed
	unread  bool         // the failure is that the result line cannot be read
}

// spoken is how a line of the protocol begins that cannot be read as JSON, being cut.
var spoken = regexp.MustCompile(`^\s*\{\s*"type"\s*:\s*"(event|bind|result)"`)

// line takes the next line.
func (t *transcript) line(raw []byte) {
	l, ok, err := executor.ReadLine(raw)
	if m := spoken.FindSubmatch(raw[:min(len(raw), 200)]); !ok && m != nil && len(raw) > t.longest {
		l.Type, ok, t.spoke = string(m[1]), true, true
		err = fault.New(fault.TooLarge, CodeTooLarge, fmt.Sprintf("it has more than %d bytes", t.longest))
	}
	switch {
	case !ok, err != nil && !t.spoke:
		t.own.Add(raw)
		t.own.Add([]byte{'\n'})
		return
	case err != nil && l.Type == executor.LineResult:
		t.misread(fault.Of(err), raw)
		return
	case err != nil:
		t.say(fmt.Sprintf("The executor's %s line cannot be read and is left out: %s", l.Type, fault.Of(err).Message))
		return
	}
	t.spoke = true
	switch l.Type {
	case executor.LineEvent:
		t.tell(l.EventType, l.Body)
	case executor.LineBind:
		t.tell(executor.LineBind, slices.Clone(raw))
	case executor.LineResult:
		t.unread = false
		t.result = &run.Result{Type: run.Autonomous, Text: l.Result.Text, Data: slices.Clone(l.Result.Data)}
		if t.failure = l.Error; t.failure != nil {
			t.failure.Kind = fault.Internal
			t.failure.Code = cmp.Or(t.failure.Code, CodeFailed)
			t.failure.Message = cmp.Or(t.failure.Message, "The executor failed and did not say why")
		}
	}
}

// misread takes a result line that cannot be read: the run fails by it, and keeps its text.
func (t *transcript) misread(why *fault.Fault, raw []byte) {
	code := CodeUnreadable
	if why.Kind == fault.TooLarge {
		code = CodeTooLarge
	}
	t.unread, t.failure = true, fault.New(fault.Internal, code, "The executor's result line cannot be read: "+why.Message)
	text := process.Plain(process.Cut(raw, maxBeside))
	t.result = &run.Result{Type: run.Autonomous, Text: &text}
}

// say tells the session's readers something about the executor.
func (t *transcript) say(text string) { t.tell(run.EventMessage, run.Say("system", text)) }
