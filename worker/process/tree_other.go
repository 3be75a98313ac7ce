//go:build unix && !linux

package process

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// Private does nothing on this system.
func Private() {}

// Guard does nothing on this system: a killed process leaves its programs to themselves.
func Guard() error { return nil }

type mark struct{}

func newMark() *mark { return &mark{} }

func (*mark) env() string { return MarkEnv + "=" }
func (*mark) release()    {}
func (*mark) sweep()      {}

func adopt()             {}
func onMainThread() bool { return false }

// ended is the status of leaders between waitable and reap.
var ended sync.Map // pid → exit

type exit struct {
	status syscall.WaitStatus
	usage  syscall.Rusage
}

// waitable returns when a child has ended. It reaps it, as these systems have no common way to look without taking;
// so for an instant its number is free while its group may still be signalled.
func waitable(pid int) {
	var e exit
	for {
		if _, err := syscall.Wait4(pid, &e.status, 0, &e.usage); err != syscall.EINTR {
			break
		}
	}
	ended.Store(pid, e)
}

func reap(pid int) (syscall.WaitStatus, syscall.Rusage) {
	e, _ := ended.LoadAndDelete(pid)
	return e.(exit).status, e.(exit).usage
}

func groupLives(int) bool { return false }

func reapGroup(int) {}

func attributes(Spec) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func instance() string { return strconv.Itoa(os.Getpid()) }

var errElsewhere = errors.New("needs Linux")

var errLimits = errElsewhere

const noTrace = ""

func (Limits) kernel() []rlimit { return nil }

func impose(int, []rlimit) error { return errElsewhere }

func inside(int, syscall.Signal) bool { return false }

func (l Limits) possible() error {
	if l.Any() {
		return invalid("limits", "need Linux")
	}
	return nil
}

func sealed([]string) (*pool, error) { return nil, errElsewhere }

func (Sandbox) possible() error { return invalid("sandbox", "needs Linux") }

func closeOnExecPipe(fds *[2]int) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := syscall.Pipe(fds[:]); err != nil {
		return err
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return nil
}
