package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ao/shared/executor"
)

// markEnv marks all processes of a test, so that those that leave their process group are found (Linux).
const markEnv = "AGENT_ORCHESTRATOR_CONFORMANCE"

// proc is a process of the executor.
type proc struct {
	x    *examiner
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{} // its end
	once sync.Once
	code int   // valid once it is done
	live []int // processes that were alive when it ended by itself
	left []int // those alive after its group was killed

	wrote sync.WaitGroup
	mu    sync.Mutex
	said  []stdoutLine
	errs  bytes.Buffer
	more  chan struct{} // closed at the next line
}

type stdoutLine struct {
	raw  string
	line executor.Line
	ok   bool // it is of the protocol
	err  error
}

// spawn starts the program. With a document, it gets that run's environment.
func (x *examiner) spawn(about ...executor.Invocation) (*proc, error) {
	p := &proc{x: x, done: make(chan struct{}), more: make(chan struct{})}
	p.cmd = exec.Command(x.Command[0], x.Command[1:]...)
	p.cmd.Dir = x.dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	for _, name := range []string{"PATH", "HOME", "LANG", "TMPDIR", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			p.cmd.Env = append(p.cmd.Env, name+"="+value)
		}
	}
	p.cmd.Env = append(append(p.cmd.Env, x.Env...), markEnv+"="+x.mark)
	for _, v := range about {
		p.cmd.Env = append(p.cmd.Env, executor.EnvSessionID+"="+v.SessionID, executor.EnvRunID+"="+
			v.RunID, executor.EnvAgentName+"="+v.AgentName, executor.EnvAttempt+"=1")
	}
	p.cmd.WaitDelay = time.Second
	p.cmd.Stdout, p.cmd.Stderr = &lines{p: p}, &lines{p: p, errs: true}
	var err error
	p.in, err = p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("the executor cannot be started: %w", err)
	}
	go func() {
		p.cmd.Wait()
		p.code = p.cmd.ProcessState.ExitCode()
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			p.code = 128 + int(status.Signal())
		}
		close(p.done)
	}()
	return p, nil
}

// lines splits a process's output.
type lines struct {
	p    *proc
	errs bool
	part []byte
}

func (l *lines) Write(b []byte) (int, error) {
	if l.errs {
		l.p.addStderr(b)
		return len(b), nil
	}
	l.part = append(l.part, b...)
	for {
		i := bytes.IndexByte(l.part, '\n')
		if i < 0 {
			if len(l.part) > executor.MaxInvocation {
				l.part = nil
			}
			return len(b), nil
		}
		raw := bytes.Clone(l.part[:i])
		l.part = l.part[i+1:]
		line, ok, err := executor.ReadLine(raw)
		l.p.addLine(stdoutLine{string(raw), line, ok, err})
	}
}

func (p *proc) addLine(line stdoutLine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, line)
	close(p.more)
	p.more = make(chan struct{})
}

// addStderr adds output of stderr.
func (p *proc) addStderr(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.errs.Len() < 1<<20 {
		p.errs.Write(b)
	}
}

// write writes to stdin without waiting.
func (p *proc) write(b []byte) {
	p.wrote.Wait()
	p.wrote.Go(func() { p.in.Write(b) }) // one that reads no more is judged by what it says
}

// closeStdin closes stdin after what was written.
func (p *proc) closeStdin() {
	go func() {
		p.wrote.Wait()
		p.in.Close()
	}()
}

// waitRead waits until the process has read everything, or has ended.
func (p *proc) waitRead(d time.Duration) {
	read := make(chan struct{})
	go func() {
		p.wrote.Wait()
		close(read)
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-read:
	case <-p.done:
	case <-t.C:
	case <-p.x.ctx.Done():
	}
}

func (p *proc) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// waitEnd reports whether the process ends within a time.
func (p *proc) waitEnd(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
	case <-p.x.ctx.Done():
	}
	return false
}

// kill kills the process group, and notes the processes that had left it.
func (p *proc) kill() {
	p.once.Do(func() {
		pid := p.cmd.Process.Pid
		if p.ended() {
			p.live = p.x.marked(&p.x.survived)
		}
		syscall.Kill(-pid, syscall.SIGKILL)
		<-p.done
		p.left = p.x.marked(&p.x.escaped)
		for _, pid := range p.left {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		p.in.Close()
		p.wrote.Wait()
	})
}

// marked returns the living processes of this test. It waits up to 5 s for those that are about to end, and
// only a moment after such a wait failed once.
func (x *examiner) marked(timedOut *bool) (all []int) {
	timeout := 5 * time.Second
	if *timedOut {
		timeout = 200 * time.Millisecond
	}
	pause := 5 * time.Millisecond
	for end := time.Now().Add(timeout); ; pause = min(2*pause, 200*time.Millisecond) {
		all = nil
		entries, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range entries {
			env, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(env, []byte(markEnv+"="+x.mark)) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				all = append(all, pid)
			}
		}
		if all == nil {
			return nil
		}
		if time.Now().After(end) {
			*timedOut = true
			return all
		}
		sleep(pause)
	}
}

