package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// proc is a child process.
type proc struct {
	kind  string // "servers" or "workers", for the costs
	name  string
	cmd   *exec.Cmd
	quit  os.Signal // signal to stop it
	tally *tally    // of a worker
	done  chan struct{}
	state error // after done
}

// child describes a process to start. It does not inherit AO_… variables.
type child struct {
	kind, name string
	path       string
	args       []string
	env        []string
	user       *syscall.Credential // nil: this process's
	quit       os.Signal           // default SIGTERM
	tells      bool                // it reports jobs on stdout
	log        string              // file for its stderr, and its stdout unless it reports
}

func start(c child) (_ *proc, err error) {
	defer caught(&err)
	p := &proc{kind: c.kind, name: c.name, cmd: exec.Command(c.path, c.args...), quit: c.quit,
		done: make(chan struct{})}
	if p.quit == nil {
		p.quit = syscall.SIGTERM
	}
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AO_") })
	p.cmd.Env = append(p.cmd.Env, c.env...)
	file := must(os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))
	defer file.Close()
	p.cmd.Stderr = file
	if c.user != nil {
		p.cmd.Dir = "/" // the current folder may not be accessible to that user
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: c.user}
	var pipe io.Reader
	if c.tells {
		pipe = must(p.cmd.StdoutPipe())
		p.tally = newTally()
	} else {
		p.cmd.Stdout = file
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	go func() {
		if pipe != nil {
			p.tally.read(pipe)
		}
		p.state = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// end stops the process, and kills it if necessary.
func (p *proc) end() {
	p.cmd.Process.Signal(p.quit)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		p.kill()
	}
}

// kill sends SIGKILL.
func (p *proc) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// ready waits until the worker has reported that it takes jobs.
func (p *proc) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	select {
	case <-p.tally.ready:
		return nil
	case <-p.done:
		return fmt.Errorf("%s ended before it took jobs: %v", p.name, p.state)
	case <-ctx.Done():
		return fmt.Errorf("%s does not take jobs: %w", p.name, ctx.Err())
	}
}

// usage returns the CPU time of processes and their descendants, by kind.
func usage(procs []*proc) map[string]time.Duration {
	type entry struct {
		parent int
		cpu    time.Duration
	}
	all := map[int]entry{}
	dirs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range dirs {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, ok := strings.Cut(string(raw), ") ") // the name before it may contain spaces
		fields := strings.Fields(rest)
		if !ok || len(fields) < 15 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		e := entry{}
		e.parent, _ = strconv.Atoi(fields[1])
		for _, f := range fields[11:15] { // its own, and of its ended children
			n, _ := strconv.ParseInt(f, 10, 64)
			e.cpu += time.Duration(n) * 10 * time.Millisecond // USER_HZ is 100 on every Linux port of Go
		}
		all[pid] = e
	}
	kind := map[int]string{}
	for _, p := range procs {
		kind[p.cmd.Process.Pid] = p.kind
	}
	cpu := map[string]time.Duration{}
	for pid, e := range all {
		for up, depth := pid, 0; up > 1 && depth < 8; up, depth = all[up].parent, depth+1 {
			if k := kind[up]; k != "" {
				cpu[k] += e.cpu
				break
			}
		}
	}
	return cpu
}

// ownCPU returns the CPU time of this process, the producer.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var usedPorts = map[string]bool{} // addresses returned by freeAddr

// freeAddr returns an unused address on 127.0.0.1, each only once. Its port is below the range for outgoing
// connections, which could take it before it is used.
func freeAddr() (string, error) {
	for range 1000 {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(10000+rand.IntN(22000)))
		if err != nil {
			continue
		}
		l.Close()
		if address := l.Addr().String(); !usedPorts[address] {
			usedPorts[address] = true
			return address, nil
		}
	}
	return "", errors.New("no port from 10000 to 32000 is free")
}

// findProgram finds a program on PATH or in the usual places.
func findProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/", "/usr/pgsql-*/bin/", "/usr/local/pgsql/bin/",
		"/opt/homebrew/bin/", "/usr/local/bin/", "/usr/sbin/"} {
		found, _ := filepath.Glob(pattern + name)
		if len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("there is no %s on PATH or in the usual places", name)
}

// runCommand runs a program; its output is in the error.
func runCommand(ctx context.Context, dir, path string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=") // GOWORK=off is for this module only
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(path), strings.Join(args, " "), err, text)
	}
	return nil
}

// poll polls until so returns true.
func poll(ctx context.Context, every time.Duration, so func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if ok, err := so(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
