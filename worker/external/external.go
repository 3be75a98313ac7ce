// Package external is the executor of autonomous agents whose profile names a program: any that reads one JSON
// document on stdin and speaks protocol 2.2 on stdout (shared/executor), or just prints what it came to.
//
// How a run ends:
//
//	the program                            status     error code
//	ends with code 0                       completed  –
//	ends so, its last result has an error  failed     the error's
//	ends so, its last result is unreadable failed     executor_result_unreadable, result_too_large
//	ends with another code, or by signal   failed     that of its last result's error, else executor_failed
//	cannot be started                      failed     executor_not_runnable
//	is not there                           failed     executor_not_found
//	is stopped (the context ends)          stopped    –
//
// What its result is: the last line of type result; without one, all that it wrote to stdout beside the lines of the
// protocol: one JSON value is result_data, other text result_text, nothing is no result. Text that is larger than a result
// may be fails the run (result_too_large). A run that failed or was stopped keeps the result it has.
//
// A result line that cannot be read fails the run unless a good one follows: work that cannot be read must not look
// done. An event or bind line that cannot be read is the program's own text until a good line has shown that the program
// speaks the protocol. From then on it is left out, and a message in the session says so and why.
//
// A program of the lifecycle persistent stays for the further turns of its session; a Pool keeps it (pool.go).
package external

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/worker/process"
)

// The codes of errors of these runs, beside those that a program gives itself.
const (
	codeFailed      = "executor_failed"
	codeNotFound    = "executor_not_found"
	codeNotRunnable = "executor_not_runnable"
	codeUnreadable  = "executor_result_unreadable"
	codeTooLarge    = "result_too_large"
)

const (
	maxResult   = 16 << 20 // default of Job.MaxResult
	maxEvidence = 1 << 20  // bytes kept of text that is too large for a result
	maxBeside   = 8 << 10  // bytes told of text that was beside a result
	slack       = 1 << 20  // bytes of a line beside its result
)

// Job is one run of a program.
type Job struct {
	Invocation executor.Invocation
	Command    string               // the program's file, found before (process.Find)
	Env        []string             // the whole environment
	Grace      time.Duration        // between SIGTERM and SIGKILL; default 5 s
	MaxResult  int                  // bytes of a result; default 16 MiB
	In         *process.Confinement // what the program may have and see; nil: all that this process may
	Kill       <-chan struct{}      // closed when the program must be gone at once (process.Spec); nil: never
	// Tell gets session events, and with the kind executor.LineBind what the program bound, while it runs, by one
	// goroutine at a time; nil: nobody listens.
	Tell func(kind string, body json.RawMessage)
	// Listen is the host's: what the program tells over the gateway is as if it stood on its stdout; nil: there is no gateway.
	Listen func(hear func(executor.Line)) (stop func())
}

// Run runs a job to its end. When ctx ends, the program is stopped and so is the outcome; what it had told by then is kept.
func Run(ctx context.Context, j Job) run.Outcome {
	in, err := j.Invocation.Encode()
	if err != nil {
		return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
	}
	most := cmp.Or(j.MaxResult, maxResult)
	t := newTranscript(j, most)
	stop := func() {}
	if j.Listen != nil {
		stop = j.Listen(t.hear)
	}
	exit, err := process.Run(ctx, process.Spec{
		Path: j.Command, Dir: j.Invocation.ProjectDir, Env: j.Env, Stdin: in, Grace: j.Grace, In: j.In, Kill: j.Kill, MaxOutput: most, MaxLine: t.longest, OnStdout: t.line,
	})
	stop()
	if bad := notStarted(err); bad != nil {
		return run.Outcome{Status: run.Failed, Error: bad}
	}
	if !exit.Began {
		return run.Outcome{Status: run.Stopped}
	}
	if t.spoke {
		exit.Stdout, exit.StdoutCut = t.own.Bytes(), t.own.Missing()
	}
	res, large := t.came(exit.Stdout, exit.StdoutCut, most)
	o := run.Outcome{Result: res}
	switch {
	case err != nil:
		o.Status = run.Stopped
	case exit.Code != 0 && (t.failure == nil || t.unread):
		o.Status, o.Error = run.Failed, exit.Fault(codeFailed)
	case t.failure != nil:
		o.Status, o.Error = run.Failed, t.failure
	case large != nil:
		o.Status, o.Error = run.Failed, large
	case o.Result == nil:
		o.Status, o.Result = run.Completed, &run.Result{Type: run.Autonomous}
	default:
		o.Status = run.Completed
	}
	return o
}

// notStarted is why a program did not start; nil where that is not what went wrong.
func notStarted(err error) *fault.Fault {
	bad, ok := errors.AsType[*process.StartError](err)
	if !ok {
		return nil
	}
	code := codeNotRunnable
	if errors.Is(bad, fs.ErrNotExist) && !strings.Contains(bad.Reason, "working directory") {
		code = codeNotFound
	}
	return fault.Wrap(fault.Internal, code, bad.Error(), bad.Err)
}

// printed is the result of a program that told none: what it wrote; nil where that is nothing.
func printed(out []byte) *run.Result {
	r := run.Result{Type: run.Autonomous}
	trimmed := bytes.TrimSpace(out)
	switch {
	case len(trimmed) == 0:
		return nil
	case json.Valid(trimmed) && utf8.Valid(trimmed):
		r.Data = trimmed
	default:
		text := strings.TrimRight(process.Plain(out), "\r\n")
		r.Text = &text
	}
	return &r
}