func sleep(d time.Duration) { <-time.After(d) }

// lines are its lines so far, with an unfinished last one.
func (p *proc) lines() []stdoutLine {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.said[:len(p.said):len(p.said)]
	if out := p.cmd.Stdout.(*lines); len(out.part) > 0 {
		line, ok, err := executor.ReadLine(out.part)
		all = append(all, stdoutLine{string(out.part), line, ok, err})
	}
	return all
}

// next waits for the line that ends a turn, after the first n lines.
func (p *proc) next(n int, timeout time.Duration) (stdoutLine, error) {
	t := time.NewTimer(timeout)
	defer t.Stop()
	for {
		p.mu.Lock()
		more, all := p.more, p.said
		p.mu.Unlock()
		for ; n < len(all); n++ {
			if kind := all[n].line.Type; kind == executor.LineTurnComplete || kind == executor.LineTurnFailed {
				return all[n], nil
			}
			if brokenLine(all[n]) {
				return stdoutLine{}, fmt.Errorf("a line that is not JSON: %.120q", all[n].raw)
			}
		}
		select {
		case <-more:
		case <-p.done:
			p.mu.Lock()
			last := n == len(p.said)
			p.mu.Unlock()
			if last {
				return stdoutLine{}, fmt.Errorf("it ended before it answered: %s", p.why())
			}
		case <-t.C:
			return stdoutLine{}, fmt.Errorf("no turn_complete or turn_failed line within %v (--timeout)", timeout)
		case <-p.x.ctx.Done():
			return stdoutLine{}, p.x.ctx.Err()
		}
	}
}

var looksLike = regexp.MustCompile(`^\s*\{\s*"type"\s*:\s*"(event|bind|result|turn_complete|turn_failed)"`)

// brokenLine reports whether a line begins as one of the protocol, and is no JSON.
func brokenLine(l stdoutLine) bool {
	return !l.ok && looksLike.MatchString(l.raw) && !json.Valid([]byte(l.raw))
}

// badLines returns the lines of the protocol that are wrong, and other output.
func (p *proc) badLines() (bad []string, beside string) {
	for i, l := range p.lines() {
		switch {
		case l.ok && l.err != nil:
			bad = append(bad, fmt.Sprintf("line %d: %v", i+1, l.err))
		case brokenLine(l):
			bad = append(bad, fmt.Sprintf("line %d is not JSON: %.80q", i+1, l.raw))
		case !l.ok && strings.TrimSpace(l.raw) != "":
			beside += l.raw + "\n"
		}
	}
	return bad, strings.TrimSpace(beside)
}

// goodLines returns the number of valid lines of the protocol.
func (p *proc) goodLines() (n int) {
	for _, l := range p.lines() {
		if l.ok && l.err == nil {
			n++
		}
	}
	return n
}

// failure returns the error that its last result line reports, if any.
func (p *proc) failure() (last error) {
	for _, l := range p.lines() {
		switch {
		case !l.ok || l.err != nil || l.line.Result == nil && l.line.Error == nil:
		case l.line.Error == nil:
			last = nil
		default:
			last = reportedFailure{fmt.Errorf("its result says that it failed: %s", l.line.Error.Message)}
		}
	}
	return last
}

func (p *proc) bound() string {
	for _, l := range p.lines() {
		if l.ok && l.err == nil && l.line.Type == executor.LineBind {
			return l.line.Session
		}
	}
	return ""
}

// result returns the run's result for people; empty: none.
func (p *proc) result() (text string) {
	var own []string
	for _, l := range p.lines() {
		switch {
		case l.ok && l.err == nil && l.line.Result != nil:
			text = shown(l.line.Result)
		case !l.ok && strings.TrimSpace(l.raw) != "":
			own = append(own, l.raw)
		}
	}
	if text != "" || len(own) == 0 {
		return text
	}
	all := strings.Join(own, "\n")
	if json.Valid([]byte(all)) {
		return fmt.Sprintf("JSON %.60s", all)
	}
	return fmt.Sprintf("text %.60q", all)
}

func (p *proc) stderrText() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.errs.Bytes())
}

// why returns how it ended: the exit code, and the end of stderr.
func (p *proc) why() string {
	text := strings.TrimSpace(string(p.stderrText()))
	if len(text) > 300 {
		text = "…" + text[len(text)-300:]
	}
	return strings.TrimSuffix(fmt.Sprintf("exit code %d: %s", p.code, text), ": ")
}
