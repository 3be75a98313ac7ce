package executor

import (
	"context"
	"encoding/json"
	"os"

	"ao/shared/run"
)

// Program is the main of an executor that workers also have built in: do is the same function, and what it tells its
// host becomes lines on stdout.
func Program(do func(context.Context, Invocation, Host) run.Outcome) {
	Main(func(ctx context.Context, v Invocation, out *Out) error {
		host := Host{Emit: out.tell, Env: os.Environ(), URL: os.Getenv(EnvAPIURL), MCP: os.Getenv(EnvMCPURL)}
		remember(&host)
		o := do(ctx, v, host)
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
			return Exit{Code: CodeFailed, Message: "The executor failed and did not say why"}
		}
		return o.Error
	})
}

// tell writes what a host is told as the line that it is.
func (o *Out) tell(kind string, body json.RawMessage) {
	l := Line{Type: LineEvent, EventType: kind, Body: body}
	if kind == LineBind {
		var err error
		l, _, err = ReadLine(body)
		if err != nil {
			return
		}
	}
	_ = o.line(l) // whoever read it is gone; the run ends soon
}
