package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ao/nats/natstest"
	"ao/scripts/try"
)

// proc is a child process: this program in another role.
type proc struct {
	role string
	cmd  *exec.Cmd
}

func start(program, role string, env ...string) *proc {
	if program == "" {
		program = try.Must(os.Executable())
	}
	p := &proc{role: role, cmd: exec.Command(program)}
	p.cmd.Env = append(append(os.Environ(), env...), "AO_BENCH_ROLE="+role)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	try.Check(p.cmd.Start())
	return p
}

func (p *proc) end() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { p.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		p.cmd.Process.Kill()
		<-done
	}
}

// cpu returns the CPU time used by the process.
func (p *proc) cpu() time.Duration {
	fields, err := stat(p.cmd.Process.Pid, "stat")
	if err != nil || len(fields) < 15 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[13], 10, 64)
	system, _ := strconv.ParseInt(fields[14], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on every Linux port of Go
}

func stat(pid int, file string) ([]string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	return strings.Fields(string(raw)), err
}

// freePort returns an unused address on 127.0.0.1, for a server that may also be restarted.
func freePort() string {
	return try.Must(natstest.Address())
}
