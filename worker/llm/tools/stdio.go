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

// maxStderr is how much of a program's stderr is kept, in bytes, for the case that it fails.
const maxStderr = 64 << 10

// program is a server that is a program: it reads messages on stdin and writes them to stdout, one a line.
type program struct {
	input chan process.Piece
	out   *io.PipeReader
	over  chan struct{} // it has ended, and nothing of its tree is left

	quit    chan struct{} // it was asked to end
	once    sync.Once
	writing sync.Mutex

	mu     sync.Mutex
	failed string // why it ended, where it was not asked to, or not well
}

// begin starts the server's program. It ends with ctx.
func (s Server) begin(ctx context.Context, c Config) (*program, error) {
	dir := c.Dir
	if !strings.Contains(s.Command, "/") {
		dir = "/" // a bare name is a program on PATH: nothing that lies in the project stands in for it
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
	p := &program{input: make(chan process.Piece), out: r, over: make(chan struct{}), quit: make(chan struct{})}
	go func() {
		defer close(p.over)
		exit, err := process.Run(ctx, process.Spec{
			Path: path, Args: s.Args, Dir: c.Dir, Env: env, Input: p.input, Confinement: c.In, Kill: c.Kill, MaxOutput: maxStderr, MaxLine: maxLine, Grace: parting,
			OnStdout: func(line []byte) { w.Write(append(line, '\n')) }, // an error: nobody reads any more
		})
		if ctx.Err() == nil && (err != nil || exit.Code != 0 || !p.leaving()) { // who could not talk to it has asked it to leave
			p.fail(exit, err)
		}
		w.Close()
	}()
	return p, nil
}

// fail notes why the program ended.
func (p *program) fail(exit process.Exit, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed = exit.Reason(); err != nil {
		p.failed = err.Error()
	}
	p.failed = "its program has ended: " + p.failed
}

// why says why the program ended, or nothing.
func (p *program) why() string {
	select {
	case <-p.over:
	case <-time.After(time.Second): // a broken pipe is seen before its cause is
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

func (p *program) transport() mcp.Transport {
	return &mcp.IOTransport{Reader: p.out, Writer: p, MaxLineLength: maxLine}
}

// Write gives the program a message.
func (p *program) Write(b []byte) (int, error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	if p.leaving() {
		return 0, io.ErrClosedPipe
	}
	done := make(chan error, 1)
	select {
	case p.input <- process.Piece{Data: slices.Clone(b), Done: func(err error) { done <- err }}:
	case <-p.over:
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
	case <-p.over:
	case <-p.quit: // it does not read
	}
	return 0, io.ErrClosedPipe
}

func (p *program) leaving() bool {
	select {
	case <-p.quit:
		return true
	default:
		return false
	}
}

// Close ends the program's input: that asks it to end.
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
	p.out.Close() // what it still says nobody hears
	<-p.over
}
