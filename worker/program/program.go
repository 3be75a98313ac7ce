// Package program runs autonomous agents with the program that their profile names. The program reads one JSON
// document on stdin and speaks the executor protocol 2.2 on stdout (shared/executor), or just prints its result.
//
// How a run ends:
//
//	the program                             status     error code
//	ends with code 0                        completed  –
//	same, its last result has an error      failed     the error's
//	same, its last result is unreadable     failed     executor_result_unreadable, result_too_large
//	ends with another code, or by a signal  failed     that of its last result's error, else executor_failed
//	cannot be started                       failed     executor_not_runnable
//	does not exist                          failed     executor_not_found
//	is stopped (the context ends)           stopped    –
//
// The result is the last line of type result. Without one it is all that the program wrote to stdout outside the
// protocol. One JSON value is result_data, other text result_text, nothing is no result. Text larger than a result
// may be fails the run (result_too_large). A run that failed or was stopped keeps its result.
//
// An unreadable result line fails the run unless a good one follows: unreadable work must not look done. An
// unreadable event or bind line is plain text until a good line shows that the program speaks the protocol. From then
// on it is dropped, and a message in the session says why.
//
// A Pool keeps the process of a program with the lifecycle persistent for further turns of its session (pool.go).
package program

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/worker/process"
)

// Error codes of these runs, beside those that a program sets itself.
const (
	codeFailed      = "executor_failed"
	codeNotFound    = "executor_not_found"
	codeNotRunnable = "executor_not_runnable"
	codeUnreadable  = "executor_result_unreadable"
)

const (
	maxResult    = 16 << 20 // default of Job.MaxResult
	maxExcerpt   = 1 << 20  // bytes kept of text too large for a result
	maxExtraText = 8 << 10  // bytes shown of text beside a result
	lineOverhead = 1 << 20  // bytes of a line besides its result
)

// Job is one run of a program.
type Job struct {
	Invocation  executor.Invocation
	Command     string               // path of the program (process.Find)
	Env         []string             // the whole environment
	Grace       time.Duration        // between SIGTERM and SIGKILL; default 5 s
	MaxResult   int                  // largest result, in bytes; default 16 MiB
	Confinement *process.Confinement // nil: not confined
	Kill        <-chan struct{}      // closed to kill the program without grace (process.Spec); nil: never
	Procedural  bool                 // the agent is: its result has an exit code, and nothing is bound
	// OnEvent gets session events while the program runs, and with the kind executor.LineBind what it bound. Calls
	// are never concurrent. May be nil.
	OnEvent func(kind string, body json.RawMessage)
	// Sealed is started in place of Command, a program of the worker's own (process.Spec); nil: Command.
	Sealed *process.Sealed
	// Listen makes lines sent over the gateway count as if written to stdout (executor.Host); nil: there is no gateway.
	Listen func(listener func(executor.Line)) (stop func())
}

// Run runs a job to its end. When ctx ends, the program is stopped and so is the outcome, with the result so far.
func Run(ctx context.Context, j Job) run.Outcome {
	o, code := runOnce(ctx, j)
	if !j.Procedural || code == nil {
		return o
	}
	r := run.Result{}
	if o.Result != nil {
		r = *o.Result
	}
	r.Type, r.ExitCode = run.Procedural, cmp.Or(r.ExitCode, code)
	o.Result = &r
	return o
}

// runOnce runs the program, and returns its exit code if it was started.
func runOnce(ctx context.Context, j Job) (run.Outcome, *int) {
	in, err := j.Invocation.Encode()
	if err != nil {
		return run.Outcome{Status: run.Failed, Error: fault.Of(err)}, nil
	}
	most := cmp.Or(j.MaxResult, maxResult)
	t := newTranscript(j, most)
	stop := func() {}
	if j.Listen != nil {
		stop = j.Listen(t.fromGateway)
	}
	exit, err := process.Run(ctx, process.Spec{
		Path: j.Command, Dir: j.Invocation.ProjectDir, Env: j.Env, Stdin: in, Grace: j.Grace,
		Confinement: j.Confinement, Kill: j.Kill, Sealed: j.Sealed, MaxOutput: most, MaxLine: t.maxLine,
		OnStdout: t.onLine,
	})
	stop()
	if bad := NotStarted(err); bad != nil {
		return run.Outcome{Status: run.Failed, Error: bad}, nil
	}
	if !exit.Started {
		return run.Outcome{Status: run.Stopped}, nil
	}
	if t.usesProtocol {
		exit.Stdout, exit.StdoutCut = t.plain.Bytes(), t.plain.Missing()
	}
	res, large := t.finalResult(exit.Stdout, exit.StdoutCut, most)
	switch {
	case err != nil:
		return run.Outcome{Status: run.Stopped, Error: exit.KeepStderr(nil), Result: res}, &exit.Code
	case exit.Code != 0 && (t.failure == nil || t.unreadable):
		return run.Outcome{Status: run.Failed, Error: exit.Fault(codeFailed), Result: res}, &exit.Code
	}
	return t.ended(res, large), &exit.Code
}

// NotStarted returns why a program did not start, or nil if err is something else.
func NotStarted(err error) *fault.Fault {
	bad, ok := errors.AsType[*process.StartError](err)
	if !ok {
		return nil
	}
	code := codeNotRunnable
	if bad.NotFound() {
		code = codeNotFound
	}
	return fault.Wrap(fault.Internal, code, bad.Error(), bad)
}

// textResult returns the result of a program without a result line: what it wrote; nil: nothing.
func textResult(out []byte) *run.Result {
	r := run.Result{Type: run.Autonomous}
	out = strictjson.TrimBOM(out)
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
