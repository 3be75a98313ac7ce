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

// Seal opens the program. Its processes are not protected on this system.
func Seal(path string) (*Sealed, error) {
	f, err := os.Open(path)
	return &Sealed{f}, err
}

const sealedPath = "" // the program is started from its own file

// AsGuard does nothing on this system.
func AsGuard() {}

// Guard does nothing on this system: programs of a killed process continue.
func Guard() error { return nil }

type mark struct{}

func newMark() *mark { return &mark{} }

func (*mark) env() string { return MarkEnv + "=" }
func (*mark) release()    {}
func (*mark) sweep()      {}

func becomeSubreaper()   {}
func onMainThread() bool { return false }

// ended has the status of leaders between waitExit and reap.
var ended sync.Map // pid → exit

type exit struct {
	status syscall.WaitStatus
	usage  syscall.Rusage
}

// waitExit returns when a child has ended. It reaps the child, as these systems have no common way to wait without
// reaping. So for an instant its number is free while its group may still be signalled.
func waitExit(pid int) {
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

func groupAlive(int) bool { return false }

func reapGroup(int) {}

func attributes(Spec) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func instance() string { return strconv.Itoa(os.Getpid()) }

var errElsewhere = errors.New("needs Linux")

var errSetLimits = errElsewhere

const ptraceHint = ""

func (Limits) rlimits() []rlimit { return nil }

func setLimits(int, []rlimit) error { return errElsewhere }

func signalInside(int, syscall.Signal) bool { return false }

func (l Limits) supported() error {
	if l.any() {
		return invalid("limits", "need Linux")
	}
	return nil
}

func newLandlockPool([]string) (*spawnPool, error) { return nil, errElsewhere }

func (Sandbox) supported() error { return invalid("sandbox", "needs Linux") }

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
