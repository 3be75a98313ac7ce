package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// guardEnv tells a process that it is a guard, and of which instance.
const guardEnv = "AGENT_ORCHESTRATOR_GUARD"

// Guard is the first call in the main of a program whose processes shall not outlive it, whatever kills it. It
// starts a second process of the same program that waits for the end of the first, kills all that is left with its
// marks, and ends. In that second process Guard never returns. It also promises that this process starts programs
// with Run only, so that every orphan it gets may be reaped.
func Guard() error {
	if instance := os.Getenv(guardEnv); instance != "" {
		guard(instance)
		os.Exit(0)
	}
	if marks.sole.Swap(true) {
		return nil
	}
	if err := startGuard(); err != nil {
		return fmt.Errorf("start the guard of processes: %w", err)
	}
	return nil
}

// startGuard starts the second process. Its stdin is a pipe whose other end is never closed: it ends with this process.
func startGuard() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var lifeline [2]int
	if err := closeOnExecPipe(&lifeline); err != nil {
		return err
	}
	defer syscall.Close(lifeline[0])
	out, err := syscall.Open(os.DevNull, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(out)
	_, err = spawn(spawners, self, []string{self}, &syscall.ProcAttr{
		Env:   []string{guardEnv + "=" + marks.instance, "TMPDIR=" + os.TempDir()},
		Files: []uintptr{uintptr(lifeline[0]), uintptr(out), uintptr(out)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}, nil)
	if err != nil {
		syscall.Close(lifeline[1])
		return explain(Spec{Path: self}, err)
	}
	return nil
}

func guard(instance string) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	io.Copy(io.Discard, os.Stdin)
	for range 100 {
		if !killMarked(instance) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "ao-"+instance+"-*"))
	for _, dir := range left {
		remove(dir)
	}
}

// killMarked kills every process with a mark of the instance, and tells whether there was one.
func killMarked(instance string) (found bool) {
	token := []byte(":" + instance + ".")
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || zombie(pid) {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil {
			continue
		}
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.HasPrefix(v, []byte(MarkEnv+"=")) && bytes.Contains(v, token) {
				tree := map[int]bool{pid: true}
				descend(pid, tree)
				for pid := range tree {
					found = !errors.Is(syscall.Kill(pid, syscall.SIGKILL), syscall.ESRCH) || found
				}
			}
		}
	}
	return found
}
