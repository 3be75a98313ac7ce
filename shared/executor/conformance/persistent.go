package conformance

import (
	"fmt"
	"time"

	"ao/shared/executor"
)

// The names of the additional checks of persistent programs.
const (
	nameStays     = "it stays after its answer"
	nameNext      = "a further turn is done"
	nameAfterNext = "and another one"
	nameSingle    = "a turn has one answer"
	nameRunID     = "answers carry the turn's run_id"
	nameShutdown  = "shutdown ends it"
	nameCode      = "shutdown ends it with exit code 0"
	nameEOF       = "the end of its stdin ends it"
	nameNew       = "a new process resumes the session"
)

// silence is how long to wait for output that should not come.
const silence = 250 * time.Millisecond

// persistent tests a program that stays for its session's turns.
func (x *examiner) persistent() {
	p, err := x.begin(executor.Start, x.Prompt)
	if p != nil {
		defer p.kill()
	}
	rest := []string{nameLines, nameStays, nameNext, nameAfterNext, nameSingle, nameShutdown, nameLeft, nameNew,
		nameUnicode, nameLarge}
	if !x.must(nameStart, err == nil, "", say(err)) {
		x.skipAll(rest, "the start was not done")
		return
	}
	sleep(silence)
	x.should(nameResult, p.result() != "", p.result(),
		`an answer without a result: the run ends with an empty one; write {"type":"turn_complete","result":…}`)
	x.bind(p)
	if !x.must(nameStays, !p.ended(), "", "it has ended: "+p.why()+"; read on until shutdown or the end of stdin") {
		x.skipAll(rest[2:], "it did not stay")
		return
	}
	again := x.turn(p, nameNext, x.Prompt)
	again = again && x.turn(p, nameAfterNext, x.Prompt)
	again = again && x.turn(p, nameUnicode, unicode)
	again = again && x.turn(p, nameLarge, large())
	sleep(silence)
	x.checkStdout(p)
	answers, ids := 0, true
	for _, l := range p.lines() {
		if kind := l.line.Type; kind == executor.LineTurnComplete || kind == executor.LineTurnFailed {
			answers++
			ids = ids && l.line.RunID != ""
		}
	}
	if !again {
		x.skipAll([]string{nameSingle, nameShutdown}, "a turn was not answered")
		p.kill()
		x.resumed()
		return
	}
	x.must(nameSingle, answers == x.runs, "",
		fmt.Sprintf("%d answers to %d turns: the next turn would get another one's", answers, x.runs))
	x.should(nameRunID, ids, "",
		`add "run_id" of the turn to the answer: a worker can tell then that it is this turn's`)
	line, _ := executor.Turn{Type: executor.LineShutdown}.Encode()
	p.write(line)
	p.closeStdin()
	ended := p.waitEnd(x.Grace)
	if x.must(nameShutdown, ended, "",
		fmt.Sprintf("it is still alive %v after the shutdown line and the end of its stdin", x.Grace)) {
		x.should(nameCode, p.code == 0, "", p.why())
	}
	p.kill()
	if ended {
		x.checkLeftovers(p)
	}
	x.resumed()
}

// resumed tests a second process of the session.
func (x *examiner) resumed() {
	p, err := x.begin(executor.Resume, x.Prompt)
	if p == nil {
		x.skip(nameNew, true, say(err))
		return
	}
	defer p.kill()
	x.must(nameNew, err == nil, "", say(err))
	if p.ended() {
		return
	}
	p.closeStdin()
	x.should(nameEOF, p.waitEnd(x.Grace), "", fmt.Sprintf("it is still alive %v after the end of its stdin", x.Grace))
}

// begin starts a process with its document and waits for the answer.
func (x *examiner) begin(mode, prompt string) (*proc, error) {
	v := x.invocation(mode, prompt)
	doc, err := v.Encode()
	if err != nil {
		return nil, err
	}
	p, err := x.spawn(v)
	if err != nil {
		return nil, err
	}
	p.write(doc)
	return p, x.answer(p, 0, v.RunID)
}

// turn does a further turn and checks it.
func (x *examiner) turn(p *proc, name, prompt string) bool {
	sleep(silence)
	v := x.invocation(executor.Resume, prompt)
	line, err := executor.TurnOf(v, false).Encode()
	if err == nil {
		n := len(p.lines())
		p.write(line)
		err = x.answer(p, n, v.RunID)
	}
	if name == nameLarge {
		return x.largeInput(err, false)
	}
	return x.must(name, err == nil, "", say(err))
}

// answer waits for the answer to a turn.
func (x *examiner) answer(p *proc, n int, runID string) error {
	a, err := p.next(n, x.Timeout)
	switch {
	case err != nil:
		return err
	case a.err != nil:
		return fmt.Errorf("its %s line cannot be read: %w", a.line.Type, a.err)
	case a.line.RunID != "" && a.line.RunID != runID:
		return fmt.Errorf("it answers run %.80s, but the turn's run is %s", a.line.RunID, runID)
	case a.line.Type == executor.LineTurnFailed:
		return reportedFailure{fmt.Errorf("it says that the turn failed: %s", a.line.Error.Message)}
	}
	return nil
}

func (x *examiner) skipAll(names []string, why string) {
	for _, name := range names {
		x.skip(name, true, why)
	}
}
