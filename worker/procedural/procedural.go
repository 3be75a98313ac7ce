// Package procedural is the built-in executor of procedural agents. It turns a run's parameters into flags, runs the
// agent's command, and makes a result of its output.
//
// How a run ends:
//
//	the command                            status     error code                exit_code
//	ends with code 0                       completed  –                         0
//	ends with another code, or by a signal failed     command_failed            its code; 128 + signal
//	exceeds its time limit                 failed     timeout                   124
//	cannot be started                      failed     command_not_runnable      –
//	does not exist                         failed     command_not_found         –
//	writes JSON that is too large          failed     result_too_large          its code
//	cannot take these parameters           failed     invalid_request           –
//	is stopped (the context ends)          stopped    –                         its code; 128 + signal
//
// Every command that ran has a result document, also when it failed. result_data is what it wrote to stdout if that
// is one JSON value, kept as it is, else {"return_code","stdout","stderr"}.
package procedural

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"ao/shared/agent"
	"ao/shared/executor"
	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
	"ao/worker/process"
)

// Error codes of procedural runs.
const (
	codeFailed      = "command_failed"
	CodeTimeout     = "timeout"
	CodeNotFound    = "command_not_found"
	codeNotRunnable = "command_not_runnable"
)

const (
	// ExitTimeout is the exit code of a run that exceeded its time limit.
	exitTimeout = 124

	maxResult    = 16 << 20 // default of Job.MaxResult
	maxTextShown = 1 << 20  // bytes shown of stdout and of stderr if they are text
)

// Job is one run of a command.
type Job struct {
	Invocation  executor.Invocation
	Command     string               // path of the program (process.Find)
	Env         []string             // the whole environment
	Timeout     time.Duration        // default 5 minutes; a deadline of ctx applies as well
	Grace       time.Duration        // between SIGTERM and SIGKILL; default 5 s
	MaxResult   int                  // largest JSON value, in bytes; default 16 MiB. Longer text is cut.
	Confinement *process.Confinement // nil: not confined
	Kill        <-chan struct{}      // closed to kill the command without grace (process.Spec); nil: never
	// OnEvent gets session events while the command runs: each stderr line is a system message, at most
	// maxEventRate on average. Calls are never concurrent. May be nil.
	OnEvent func(kind string, body json.RawMessage)
}

// errTimeout is the cause of the end of the job's own time limit.
var errTimeout = errors.New("timeout")

// Run runs a job to its end. When ctx ends, the command is stopped and so is the outcome. A deadline of ctx is a
// timeout, like the job's own.
func Run(ctx context.Context, j Job) run.Outcome {
	args, err := agent.Flags(j.Invocation.Parameters)
	if err != nil {
		return run.Outcome{Status: run.Failed, Error: fault.Of(err)}
	}
	limit := cmp.Or(j.Timeout, run.DefaultTimeout(run.Procedural))
	if end, ok := ctx.Deadline(); ok { // the caller's own limit
		limit = min(limit, time.Until(end).Round(time.Second))
	}
	timed, cancel := context.WithTimeoutCause(ctx, cmp.Or(j.Timeout, run.DefaultTimeout(run.Procedural)), errTimeout)
	defer cancel()
	most := cmp.Or(j.MaxResult, maxResult)
	spec := process.Spec{Path: j.Command, Args: args, Dir: j.Invocation.ProjectDir, Env: j.Env, Grace: j.Grace,
		Confinement: j.Confinement, Kill: j.Kill, MaxOutput: most}
	var p *progress
	if j.OnEvent != nil {
		p = &progress{emit: j.OnEvent, now: time.Now}
		spec.OnStderr, spec.MaxLine = p.onLine, 8<<10
	}
	exit, err := process.Run(timed, spec)
	if p != nil {
		p.flushSkipped()
	}
	return outcome(exit, err, timed.Err(), limit, most)
}

// outcome returns the run's outcome. late is why the time limit ended, if it did.
func outcome(exit process.Exit, err, late error, limit time.Duration, most int) run.Outcome {
	if bad := NotStarted(err); bad != nil {
		return run.Outcome{Status: run.Failed, Error: bad}
	}
	switch {
	case err != nil && exit.Started && errors.Is(late, context.DeadlineExceeded):
		exit.Code = exitTimeout
		late := fault.New(fault.Internal, CodeTimeout, "Command timed out after "+FormatLimit(limit))
		return failed(exit, most, exit.KeepStderr(late.With("timeout_seconds", limit.Seconds())))
	case err != nil && !exit.Started:
		return run.Outcome{Status: run.Stopped}
	case err != nil:
		return run.Outcome{Status: run.Stopped, Error: exit.KeepStderr(nil), Result: result(exit, most)}
	case exit.Code != 0:
		return failed(exit, most, exit.Fault(codeFailed))
	}
	if exit.StdoutCut > 0 && isPartialJSON(exit.Stdout[:most/2]) {
		return failed(exit, most, fault.New(fault.Internal, run.CodeTooLarge, fmt.Sprintf(
			"the command wrote more than %d bytes of JSON, the limit of a result (AO_MAX_PAYLOAD): write less, or "+
				"store it elsewhere and write its location", most)).With("limit", most))
	}
	return run.Outcome{Status: run.Completed, Result: result(exit, most)}
}

// NotStarted returns why a command did not start, or nil if err is something else.
func NotStarted(err error) *fault.Fault {
	bad, ok := errors.AsType[*process.StartError](err)
	if !ok {
		return nil
	}
	code := codeNotRunnable
	if bad.NotFound() {
		code = CodeNotFound
	}
	return fault.Wrap(fault.Internal, code, bad.Error(), bad)
}

// isPartialJSON reports whether head is the start of an object or array. Other text that is too large is cut.
func isPartialJSON(head []byte) bool {
	head = bytes.TrimLeft(strictjson.TrimBOM(head), " \t\r\n")
	if len(head) == 0 || head[0] != '{' && head[0] != '[' {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(head))
	err := d.Decode(new(json.RawMessage))
	return errors.Is(err, io.ErrUnexpectedEOF)
}

func failed(exit process.Exit, most int, why *fault.Fault) run.Outcome {
	return run.Outcome{Status: run.Failed, Error: why, Result: result(exit, most)}
}

// result returns the result document of a command that ran; most is its largest size, in bytes.
func result(exit process.Exit, most int) *run.Result {
	r := run.Result{Type: run.Procedural, ExitCode: &exit.Code}
	exit.Stdout = strictjson.TrimBOM(exit.Stdout)
	out := bytes.TrimSpace(exit.Stdout)
	if json.Valid(out) && utf8.Valid(out) {
		r.Data = out
		return &r
	}
	limit := min(maxTextShown, most/16) // fits even when escaped, twice
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(struct {
		Code   int    `json:"return_code"`
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr"`
	}{exit.Code, process.Plain(process.CutAgain(exit.Stdout, exit.StdoutCut, limit)),
		process.Plain(process.CutAgain(exit.Stderr, exit.StderrCut, limit))})
	r.Data = bytes.TrimSpace(b.Bytes())
	return &r
}

// FormatLimit returns a duration in words: 5 minutes, 1 hour, 90 seconds.
func FormatLimit(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := d / u.unit; n > 0 && d%u.unit == 0 {
			if n == 1 {
				return "1 " + u.name
			}
			return fmt.Sprintf("%d %ss", n, u.name)
		}
	}
	return d.String()
}
