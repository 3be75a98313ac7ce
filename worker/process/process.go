// Package process starts programs and ends them with everything they started. It is the only place that starts
// programs.
//
// A program gets its own session, process group and environment. Its pipes are read from start to end; output is kept
// up to a limit and cut visibly. When Run returns, nothing of the program's tree is left: no child that ignores
// SIGTERM, keeps the pipes open, or made itself a daemon.
//
// How that works on Linux:
//   - The group gets SIGKILL while its leader is a zombie that still holds its number, so no other process is hit.
//   - This process is a subreaper: an orphan becomes a child of its main thread. Programs are started by other
//     threads only, so the main thread's list of children is empty unless something was left behind. One small read
//     checks that after each run.
//   - Every program carries a mark in its environment (MarkEnv), one per Run and inherited. Orphans with the mark of
//     a finished Run are killed with their descendants.
//   - A program dies with this process, even on kill -9 (Pdeathsig; the threads that start programs never end).
//     Guard, called first in main, then kills its descendants.
//
// The limit: a process that leaves its group, replaces its whole environment and outlives its parents. After Guard it
// is killed as well, but only when no Run is active. On other systems only the group is killed.
package process

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ao/shared/trace"
)

// Run runs a program to its end and the end of everything it started. The error is a *StartError if it could not be
// started. If ctx ends first, it is ctx's cause; Exit is valid then, too. A non-zero exit code is no error. When ctx
// ends, the group gets SIGTERM, and after Grace SIGKILL.
func Run(ctx context.Context, s Spec) (Exit, error) {
	if ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	_, span := trace.Start(ctx, "process")
	defer span.End()
	if span.IsRecording() {
		span.Set("process.executable.name", filepath.Base(s.Path))
	}
	c, script := s.Confinement, s.path()
	if c != nil {
		var temp string
		var err error
		s, temp, err = c.apply(s)
		if err != nil {
			return Exit{}, err
		}
		defer releaseTempDir(temp)
	}
	mark := newMark()
	defer mark.release()
	p, err := start(s, mark)
	if err != nil {
		span.SetError("not_started")
		return Exit{}, err
	}
	running.Add(1)
	defer running.Add(-1)
	x := p.startStreams(s)
	status, usage, stopped := p.await(ctx, s)
	close(x.ended)
	mark.sweep()
	x.finish(pipeDelay)

	e := x.exit(status, usage)
	span.SetInt("process.exit.code", e.Code)
	e.crlf = e.Code != 0 && e.signal == 0 && strings.HasSuffix(shebang(script), "\r")
	if c != nil {
		e.Hit = c.Limits.detectHit(e)
	}
	if stopped {
		return e, cmp.Or(context.Cause(ctx), context.Canceled)
	}
	return e, nil
}

// pipeDelay is how long pipes may stay open after the last known process.
const pipeDelay = 2 * time.Second

// streams are the pipes of a running program.
type streams struct {
	child
	out, errs drain
	open      int           // open pipes
	drained   chan struct{} // receives once per finished pipe
	ended     chan struct{} // closed when the program has ended
}

// startStreams starts to read the program's output and to write its input.
func (p child) startStreams(s Spec) *streams {
	maxOutput, maxLine := cmp.Or(s.MaxOutput, 4<<20), cmp.Or(s.MaxLine, 64<<10)
	x := &streams{
		child: p, open: 2, drained: make(chan struct{}, 3), ended: make(chan struct{}),
		out: drain{file: p.stdout, keep: headTail{limit: maxOutput}, lines: lineSplitter{limit: maxLine,
			onLine: s.OnStdout}},
		errs: drain{file: p.stderr, keep: headTail{limit: maxOutput}, lines: lineSplitter{limit: maxLine,
			onLine: s.OnStderr}},
	}
	go x.out.run(x.drained)
	go x.errs.run(x.drained)
	if p.stdin != nil {
		x.open++
		go func() {
			_, err := p.stdin.Write(p.unwritten) // EPIPE if it reads no more, which is no error
			feed(p.stdin, s.Input, x.ended, err)
			p.stdin.Close()
			x.drained <- struct{}{}
		}()
	}
	return x
}

