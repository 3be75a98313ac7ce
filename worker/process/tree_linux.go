package process

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// marks is what this process knows of the programs it started.
var marks = struct {
	above    string // the marks of those who started this process
	instance string // random: this process
	last     atomic.Uint64
	mu       sync.Mutex
	active   map[uint64]bool // Runs under way
	sole     atomic.Bool     // Guard was called: nothing else in this process starts programs
}{above: os.Getenv(MarkEnv), instance: random(), active: map[uint64]bool{}}

func random() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// mark names all processes of one Run, whatever becomes of their parents and groups.
type mark struct{ n uint64 }

func newMark() *mark {
	m := &mark{n: marks.last.Add(1)}
	marks.mu.Lock()
	marks.active[m.n] = true
	marks.mu.Unlock()
	return m
}

// env is the variable with the mark, which keeps those of the processes above: who ends them ends this, too.
func (m *mark) env() string {
	return MarkEnv + "=" + marks.above + ":" + marks.instance + "." + strconv.FormatUint(m.n, 10)
}

func (m *mark) release() {
	marks.mu.Lock()
	delete(marks.active, m.n)
	marks.mu.Unlock()
}

// sweep ends the Run: what is left of it is killed and reaped.
func (m *mark) sweep() {
	m.release()
	if len(adopted()) > 0 {
		sweep(5 * time.Second)
	}
}

// over tells whether a process belongs to a Run that is no more. One in the middle of its exec is looked at again until a time.
func over(pid int, until time.Time) bool {
	var env []byte
	for none := 0; none < 3; time.Sleep(time.Millisecond) {
		var err error
		if env, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || len(env) > 0 {
			break
		}
		if bare(pid) { // for an instant so is one that is about to get its environment
			none++
		}
		if time.Now().After(until) {
			break
		}
	}
	marks.mu.Lock()
	defer marks.mu.Unlock()
	for v := range bytes.SplitSeq(env, []byte{0}) {
		chain, ok := bytes.CutPrefix(v, []byte(MarkEnv+"="))
		if !ok {
			continue
		}
		for token := range bytes.SplitSeq(chain, []byte{':'}) {
			instance, n, _ := bytes.Cut(token, []byte{'.'})
			if string(instance) != marks.instance {
				continue
			}
			id, err := strconv.ParseUint(string(n), 10, 64)
			return err == nil && !marks.active[id]
		}
	}
	return marks.sole.Load() && len(marks.active) == 0
}

// bare tells whether a process whose environment is read as empty has none: one in the middle of its exec, or of its end, shows
// none for a moment, and then its environment has no place in memory either (proc(5), env_start and env_end).
func bare(pid int) bool {
	fields := status(pid)
	if len(fields) < 49 {
		return true
	}
	start, end := string(fields[47]), string(fields[48])
	return fields[0][0] == 'Z' || fields[0][0] == 'X' || start == end && start != "0"
}

var sweeping sync.Mutex

// sweep kills all orphans of Runs that are over, with all that descends from them, and reaps them.
func sweep(patience time.Duration) {
	sweeping.Lock()
	defer sweeping.Unlock()
	doomed := map[int]bool{}
	execs := time.Now().Add(time.Second) // others wait for this sweep
	again := true                        // one more look where only others' ended: their children may have come after the list was read, but some end all the time
	for deadline, pause := time.Now().Add(patience), 200*time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		left, others := false, false
		for _, pid := range adopted() {
			switch {
			case zombie(pid):
				if doomed[pid] || marks.sole.Load() {
					if n, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); n == pid {
						left, others = left || doomed[pid], true
					}
				}
			case doomed[pid]:
				left = true
			case over(pid, execs):
				left = true
				tree := map[int]bool{pid: true}
				descend(pid, tree)
				for pid := range tree {
					syscall.Kill(pid, syscall.SIGKILL)
				}
				maps.Copy(doomed, tree)
			}
		}
		if !left && !(others && again) || time.Now().After(deadline) {
			return
		}
		again = left
		time.Sleep(pause)
	}
}

// descend adds all that descends from a process.
func descend(pid int, tree map[int]bool) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		list, _ := os.ReadFile(t)
		for _, child := range numbers(list) {
			if !tree[child] {
				tree[child] = true
				descend(child, tree)
			}
		}
	}
}

// orphans is the open list of the main thread's children.
var orphans = sync.OnceValue(func() *os.File {
	f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err != nil {
		return nil // a kernel without these lists: only groups are swept
	}
	return f
})

// adopted gives the processes that lost their parents and came to this one.
func adopted() []int {
	f := orphans()
	if f == nil {
		return nil
	}
	var first [512]byte
	n, _ := f.ReadAt(first[:], 0)
	if n < len(first) {
		return numbers(first[:n])
	}
	all, _ := os.ReadFile(f.Name())
	return numbers(all)
}

func numbers(list []byte) []int {
	var all []int
	for f := range bytes.FieldsSeq(list) {
		if n, err := strconv.Atoi(string(f)); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// status gives what the kernel tells of a process, from its state on; nothing where there is none.
func status(pid int) [][]byte {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:]) // the name before it may contain anything
}

// stat gives a process's state and group; 0 and 0 where there is none.
func stat(pid int) (state byte, group int) {
	fields := status(pid)
	if len(fields) < 3 {
		return 0, 0
	}
	group, _ = strconv.Atoi(string(fields[2]))
	return fields[0][0], group
}

func zombie(pid int) bool {
	state, _ := stat(pid)
	return state == 'Z' || state == 'X'
}

// groupLives tells whether anyone of a group is alive whose leader has ended.
func groupLives(leader int) bool {
	for _, pid := range adopted() {
		if state, group := stat(pid); group == leader && state != 'Z' && state != 'X' && state != 0 {
			return true
		}
	}
	return false
}

// reapGroup reaps those of a killed group that came to this process.
func reapGroup(leader int) {
	end, pause := time.Time{}, 100*time.Microsecond
	for {
		pid, err := syscall.Wait4(-leader, nil, syscall.WNOHANG, nil)
		switch {
		case pid > 0 || err == syscall.EINTR:
			continue
		case err != nil: // ECHILD: none is left, as nearly always
			return
		case end.IsZero():
			end = time.Now().Add(2 * time.Second)
		case time.Now().After(end): // it hangs in the kernel; it has its SIGKILL
			return
		}
		time.Sleep(pause)
		pause = min(2*pause, 10*time.Millisecond)
	}
}

const (
	setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	byPid             = 1  // P_PID
)

// adopt makes this process the parent of what loses its own below it.
func adopt() { syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0) }

func onMainThread() bool { return syscall.Gettid() == syscall.Getpid() }

// waitable returns when a child has ended, and leaves it a zombie for reap.
func waitable(pid int) {
	var info [128]byte
	for {
		_, _, err := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(pid), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if err != syscall.EINTR {
			return
		}
	}
}

// reap is the end of a zombie.
func reap(pid int) (status syscall.WaitStatus, usage syscall.Rusage) {
	for {
		if _, err := syscall.Wait4(pid, &status, 0, &usage); err != syscall.EINTR {
			return status, usage
		}
	}
}

// attributes of a program: a session of its own, and so a group, so that the worker's terminal is not its own; and to be held at its exec
// where it is to be limited.
func attributes(s Spec) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Ptrace: len(s.limits) > 0}
}

func instance() string { return marks.instance }

func closeOnExecPipe(fds *[2]int) error { return syscall.Pipe2(fds[:], syscall.O_CLOEXEC) }
