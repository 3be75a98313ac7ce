package conformance

import (
	"bytes"
	"crypto/rand"
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

// markEnv marks all processes of an examination, so that those who leave their group are found (Linux).
const markEnv = "AGENT_ORCHESTRATOR_CONFORMANCE"

func newMark() string { return rand.Text() }

// proc is a process of the executor.
type proc struct {
	x    *examiner
	cmd  *exec.Cmd
	in   io.WriteCloser
	over chan struct{} // its end
	once sync.Once
	code int   // once it is over
	live []int // processes that lived when it ended by itself
	left []int // those that lived on when its group was killed

	wrote sync.WaitGroup
	mu    sync.Mutex
	said  []told
	errs  bytes.Buffer
	more  chan struct{} // closed when there is another line
}

// told is a line on stdout.
type told struct {
	raw  string
	line executor.Line
	ok   bool // it is of the protocol
	err  error
}

// spawn starts the program; with a document that it is about to get, its environment is that run's.
func (x *examiner) spawn(about ...executor.Invocation) (*proc, error) {
	p := &proc{x: x, over: make(chan struct{}), more: make(chan struct{})}
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
		close(p.over)
	}()
	return p, nil
}

// lines takes what a process writes.
type lines struct {
	p    *proc
	errs bool
	part []byte
}

func (l *lines) Write(b []byte) (int, error) {
	if l.errs {
		l.p.complain(b)
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
		l.p.hear(told{string(raw), line, ok, err})
	}
}

// hear takes a line of stdout.
func (p *proc) hear(line told) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, line)
	close(p.more)
	p.more = make(chan struct{})
}

// complain takes some of stderr.
func (p *proc) complain(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.errs.Len() < 1<<20 {
		p.errs.Write(b)
	}
}

// write writes to the process's stdin without waiting for it.
func (p *proc) write(b []byte) {
	p.wrote.Wait()
	p.wrote.Add(1)
	go func() {
		defer p.wrote.Done()
		p.in.Write(b) // one that reads no more is judged by what it says
	}()
}

// closeStdin ends the stdin after what was written.
func (p *proc) closeStdin() {
	go func() {
		p.wrote.Wait()
		p.in.Close()
	}()
}

// waitRead waits until the process has taken what was written, or has ended.
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
	case <-p.over:
	case <-t.C:
	case <-p.x.ctx.Done():
	}
}

func (p *proc) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// waitEnd tells whether the process ends within a time.
func (p *proc) waitEnd(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.over:
		return true
	case <-t.C:
	case <-p.x.ctx.Done():
	}
	return false
}

func (p *proc) term() { syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM) }

// kill ends what is left, and notes what had left the group.
func (p *proc) kill() {
	p.once.Do(func() {
		pid := p.cmd.Process.Pid
		if p.ended() {
			p.live = p.x.marked(&p.x.lived)
		}
		syscall.Kill(-pid, syscall.SIGKILL)
		<-p.over
		p.left = p.x.marked(&p.x.fled)
		for _, pid := range p.left {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		p.in.Close()
		p.wrote.Wait()
	})
}

// marked lists the processes of this examination that live. One that is about to end has 5 s for that, and a moment
// once such a wait was in vain.
func (x *examiner) marked(vain *bool) (all []int) {
	patience := 5 * time.Second
	if *vain {
		patience = 200 * time.Millisecond
	}
	for end := time.Now().Add(patience); ; pause(5 * time.Millisecond) {
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
			*vain = true
			return all
		}
	}
}

func pause(d time.Duration) { <-time.After(d) }

// lines are what it has said, with a last one that has no end.
func (p *proc) lines() []told {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.said[:len(p.said):len(p.said)]
	if out := p.cmd.Stdout.(*lines); len(out.part) > 0 {
		line, ok, err := executor.ReadLine(out.part)
		all = append(all, told{string(out.part), line, ok, err})
	}
	return all
}

// next waits for the line that ends a turn, after the first n lines; it gives how many lines there are then.
func (p *proc) next(n int, patience time.Duration) (told, int, error) {
	t := time.NewTimer(patience)
	defer t.Stop()
	for {
		p.mu.Lock()
		more, all := p.more, p.said
		p.mu.Unlock()
		for ; n < len(all); n++ {
			if kind := all[n].line.Type; kind == executor.LineTurnComplete || kind == executor.LineTurnFailed {
				return all[n], n + 1, nil
			}
			if looksLike.MatchString(all[n].raw) && !all[n].ok {
				return told{}, n, fmt.Errorf("a line that is no JSON: %.120q", all[n].raw)
			}
		}
		select {
		case <-more:
		case <-p.over:
			p.mu.Lock()
			last := n == len(p.said)
			p.mu.Unlock()
			if last {
				return told{}, n, fmt.Errorf("it ended before it answered: %s", p.why())
			}
		case <-t.C:
			return told{}, n, fmt.Errorf("no turn_complete or turn_failed line within %v (--patience)", patience)
		case <-p.x.ctx.Done():
			return told{}, n, p.x.ctx.Err()
		}
	}
}

var looksLike = regexp.MustCompile(`^\s*\{\s*"type"\s*:\s*"(event|bind|result|turn_complete|turn_failed)"`)

// judge tells which lines are of the protocol and wrong, and what is beside.
func (p *proc) judge() (bad []string, beside string) {
	for i, l := range p.lines() {
		switch {
		case l.ok && l.err != nil:
			bad = append(bad, fmt.Sprintf("line %d: %v", i+1, l.err))
		case !l.ok && looksLike.MatchString(l.raw):
			bad = append(bad, fmt.Sprintf("line %d is no JSON: %.80q", i+1, l.raw))
		case !l.ok && strings.TrimSpace(l.raw) != "":
			beside += l.raw + "\n"
		}
	}
	return bad, strings.TrimSpace(beside)
}

// spoken is how many good lines of the protocol there are.
func (p *proc) spoken() (n int) {
	for _, l := range p.lines() {
		if l.ok && l.err == nil {
			n++
		}
	}
	return n
}

func (p *proc) bound() string {
	for _, l := range p.lines() {
		if l.ok && l.err == nil && l.line.Type == executor.LineBind {
			return l.line.Session
		}
	}
	return ""
}

// result is what the run came to, for a person; empty: nothing.
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

// why says how it ended: the code, and the end of stderr.
func (p *proc) why() string {
	text := strings.TrimSpace(string(p.stderrText()))
	if len(text) > 300 {
		text = "…" + text[len(text)-300:]
	}
	return strings.TrimSuffix(fmt.Sprintf("exit code %d: %s", p.code, text), ": ")
}
