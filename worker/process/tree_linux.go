package process

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var marks = struct {
	parents  string // marks of the processes that started this one
	instance string // random id of this process
	last     atomic.Uint64
	mu       sync.Mutex
	active   map[uint64]bool // active Runs
	sole     atomic.Bool     // Guard was called: only Run starts programs
}{parents: os.Getenv(MarkEnv), instance: rand.Text(), active: map[uint64]bool{}}

// mark identifies all processes of one Run, whatever becomes of their parents and groups.
type mark struct{ n uint64 }

func newMark() *mark {
	m := &mark{n: marks.last.Add(1)}
	marks.mu.Lock()
	marks.active[m.n] = true
	marks.mu.Unlock()
	return m
}

// env returns the variable with the mark. It includes the marks of the processes above, whose end ends this one, too.
func (m *mark) env() string {
	return MarkEnv + "=" + marks.parents + ":" + marks.instance + "." + strconv.FormatUint(m.n, 10)
}

func (m *mark) release() {
	marks.mu.Lock()
	delete(marks.active, m.n)
	marks.mu.Unlock()
}

// sweep ends the Run: it kills and reaps what is left of it.
func (m *mark) sweep() {
	m.release()
	if len(orphans()) > 0 {
		sweep(5 * time.Second)
	}
}

// runEnded reports whether a process belongs to a Run that has ended. A process in the middle of its exec is checked
// again until a time.
func runEnded(pid int, until time.Time) bool {
	var env []byte
	for none := 0; none < 3; time.Sleep(time.Millisecond) {
		var err error
		env, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		// While a process ends, its environment is empty, or reading it fails with ESRCH: kernels differ.
		if err != nil && !errors.Is(err, syscall.ESRCH) || len(env) > 0 {
			break
		}
		if hasNoEnviron(pid) { // also true for an instant before a process gets its environment
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

// hasNoEnviron reports whether a process whose environment reads as empty really has none. During its exec and its end
// a process shows none for a moment. Then the environment has no place in memory either (proc(5), env_start and
// env_end).
func hasNoEnviron(pid int) bool {
	fields := procStat(pid)
	if len(fields) < 49 {
		return true
	}
	start, end := string(fields[47]), string(fields[48])
	return fields[0][0] == 'Z' || fields[0][0] == 'X' || start == end && start != "0"
}

var sweeping sync.Mutex

// sweep kills all orphans of ended Runs with their descendants, and reaps them.
func sweep(timeout time.Duration) {
	sweeping.Lock()
	defer sweeping.Unlock()
	killed := map[int]bool{}
	execs := time.Now().Add(time.Second) // others wait for this sweep
	// check once more if only others ended: their children may have come after the list was read
	again := true
	for deadline, pause := time.Now().Add(timeout), 200*time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		left, others := false, false
		for _, pid := range orphans() {
			switch {
			case zombie(pid):
				others = true // whoever waits for it
				if killed[pid] || marks.sole.Load() {
					if n, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); n == pid {
						left = left || killed[pid]
					}
				}
			case killed[pid]:
				left = true
			case runEnded(pid, execs):
				left = true
				tree := map[int]bool{pid: true}
				addDescendants(pid, tree)
				for pid := range tree {
					syscall.Kill(pid, syscall.SIGKILL)
				}
				maps.Copy(killed, tree)
			default:
				state, _ := stateAndGroup(pid)
				others = others || state == 0 || state == 'Z' || state == 'X' // it has ended in this pass
			}
		}
		if !left && !(others && again) || time.Now().After(deadline) {
			return
		}
		again = left
		time.Sleep(pause)
	}
}

// addDescendants adds all descendants of a process to tree.
func addDescendants(pid int, tree map[int]bool) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		list, _ := os.ReadFile(t)
		for _, child := range parseInts(list) {
			if !tree[child] {
				tree[child] = true
				addDescendants(child, tree)
			}
		}
	}
}

// childrenFile is the open list of the main thread's children.
var childrenFile = sync.OnceValue(func() *os.File {
	f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	if err != nil {
		return nil // a kernel without these lists: only groups are killed
	}
	return f
})

// orphans returns the processes that lost their parents and became children of this one.
func orphans() []int {
	f := childrenFile()
	if f == nil {
		return nil
	}
	var first [512]byte
	n, _ := f.ReadAt(first[:], 0)
	if n < len(first) {
		return parseInts(first[:n])
	}
	all, _ := os.ReadFile(f.Name())
	return parseInts(all)
}

func parseInts(list []byte) []int {
	var all []int
	for f := range bytes.FieldsSeq(list) {
		if n, err := strconv.Atoi(string(f)); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// procStat returns the fields of /proc/PID/stat from the state on; empty: no such process.
func procStat(pid int) [][]byte {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:]) // the name before may contain anything
}

// stateAndGroup returns a process's state and group; zeros: no such process.
func stateAndGroup(pid int) (state byte, group int) {
	fields := procStat(pid)
	if len(fields) < 3 {
		return 0, 0
	}
	group, _ = strconv.Atoi(string(fields[2]))
	return fields[0][0], group
}

func zombie(pid int) bool {
	state, _ := stateAndGroup(pid)
	return state == 'Z' || state == 'X'
}

// groupAlive reports whether a process of a group is alive whose leader has ended.
func groupAlive(leader int) bool {
	for _, pid := range orphans() {
		if state, group := stateAndGroup(pid); group == leader && state != 'Z' && state != 'X' && state != 0 {
			return true
		}
	}
	return false
}

// reapGroup reaps the processes of a killed group that became children of this process.
func reapGroup(leader int) {
	end, pause := time.Time{}, 100*time.Microsecond
	for {
		pid, err := syscall.Wait4(-leader, nil, syscall.WNOHANG, nil)
		switch {
		case pid > 0 || err == syscall.EINTR:
			continue
		case err != nil: // ECHILD: none is left, the usual case
			return
		case end.IsZero():
			end = time.Now().Add(2 * time.Second)
		case time.Now().After(end): // it hangs in the kernel and has its SIGKILL
			return
		}
		time.Sleep(pause)
		pause = min(2*pause, 10*time.Millisecond)
	}
}

// becomeSubreaper makes this process the parent of orphans among its descendants.
func becomeSubreaper() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

func onMainThread() bool { return syscall.Gettid() == syscall.Getpid() }

// waitExit returns when a child has ended, and leaves it a zombie for reap.
func waitExit(pid int) { _, _ = waitid(pid, unix.WEXITED|unix.WNOWAIT) }

// waitid waits for a change of a child's state.
func waitid(pid, options int) (info unix.Siginfo, err error) {
	for {
		err = unix.Waitid(unix.P_PID, pid, &info, options, nil)
		if err != unix.EINTR {
			return info, err
		}
	}
}

func reap(pid int) (status syscall.WaitStatus, usage syscall.Rusage) {
	for {
		if _, err := syscall.Wait4(pid, &status, 0, &usage); err != syscall.EINTR {
			return status, usage
		}
	}
}

// attributes returns how to start a program: in its own session and group, so that it has no terminal of the
// worker's. A program with limits is stopped at its exec.
func attributes(s Spec) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Ptrace: len(s.limits) > 0}
}

func instance() string { return marks.instance }

func closeOnExecPipe(fds *[2]int) error { return syscall.Pipe2(fds[:], syscall.O_CLOEXEC) }
