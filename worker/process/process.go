// Package process is the one place that starts programs. A program gets a session, and so a process group, and an environment of its
// own, its pipes are drained from its first moment to its last, what it writes is kept up to a limit and cut
// visibly, and when Run returns, nothing of its tree is left: not a child that ignores SIGTERM, nor one that keeps
// the pipes, nor one that made itself a daemon.
//
// How nothing is left (Linux):
//   - The group gets SIGKILL while its leader is a zombie that still holds its number, so that no stranger is hit.
//   - This process is a subreaper: what loses its parent becomes a child of this process's main thread. Programs
//     are started by other threads only, so the main thread's list of children is empty unless something was left
//     behind, and one small read answers that after each run.
//   - Every program carries a mark in its environment (MarkEnv), one per Run and inherited by all below it. What
//     was left behind with the mark of a Run that is over is killed with all that descends from it.
//   - A program dies with this process, also by kill -9 (Pdeathsig; the threads that start programs never end);
//     Guard, called first in main, takes care of its descendants then.
//
// The limit of it: a process that leaves its group, and replaces its whole environment, and outlives its parents.
// After Guard that one is killed, too, but only when no Run is under way any more. Elsewhere than on Linux the
// group is all that is swept.
package process

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"ao/shared/trace"
)

// Run runs a program to its end and the end of everything it started. The error is a *StartError if it could not
// be started, and ctx's cause if ctx ended before the program did; then Exit still says how it ended. An exit
// code other than 0 is no error. When ctx ends, the group gets SIGTERM, and after Grace SIGKILL. Spec.In says what the
// program may have and see.
func Run(ctx context.Context, s Spec) (Exit, error) {
	if ctx.Err() != nil {
		return Exit{}, context.Cause(ctx)
	}
	_, span := trace.Start(ctx, "process")
	defer span.End()
	if span.IsRecording() {
		span.Set("process.executable.name", filepath.Base(s.Path))
	}
	c := s.In
	if c != nil {
		var temp string
		var err error
		if s, temp, err = c.confine(s); err != nil {
			return Exit{}, err
		}
		defer discard(temp)
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
	x := p.attend(s)
	status, usage, stopped := p.await(ctx, s)
	close(x.over)
	mark.sweep()
	x.finish(cmp.Or(s.WaitDelay, 2*time.Second))

	e := x.exit(status, usage)
	span.SetInt("process.exit.code", e.Code)
	if c != nil {
		e.Hit = c.Limits.hit(e)
	}
	if stopped {
		return e, cmp.Or(context.Cause(ctx), context.Canceled)
	}
	return e, nil
}

// streams are what goes through the pipes of a program.
type streams struct {
	program
	out, errs drain
	open      int           // pipes
	drained   chan struct{} // hears of each pipe that is done
	over      chan struct{} // closed: the program has ended
}

// attend reads what the program writes, and writes what it is to read.
func (p program) attend(s Spec) *streams {
	maxOutput, maxLine := cmp.Or(s.MaxOutput, 4<<20), cmp.Or(s.MaxLine, 64<<10)
	x := &streams{
		program: p, open: 2, drained: make(chan struct{}, 3), over: make(chan struct{}),
		out:  drain{file: p.stdout, keep: keep{limit: maxOutput}, lines: lines{limit: maxLine, each: s.OnStdout}},
		errs: drain{file: p.stderr, keep: keep{limit: maxOutput}, lines: lines{limit: maxLine, each: s.OnStderr}},
	}
	go x.out.run(x.drained)
	go x.errs.run(x.drained)
	if p.stdin != nil {
		x.open++
		go func() {
			_, err := p.stdin.Write(p.rest) // EPIPE, if it reads no more: its own affair
			feed(p.stdin, s.Input, x.over, err)
			p.stdin.Close()
			x.drained <- struct{}{}
		}()
	}
	return x
}

// finish waits for the ends of the pipes, so long at most, and closes them.
func (x *streams) finish(delay time.Duration) {
	patience := time.NewTimer(delay)
	defer patience.Stop()
	for ; x.open > 0; x.open-- {
		select {
		case <-x.drained:
		case <-patience.C: // someone beyond our reach has the pipes
			x.hangUp()
			<-x.drained
		}
	}
	x.stdout.Close()
	x.stderr.Close()
}

// exit is how the program ended, and what it wrote.
func (x *streams) exit(status syscall.WaitStatus, usage syscall.Rusage) Exit {
	e := Exit{Began: true, Code: status.ExitStatus(), CPU: cpu(usage)}
	if status.Signaled() {
		e.Signal = status.Signal()
		e.Code = 128 + int(e.Signal)
	}
	e.Stdout, e.StdoutCut = x.out.keep.bytes()
	e.Stderr, e.StderrCut = x.errs.keep.bytes()
	return e
}

// await waits for the program's end. When ctx ends, the program is told to end, and has a grace; then it is stopped. Nothing of its
// process group is left afterwards.
func (p program) await(ctx context.Context, s Spec) (status syscall.WaitStatus, usage syscall.Rusage, stopped bool) {
	g := group{pid: p.pid, sandboxed: s.sandboxed}
	grace := cmp.Or(s.Grace, 5*time.Second)
	unhook := context.AfterFunc(ctx, func() { g.signal(syscall.SIGTERM, grace) })
	if s.Kill != nil {
		over := make(chan struct{})
		defer close(over)
		go g.killOn(s.Kill, over)
	}
	waitable(p.pid)
	unhook()
	if stopped = g.stopping(); stopped {
		g.await() // its children have the rest of the grace
	}
	status, usage = g.end()
	return status, usage, stopped
}

// feed writes what comes to a program's stdin; after an error it only takes it.
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

// group is a program's process group, named by its leader. Its number stays taken until end has reaped the leader,
// and after that nothing signals it any more.
type group struct {
	pid       int
	sandboxed bool // the leader is bubblewrap
	mu        sync.Mutex
	ended     bool
	kill      *time.Timer
	until     time.Time // when the grace ends; zero: nobody asked it to stop
}

// signal sends a signal now, and SIGKILL after the grace.
func (g *group) signal(s syscall.Signal, grace time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	if g.kill != nil {
		g.kill.Stop()
	}
	g.until = time.Now().Add(grace)
	if !g.sandboxed || s == syscall.SIGKILL || !inside(g.pid, s) {
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

// killOn sends SIGKILL once kill is closed, unless the group is over before.
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
	return !g.until.IsZero()
}

// await gives the rest of the group, whose leader has ended, the rest of its grace.
func (g *group) await() {
	for g.patient() && groupLives(g.pid) {
		time.Sleep(5 * time.Millisecond)
	}
}

func (g *group) patient() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.until)
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

// program is one that was started.
type program struct {
	pid            int
	stdout, stderr *os.File
	stdin          *os.File // nil: everything is written, and nothing follows
	rest           []byte   // what is still to be written
}

// hangUp ends the reading and writing of all pipes.
func (p program) hangUp() {
	for _, f := range []*os.File{p.stdout, p.stderr, p.stdin} {
		if f != nil {
			f.SetDeadline(time.Unix(1, 0))
		}
	}
}

// start starts the program with its pipes. Small input is in its pipe before it begins.
func start(s Spec, m *mark) (program, error) {
	var p program
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
	fail := func(err error) (program, error) {
		closeAll(ours)
		closeAll(theirs)
		return program{}, err
	}

	in, err := nothing()
	if err != nil {
		return fail(&StartError{s.Path, "no input could be made for it", err})
	}
	piped := len(s.Stdin) > 0 || s.Input != nil
	if piped {
		r, w, err := pipe()
		if err != nil {
			return fail(&StartError{s.Path, "no pipe could be made for it", err})
		}
		ours, theirs, in = append(ours, w), append(theirs, r), uintptr(r)
	}
	for range 2 {
		r, w, err := pipe()
		if err != nil {
			return fail(&StartError{s.Path, "no pipe could be made for it", err})
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
		if p.rest = s.Stdin[max(n, 0):]; len(p.rest) == 0 && s.Input == nil {
			syscall.Close(ours[0])
		} else {
			p.stdin = os.NewFile(uintptr(ours[0]), "stdin")
		}
		ours = ours[1:]
	}
	p.pid, err = spawn(starter(s), s.Path, argv, attr, s.limits)
	if err != nil {
		if p.stdin != nil {
			p.stdin.Close()
		}
		return fail(explain(s, err))
	}
	closeAll(theirs)
	p.stdout, p.stderr = os.NewFile(uintptr(ours[0]), "stdout"), os.NewFile(uintptr(ours[1]), "stderr")
	return p, nil
}

// nothing is /dev/null, opened once, for the life of this process.
var nothing = sync.OnceValues(func() (uintptr, error) {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	return uintptr(fd), err
})

// spawn starts a program on one of the pool's threads, which never end. A file that was just written may be held open by
// another child for the moment between its fork and its exec (text file busy): that passes.
func spawn(on *pool, path string, argv []string, attr *syscall.ProcAttr, limits []rlimit) (pid int, err error) {
	for pause := time.Millisecond; ; pause *= 2 {
		pid, err = on.start(path, argv, attr, limits)
		if !errors.Is(err, syscall.ETXTBSY) || pause > 100*time.Millisecond {
			return pid, err
		}
		time.Sleep(pause)
	}
}
