package tools

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"ao/worker/process"
)

// maxStderr is how much stderr of a program is kept for errors, in bytes.
const maxStderr = 64 << 10

// program is a server that runs as a program: one message per line on stdin and stdout.
type program struct {
	input chan process.Piece
	out   *io.PipeReader
	ended chan struct{} // closed when its whole tree has ended

	quit    chan struct{} // closed: it was asked to end
	once    sync.Once
	writing sync.Mutex

	mu     sync.Mutex
	failed string // why it ended unexpectedly
}

// start starts the server's program. It ends with ctx.
func (s Server) start(ctx context.Context, c Config) (*program, error) {
	dir := c.Dir
	if !strings.Contains(s.Command, "/") {
		dir = "/" // a bare name is a program on PATH, never a file of the project
	}
	path, err := process.Find(s.Command, dir)
	if err != nil {
		return nil, err
	}
	env := slices.Clone(c.Env)
	for name, value := range s.Env {
		env = slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		env = append(env, name+"="+value)
	}
	r, w := io.Pipe()
	p := &program{input: make(chan process.Piece), out: r, ended: make(chan struct{}), quit: make(chan struct{})}
	go func() {
		defer close(p.ended)
		exit, err := process.Run(ctx, process.Spec{
			Path: path, Args: s.Args, Dir: c.Dir, Env: env, Input: p.input, Confinement: c.Confinement, Kill: c.Kill,
			MaxOutput: maxStderr, MaxLine: maxLine, Grace: closeTimeout,
			OnStdout: func(line []byte) { w.Write(append(line, '\n')) }, // fails if nobody reads any more
		})
		// a client that could not talk to it asked it to quit
		if ctx.Err() == nil && (err != nil || exit.Code != 0 || !p.quitting()) {
			p.setFailed(exit, err)
		}
		w.Close()
	}()
	return p, nil
}

// setFailed records why the program ended.
func (p *program) setFailed(exit process.Exit, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = exit.Reason()
	if err != nil {
		p.failed = err.Error()
	}
	p.failed = "its program ended: " + p.failed
}

// failure returns why the program ended, or nothing.
func (p *program) failure() string {
	select {
	case <-p.ended:
	case <-time.After(time.Second): // a broken pipe is noticed before its cause
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

func (p *program) transport() mcp.Transport {
	return &mcp.IOTransport{Reader: p.out, Writer: p, MaxLineLength: maxLine}
}

// Write writes a message to the program.
func (p *program) Write(b []byte) (int, error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.quitting() {
		return 0, io.ErrClosedPipe
	}
	done := make(chan error, 1)
	select {
	case p.input <- process.Piece{Data: slices.Clone(b), Done: func(err error) { done <- err }}:
	case <-p.ended:
		return 0, io.ErrClosedPipe
	case <-p.quit:
		return 0, io.ErrClosedPipe
	}
	select {
	case err := <-done:
		if err != nil {
			return 0, err
		}
		return len(b), nil
	case <-p.ended:
	case <-p.quit: // the program does not read
	}
	return 0, io.ErrClosedPipe
}

func (p *program) quitting() bool {
	select {
	case <-p.quit:
		return true
	default:
		return false
	}
}

// Close closes the program's input, which asks it to end.
func (p *program) Close() error {
	p.once.Do(func() {
		close(p.quit)
		p.writing.Lock()
		close(p.input)
		p.writing.Unlock()
	})
	return nil
}

// close waits for the program's end.
func (p *program) close() {
	p.Close()
	p.out.Close() // ignore further output
	<-p.ended
}
