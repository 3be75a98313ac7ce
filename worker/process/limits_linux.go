package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"ao/shared/fault"
)

const rlimitProcesses = 6 // RLIMIT_NPROC, which package syscall does not have

// kill is how many seconds of CPU time a process has after SIGXCPU.
const kill = 2

func (l Limits) kernel() []rlimit {
	if !l.Any() {
		return nil
	}
	all := []rlimit{{syscall.RLIMIT_CORE, syscall.Rlimit{}}}
	for _, r := range []struct {
		what, set, unit, beyond int
	}{
		{syscall.RLIMIT_CPU, l.CPUSeconds, 1, kill}, {syscall.RLIMIT_DATA, l.MemoryMB, 1 << 20, 0}, {syscall.RLIMIT_AS, l.AddressSpaceMB, 1 << 20, 0},
		{syscall.RLIMIT_FSIZE, l.FileMB, 1 << 20, 0}, {syscall.RLIMIT_NOFILE, l.OpenFiles, 1, 0}, {rlimitProcesses, l.Processes, 1, 0},
	} {
		if r.set > 0 {
			soft := uint64(r.set) * uint64(r.unit)
			all = append(all, rlimit{r.what, syscall.Rlimit{Cur: soft, Max: soft + uint64(r.beyond)}})
		}
	}
	return all
}

// impose limits a program that was started under PTRACE_TRACEME: the kernel holds it after its exec and before its first
// instruction, until this thread, which started it, lets it go. Nothing else can be done to a program at that point: between fork and
// exec there is no code of ours, and a program in between that limits itself costs its own start. The program is left as a zombie
// where it was killed meanwhile.
func impose(pid int, limits []rlimit) error {
	const trapped = 4 // CLD_TRAPPED
	var info struct {
		signo, errno, code int32
		rest               [116]byte
	}
	for {
		_, _, err := syscall.Syscall6(syscall.SYS_WAITID, byPid, uintptr(pid), uintptr(unsafe.Pointer(&info)), syscall.WSTOPPED|syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if err == 0 {
			break
		}
		if err != syscall.EINTR {
			return undone(pid, err)
		}
	}
	if info.code != trapped {
		return nil
	}
	for _, r := range limits {
		now := r.Rlimit
		var has syscall.Rlimit
		syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(r.what), 0, uintptr(unsafe.Pointer(&has)), 0, 0)
		now.Max = min(now.Max, has.Max) // the worker's own limit cannot be exceeded
		now.Cur = min(now.Cur, now.Max)
		if _, _, err := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(r.what), uintptr(unsafe.Pointer(&now)), 0, 0, 0); err != 0 {
			return undone(pid, err)
		}
	}
	if err := syscall.PtraceDetach(pid); err != nil && err != syscall.ESRCH {
		return undone(pid, err)
	}
	return nil
}

// errLimits is what a program that could not be limited did not start by.
var errLimits = errors.New("its limits cannot be set")

func undone(pid int, err error) error {
	syscall.Kill(pid, syscall.SIGKILL)
	reap(pid)
	return fmt.Errorf("%w: %w", errLimits, err)
}

const noTrace = "; the worker holds a program before its first instruction to set them (ptrace): allow that in its container's seccomp profile, and let kernel.yama.ptrace_scope be below 3"

// possible tells whether these limits can be held here.
func (l Limits) possible() error {
	if !l.Any() {
		return nil
	}
	if l.Processes > 0 && boundless() {
		return invalid("limits.processes", "does not hold for root: the kernel counts every user's processes but those; run the worker as another user, or take it out")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	program, err := Find("true", os.DevNull)
	if err != nil { // a bare container: the first run tells
		return nil
	}
	if _, err := Run(ctx, Spec{Path: program, limits: Limits{Processes: 1 << 30}.kernel()}); err != nil { // what it is limited to is no concern of this
		return fault.Newf(fault.Invalid, "limits cannot be set on this machine: %v", err).With("field", "limits")
	}
	return nil
}

// boundless tells whether this process is root beyond every user namespace, whose processes are not counted.
func boundless() bool {
	m, _ := os.ReadFile("/proc/self/uid_map")
	return os.Getuid() == 0 && strings.Join(strings.Fields(string(m)), " ") == "0 0 4294967295"
}

// probed is whether bubblewrap works here, asked once.
var probed = sync.OnceValue(func() error {
	program, err := Find(bwrap, os.DevNull)
	if err != nil {
		return errors.New("sandbox: there " + missing[strings.Index(missing, "is no program"):])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	args := append(append([]string{}, namespaces...), "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", program, "--version")
	exit, err := Run(ctx, Spec{Path: program, Args: args, Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: "/", sandboxed: true})
	if err != nil {
		return fmt.Errorf("sandbox: bubblewrap cannot be started: %w", err)
	}
	if exit.Code != 0 || !bytes.Contains(exit.Stdout, []byte("bubblewrap")) {
		return fmt.Errorf("sandbox: bubblewrap may not make its namespaces here (%s); allow them: sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 and "+
			"kernel.apparmor_restrict_unprivileged_userns=0 where they exist, in a container a seccomp profile that allows unshare, mount and clone; or take \"sandbox\" out of the profile", exit.Why())
	}
	return nil
})

// possible tells whether a sandbox can be made here.
func (Sandbox) possible() error {
	if err := probed(); err != nil {
		return fault.New(fault.Invalid, "", err.Error()).With("field", "sandbox")
	}
	return nil
}

// inside sends a signal to the program in a sandbox and to what it has started: to those of its group but bubblewrap's own two
// processes, of which the outer one would take the sandbox down at once. false: there is none yet.
func inside(leader int, s syscall.Signal) (any bool) {
	tree := map[int]bool{}
	descend(leader, tree)
	first := children(leader)
	for pid := range tree {
		if _, group := stat(pid); group == leader && !first[pid] && syscall.Kill(pid, s) == nil {
			any = true
		}
	}
	return any
}

// children are the direct ones of a process.
func children(pid int) map[int]bool {
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	all := map[int]bool{}
	for _, child := range numbers(list) {
		all[child] = true
	}
	return all
}
