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

// guardEnv is set in the environment of a guard process, to the instance it guards.
const guardEnv = "AGENT_ORCHESTRATOR_GUARD"

// AsGuard returns unless this process was started as the guard of another one; then it never does. A program whose
// Guard comes after other things calls it first in main.
func AsGuard() {
	if instance := os.Getenv(guardEnv); instance != "" {
		guard(instance)
		os.Exit(0)
	}
}

// Guard ensures that no process of this program outlives it, whatever kills it. Call it first in main. It starts a
// second process of the same program, which waits for the end of the first and then kills everything with its marks.
// In that process Guard never returns. After Guard this process must start programs with Run only: every orphan it
// gets is reaped.
func Guard() error {
	AsGuard()
	if marks.sole.Swap(true) {
		return nil
	}
	if err := startGuard(); err != nil {
		return fmt.Errorf("start the guard process: %w", err)
	}
	return nil
}

// startGuard starts the guard. Its stdin is a pipe whose write end closes when this process ends.
func startGuard() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if _, err := os.Stat(self); err != nil { // a sealed program is in no folder
		self = "/proc/self/exe"
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
	_, err = spawn(defaultPool, self, []string{self}, &syscall.ProcAttr{
		Env:   []string{guardEnv + "=" + marks.instance, "TMPDIR=" + os.TempDir()},
		Files: []uintptr{uintptr(lifeline[0]), uintptr(out), uintptr(out)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}, nil)
	if err != nil {
		syscall.Close(lifeline[1])
		return explainStart(Spec{Path: self}, err)
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

// killMarked kills every process with a mark of the instance, and reports whether there was one.
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
				addDescendants(pid, tree)
				for pid := range tree {
					found = !errors.Is(syscall.Kill(pid, syscall.SIGKILL), syscall.ESRCH) || found
				}
			}
		}
	}
	return found
}
