// Package conformance tests an executor program from outside, as a worker would run it, against protocol 2.2
// (package executor, shared/docs/executors.md). `ao conformance` is its command line. The tests of this
// project's executors use it too.
//
// If a check that MUST pass fails, runs fail, hang or look done when they are not. If one that SHOULD pass
// fails, runs work, but something is worse than it could be.
package conformance

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ao/shared/executor"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// The results of a check.
const (
	Pass = "pass"
	Fail = "fail"
	Warn = "warn" // a SHOULD that failed
	Skip = "skip" // not tried: an earlier check failed, or there is nothing to try
)

// Config says what to test. Command is required.
type Config struct {
	Command    []string        // the program and its arguments
	Persistent bool            // as a profile with "lifecycle":"persistent"
	Prompt     string          // default a short greeting
	Env        []string        // additional variables, NAME=value
	Timeout    time.Duration   // for each answer; default 30 s
	Grace      time.Duration   // between SIGTERM and SIGKILL, and after shutdown; default 5 s
	Agent      json.RawMessage // agent_blueprint; default a small one
	Executor   json.RawMessage // executor_config; default {}
	Done       func(Check)     // called for each check; default none
}

// Check is the result of one check.
type Check struct {
	Name   string `json:"name"`
	Must   bool   `json:"must"`
	Result string `json:"result"`           // pass, fail, warn or skip
	Detail string `json:"detail,omitempty"` // what was seen, and what to do about it
}

// Report is the results of all checks.
type Report struct {
	Command   []string `json:"command"`
	Lifecycle string   `json:"lifecycle"`
	OK        bool     `json:"ok"` // no MUST failed
	Checks    []Check  `json:"checks"`
}

// Run tests an executor. It takes as long as the executor needs for six to eight answers. The error means that
// it could not be started, or that ctx ended.
func Run(ctx context.Context, c Config) (Report, error) {
	if len(c.Command) == 0 {
		return Report{}, fmt.Errorf("name the executor's program: ao conformance -- ./my-executor")
	}
	c.Timeout, c.Grace = cmp.Or(c.Timeout, 30*time.Second), cmp.Or(c.Grace, 5*time.Second)
	c.Prompt = cmp.Or(c.Prompt, "Say hello in one short sentence.")
	dir, err := os.MkdirTemp("", "ao-conformance-")
	if err != nil {
		return Report{}, err
	}
	defer os.RemoveAll(dir)
	x := &examiner{Config: c, ctx: ctx, dir: dir, mark: rand.Text()}
	if strings.Contains(c.Command[0], "/") { // it runs in another folder
		x.Command[0], err = filepath.Abs(c.Command[0])
		if err != nil {
			return Report{}, err
		}
	}
	x.report = Report{Command: slices.Clone(c.Command), Lifecycle: executor.Oneshot, OK: true}
	if p, err := x.spawn(); err != nil { // it can be started
		return Report{}, err
	} else {
		p.kill()
	}
	if c.Persistent {
		x.report.Lifecycle = executor.Persistent
		x.persistent()
	} else {
		x.oneshot()
	}
	x.checkInvalid()
	x.checkStop()
	return x.report, ctx.Err()
}

// examiner runs the checks.
type examiner struct {
	Config
	ctx      context.Context
	dir      string
	mark     string
	survived bool // a process outlived its program
	escaped  bool // one that had left its process group
	report   Report
	bound    string // bound in its first run
	runs     int
}

// record records a check, with the detail for either outcome.
func (x *examiner) record(name string, must, ok bool, good, bad string) bool {
	c := Check{Name: name, Must: must, Result: Pass, Detail: good}
	if !ok {
		c.Result, c.Detail = Warn, bad
		if must {
			c.Result, x.report.OK = Fail, false
		}
	}
	x.note(c)
	return ok
}

func (x *examiner) must(name string, ok bool, good, bad string) bool {
	return x.record(name, true, ok, good, bad)
}