// finish waits at most delay for the ends of the pipes and closes them.
func (x *streams) finish(delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for ; x.open > 0; x.open-- {
		select {
		case <-x.drained:
		case <-timer.C: // a process out of reach holds the pipes
			x.expirePipes()
			<-x.drained
		}
	}
	x.stdout.Close()
	x.stderr.Close()
}

// exit returns how the program ended and what it wrote.
func (x *streams) exit(status syscall.WaitStatus, usage syscall.Rusage) Exit {
	e := Exit{Started: true, Code: status.ExitStatus(), cpu: cpu(usage)}
	if status.Signaled() {
		e.signal = status.Signal()
		e.Code = 128 + int(e.signal)
	}
	e.Stdout, e.StdoutCut = x.out.keep.bytes()
	e.Stderr, e.StderrCut = x.errs.keep.bytes()
	return e
}

// await waits for the program's end. When ctx ends, the program gets SIGTERM and, after its grace period, SIGKILL.
// Nothing of its process group is left afterwards.
func (p child) await(ctx context.Context, s Spec) (status syscall.WaitStatus, usage syscall.Rusage, stopped bool) {
	g := group{pid: p.pid, sandboxed: s.sandboxed}
	grace := cmp.Or(s.Grace, 5*time.Second)
	unhook := context.AfterFunc(ctx, func() { g.signal(syscall.SIGTERM, grace) })
	if s.Kill != nil {
		over := make(chan struct{})
		defer close(over)
		go g.killOn(s.Kill, over)
	}
	waitExit(p.pid)
	unhook()
	stopped = g.stopping()
	if stopped {
		g.waitGroup() // its children get the rest of the grace period
	}
	status, usage = g.end()
	return status, usage, stopped
}

// feed writes input to a program's stdin; after an error it only drains the input.
func feed(stdin *os.File, input <-chan Piece, over <-chan struct{}, err error) {
	for input != nil {
		select {
		case p, ok := <-input:
			if !ok {
				return
			}
			if err == nil {
				_, err = stdin.Write(p.Data)
			}
			p.Done(err)
		case <-over:
			return
		}
	}
}

func cpu(u syscall.Rusage) time.Duration { return time.Duration(u.Utime.Nano() + u.Stime.Nano()) }

// group is a program's process group, named by its leader. The number stays taken until end has reaped the leader;
// after that nothing signals it.
type group struct {
	pid       int
	sandboxed bool // the leader is bubblewrap
	mu        sync.Mutex
	ended     bool
	kill      *time.Timer
	graceEnd  time.Time // end of the grace period; zero: not stopping
}

// signal sends a signal now, and SIGKILL after grace.
func (g *group) signal(s syscall.Signal, grace time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	if g.kill != nil {
		g.kill.Stop()
	}
	g.graceEnd = time.Now().Add(grace)
	if !g.sandboxed || s == syscall.SIGKILL || !signalInside(g.pid, s) {
		syscall.Kill(-g.pid, s)
	}
	g.kill = time.AfterFunc(grace, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.ended {
			syscall.Kill(-g.pid, syscall.SIGKILL)
		}
	})
}

// killOn sends SIGKILL once kill is closed, unless over is closed first.
func (g *group) killOn(kill, over <-chan struct{}) {
	select {
	case <-kill:
		g.signal(syscall.SIGKILL, 0)
	case <-over:
	}
}

func (g *group) stopping() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.graceEnd.IsZero()
}

// waitGroup waits until the group has ended or its grace period is over. Its leader has ended.
func (g *group) waitGroup() {
	for g.inGrace() && groupAlive(g.pid) {
		time.Sleep(5 * time.Millisecond)
	}
}

func (g *group) inGrace() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.graceEnd)
}

