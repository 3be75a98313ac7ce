package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process is one program of the stack. It can be stopped and restarted with the same settings, and dies with this
// process.
type process struct {
	name string // coordinator-1
	path string
	env  []string
	dir  string
	log  string // log file of all its starts
	// makes the command of a program
	command func(program string, args ...string) *exec.Cmd

	mu              sync.Mutex
	cmd             *exec.Cmd
	done            chan struct{}
	intended        bool     // we ended it
	starts          int      // number of starts
	unexpectedExits []string // exits that we did not cause
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.starts++
	fmt.Fprintf(log, "=== start %d of %s, %s\n", p.starts, p.name, time.Now().UTC().Format(timeFormat))
	cmd := p.command(p.path)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.env, p.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done, p.intended = cmd, done, false
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.intended {
			p.unexpectedExits = append(p.unexpectedExits, fmt.Sprintf("%s ended by itself at %s: %v; its last line: %s",
				p.name, time.Now().UTC().Format(timeFormat), err, lastLine(p.log)))
		}
		close(done)
	}()
	return nil
}

// lastLine returns the last line of a log.
func lastLine(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	raw = bytes.TrimSpace(raw)
	return string(raw[bytes.LastIndexByte(raw, '\n')+1:])
}

// timeFormat is the time format of the programs' logs.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	select {
	case <-p.done: // reaped: the pid may be reused
		return
	default:
	}
	if s == syscall.SIGKILL || s == syscall.SIGTERM {
		p.intended = true
	}
	p.cmd.Process.Signal(s)
}

// kill sends SIGKILL, as a crash.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	p.waitExit(time.Minute)
}

// stop sends SIGTERM, as an operator would. A process that does not exit in time is killed, which is an error.
func (p *process) stop(timeout time.Duration) error {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	if p.waitExit(timeout) {
		return nil
	}
	p.kill()
	return fmt.Errorf("%s did not end within %s of SIGTERM", p.name, timeout)
}

// waitExit waits until the process has exited; true if it never started.
func (p *process) waitExit(timeout time.Duration) bool {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done == nil {
		return true
	}
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	select {
	case <-done:
		return true
	case <-limit.C:
		return false
	}
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}