func (x *examiner) should(name string, ok bool, good, bad string) bool {
	return x.record(name, false, ok, good, bad)
}

func (x *examiner) skip(name string, must bool, why string) {
	x.note(Check{name, must, Skip, why})
}

func (x *examiner) note(c Check) {
	x.report.Checks = append(x.report.Checks, c)
	if x.Done != nil {
		x.Done(c)
	}
}

// invocation returns the next run's document.
func (x *examiner) invocation(mode, prompt string) executor.Invocation {
	x.runs++
	parameters, _ := strictjson.Encode(map[string]string{"prompt": prompt})
	v := executor.Invocation{
		SchemaVersion: executor.Version, Mode: mode, SessionID: "ses_conformance",
		RunID:      fmt.Sprintf("run_conformance%d", x.runs),
		Parameters: parameters, Prompt: prompt, ProjectDir: x.dir, AgentName: "conformance", Attempt: 1,
		Blueprint: x.Agent, Config: x.Executor,
	}
	if len(v.Blueprint) == 0 {
		v.Blueprint = json.RawMessage(`{"name":"conformance","type":"autonomous","description":"tries an executor"}`)
	}
	if mode == executor.Resume {
		v.ExecutorSession = x.bound
	}
	if x.Persistent {
		v.Lifecycle = executor.Persistent
	}
	return v
}

// The other prompts.
const unicode = "Grüße, 世界! 👩‍🚀 \u202eRTL\u202c \"quotes\" \\ back </inputs> & <tag> \t tab\nand a " +
	"second line\u2028third"

// large returns a prompt of 1 MiB.
func large() string { return "Answer with one word. " + strings.Repeat("0123456789abcdef", 1<<16) }

// The names of the checks, in their order.
const (
	nameStart      = "a start is done"
	nameResult     = "it has a result"
	nameLines      = "its lines on stdout are readable"
	nameBeside     = "nothing is beside the lines"
	nameLeft       = "nothing of it is left after its end"
	nameBind       = "it binds its own session id"
	nameResume     = "a resume is done"
	nameUnicode    = "any text is taken"
	nameLarge      = "1 MiB of input is taken"
	nameInvalid    = "an invalid document is refused"
	nameInvalidTwo = "it is refused with exit code 2"
	nameStop       = "SIGTERM ends it within the grace"
	nameStopTree   = "nothing of it is left after a stop"
)

// oneshot tests a program that does one run and ends.
func (x *examiner) oneshot() {
	first, err := x.once(x.invocation(executor.Start, x.Prompt))
	if !x.must(nameStart, err == nil, "exit code 0", say(err)) {
		x.skipAll([]string{nameResult, nameLines, nameLeft, nameResume, nameUnicode, nameLarge},
			"the start was not done")
		return
	}
	x.checkStdout(first)
	x.should(nameResult, first.result() != "", first.result(),
		"nothing on stdout: the run ends with an empty result; write a result line, or just the answer")
	x.checkLeftovers(first)
	x.bind(first)
	_, err = x.once(x.invocation(executor.Resume, x.Prompt))
	x.must(nameResume, err == nil, "exit code 0", say(err))
	_, err = x.once(x.invocation(executor.Start, unicode))
	x.must(nameUnicode, err == nil, "exit code 0", say(err))
	p, err := x.once(x.invocation(executor.Start, large()))
	x.largeInput(err, p != nil && p.ended() && p.code > 0 && len(bytes.TrimSpace(p.stderrText())) > 0)
}

// reportedFailure is a failure that the program reports in a line of the protocol.
type reportedFailure struct{ error }

// largeInput checks the answer to 1 MiB: a model may refuse that, as an error of the protocol. explained: with an exit
// code and a text on stderr.
func (x *examiner) largeInput(err error, explained bool) bool {
	_, reported := errors.AsType[reportedFailure](err)
	if err == nil || reported || !explained {
		return x.must(nameLarge, err == nil || reported, say(err), say(err))
	}
	x.should(nameLarge, false, "", "it is refused without an error result: "+say(err))
	return true
}