// end kills what is left of the group and reaps it.
func (g *group) end() (syscall.WaitStatus, syscall.Rusage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	if g.kill != nil {
		g.kill.Stop()
	}
	syscall.Kill(-g.pid, syscall.SIGKILL)
	status, usage := reap(g.pid)
	reapGroup(g.pid)
	return status, usage
}

// child is a started program.
type child struct {
	pid            int
	stdout, stderr *os.File
	stdin          *os.File // nil: all input is written
	unwritten      []byte   // input that did not fit into the pipe
}

// expirePipes ends all reads and writes of the pipes.
func (p child) expirePipes() {
	for _, f := range []*os.File{p.stdout, p.stderr, p.stdin} {
		if f != nil {
			f.SetDeadline(time.Unix(1, 0))
		}
	}
}

// start starts the program with its pipes. Small input is in its pipe before the program starts.
func start(s Spec, m *mark) (child, error) {
	var p child
	var ours, theirs []int
	closeAll := func(fds []int) {
		for _, fd := range fds {
			syscall.Close(fd)
		}
	}
	pipe := func() (r, w int, err error) {
		var fds [2]int
		err = closeOnExecPipe(&fds)
		return fds[0], fds[1], err
	}
	fail := func(err error) (child, error) {
		closeAll(ours)
		closeAll(theirs)
		return child{}, err
	}

	in, err := devNull()
	if err != nil {
		return fail(&StartError{s.Path, "cannot open its input", err})
	}
	piped := len(s.Stdin) > 0 || s.Input != nil
	if piped {
		r, w, err := pipe()
		if err != nil {
			return fail(&StartError{s.Path, "cannot create a pipe for it", err})
		}
		ours, theirs, in = append(ours, w), append(theirs, r), uintptr(r)
	}
	for range 2 {
		r, w, err := pipe()
		if err != nil {
			return fail(&StartError{s.Path, "cannot create a pipe for it", err})
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	for _, fd := range ours {
		syscall.SetNonblock(fd, true)
	}
	outs := theirs[len(theirs)-2:]

	argv := append([]string{s.Path}, s.Args...)
	attr := &syscall.ProcAttr{
		Dir:   s.Dir,
		Env:   append(slices.Clip(s.Env), m.env()),
		Files: []uintptr{in, uintptr(outs[0]), uintptr(outs[1])},
		Sys:   attributes(s),
	}
	if piped {
		n, _ := syscall.Write(ours[0], s.Stdin)
		p.unwritten = s.Stdin[max(n, 0):]
		if len(p.unwritten) == 0 && s.Input == nil {
			syscall.Close(ours[0])
		} else {
			p.stdin = os.NewFile(uintptr(ours[0]), "stdin")
		}
		ours = ours[1:]
	}
	path := s.Path
	if s.Sealed != nil && sealedPath != "" {
		attr.Files, path = append(attr.Files, s.Sealed.file.Fd()), sealedPath
	}
	p.pid, err = spawn(poolFor(s), path, argv, attr, s.limits)
	if err != nil {
		if p.stdin != nil {
			p.stdin.Close()
		}
		return fail(explainStart(s, err))
	}
	closeAll(theirs)
	p.stdout, p.stderr = os.NewFile(uintptr(ours[0]), "stdout"), os.NewFile(uintptr(ours[1]), "stderr")
	return p, nil
}

// devNull is /dev/null, opened once.
var devNull = sync.OnceValues(func() (uintptr, error) {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	return uintptr(fd), err
})

// spawn starts a program on a thread of the pool. ETXTBSY is retried: another child may hold a file that was just
// written open between its fork and its exec.
func spawn(on *spawnPool, path string, argv []string, attr *syscall.ProcAttr, limits []rlimit) (pid int, err error) {
	for pause := time.Millisecond; ; pause *= 2 {
		pid, err = on.start(path, argv, attr, limits)
		if !errors.Is(err, syscall.ETXTBSY) || pause > 100*time.Millisecond {
			return pid, err
		}
		time.Sleep(pause)
	}
}

var running atomic.Int64

// Running returns how many programs of this process run now, without their child processes.
func Running() int { return int(running.Load()) }
