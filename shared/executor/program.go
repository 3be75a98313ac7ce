package executor

import (
	"context"
	"encoding/json"
	"os"

	"ao/shared/run"
)

// Program is the main function of an executor that is also built into workers. do is the function that they call;
// here, what it emits becomes lines on stdout.
func Program(do func(context.Context, Invocation, Host) run.Outcome) {
	Main(func(ctx context.Context, v Invocation, out *Out) error {
		host := Host{Emit: out.emit, Env: os.Environ(), URL: os.Getenv(EnvAPIURL), MCP: os.Getenv(EnvMCPURL)}
		connectState(&host)
		o := do(ctx, v, host)
		if o.Status == run.Stopped {
			o.Error = nil // whoever stopped it knows why
		}
		if o.Result == nil && o.Error != nil {
			o.Result = &run.Result{Type: run.Autonomous}
		}
		if o.Result != nil {
			if err := out.Result(*o.Result, o.Error); err != nil {
				return err
			}
		}
		switch {
		case o.Status == run.Completed:
			return nil
		case o.Status == run.Stopped:
			return Exit{Code: CodeStopped}
		case o.Error == nil:
			return Exit{Code: CodeFailed, Message: "The executor failed without a reason"}
		}
		return o.Error
	})
}

// emit writes what is emitted to a host as a line.
func (o *Out) emit(kind string, body json.RawMessage) {
	l := Line{Type: LineEvent, EventType: kind, Body: body}
	if kind == LineBind {
		var err error
		l, _, err = ReadLine(body)
		if err != nil {
			return
		}
	}
	_ = o.line(l) // the reader is gone; the run ends soon
}