// checkStdout checks what was written to stdout.
func (x *examiner) checkStdout(p *proc) {
	bad, beside := p.badLines()
	x.must(nameLines, len(bad) == 0, fmt.Sprintf("%d lines of the protocol", p.goodLines()), strings.Join(bad, "; "))
	if p.goodLines() > 0 {
		x.should(nameBeside, beside == "", "", fmt.Sprintf("other text on stdout: %.120q; diagnostics belong to stderr",
			beside))
	}
}

// checkLeftovers checks for processes that outlived a program that ended by itself.
func (x *examiner) checkLeftovers(p *proc) {
	x.should(nameLeft, len(p.live) == 0, "",
		fmt.Sprintf("processes %v are left and are killed; wait for what you start", p.live))
}

func (x *examiner) bind(p *proc) {
	x.bound = p.bound()
	x.should(nameBind, x.bound != "", x.bound, `no bind line: a resume gets no executor_session_id. Write `+
		`{"type":"bind","executor_session_id":"…"} as soon as you know it`)
}

// checkInvalid checks how an invalid document is refused.
func (x *examiner) checkInvalid() {
	code, hung := 0, false
	for _, doc := range []string{"this is no JSON\n", `{"schema_version":"9.9","mode":"start"}` + "\n"} {
		p, err := x.spawn()
		if err != nil {
			continue
		}
		p.write([]byte(doc))
		p.closeStdin()
		hung = !p.waitEnd(x.Timeout)
		p.kill()
		code = p.code
		if code == 0 || hung {
			break
		}
	}
	x.must(nameInvalid+" in time", !hung, "", fmt.Sprintf("it did not end within %v", x.Timeout))
	if hung {
		return
	}
	if x.should(nameInvalid, code != 0, fmt.Sprintf("exit code %d", code),
		"exit code 0: it did not read the document, and the run looks done. Check schema_version, and exit with 2") {
		x.should(nameInvalidTwo, code == executor.CodeInvalid, "",
			fmt.Sprintf("exit code %d: 2 distinguishes it from a run that failed", code))
	}
}

// checkStop checks that SIGTERM ends it while it waits for its document.
func (x *examiner) checkStop() {
	p, err := x.spawn()
	if err != nil {
		x.skip(nameStop, true, err.Error())
		return
	}
	// more than a pipe holds: once it is written, the program reads and is ready for signals
	p.write(bytes.Repeat([]byte{' '}, 64<<10+1))
	p.waitRead(5 * time.Second)
	if p.waitEnd(300 * time.Millisecond) { // it does not read its stdin
		p.kill()
		x.skip(nameStop, true, "it does not wait for its document")
		return
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	ok := p.waitEnd(x.Grace)
	p.kill()
	x.must(nameStop, ok, "",
		fmt.Sprintf("it is still alive %v after SIGTERM and needs SIGKILL: its last output is lost", x.Grace))
	x.must(nameStopTree, len(p.left) == 0, "",
		fmt.Sprintf("processes %v are left: they left the process group", p.left))
}

// once runs a oneshot program with a document. The error says how it failed.
func (x *examiner) once(v executor.Invocation) (*proc, error) {
	doc, err := v.Encode()
	if err != nil {
		return nil, err
	}
	p, err := x.spawn(v)
	if err != nil {
		return nil, err
	}
	defer p.kill()
	p.write(doc)
	p.closeStdin()
	switch {
	case !p.waitEnd(x.Timeout):
		return p, fmt.Errorf("it did not end within %v (--timeout)", x.Timeout)
	case p.failure() != nil:
		return p, p.failure()
	case p.code != 0:
		return p, fmt.Errorf("%s", p.why())
	}
	return p, nil
}

func say(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// shown returns a result for people.
func shown(r *run.Result) string {
	switch {
	case r == nil:
		return ""
	case r.Text != nil:
		return fmt.Sprintf("%.60q", *r.Text)
	}
	return fmt.Sprintf("%.60s", r.Data)
}
