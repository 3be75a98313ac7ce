package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"ao/shared/fault"
	"ao/shared/run"
)

// MaxInvocation is the size limit of the document, in bytes.
const MaxInvocation = 64 << 20

// The exit codes of Main, besides those of an Exit.
const (
	CodeFailed  = 1   // the function returned an error
	CodeInvalid = 2   // the document on stdin is invalid
	CodeStopped = 143 // SIGTERM or SIGINT ended it (128 + 15)
)

// Exit is an error with its own exit code. An empty message writes nothing to stderr.
type Exit struct {
	Code    int
	Message string
}

func (e Exit) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Message
}

// Out writes an executor's lines. It may be used concurrently.
type Out struct {
	mu sync.Mutex
	w  io.Writer
}

// Event writes an event; body is an object.
func (o *Out) Event(kind string, body any) error {
	raw, err := encode(body)
	if err != nil {
		return err
	}
	return o.line(Line{Type: LineEvent, EventType: kind, Body: raw})
}

// Message writes a message of a role (assistant, user, system).
func (o *Out) Message(role, text string) error {
	return o.line(Line{Type: LineEvent, EventType: run.EventMessage, Body: run.TextMessage(role, text)})
}

// Bind writes the executor's own session id, which a resume gets back.
func (o *Out) Bind(session string) error { return o.line(Line{Type: LineBind, Session: session}) }

// Result writes the result. With an error the run failed.
func (o *Out) Result(r run.Result, err *fault.Fault) error {
	if len(r.Data) == 0 {
		r.Data = json.RawMessage("null")
	}
	return o.line(Line{Type: LineResult, Result: &r, Error: err})
}

func (o *Out) line(l Line) error {
	raw, err := l.MarshalJSON()
	if err != nil {
		return err
	}
	if raw[len(raw)-1] != '\n' {
		raw = append(raw, '\n')
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err = o.w.Write(raw)
	return err
}

// Main is the main function of an executor program: it reads the invocation, calls do, and exits. SIGTERM and
// SIGINT end ctx. An error's text goes to stderr, and is the run's message unless a result has another one.
func Main(do func(ctx context.Context, v Invocation, out *Out) error) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := serve(ctx, os.Stdin, os.Stdout, os.Stderr, do)
	cancel()
	os.Exit(code)
}

func serve(ctx context.Context, in io.Reader, out, errs io.Writer,
	do func(context.Context, Invocation, *Out) error) int {
	var raw []byte
	var err error
	read := make(chan struct{})
	go func() { // SIGTERM works while nothing arrives
		defer close(read)
		raw, err = io.ReadAll(io.LimitReader(in, MaxInvocation+1))
	}()
	select {
	case <-read:
	case <-ctx.Done():
		return CodeStopped
	}
	if err == nil && len(raw) > MaxInvocation {
		err = fmt.Errorf("the document is larger than %d MiB", MaxInvocation>>20)
	}
	var v Invocation
	if err == nil {
		v, err = ReadInvocation(raw)
	}
	if err != nil {
		fmt.Fprintf(errs, "invocation on stdin: %v\n", err)
		return CodeInvalid
	}
	v.APIURL, v.MCPURL = os.Getenv(EnvAPIURL), os.Getenv(EnvMCPURL)
	v.TraceParent, v.TraceState = os.Getenv(EnvTraceParent), os.Getenv(EnvTraceState)
	err = do(ctx, v, &Out{w: out})
	exit, ok := errors.AsType[Exit](err)
	switch {
	case err == nil:
		return 0
	case ok && exit.Message == "":
		return exit.Code
	}
	fmt.Fprintln(errs, err)
	switch {
	case ok:
		return exit.Code
	case ctx.Err() != nil:
		return CodeStopped
	}
	return CodeFailed
}
