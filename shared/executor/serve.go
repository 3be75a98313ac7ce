package executor

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"ao/shared/fault"
	"ao/shared/run"
)

// Serve is the main function of an executor program with both lifecycles. It calls turn for each turn of the
// session; v.Mode distinguishes start and resume. An error fails the turn, with its code if it is a
// *fault.Fault; the program continues. Keep the session's state in variables that turn closes over. A process
// may be the session's second one, so keep what must outlive it elsewhere, under v.ExecutorSession. SIGTERM and
// SIGINT end ctx: then turn must return, and the program ends.
func Serve(turn func(ctx context.Context, v Invocation, out *Out) (run.Result, error)) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := serveTurns(ctx, os.Stdin, os.Stdout, os.Stderr, turn)
	cancel()
	os.Exit(code)
}

func serveTurns(ctx context.Context, stdin io.Reader, stdout, errs io.Writer,
	turn func(context.Context, Invocation, *Out) (run.Result, error)) int {
	in, out := make(chan []byte), &Out{w: stdout}
	read := make(chan error, 1)
	go func() { // nothing is read during a turn, and SIGTERM works while nothing arrives
		read <- readLines(ctx, stdin, in)
		close(in)
	}()
	next := func() ([]byte, bool) {
		select {
		case raw, ok := <-in:
			return raw, ok
		case <-ctx.Done():
			return nil, false
		}
	}
	fail := func(what string, err error) int {
		fmt.Fprintf(errs, "%s on stdin: %v\n", what, err)
		return CodeInvalid
	}
	raw, ok := next()
	if ctx.Err() != nil {
		return CodeStopped
	}
	if !ok {
		if err := <-read; err != nil {
			return fail("invocation", err)
		}
	}
	v, err := ReadInvocation(raw)
	if err != nil {
		return fail("invocation", err)
	}
	v.APIURL, v.MCPURL = os.Getenv(EnvAPIURL), os.Getenv(EnvMCPURL)
	v.TraceParent, v.TraceState = os.Getenv(EnvTraceParent), os.Getenv(EnvTraceState)
	if v.Lifecycle != Persistent {
		r, err := turn(ctx, v, out)
		return finishOneshot(ctx, r, err, out, errs)
	}
	for {
		r, err := turn(ctx, v, out)
		if ctx.Err() != nil {
			return CodeStopped
		}
		if err := out.answer(v.RunID, r, err); err != nil {
			return CodeFailed // the reader is gone
		}
		raw, ok := next()
		switch {
		case ctx.Err() != nil:
			return CodeStopped
		case !ok:
			if err := <-read; err != nil {
				return fail("turn", err)
			}
			return 0
		}
		t, err := ReadTurn(raw)
		if err != nil {
			return fail("turn", err)
		}
		if t.Type == LineShutdown {
			return 0
		}
		v = v.Next(t)
	}
}

// finishOneshot ends a program with lifecycle oneshot.
func finishOneshot(ctx context.Context, r run.Result, err error, out *Out, errs io.Writer) int {
	switch {
	case ctx.Err() != nil:
		return CodeStopped
	case err != nil:
		_ = out.Result(run.Result{Type: run.Autonomous}, asFault(err))
		fmt.Fprintln(errs, err)
		return CodeFailed
	case out.Result(run.Result{Type: cmp.Or(r.Type, run.Autonomous), Text: r.Text, Data: r.Data}, nil) != nil:
		return CodeFailed
	}
	return 0
}

// answer ends a turn.
func (o *Out) answer(runID string, r run.Result, err error) error {
	if err != nil {
		return o.line(Line{Type: LineTurnFailed, RunID: runID, Error: asFault(err)})
	}
	r.Type = cmp.Or(r.Type, run.Autonomous)
	if len(r.Data) == 0 {
		r.Data = json.RawMessage("null")
	}
	return o.line(Line{Type: LineTurnComplete, RunID: runID, Result: &r})
}

// asFault returns an error as the run shows it.
func asFault(err error) *fault.Fault {
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return f
	}
	return fault.New(fault.Internal, "executor_failed", err.Error())
}

// readLines sends the non-empty lines of stdin, until its end or that of ctx.
func readLines(ctx context.Context, r io.Reader, to chan<- []byte) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		var line []byte
		for {
			part, err := in.ReadSlice('\n')
			line = append(line, part...)
			if len(line) > MaxInvocation {
				return fmt.Errorf("it is larger than %d MiB", MaxInvocation>>20)
			}
			if err == nil {
				break
			}
			if err == bufio.ErrBufferFull {
				continue
			}
			if len(bytes.TrimSpace(line)) > 0 && err == io.EOF { // the last line may have no line feed
				select {
				case to <- line:
				case <-ctx.Done():
				}
			}
			if err == io.EOF {
				err = nil
			}
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		select {
		case to <- line:
		case <-ctx.Done():
			return nil
		}
	}
}
